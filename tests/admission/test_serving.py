"""Verdicts share the turns of the event loop with everything else."""

import asyncio
import time
from collections.abc import Callable

import pytest

from app.admission.exchange import Exchange
from app.admission.serving import TURN_SECONDS, Serving
from tests.reviews import Seen


class Judged:
    """A request whose verdict takes some seconds."""

    def __init__(
        self, review_size: int, judged: Callable[[int], None], *, is_trusted: bool = False
    ) -> None:
        self.review_size = review_size
        self.is_trusted = is_trusted
        self._judged = judged

    def judge(self) -> tuple[int, bytes]:
        self._judged(self.review_size)
        return 200, b""

    def take(self, answer: object) -> None:
        pass


@pytest.mark.parametrize(
    ("seconds", "turns"),
    [
        pytest.param(TURN_SECONDS / 100, [[8, 9, 2, 5]], id="quick ones together"),
        pytest.param(TURN_SECONDS * 2, [[8], [2], [5], [9]], id="slow ones, short ones first"),
    ],
)
async def test_what_comes_at_once_is_judged_as_far_as_a_turn_allows(
    seconds: float, turns: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    judged: list[int] = []

    def note(size: int) -> None:
        nonlocal now
        now += seconds
        judged.append(size)

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    serving = Serving(Exchange({}, Seen()), lambda *_: None)
    later = [serving.judges_later(Judged(size, note), True) for size in (1, 8, 9, 2, 5)]
    assert later == [False, True, True, True, True]
    for turn in [*turns, []]:
        judged.clear()
        await asyncio.sleep(0)
        assert judged == turn


async def test_reviews_of_api_servers_are_judged_before_those_of_strangers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    judged: list[int] = []

    def note(size: int) -> None:
        nonlocal now
        now += TURN_SECONDS / 2
        judged.append(size)

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    serving = Serving(Exchange({}, Seen()), lambda *_: None)
    for size in (1, 2, 3, 4, 5, 6):
        serving.judges_later(Judged(size, note), True)
    for size in (900, 800):
        serving.judges_later(Judged(size, note, is_trusted=True), True)
    for turn in ([2, 3, 4], [800, 900, 5, 6]):
        judged.clear()
        await asyncio.sleep(0)
        assert judged == turn


async def test_a_long_one_is_judged_however_many_short_ones_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    judged: list[int] = []

    def note(size: int) -> None:
        nonlocal now
        now += TURN_SECONDS / 2
        judged.append(size)

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    serving = Serving(Exchange({}, Seen()), lambda *_: None)
    for size in (1, 2, 2, 2, 90, 80):
        serving.judges_later(Judged(size, note), True)
    for turn in ([2, 2, 2], [3, 3, 3, 90], [3, 3, 3, 80], [3, 3, 3, 3]):
        judged.clear()
        await asyncio.sleep(0)
        assert judged == turn
        for _ in range(4):
            serving.judges_later(Judged(3, note), True)


async def test_what_is_pipelined_is_judged_at_once_while_the_turn_has_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    judged: list[int] = []
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    serving = Serving(Exchange({}, Seen()), lambda *_: None)

    def is_later(size: int) -> bool:
        return serving.judges_later(Judged(size, judged.append), False)

    assert [is_later(size) for size in (1, 2)] == [False, True]
    await asyncio.sleep(0)
    assert judged == [2]
    assert [is_later(size) for size in (3, 4, 5)] == [False] * 3
    now = TURN_SECONDS
    assert [is_later(size) for size in (6, 7)] == [True] * 2
    await asyncio.sleep(0)
    assert judged == [2, 6, 7]
    assert not is_later(8)
