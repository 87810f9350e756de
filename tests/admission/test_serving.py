"""Verdicts share the turns of the event loop with everything else."""

import asyncio
import time

import pytest

from app.admission.exchange import Exchange
from app.admission.serving import TURN_SECONDS, Serving
from tests.kube import virtual
from tests.reviews import Seen


class Clock:
    """The time, which only verdicts take, and the sizes of the reviews that were judged."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.judged: list[int] = []
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    async def turns(self, number: int) -> list[list[int]]:
        """Return what was judged in each of the next turns of the event loop."""
        turns = []
        for _ in range(number):
            self.judged.clear()
            await asyncio.sleep(0)
            turns.append([*self.judged])
        return turns


class Asks:
    """A request whose verdict takes some seconds."""

    def __init__(
        self, clock: Clock, review_size: int, seconds: float, *, is_trusted: bool = True
    ) -> None:
        self.review_size = review_size
        self.is_trusted = is_trusted
        self._clock = clock
        self._seconds = seconds

    def judge(self) -> tuple[int, bytes]:
        self._clock.now += self._seconds
        self._clock.judged.append(self.review_size)
        return 200, b""

    def take(self, answer: object) -> None:
        pass


def serving_nothing() -> Serving:
    return Serving(Exchange({}, Seen()), lambda *_: None)


@pytest.mark.parametrize(
    ("seconds", "turns"),
    [
        pytest.param(TURN_SECONDS / 100, [[8, 9, 2, 5], [], [], []], id="quick ones together"),
        pytest.param(
            TURN_SECONDS * 2,
            [[8], [2], [9], [5]],
            id="of slow ones, in turns the first one and the shortest one",
        ),
    ],
)
async def test_what_comes_at_once_is_judged_as_far_as_a_turn_allows(
    seconds: float, turns: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    serving = serving_nothing()
    for size in (1, 8, 9, 2, 5):
        serving.ask(Asks(clock, size, seconds), True)
    assert clock.judged == [1]
    assert await clock.turns(5) == [*turns, []]


async def test_reviews_of_api_servers_are_judged_before_those_of_strangers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    serving = serving_nothing()
    seconds = TURN_SECONDS / 4
    for size in (1, 2, 3):
        serving.ask(Asks(clock, size, seconds, is_trusted=False), True)
    for size in (900, 800):
        serving.ask(Asks(clock, size, seconds), True)
    assert clock.judged == [1]
    assert await clock.turns(2) == [[900, 800, 2, 3], []]


async def test_a_long_one_is_judged_however_many_short_ones_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    serving = serving_nothing()
    seconds = TURN_SECONDS * 2 / 3
    for size in (1, 2, 2, 90, 80):
        serving.ask(Asks(clock, size, seconds), True)
    turns = []
    for _ in range(4):
        turns += await clock.turns(1)
        for _ in range(2):
            serving.ask(Asks(clock, 3, seconds), True)
    assert turns == [[2, 2], [3, 3], [90, 80], [3, 3]]


def test_after_slow_verdicts_strangers_wait_as_long_while_api_servers_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    slow = TURN_SECONDS * 20

    async def ask() -> None:
        serving = serving_nothing()

        def strangers_ask(*sizes: int) -> None:
            for size in sizes:
                serving.ask(Asks(clock, size, slow, is_trusted=False), True)

        strangers_ask(1, 9, 8)
        for _ in range(20):
            serving.ask(Asks(clock, 500, 0.0), True)
            await asyncio.sleep(0)
        assert (clock.judged, virtual.now()) == ([1, *[500] * 20], 0.0)

        judged = []
        for _ in range(3):
            clock.judged.clear()
            await asyncio.sleep(slow * 1.1)
            judged += [[*clock.judged]]
            strangers_ask(7)
        assert judged == [[9], [7], [8]]

    virtual.run(ask())


def test_many_quick_verdicts_of_strangers_count_like_a_slow_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)

    async def ask() -> None:
        serving = serving_nothing()
        for size in range(50):
            serving.ask(Asks(clock, size, TURN_SECONDS / 10, is_trusted=False), True)
        begun = len((await clock.turns(1))[0])
        assert 0 < begun < 49
        assert await clock.turns(5) == [[]] * 5
        await asyncio.sleep(TURN_SECONDS * 2)
        assert 0 < len(clock.judged) < 49 - begun

    virtual.run(ask())


async def test_what_is_pipelined_is_judged_at_once_while_the_turn_has_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    serving = serving_nothing()

    def ask(*sizes: int) -> list[int]:
        """Return what of these was judged at once."""
        clock.judged.clear()
        for size in sizes:
            serving.ask(Asks(clock, size, 0.0), False)
        return [*clock.judged]

    assert ask(1, 2) == [1]
    assert await clock.turns(1) == [[2]]
    assert ask(3, 4, 5) == [3, 4, 5]
    clock.now = TURN_SECONDS
    assert ask(6, 7) == []
    assert await clock.turns(1) == [[6, 7]]
    assert ask(8) == [8]
