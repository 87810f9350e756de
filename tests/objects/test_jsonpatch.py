"""JSON patch (RFC 6902) and merge patch (RFC 7386)."""

from typing import Any

import pytest

from app.objects.jsonpatch import PatchError, apply_json_patch, apply_merge_patch


@pytest.mark.parametrize(
    ("target", "operation", "result"),
    [
        ({}, {"op": "add", "path": "/a~1b", "value": 1}, {"a/b": 1}),
        ({}, {"op": "add", "path": "/a~0b", "value": 1}, {"a~b": 1}),
        ([1, 3], {"op": "add", "path": "/1", "value": 2}, [1, 2, 3]),
        ([1], {"op": "add", "path": "/-", "value": 2}, [1, 2]),
        ({"a": 1}, {"op": "replace", "path": "/a", "value": 2}, {"a": 2}),
        ([1, 2], {"op": "replace", "path": "/1", "value": 3}, [1, 3]),
        ({"a": {"b": 1}}, {"op": "remove", "path": "/a/b"}, {"a": {}}),
        ([1, 2], {"op": "remove", "path": "/0"}, [2]),
        ({"a": 1}, {"op": "test", "path": "/a", "value": 1}, {"a": 1}),
        ({"a": 1}, {"op": "test", "path": "", "value": {"a": 1}}, {"a": 1}),
        ({"a": 1}, {"op": "replace", "path": "", "value": {}}, {}),
    ],
)
def test_an_operation(target: Any, operation: dict[str, Any], result: Any) -> None:
    assert apply_json_patch(target, [operation]) == result


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        ({"op": "move", "path": "/a"}, "unsupported operation 'move'"),
        ({"op": "add", "path": "/a"}, "no value"),
        ({"op": "add", "path": "a", "value": 1}, "a path begins with /"),
        ({"op": "remove", "path": ""}, "the whole object can't be removed"),
        ({"op": "remove", "path": "/x"}, "no such path"),
        ({"op": "replace", "path": "/l/9", "value": 1}, "no such list position"),
        ({"op": "add", "path": "/l/x", "value": 1}, "no such list position"),
        ({"op": "add", "path": "/a/b", "value": 1}, "neither a map nor a list"),
        ({"op": "add", "path": "/x/y", "value": 1}, "no such path"),
        ({"op": "test", "path": "/a", "value": 2}, "the test failed"),
        ({"op": "test", "path": "", "value": 2}, "the test failed"),
    ],
)
def test_what_does_not_apply_is_said(operation: dict[str, Any], why: str) -> None:
    with pytest.raises(PatchError, match=why):
        apply_json_patch({"a": 1, "l": [1]}, [operation])


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": 1, "b": 2}, {"a": None, "c": 3}, {"b": 2, "c": 3}),
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        ({"a": 1}, 7, 7),
    ],
)
def test_a_merge_patch(target: Any, patch: Any, result: Any) -> None:
    assert apply_merge_patch(target, patch) == result
