"""The loop, in virtual time."""

import asyncio
import contextlib
import itertools
import re
from collections.abc import Awaitable, Callable, Iterable

import pytest

from app.base.turns import Turns
from app.kube.api import Conflict, Key, Rejected, Unavailable
from app.kube.loop import RESYNC_SECONDS, Loop
from tests.kube import virtual

A = ("ns", "a")
B = ("ns", "b")
Step = Callable[[Key], Awaitable[float | None]]


class Recorded:
    """A reconciler that writes down (second, key), and does what the test says."""

    name = "recorded"

    def __init__(self, step: Step | None = None, keys: Iterable[Key] = ()) -> None:
        self.steps: list[tuple[float, str]] = []
        self._step = step
        self._keys = list(keys)

    def all_keys(self) -> list[Key]:
        return self._keys

    async def reconcile(self, key: Key) -> float | None:
        self.steps.append((round(virtual.now(), 2), key[1]))
        return await self._step(key) if self._step else None


class Results(list[tuple[str, str]]):
    def __call__(self, name: str, result: str, seconds: float) -> None:
        self.append((name, result))


def raising(*errors: Exception) -> Step:
    waiting = list(errors)

    async def step(key: Key) -> None:
        if waiting:
            raise waiting.pop(0)

    return step


async def ran(
    loop: Loop, seconds: float, meanwhile: Callable[[], Awaitable[None]] | None = None
) -> None:
    """The loop for so many virtual seconds."""
    running = asyncio.create_task(loop.run())
    if meanwhile is not None:
        await meanwhile()
    await asyncio.sleep(seconds)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


def looped(reconciler: Recorded, **options: object) -> Loop:
    return Loop(reconciler, random=lambda: 0.0, **options)  # type: ignore[arg-type]


def test_a_run_begins_with_all_keys_and_comes_back_to_them_at_each_resync() -> None:
    reconciler = Recorded(keys=[A, B])
    virtual.run(ran(looped(reconciler), 2.5 * RESYNC_SECONDS))
    times = (0, RESYNC_SECONDS, 2 * RESYNC_SECONDS)
    assert reconciler.steps == [(time, name) for time in times for name in ("a", "b")]


async def test_one_step_of_all_loops_begins_in_a_turn_of_the_event_loop() -> None:
    # with 16 steps in a turn, each of 30 ms for a PodGang of 125 KB, a verdict took 0.6 s
    turns = Turns()
    loops = [
        looped(
            Recorded(keys=[(str(number % 7), str(number)) for number in range(300)]),
            workers=16,
            turns=turns,
        )
        for _ in range(3)
    ]
    most = 0
    before = 0
    running = [asyncio.create_task(loop.run()) for loop in loops]
    while before < 900:
        await asyncio.sleep(0)
        steps = sum(loop.steps for loop in loops)
        most = max(most, steps - before)
        before = steps
    for task in running:
        task.cancel()
    assert most == 1


def test_every_run_calls_begin_first() -> None:
    async def twice() -> list[str]:
        called: list[str] = []

        async def step(key: Key) -> None:
            called.append(key[1])

        loop = looped(Recorded(step, keys=[A]), begin=lambda: called.append("begin"))
        await ran(loop, 1)
        await ran(loop, 1)
        return called

    assert virtual.run(twice()) == ["begin", "a", "begin", "a"]


def test_a_key_that_waits_already_is_worked_on_once() -> None:
    reconciler = Recorded()
    loop = looped(reconciler)

    async def meanwhile() -> None:
        await asyncio.sleep(1)
        for key in (A, A, B, A):
            loop.add(key)

    virtual.run(ran(loop, 10, meanwhile))
    assert reconciler.steps == [(1, "a"), (1, "b")]


def test_a_key_that_is_added_while_it_is_worked_on_is_worked_on_again_afterwards_and_never_twice_at_once() -> (
    None
):
    at_work = 0

    async def step(key: Key) -> None:
        nonlocal at_work
        at_work += 1
        assert at_work == 1
        await asyncio.sleep(5)
        at_work -= 1

    reconciler = Recorded(step, keys=[A])
    loop = looped(reconciler, workers=3)

    async def meanwhile() -> None:
        await asyncio.sleep(1)
        loop.add(A)
        loop.add(A)

    virtual.run(ran(loop, 30, meanwhile))
    assert reconciler.steps == [(0, "a"), (5, "a")]


def test_workers_share_the_keys() -> None:
    async def step(key: Key) -> None:
        await asyncio.sleep(10)

    reconciler = Recorded(step, keys=[(str(number), str(number)) for number in range(4)])
    virtual.run(ran(looped(reconciler, workers=2), 15))
    assert reconciler.steps == [(0, "0"), (0, "1"), (10, "2"), (10, "3")]


def of_one(namespace: str, count: int) -> list[Key]:
    return [(namespace, f"{namespace}{number}") for number in range(count)]


def test_namespaces_take_turns_however_many_keys_of_one_wait() -> None:
    """1,500 keys of one tenant that take 30 s delay the key of another one by one step."""

    async def step(key: Key) -> None:
        await asyncio.sleep(0.02)

    reconciler = Recorded(step, keys=of_one("many", 1500))
    loop = looped(reconciler)

    async def meanwhile() -> None:
        await asyncio.sleep(1.01)
        for key in (*of_one("few", 2), *of_one("other", 1)):
            loop.add(key)

    virtual.run(ran(loop, 31, meanwhile))
    names = [name for _, name in reconciler.steps]
    first = names.index("few0")
    assert names[first - 1 : first + 6] == [
        "many51",
        "few0",
        "other0",
        "many52",
        "few1",
        "many53",
        "many54",
    ]
    assert len(names) == 1503


def test_a_namespace_has_half_of_the_workers_however_long_its_steps_take() -> None:
    async def step(key: Key) -> None:
        await asyncio.sleep(1000 if key[0] == "slow" else 1)

    reconciler = Recorded(step, keys=of_one("slow", 5))
    loop = looped(reconciler, workers=4)

    async def meanwhile() -> None:
        await asyncio.sleep(1)
        for key in of_one("quick", 3):
            loop.add(key)

    virtual.run(ran(loop, 1500, meanwhile))
    assert reconciler.steps[:5] == [
        (0, "slow0"),
        (0, "slow1"),
        (1, "quick0"),
        (1, "quick1"),
        (2, "quick2"),
    ]
    assert sorted(reconciler.steps[5:]) == [
        (1000, "slow2"),
        (1000, "slow3"),
    ]


def test_a_number_means_look_again_then() -> None:
    async def step(key: Key) -> float | None:
        return 30.0 if virtual.now() < 50 else None

    reconciler = Recorded(step, keys=[A])
    virtual.run(ran(looped(reconciler), 300))
    assert reconciler.steps == [(0, "a"), (30, "a"), (60, "a")]


def test_an_added_key_doesnt_wait_for_its_timer_which_is_then_void() -> None:
    async def step(key: Key) -> float | None:
        return 30.0 if virtual.now() < 5 else None

    reconciler = Recorded(step, keys=[A])
    loop = looped(reconciler)

    async def meanwhile() -> None:
        await asyncio.sleep(10)
        loop.add(A)

    virtual.run(ran(loop, 100, meanwhile))
    assert reconciler.steps == [(0, "a"), (10, "a")]


def test_of_two_timers_the_earlier_one_counts() -> None:
    reconciler = Recorded()
    loop = looped(reconciler)

    async def meanwhile() -> None:
        await asyncio.sleep(0)
        loop.add_after(A, 20)
        loop.add_after(A, 40)
        loop.add_after(A, 10)

    virtual.run(ran(loop, 100, meanwhile))
    assert reconciler.steps == [(10, "a")]


@pytest.mark.parametrize(
    ("error", "result", "times"),
    [
        pytest.param(
            Unavailable("not now"),
            "error",
            [0, 0.5, 1.5],
            id="what the cluster refuses waits longer and longer",
        ),
        pytest.param(
            Unavailable("busy", retry_after=7),
            "error",
            [0, 7, 14],
            id="a server that says when is believed",
        ),
        pytest.param(
            KeyError("a bug"),
            "failure",
            [0, 0.5, 1.5],
            id="a bug on one key doesn't stop the others",
        ),
        pytest.param(
            Conflict("changed"),
            "conflict",
            [0, 0.1, 0.3],
            id="a conflict is retried soon, then later",
        ),
    ],
)
def test_what_is_raised_is_retried(error: Exception, result: str, times: list[float]) -> None:
    reconciler = Recorded(raising(error, error), keys=[A])
    results = Results()
    virtual.run(ran(looped(reconciler, observe=results), 60))
    assert reconciler.steps == [(time, "a") for time in times]
    assert results == [("recorded", result), ("recorded", result), ("recorded", "done")]


def test_a_success_resets_the_backoff() -> None:
    reconciler = Recorded(raising(Unavailable("1"), Unavailable("2")), keys=[A])
    loop = looped(reconciler)
    failing: list[int] = []

    async def meanwhile() -> None:
        await asyncio.sleep(1)
        failing.append(loop.failing)
        await asyncio.sleep(1)
        failing.append(loop.failing)

    virtual.run(ran(loop, 60, meanwhile))
    assert failing == [1, 0]


def test_keys_that_come_while_nobody_leads_are_forgotten_and_a_new_run_begins_afresh() -> None:
    reconciler = Recorded(keys=[A])
    loop = looped(reconciler)

    async def twice() -> None:
        loop.add(B)
        loop.add_after(B, 1)
        await ran(loop, 5)
        loop.add(B)
        await asyncio.sleep(5)
        await ran(loop, 5)

    virtual.run(twice())
    assert reconciler.steps == [(0, "a"), (10, "a")]
    assert loop.depth == 0


def test_being_cancelled_ends_the_step_that_runs() -> None:
    ended: list[str] = []

    async def step(key: Key) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append(key[1])

    virtual.run(ran(looped(Recorded(step, keys=[A])), 1))
    assert ended == ["a"]


def test_conflicts_that_do_not_end_are_tried_less_and_less_often() -> None:
    """The watch that would tell what has changed may be dead."""
    reconciler = Recorded(raising(*(Conflict("changed") for _ in range(1000))), keys=[A])
    virtual.run(ran(looped(reconciler), 60))
    waits = [after - before for (before, _), (after, _) in itertools.pairwise(reconciler.steps)]
    assert [round(wait, 1) for wait in waits] == [
        0.1,
        0.2,
        0.4,
        0.8,
        1.6,
        3.2,
        *[5.0] * (len(waits) - 6),
    ]


def test_of_many_failures_the_first_are_told_and_the_others_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def step(key: Key) -> None:
        raise Rejected(f"cannot patch {key[1]}")

    virtual.run(ran(looped(Recorded(step, keys=[("", str(number)) for number in range(400)])), 5.1))
    told = [record.getMessage() for record in caplog.records]
    assert [line.partition(";")[0] for line in told[:10]] == [
        f"recorded {n}: cannot patch {n}" for n in range(10)
    ]
    (counted,) = told[10:11]
    assert re.fullmatch(r"recorded: \d+ more reconciliations failed in 5 s", counted)


def test_a_long_queue_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def step(key: Key) -> None:
        await asyncio.sleep(0.01)

    caplog.set_level("INFO")
    reconciler = Recorded(step, keys=[("", str(number)) for number in range(1100)])
    virtual.run(ran(looped(reconciler), 20))
    assert [record.getMessage() for record in caplog.records] == [
        "recorded: 500 reconciliations in the last 5 s, 600 keys are pending",
        "recorded: 500 reconciliations in the last 5 s, 100 keys are pending",
    ]
