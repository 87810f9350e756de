"""Verdicts share the turns of the event loop with everything else."""

import asyncio
import time

import pytest

from app.admission.exchange import Exchange
from app.admission.serving import HEAVY, REST, TURN_SECONDS, Serving
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

    def __init__(self, clock: Clock, review_size: int, seconds: float) -> None:
        self.review_size = review_size
        self._clock = clock
        self._seconds = seconds

    def judge(self) -> tuple[int, bytes]:
        self._clock.now += self._seconds
        self._clock.judged.append(self.review_size)
        return 200, b""

    def take(self, answer: object) -> None:
        pass


def serving_nothing() -> Serving:
    return Serving(Exchange({}, Seen()))


@pytest.mark.parametrize(
    ("seconds", "turns"),
    [
        pytest.param(TURN_SECONDS / 100, [[8, 9, 2, 5], [], [], []], id="quick ones together"),
        pytest.param(TURN_SECONDS * 2, [[8], [9], [2], [5]], id="slow ones one after the other"),
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


async def test_light_reviews_are_judged_before_heavy_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    serving = serving_nothing()
    for size in (HEAVY, 1, HEAVY + 1, 2):
        serving.ask(Asks(clock, size, TURN_SECONDS / 9), True)
    assert clock.judged == []
    assert await clock.turns(1) == [[1, 2, HEAVY, HEAVY + 1]]


def test_heavy_reviews_take_a_third_of_the_time_while_light_ones_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    slow = TURN_SECONDS * 20

    async def ask() -> None:
        serving = serving_nothing()
        for number in range(3):
            serving.ask(Asks(clock, HEAVY + number, slow), True)
        await asyncio.sleep(0)
        assert clock.judged == [HEAVY]

        clock.judged.clear()
        for _ in range(20):
            serving.ask(Asks(clock, 500, 0.0), True)
            await asyncio.sleep(0)
        assert (clock.judged, virtual.now()) == ([500] * 20, 0.0)

        for number in (1, 2):
            clock.judged.clear()
            await asyncio.sleep(slow * REST * 0.8)
            assert clock.judged == []
            await asyncio.sleep(slow * REST * 0.3)
            assert clock.judged == [HEAVY + number]

    virtual.run(ask())


def test_of_heavy_reviews_the_oldest_and_the_smallest_come_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    slow = TURN_SECONDS * 2

    async def ask() -> None:
        serving = serving_nothing()
        for size in (9, 8, 7, 1, 2):
            serving.ask(Asks(clock, HEAVY + size, slow), True)
        for _ in range(6):
            await asyncio.sleep(slow * (REST + 1))
        assert [size - HEAVY for size in clock.judged] == [9, 1, 8, 2, 7]

    virtual.run(ask())


def test_many_quick_heavy_reviews_count_like_a_slow_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    async def ask() -> None:
        serving = serving_nothing()
        for _ in range(50):
            serving.ask(Asks(clock, HEAVY, TURN_SECONDS / 10), True)
        begun = len((await clock.turns(1))[0])
        assert 0 < begun < 49
        assert await clock.turns(5) == [[]] * 5
        await asyncio.sleep(TURN_SECONDS * REST * 1.2)
        assert 0 < len(clock.judged) < 50 - begun

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
