"""A limited time in each turn of the event loop."""

import asyncio
import time

import pytest

from app.base.turns import FairTurns, TurnQueue, Turns
from tests.kube import virtual


class Work:
    """Items that take some seconds each, and the ones that were handled, by turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self.now = 0.0
        self.handled: list[str] = []
        self._seconds = seconds
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def handle(self, item: str) -> None:
        self.now += self._seconds
        self.handled.append(item)

    async def turns(self, number: int) -> list[str]:
        turns = []
        for _ in range(number):
            self.handled.clear()
            await asyncio.sleep(0)
            turns.append("".join(self.handled))
        return turns


@pytest.mark.parametrize(
    ("seconds", "turns"),
    [
        pytest.param(0.0, ["abcde", ""], id="all have time"),
        pytest.param(0.4, ["abc", "de", ""], id="as many as there is time for"),
        pytest.param(9.0, ["a", "b", "c", "d", "e", ""], id="at least one"),
    ],
)
async def test_items_are_handled_in_order_while_a_turn_has_time(
    seconds: float, turns: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(monkeypatch, seconds)
    queue = TurnQueue(work.handle, 1.0)
    for item in "abcdea":
        queue.add(item)
    assert await work.turns(len(turns)) == turns
    assert (len(queue), queue.is_planned) == (0, False)


def test_a_queue_rests_as_long_as_its_turn_takes_times_its_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = Work(monkeypatch, 2.0)

    async def run() -> None:
        queue = TurnQueue(work.handle, 1.0, rest=3.0)
        queue.add("a")
        assert await work.turns(2) == ["a", ""]
        queue.add("b")  # it comes while the queue rests
        assert await work.turns(2) == ["", ""]
        await asyncio.sleep(5.9)
        assert work.handled == []
        await asyncio.sleep(0.2)
        assert (work.handled, queue.is_planned) == (["b"], True)
        await asyncio.sleep(6.1)
        assert not queue.is_planned

    virtual.run(run())


async def test_an_item_may_add_others_and_the_turn_has_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = Work(monkeypatch, 0.6)
    ends: list[str] = []

    def handle(item: str) -> None:
        work.handle(item)
        if item == "a":
            queue.add("c")

    queue: TurnQueue[str] = TurnQueue(
        handle, 1.0, end_turn=lambda: ends.append("".join(work.handled))
    )
    queue.add("a")
    queue.add("b")
    assert await work.turns(3) == ["ab", "c", ""]
    assert ends == ["ab", "c"]


async def test_the_next_item_is_the_one_that_is_picked(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch, 0.0)
    queue: TurnQueue[str] = TurnQueue(work.handle, 1.0, pick=max)
    for item in "bca":
        queue.add(item)
    assert await work.turns(1) == ["cba"]


async def test_a_bug_in_one_item_does_not_stop_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch, 0.0)
    problems: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: problems.append(context["exception"]))

    def handle(item: str) -> None:
        if item == "b":
            raise RuntimeError("a bug")
        work.handle(item)

    queue: TurnQueue[str] = TurnQueue(handle, 1.0)
    for item in "abc":
        queue.add(item)
    assert await work.turns(3) == ["a", "c", ""]
    assert [str(problem) for problem in problems] == ["a bug"]


async def in_turns(turns: FairTurns, owners: str, number: int, work: Work) -> list[str]:
    """What tasks of `owners` do in each of the next turns of the event loop, two each."""

    async def take(owner: str) -> None:
        async with turns.take(owner):
            work.handle(owner)

    tasks = [asyncio.create_task(take(owner)) for owner in owners]
    done = [a + b for a, b in zip(*[iter(await work.turns(number))] * 2, strict=True)]
    for task in tasks:
        task.cancel()
    return done


async def test_of_tasks_that_could_go_on_at_once_one_has_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = Work(monkeypatch, 1.0)
    done = await in_turns(FairTurns(), "aaaaab", 14, work)
    assert max(map(len, done)) == 1
    assert "".join(done) == "abaaaa"


async def test_who_is_cancelled_takes_no_turn_and_keeps_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = FairTurns()
    work = Work(monkeypatch, 1.0)

    async def take(owner: str) -> None:
        async with turns.take(owner):
            work.handle(owner)

    first, second, third = [asyncio.create_task(take(owner)) for owner in "abc"]
    await asyncio.sleep(0)
    first.cancel()  # has the turn, and has not begun
    second.cancel()  # waits
    await asyncio.wait([first, second, third])
    assert work.handled == ["c"]
    async with asyncio.timeout(1), turns.take("d"):
        pass


async def test_one_task_at_a_time_takes_a_turn() -> None:
    turns = Turns()
    taken = most = before = 0

    async def take() -> None:
        nonlocal taken
        await turns.next()
        taken += 1

    tasks = [asyncio.create_task(take()) for _ in range(20)]
    while taken < 20:
        await asyncio.sleep(0)
        most, before = max(most, taken - before), taken
    await asyncio.gather(*tasks)
    assert most == 1
