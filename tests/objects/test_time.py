"""Times and durations as they are read and written, and texts that are none."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from app.objects.time import (
    duration,
    precise_timestamp,
    seconds_since_1970,
    signed_duration,
    timestamp,
)

ELSEWHERE = timezone(timedelta(hours=2, minutes=30))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1970-01-02T00:00:01Z", 86401.0),
        ("1970-01-02T00:00:01.999999Z", 86401.0),
        ("1970-01-02T02:00:01+02:00", 86401.0),
        ("1970-01-01T23:30:01-00:30", 86401.0),
        ("9999-12-31T23:59:59Z", 253402300799.0),
        ("0001-01-01T00:00:00+23:59", -62135683140.0),
        ("1970-01-02T00:00:01", None),
        ("2026-99-99T00:00:00Z", None),
        ("0000-01-01T00:00:00Z", None),
        ("2026-02-29T00:00:00Z", None),
        ("2026-01-00T00:00:00Z", None),
        ("2026-01-01T25:00:00Z", None),
        ("2026-01-01T00:60:00Z", None),
        ("2026-01-01T00:00:61Z", None),
        ("٢٠٢٦-01-01T00:00:00Z", None),
        ("yesterday", None),
        (None, None),
        (0, None),
    ],
)
def test_times(value: object, expected: float | None) -> None:
    assert seconds_since_1970(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1h30m", 5400.0),
        ("90s", 90.0),
        ("250ms", 0.25),
        ("2us", 2e-6),
        ("1.5h", 5400.0),
        ("1.2.3s", 0.0),
        (".s", 0.0),
        ("in 5s", 0.0),
        ("5s ", 0.0),
        ("", 0.0),
        ("9" * 60 + "h", 2.0**63 / 1e9),
        ("1" * 100_000 + "s", 0.0),
        (None, 0.0),
        (5, 0.0),
    ],
)
def test_durations(value: object, expected: float) -> None:
    assert duration(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1h30m", 5400.0),
        ("-1s", -1.0),
        ("+5s", 5.0),
        ("0", 0.0),
        ("0s", 0.0),
        ("-1", None),
        ("--1s", None),
        ("-", None),
        ("", None),
        ("9" * 100 + "s", None),
        (-1, None),
    ],
)
def test_durations_that_may_be_negative(value: object, expected: float | None) -> None:
    assert signed_duration(value) == expected


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
