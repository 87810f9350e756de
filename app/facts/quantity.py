"""Read quantities of Kubernetes as integers, in thousandths: `100m` is 100, `8` is 8000.

Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from app.objects.shape import map_of

Amounts = Mapping[str, int]
"""Amounts of resources by name, in thousandths: a GPU is 1000, a byte 1000."""

_QUANTITY = re.compile(r"([+-]?[0-9.]+)(?:[eE]([+-]?\d{1,2})|([numkMGTPE]i?|Ki))?", re.ASCII)
_POWERS = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18, "m": -3, "u": -6, "n": -9}
_MOST_TEXT = 64
"""The maximum length of a quantity, in characters. Kubernetes writes shorter ones."""

MOST_THOUSANDTHS = (2**63 - 1) * 1000
"""The largest quantity: Kubernetes reads larger ones as 2^63 - 1. Its negative is the smallest."""


def amounts(value: Any) -> dict[str, int]:
    """Return the quantities of the map `value` in thousandths.

    A text that is not a quantity is 0. A value that is neither a text nor a number is left out.
    """
    return {
        name: thousandths(quantity)
        for name, quantity in map_of(value).items()
        if isinstance(quantity, str | int | float)
    }


def is_quantity(text: str) -> bool:
    """Return whether `text` has the form of a quantity, such as 8, 100m or 1Ki."""
    return len(text) <= _MOST_TEXT and _QUANTITY.fullmatch(text) is not None


def thousandths(quantity: str | int | float) -> int:
    """Return `quantity` in thousandths, rounded up, or 0 if it is invalid.

    A quantity beyond the range of Kubernetes becomes the largest or the smallest one.
    """
    if isinstance(quantity, str) and len(quantity) > _MOST_TEXT:
        return 0  # a long text must not stay in the cache
    return _thousandths(quantity)


@lru_cache(maxsize=8192)
def _thousandths(quantity: str | int | float) -> int:
    try:
        amount = _read_quantity(quantity)
    except (ValueError, OverflowError):  # a number that is not finite, or that has two points
        return 0
    return max(-MOST_THOUSANDTHS, min(amount, MOST_THOUSANDTHS))


def _read_quantity(quantity: str | int | float) -> int:
    if not isinstance(quantity, str):
        return -int(-quantity * 1000 // 1)
    match = _QUANTITY.fullmatch(quantity.strip())
    if match is None:
        return 0
    digits, exponent, suffix = match.groups()
    return _scaled(digits, int(exponent or 0), suffix or "")


def _scaled(digits: str, exponent: int, suffix: str) -> int:
    whole, _, fraction = digits.partition(".")
    value = int((whole or "0") + fraction)
    power = exponent + 3 - len(fraction)
    if suffix.endswith("i"):
        value *= 1024 ** ("KMGTPE".index(suffix[0]) + 1)
    else:
        power += _POWERS[suffix]
    return int(value * 10**power) if power >= 0 else int(-(-value // 10**-power))
