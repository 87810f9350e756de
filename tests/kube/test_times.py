"""Times as they are written into objects."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from app.kube.times import precise_timestamp, timestamp

ELSEWHERE = timezone(timedelta(hours=2, minutes=30))


@pytest.mark.parametrize(
    ("time", "seconds", "microseconds"),
    [
        pytest.param(
            datetime(2026, 11, 21, 10, 0, 59, 999999, UTC),
            "2026-11-21T10:00:59Z",
            "2026-11-21T10:00:59.999999Z",
            id="in UTC",
        ),
        pytest.param(
            datetime(2026, 1, 1, 1, 30, tzinfo=ELSEWHERE),
            "2025-12-31T23:00:00Z",
            "2025-12-31T23:00:00.000000Z",
            id="in another zone",
        ),
    ],
)
def test_times_are_written_in_utc(time: datetime, seconds: str, microseconds: str) -> None:
    assert (timestamp(time), precise_timestamp(time)) == (seconds, microseconds)
