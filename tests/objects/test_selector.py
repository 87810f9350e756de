"""Label selectors, as Kubernetes documents them."""

from typing import Any

import pytest

from app.objects.selector import selects

LABELS = {"team": "a", "tier": "front"}


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(None, True, id="none"),
        pytest.param({}, True, id="an empty one"),
        pytest.param({"matchLabels": {"team": "a"}}, True, id="a label"),
        pytest.param({"matchLabels": {"team": "b"}}, False, id="another value"),
        pytest.param({"matchLabels": {"team": "a", "x": "y"}}, False, id="one of two labels"),
        pytest.param(term("team", "In", "a", "b"), True, id="in"),
        pytest.param(term("team", "In", "b"), False, id="not in the list"),
        pytest.param(term("team", "NotIn", "b"), True, id="not in"),
        pytest.param(term("absent", "NotIn", "b"), True, id="not in, without the label"),
        pytest.param(term("team", "NotIn", "a"), False, id="not in, but it is"),
        pytest.param(term("team", "Exists"), True, id="exists"),
        pytest.param(term("absent", "Exists"), False, id="does not exist"),
        pytest.param(term("absent", "DoesNotExist"), True, id="absent"),
        pytest.param(term("team", "DoesNotExist"), False, id="absent, but it is there"),
        pytest.param(term("team", "Like", "a"), False, id="an unknown operator"),
    ],
)
def test_a_selector_matches_as_in_kubernetes(selector: Any, expected: bool) -> None:
    assert selects(selector, LABELS) is expected
