"""Values of Kubernetes objects: maps, lists, quantities, durations and times, read without trust in
their shape.
"""

import calendar
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from app.objects.shape import list_of, map_of, text_of

_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)")
_QUANTITY = re.compile(r"([+-]?[0-9.]+)(?:[eE]([+-]?\d{1,2})|([numkMGTPE]i?|Ki))?")
_DURATION = re.compile(r"([0-9.]+)(h|ms|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_POWERS = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18, "m": -3, "u": -6, "n": -9}


def texts(value: Any) -> tuple[str, ...]:
    """The strings of a list."""
    return tuple(item for item in list_of(value) if isinstance(item, str))


def text(holder: Mapping[str, Any], key: str) -> str:
    return text_of(holder.get(key))


def at(obj: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """The map at a path of an object, empty if there is none."""
    for step in path:
        obj = map_of(obj.get(step))
    return obj


def seconds_since_1970(value: Any) -> float | None:
    """An RFC 3339 time in UTC, as API servers write it."""
    match = _TIME.match(value) if isinstance(value, str) else None
    return float(calendar.timegm(tuple(map(int, match.groups())))) if match else None


def duration(value: Any) -> float:
    """Seconds of a Go duration such as `1h30m`; 0 if it is none."""
    parts = _DURATION.findall(value) if isinstance(value, str) else ()
    return sum(float(count) * _SECONDS[unit] for count, unit in parts)


def amounts(value: Any) -> dict[str, int]:
    """A map of quantities in thousandths."""
    return {
        name: thousandths(quantity)
        for name, quantity in map_of(value).items()
        if isinstance(quantity, str | int | float)
    }


@lru_cache(maxsize=8192)
def thousandths(quantity: str | int | float) -> int:
    """A Kubernetes quantity in thousandths, rounded up; 0 for what is no quantity."""
    if not isinstance(quantity, str):
        return -int(-quantity * 1000 // 1)
    match = _QUANTITY.fullmatch(quantity.strip())
    if match is None:
        return 0
    digits, exponent, suffix = match.groups()
    try:
        return _scaled(digits, int(exponent or 0), suffix or "")
    except ValueError:
        return 0


def _scaled(digits: str, exponent: int, suffix: str) -> int:
    whole, _, fraction = digits.partition(".")
    value = int((whole or "0") + fraction)
    power = exponent + 3 - len(fraction)
    if suffix.endswith("i"):
        value *= 1024 ** ("KMGTPE".index(suffix[0]) + 1)
    else:
        power += _POWERS[suffix]
    return int(value * 10**power) if power >= 0 else int(-(-value // 10**-power))
