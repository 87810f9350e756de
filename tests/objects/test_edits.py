"""Operations from edits: missing parents made once, nothing emitted for what is so, everything
applicable.
"""

from typing import Any

import pytest
from jsonpatch import JsonPatchException, apply_patch
from jsonpointer import JsonPointerException

from app.objects import edits
from app.objects.edits import ABSENT, Edit, operations, pointer
from app.objects.jsonpatch import applies

CASES: list[Any] = [
    pytest.param({"a": 1}, [Edit(("a",), 1)], [], id="what is so"),
    pytest.param({"a": 1}, [Edit(("a",), True)], [("replace", "/a", True)], id="true is not 1"),
    pytest.param({"a": 1}, [Edit(("a",), 2)], [("replace", "/a", 2)], id="another value"),
    pytest.param({}, [Edit(("a",), 1)], [("add", "/a", 1)], id="a new value"),
    pytest.param(
        {}, [Edit(("a", "b/c~d"), 1)], [("add", "/a", {"b/c~d": 1})], id="a missing parent"
    ),
    pytest.param(
        {"a": None},
        [Edit(("a", "b", "c"), 1)],
        [("add", "/a", {"b": {"c": 1}})],
        id="a null parent",
    ),
    pytest.param({"a": {}}, [Edit(("a", "b/c~d"), 1)], [("add", "/a/b~1c~0d", 1)], id="escapes"),
    pytest.param(
        {},
        [Edit(("a", "b"), 1), Edit(("a", "c"), 2)],
        [("add", "/a", {"b": 1, "c": 2})],
        id="one parent",
    ),
    pytest.param(
        {},
        [Edit(("a", "b"), 1), Edit(("a", "b"), ABSENT)],
        [("add", "/a", {})],
        id="made and unmade",
    ),
    pytest.param({"a": 1}, [Edit(("a",), ABSENT)], [("remove", "/a", None)], id="removed"),
    pytest.param({}, [Edit(("a",), ABSENT)], [], id="nothing to remove"),
    pytest.param(
        {"a": {"b": 1}},
        [Edit(("a",), ABSENT), Edit(("a", "c"), 2)],
        [("remove", "/a", None), ("add", "/a", {"c": 2})],
        id="removed and made again",
    ),
    pytest.param({"l": [{}]}, [Edit(("l", 0, "a"), 1)], [("add", "/l/0/a", 1)], id="inside a list"),
]


@pytest.mark.parametrize(("obj", "changes", "expected"), CASES)
def test_operations(obj: dict[str, Any], changes: list[Edit], expected: list[Any]) -> None:
    patch = operations(obj, changes)
    assert [
        (operation["op"], operation["path"], operation.get("value")) for operation in patch
    ] == expected
    result = apply_patch(obj, patch)
    assert len(patch) > 1 or applies(obj, patch)
    assert operations(result, [changes[-1]]) == []


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/x"},
        {"op": "replace", "path": "/a/x", "value": 1},
        {"op": "add", "path": "/x/y", "value": 1},
        {"op": "add", "path": "/l/9/x", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "add", "path": "/s/x", "value": 1},
        {"op": "add", "path": "/s/x/y", "value": 1},
    ],
)
def test_what_does_not_apply(operation: dict[str, Any]) -> None:
    obj = {"a": {}, "l": [1], "s": "text"}
    assert not applies(obj, [operation])
    with pytest.raises((JsonPatchException, JsonPointerException, TypeError)):
        apply_patch(obj, [operation])


def test_pointers() -> None:
    assert pointer(("a", 0, "b/c", "~")) == "/a/0/b~1c/~0"


def test_an_item_is_added_at_the_end_of_a_list() -> None:
    operation = {"op": "add", "path": "/l/-", "value": 2}
    assert applies({"l": [1]}, [operation])
    assert apply_patch({"l": [1]}, [operation]) == {"l": [1, 2]}


def test_the_pointer_of_a_long_key_is_not_kept() -> None:
    """Anybody can send a review whose labels have keys of megabytes."""
    key = "k/" * 1_000_000
    before = edits._cached_pointer.cache_info().currsize
    assert pointer(("metadata", "labels", key)) == "/metadata/labels/" + "k~1" * 1_000_000
    assert edits._cached_pointer.cache_info().currsize == before
