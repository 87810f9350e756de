"""Read and write the times and durations of Kubernetes objects, which may be malformed."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

_PART = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(h|ms|us|µs|ns|m|s)"
_DURATION = re.compile(_PART)
_SIGNED = re.compile(rf"[-+]?(?:0|(?:{_PART})+)")
_MOST_TEXT = 64
"""The maximum length of a duration, in characters. Longer texts are not parsed."""

_MOST_SECONDS = 2.0**63 / 1e9
"""The maximum duration in Go, in seconds."""

_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def seconds_since_1970(value: Any) -> float | None:
    """Return an RFC 3339 time as whole seconds since 1970.

    Return None if `value` is not a time, or has no time zone.
    """
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return time.replace(microsecond=0).timestamp() if time.tzinfo else None


def duration(value: Any) -> float:
    """Return the seconds of a Go duration such as `1h30m`, or 0 for any other `value`.

    A duration with a sign counts as 0. A duration that is too long for Go counts as the longest.
    """
    if not isinstance(value, str) or len(value) > _MOST_TEXT:
        return 0.0
    parts = _DURATION.findall(value)
    if "".join(count + unit for count, unit in parts) != value:
        return 0.0
    return min(sum(float(count) * _SECONDS[unit] for count, unit in parts), _MOST_SECONDS)


def signed_duration(value: Any) -> float | None:
    """Return the seconds of a Go duration, which may be negative, or None for any other `value`.

    A number without a unit, such as `-1`, is not a duration, except 0.
    """
    if not isinstance(value, str) or len(value) > _MOST_TEXT or not _SIGNED.fullmatch(value):
        return None
    seconds = duration(value.lstrip("-+"))
    return -seconds if value.startswith("-") else seconds


# Clocks are arguments, so that tests can use their own.


Clock = Callable[[], float]
"""A function that returns a time in seconds, such as `time.monotonic`."""

Now = Callable[[], datetime]
"""A function that returns the current time with a time zone."""


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


# Formats of API servers.


def timestamp(time: datetime) -> str:
    """Return `time` as RFC 3339 in UTC, as a metav1.Time is written."""
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def precise_timestamp(time: datetime) -> str:
    """Return `time` as RFC 3339 in UTC with microseconds, as a metav1.MicroTime is written."""
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
