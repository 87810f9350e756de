"""Times as an API server writes them."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    return datetime.now(UTC)


def timestamp(time: datetime) -> str:
    """Return `time` as RFC 3339 in UTC, as a metav1.Time is written."""
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def precise_timestamp(time: datetime) -> str:
    """Return `time` as RFC 3339 in UTC with microseconds, as a metav1.MicroTime is written."""
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
