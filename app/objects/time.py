"""Times and durations of Kubernetes objects, read without trust in their form."""

import calendar
import re
from typing import Any

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:Z|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(h|ms|us|µs|ns|m|s)")
_MOST_TEXT = 64
"""Characters of a time or a duration. What Kubernetes writes is shorter."""

_MOST_SECONDS = 2.0**63 / 1e9
"""The longest duration that Go has."""

_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def seconds_since_1970(value: Any) -> float | None:
    """Return an RFC 3339 time, in seconds since 1970; None if it is none."""
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None

    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    try:
        days = calendar.monthrange(year, month)[1]
        seconds = calendar.timegm((year, month, day, hour, minute, second))
    except ValueError:  # there is no year 0, and no month 13
        return None

    if not 1 <= day <= days or hour > 23 or minute > 59 or second > 60:
        return None

    return float(seconds - _seconds_east(*match.groups()[6:]))


def _seconds_east(sign: str | None, hours: str | None, minutes: str | None) -> int:
    """Return how far a local time is ahead of UTC."""
    seconds = 3600 * int(hours or 0) + 60 * int(minutes or 0)
    return -seconds if sign == "-" else seconds


def duration(value: Any) -> float:
    """Seconds of a Go duration such as `1h30m`; 0 if it is none."""
    if not isinstance(value, str) or len(value) > _MOST_TEXT:
        return 0.0
    parts = _DURATION.findall(value)
    if "".join(count + unit for count, unit in parts) != value:
        return 0.0
    return min(sum(float(count) * _SECONDS[unit] for count, unit in parts), _MOST_SECONDS)
