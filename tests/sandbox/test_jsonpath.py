"""The JSONPath of printer columns. What is found is what kubectl shows of a custom resource in a real cluster."""

from typing import Any

import pytest

from app.sandbox.requests.jsonpath import find
from tests.sandbox.api import Object

OBJ: Object = {
    "spec": {
        "text": "t",
        "null": None,
        "map": {"x": 1, "a.b/c": 2, "it's": 3},
        "items": [
            {"name": "x", "value": "v0", "n": 1, "ready": False},
            {"name": "y", "value": "v1", "n": 2, "ready": True, "deep": {"er": "q"}},
            {"name": "y", "value": "v2", "n": 3.5, "ready": True},
        ],
        "gaps": [{"value": "v0", "n": 1}, {"name": "y", "value": "v1", "n": 2}],
    }
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("", [OBJ], id="nothing is the whole"),
        pytest.param(".spec.text", ["t"], id="names"),
        pytest.param(".spec.null", [None], id="a null is found"),
        pytest.param(".spec.nope.more", [], id="what isn't there"),
        pytest.param(".spec.text.more", [], id="inside a text"),
        pytest.param(".spec.items.name", [], id="a name of a list"),
        pytest.param(r".spec.map.a\.b/c", [2], id="an escaped dot"),
        pytest.param(".spec.items[1].value", ["v1"], id="an index"),
        pytest.param(".spec.items[-1].value", ["v2"], id="an index from the end"),
        pytest.param(".spec.items[9].value", [], id="an index beyond the end"),
        pytest.param(".spec.map[0]", [], id="an index of a map"),
        pytest.param(".spec.items[*].value", ["v0", "v1", "v2"], id="each"),
        pytest.param(".spec.map[*]", [], id="each of a map is no list"),
        pytest.param('.spec.items[?(@.name=="y")].value', ["v1", "v2"], id="a filter"),
        pytest.param(".spec.items[?(@.name == 'x')].value", ["v0"], id="a filter with spaces and other quotes"),
        pytest.param('.spec.items[?(@.deep.er=="q")].value', ["v1"], id="a filter by what is deep inside"),
        pytest.param('.spec.items[?(@.nope=="q")].value', [], id="a filter by what isn't there"),
        pytest.param('.spec.gaps[?(@.name=="y")].value', ["v1"], id="items without the name are passed over"),
        pytest.param('.spec.map[?(@.name=="y")]', [], id="a filter of a map"),
        pytest.param("spec.text", [], id="no dot in front"),
        pytest.param(".spec.items[0:2].value", [], id="a slice is not supported"),
        pytest.param(".spec..value", [], id="what can't be read"),
        pytest.param('.spec.items[?(@.name=~"y")]', [], id="an unknown comparison"),
    ],
)
def test_paths(path: str, expected: list[Any]) -> None:
    assert find(path, OBJ) == expected
