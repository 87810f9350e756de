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

_QUANTITY = re.compile(r"([+-]?[0-9.]+)(?:[eE]([+-]?\d+)|([KMGTPE]i|[numkMGTPE]))?", re.ASCII)
_POWERS = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18, "m": -3, "u": -6, "n": -9}
_MOST_TEXT = 64
"""The maximum length of a quantity, in characters. Longer texts count as invalid."""

_MOST_POWER = 99
"""The limit of the powers of ten, in both directions. Beyond it, the results are the same."""

_MOST = 2**63 - 1
"""The largest signed integer of 64 bits. Kubernetes counts in such integers."""

MOST_THOUSANDTHS = _MOST * 1000
"""The largest quantity, in thousandths."""


def amounts(value: Any) -> dict[str, int]:
    """Return the quantities of the map `value` in thousandths.

    A text that is not a quantity becomes 0. A value that is neither text nor a number is left out.
    """
    return {
        name: thousandths(quantity, unit=1 if name == "cpu" else 1000)
        for name, quantity in map_of(value).items()
        if isinstance(quantity, str | int | float)
    }


def is_quantity(text: str) -> bool:
    """Return whether `text` has the form of a quantity, such as 8, 100m or 1Ki."""
    return len(text) <= _MOST_TEXT and _QUANTITY.fullmatch(text) is not None


def thousandths(quantity: str | int | float, *, unit: int = 1000) -> int:
    """Return `quantity` in thousandths, rounded up, or 0 if it is invalid.

    Schedulers count in integers of 64 bits: CPUs in thousandths (`unit` 1), other resources in
    whole units (`unit` 1000). A number that does not fit in 64 bits overflows as it does there, and
    may become 0.
    """
    text = quantity if isinstance(quantity, str) else repr(quantity)
    if len(text) > _MOST_TEXT:
        return 0  # a long text must not stay in the cache
    return _thousandths(text, unit)


@lru_cache(maxsize=8192)
def _thousandths(text: str, unit: int) -> int:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        return 0
    digits, exponent, suffix = match.groups()
    whole, _, fraction = digits.partition(".")
    try:
        value = int((whole or "0") + fraction)
    except ValueError:  # a sign without digits, or two points
        return 0

    if suffix and suffix.endswith("i"):
        value *= 1024 ** ("KMGTPE".index(suffix[0]) + 1)
        amount = _times_power_of_ten(value, 3 - len(fraction))
        return max(-MOST_THOUSANDTHS, min(amount, MOST_THOUSANDTHS))

    power = int(exponent or 0) + _POWERS[suffix or ""] - len(fraction)
    power = max(-_MOST_POWER, min(power, _MOST_POWER))
    amount = _times_power_of_ten(value, power + 3)
    if abs(amount) <= _MOST * unit:
        return amount
    return unit * _overflown(-(-amount // unit), power + (3 if unit == 1 else 0), digits)


def _times_power_of_ten(value: int, power: int) -> int:
    return int(value * 10**power) if power >= 0 else int(-(-value // 10**-power))


def _overflown(amount: int, power: int, digits: str) -> int:
    """Return the integer that schedulers read for `amount`, which does not fit into 64 bits.

    The API server accepts such an amount, and Kubernetes ignores the overflow. `digits` and `power`
    are the digits and the power of ten of the quantity. With at most 18 digits, the result is 0
    unless the power is 1, 2, 3, 6 or 9. In other cases, the number wraps around. Source:
    `Quantity.ScaledValue` in k8s.io/apimachinery/pkg/api/resource (357557a6).
    """
    if len(digits.strip("+-").replace(".", "")) <= 18 and power not in (1, 2, 3, 6, 9):
        return 0
    return (amount + 2**63) % 2**64 - 2**63
