"""Quantities as Kubernetes has them."""

import pytest

from app.facts import quantity
from app.facts.quantity import amounts, thousandths

MOST = (2**63 - 1) * 1000
"""The largest quantity, in thousandths."""


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        ("8", 8000),
        (8, 8000),
        (0.5, 500),
        ("100m", 100),
        ("1.5", 1500),
        (".5", 500),
        ("1Ki", 1_024_000),
        ("900Gi", 900 * 2**30 * 1000),
        ("1k", 1_000_000),
        ("2e3", 2_000_000),
        ("1E", 10**21),
        ("1500u", 2),
        ("-1", -1000),
        ("", 0),
        ("many", 0),
        (".", 0),
        ("1..2", 0),
        ("5mi", 0),
        ("5ni", 0),
        ("9" * 5000, 0),
        ("9999999Ei", MOST),
        ("-9999999Ei", -MOST),
        ("1e003", 1_000_000),
        ("1e-1000", 1),
        (True, 0),
        ("-", 0),
        (float("inf"), 0),
        (float("nan"), 0),
        ("٣", 0),
    ],
)
def test_quantities_in_thousandths(quantity: str | int | float, expected: int) -> None:
    assert thousandths(quantity) == expected


@pytest.mark.parametrize(
    ("quantity", "memory", "cpu"),
    [
        ("9E", 9 * 10**21, 0),
        ("10E", 0, 0),
        ("1e19", 0, 0),
        ("-1e19", 0, 0),
        ("1e1000", 0, 0),
        ("1e99999999999999999999", 0, 0),
        (1e300, 0, 0),
        ("999999999999G", 3875820018684212736_000, 0),  # 999999999999 * 10^9 modulo 2^64
        ("9223372036854775807", MOST, -1000),
        ("9223372036854775808", -(2**63) * 1000, 0),
    ],
)
def test_a_number_that_is_too_large_becomes_what_schedulers_make_of_it(
    quantity: str | float, memory: int, cpu: int
) -> None:
    """A Pod with such a request is placed, and takes no room from others."""
    assert amounts({"memory": quantity, "cpu": quantity}) == {"memory": memory, "cpu": cpu}


def test_what_is_no_quantity_is_left_out() -> None:
    assert amounts({"cpu": "1", "memory": None, "x": {}, "y": []}) == {"cpu": 1000}
    assert amounts(None) == {}


def test_a_long_text_is_no_quantity_and_is_not_kept() -> None:
    """A CRD allows any number of digits."""
    before = quantity._thousandths.cache_info().currsize
    assert thousandths("0" * 1_000_000 + "1") == 0
    assert quantity._thousandths.cache_info().currsize == before
