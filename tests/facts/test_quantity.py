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
        ("9" * 5000, 0),
        ("9" * 64, MOST),
        ("-" + "9" * 63, -MOST),
        ("1e99", MOST),
        (1e300, MOST),
        (float("inf"), 0),
        (float("nan"), 0),
        ("٣", 0),
    ],
)
def test_quantities_in_thousandths(quantity: str | int | float, expected: int) -> None:
    assert thousandths(quantity) == expected


def test_what_is_no_quantity_is_left_out() -> None:
    assert amounts({"cpu": "1", "memory": None, "x": {}, "y": []}) == {"cpu": 1000}
    assert amounts(None) == {}


def test_a_long_text_is_no_quantity_and_is_not_kept() -> None:
    """A CRD allows any number of digits."""
    before = quantity._thousandths.cache_info().currsize
    assert thousandths("0" * 1_000_000 + "1") == 0
    assert quantity._thousandths.cache_info().currsize == before
