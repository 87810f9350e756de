"""Pauses after errors."""

import pytest

from app.kube.backoff import Backoff


@pytest.mark.parametrize(
    ("random", "at_least", "expected"),
    [
        pytest.param(0.0, None, [0.5, 1, 2, 4, 8, 16, 30, 30], id="doubles up to the most"),
        pytest.param(1.0, None, [0.25, 0.5, 1, 2, 4, 8, 15, 15], id="at random down to half"),
        pytest.param(0.0, 5.0, [5, 5, 5, 5, 8, 16, 30, 30], id="no shorter than asked"),
        pytest.param(0.0, 90.0, [30] * 8, id="no longer than the most"),
    ],
)
def test_backoff(random: float, at_least: float | None, expected: list[float]) -> None:
    backoff = Backoff(lambda: random)
    assert [backoff.next(at_least) for _ in range(8)] == expected
    backoff.reset()
    assert backoff.next() == expected[0] or at_least
