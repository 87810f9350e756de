"""The terms of a NodeSelector that are read."""

from typing import Any

import pytest

from app.facts.kubernetes.selectors import MOST_OF_SELECTOR, node_selector_terms


def term(key: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


@pytest.mark.parametrize(
    ("terms", "read"),
    [
        pytest.param([term("a", "x"), term("b", "y", "z")], 2, id="few"),
        pytest.param([term(f"k{n}", "x") for n in range(2000)], MOST_OF_SELECTOR // 3, id="many"),
        pytest.param([term("a", *map(str, range(2000))), term("b")], 0, id="many values"),
        pytest.param([{}] * 2000, MOST_OF_SELECTOR, id="many empty ones"),
    ],
)
def test_the_first_terms_are_read(terms: list[Any], read: int) -> None:
    """Each is compared with each node: 2,000 take 4.6 s beside 1,000 nodes."""
    found = node_selector_terms({"nodeSelectorTerms": terms})
    assert len(found) == read
    assert [bool(each) for each in found] == [bool(item) for item in terms[:read]]
