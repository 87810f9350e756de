"""Verdicts share the turns of the event loop with everything else."""

import asyncio
import time

import pytest

from app.admission.review_queue import FEW, HEAVY, REST, TURN_SECONDS, ReviewQueue
from tests.kube import virtual


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
        self, clock: Clock, review_size: int, seconds: float, review_namespace: str = ""
    ) -> None:
        self.review_size = review_size
        self.review_namespace = review_namespace
        self._clock = clock
        self._seconds = seconds

    def judge(self) -> tuple[int, bytes]:
        self._clock.now += self._seconds
        self._clock.judged.append(self.review_size)
        return 200, b""

    def take(self, answer: object) -> None:
        pass


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
    reviews = ReviewQueue()
    for size in (1, 8, 9, 2, 5):
        reviews.ask(Asks(clock, size, seconds))
    assert clock.judged == [1]
    assert await clock.turns(5) == [*turns, []]


async def test_heavy_reviews_take_no_time_from_light_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    reviews = ReviewQueue()
    for size in (HEAVY, 1, HEAVY + 1, 2, HEAVY + 2):
        reviews.ask(Asks(clock, size, TURN_SECONDS * 0.6))
    assert clock.judged == [1], "heavy ones are never judged at once"
    assert await clock.turns(2) == [[HEAVY, HEAVY + 1, 2], []]


def test_heavy_reviews_take_a_third_of_the_time_while_light_ones_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    slow = TURN_SECONDS * 20

    async def ask() -> None:
        reviews = ReviewQueue()
        for number in range(3):
            reviews.ask(Asks(clock, HEAVY + number, slow))
        await asyncio.sleep(0)
        assert clock.judged == [HEAVY]

        clock.judged.clear()
        for _ in range(20):
            reviews.ask(Asks(clock, 500, 0.0))
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
        reviews = ReviewQueue()
        for size in (9, 8, 7, 1, 2):
            reviews.ask(Asks(clock, HEAVY + size, slow))
        for _ in range(6):
            await asyncio.sleep(slow * (REST + 1))
        assert [size - HEAVY for size in clock.judged] == [9, 1, 8, 2, 7]

    virtual.run(ask())


def test_many_quick_heavy_reviews_count_like_a_slow_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    async def ask() -> None:
        reviews = ReviewQueue()
        for _ in range(50):
            reviews.ask(Asks(clock, HEAVY, TURN_SECONDS / 10))
        begun = len((await clock.turns(1))[0])
        assert 0 < begun < 49
        assert await clock.turns(5) == [[]] * 5
        await asyncio.sleep(TURN_SECONDS * REST * 1.2)
        assert 0 < len(clock.judged) < 50 - begun

    virtual.run(ask())


@pytest.mark.parametrize("size", [pytest.param(1, id="light"), pytest.param(HEAVY, id="heavy")])
def test_however_many_reviews_of_one_namespace_wait_another_one_has_its_turn(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 200 PodGangs of 22 KB in one namespace delayed the verdicts on others by 20 s
    clock = Clock(monkeypatch)
    slow = TURN_SECONDS * 3

    async def ask() -> None:
        reviews = ReviewQueue()
        for _ in range(100):
            reviews.ask(Asks(clock, size, slow, "many"))
        await asyncio.sleep(0)
        for number in range(2):
            reviews.ask(Asks(clock, size + 5 + number, slow / 9, "few"))
        clock.judged.clear()
        before = 2 if size >= HEAVY else FEW
        for _ in range(before + 3):
            await asyncio.sleep(slow * REST if size >= HEAVY else 0)
        assert {size + 5, size + 6} <= {*clock.judged[: before + 3]}
        for _ in range(100):
            await asyncio.sleep(slow * (REST + 1) if size >= HEAVY else 0)
        assert len(clock.judged) >= 100

    virtual.run(ask())


@pytest.mark.parametrize("size", [pytest.param(1, id="light"), pytest.param(HEAVY, id="heavy")])
def test_an_error_does_not_keep_the_other_reviews_of_its_namespace(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.admission.review_queue.FEW", 1)
    clock = Clock(monkeypatch)
    broken = Asks(clock, size, 0.0, "team")
    monkeypatch.setattr(broken, "judge", lambda: 1 / 0)

    async def ask() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        reviews = ReviewQueue()
        before = [Asks(clock, size + number, 0.0, "team") for number in (1, 2)]
        for asking in (*before, broken, Asks(clock, size + 3, 0.0, "team")):
            reviews.ask(asking)
        await asyncio.sleep(1)
        assert sorted(clock.judged) == [size + 1, size + 2, size + 3]
        reviews.ask(Asks(clock, size + 4, 0.0, "team"))
        reviews.ask(Asks(clock, size + 5, 0.0, "team"))
        await asyncio.sleep(1)
        assert sorted(clock.judged)[3:] == [size + 4, size + 5]

    virtual.run(ask())
