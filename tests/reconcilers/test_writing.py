import pytest

from app.reconcilers.writing import soonest


@pytest.mark.parametrize(
    ("seconds", "least"),
    [
        pytest.param((), None, id="nothing"),
        pytest.param((None, None), None, id="no step"),
        pytest.param((3.0, None, 2.0), 2.0, id="several"),
    ],
)
def test_the_least_time_until_a_next_step(
    seconds: tuple[float | None, ...], least: float | None
) -> None:
    assert soonest(*seconds) == least
