"""The patch types: what an object looks like afterwards, and what is refused.

As kube-apiserver 1.36 has it.
"""

from typing import Any

import pytest

from scripts.apiserver.objects.errors import ApiError
from scripts.apiserver.objects.patching import (
    APPLY,
    JSON,
    MERGE,
    STRATEGIC,
    apply_json,
    apply_patch,
)
from tests.apiserver.api import Object

REJECTED = "the server rejected our request due to an error in our request"


def refusal(obj: Object, patch: Any, media_type: str, **more: bool) -> tuple[int, str, str]:
    with pytest.raises(ApiError) as caught:
        apply_patch(obj, patch, media_type, **more)
    return caught.value.code, caught.value.reason, caught.value.message


# JSON Merge Patch.


@pytest.mark.parametrize(
    ("obj", "patch", "expected"),
    [
        pytest.param({"a": 1}, {"b": 2}, {"a": 1, "b": 2}, id="what is new is added"),
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="null removes"),
        pytest.param({"a": 1}, {"b": None}, {"a": 1}, id="null of what isn't there does nothing"),
        pytest.param(
            {"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}, id="maps merge"
        ),
        pytest.param({"a": [1, 2]}, {"a": [3]}, {"a": [3]}, id="lists are replaced"),
        pytest.param(
            {"a": [1]}, {"a": {"b": 1}}, {"a": {"b": 1}}, id="a map in the place of a list"
        ),
        pytest.param({"a": {"b": 1}}, {"a": "x"}, {"a": "x"}, id="a text in the place of a map"),
        pytest.param(
            {}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}, id="nulls in a new map are dropped"
        ),
        pytest.param({"a": 1}, {}, {"a": 1}, id="nothing"),
    ],
)
def test_merge_patches(obj: Object, patch: Object, expected: Object) -> None:
    assert apply_patch(obj, patch, MERGE) == expected


# JSON Patch.


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        pytest.param([], {"a": {"b": 1}, "l": [1, 2]}, id="no operation"),
        pytest.param(
            [{"op": "add", "path": "/a/c", "value": 2}],
            {"a": {"b": 1, "c": 2}, "l": [1, 2]},
            id="add",
        ),
        pytest.param(
            [{"op": "add", "path": "/l/-", "value": 3}],
            {"a": {"b": 1}, "l": [1, 2, 3]},
            id="add at the end",
        ),
        pytest.param(
            [{"op": "add", "path": "/l/0", "value": 0}],
            {"a": {"b": 1}, "l": [0, 1, 2]},
            id="add in front",
        ),
        pytest.param([{"op": "remove", "path": "/l/0"}], {"a": {"b": 1}, "l": [2]}, id="remove"),
        pytest.param(
            [{"op": "replace", "path": "/a/b", "value": 5}],
            {"a": {"b": 5}, "l": [1, 2]},
            id="replace",
        ),
        pytest.param(
            [{"op": "replace", "path": "", "value": {"z": 1}}], {"z": 1}, id="replace of the whole"
        ),
        pytest.param(
            [{"op": "move", "from": "/a/b", "path": "/c"}],
            {"a": {}, "l": [1, 2], "c": 1},
            id="move",
        ),
        pytest.param(
            [{"op": "copy", "from": "/a/b", "path": "/c"}],
            {"a": {"b": 1}, "l": [1, 2], "c": 1},
            id="copy",
        ),
        pytest.param(
            [{"op": "test", "path": "/a/b", "value": 1}, {"op": "remove", "path": "/a"}],
            {"l": [1, 2]},
            id="a test that holds",
        ),
        pytest.param(
            [{"op": "add", "path": "/a/x~1y~0z", "value": 1}],
            {"a": {"b": 1, "x/y~z": 1}, "l": [1, 2]},
            id="escapes",
        ),
        pytest.param(
            [{"op": "add", "path": "/c", "value": {}}, {"op": "add", "path": "/c/d", "value": 1}],
            {"a": {"b": 1}, "l": [1, 2], "c": {"d": 1}},
            id="one after the other",
        ),
    ],
)
def test_json_patches(operations: list[Object], expected: Object) -> None:
    obj = {"a": {"b": 1}, "l": [1, 2]}
    assert apply_patch(obj, operations, JSON) == expected
    assert obj == {"a": {"b": 1}, "l": [1, 2]}


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        pytest.param(
            [{"op": "remove", "path": "/x"}],
            (422, "Invalid", REJECTED),
            id="what isn't there is removed",
        ),
        pytest.param(
            [{"op": "remove", "path": "/l/9"}],
            (422, "Invalid", REJECTED),
            id="an item that isn't there",
        ),
        pytest.param(
            [{"op": "add", "path": "/x/y", "value": 1}], (422, "Invalid", REJECTED), id="no parent"
        ),
        pytest.param(
            [{"op": "add", "path": "/l/9", "value": 1}],
            (422, "Invalid", REJECTED),
            id="beyond the end",
        ),
        pytest.param(
            [{"op": "replace", "path": "/l/9", "value": 1}],
            (422, "Invalid", REJECTED),
            id="no such item",
        ),
        pytest.param(
            [{"op": "add", "path": "a", "value": 1}],
            (422, "Invalid", REJECTED),
            id="a path without a slash",
        ),
        pytest.param(
            [{"op": "test", "path": "/a", "value": 2}],
            (422, "Invalid", REJECTED),
            id="a test that fails",
        ),
        pytest.param(
            [{"op": "replace", "path": "/x", "value": 1}],
            (422, "Invalid", REJECTED),
            id="replace of what isn't there",
        ),
        pytest.param(
            [{"op": "swap", "path": "/a"}], (422, "Invalid", REJECTED), id="an unknown operation"
        ),
        pytest.param([{"path": "/a"}], (422, "Invalid", REJECTED), id="no operation named"),
        pytest.param([{"op": "add", "path": "/x"}], (422, "Invalid", REJECTED), id="no value"),
        pytest.param([{"op": "replace", "value": 1}], (422, "Invalid", REJECTED), id="no path"),
        pytest.param(
            {"op": "add"},
            (400, "BadRequest", "the JSON patch is malformed: it must be a list of operations"),
            id="no list",
        ),
        pytest.param(
            ["add"],
            (400, "BadRequest", "the JSON patch is malformed: it must be a list of operations"),
            id="a list of texts",
        ),
    ],
)
def test_json_patches_that_are_refused(operations: Any, expected: tuple[int, str, str]) -> None:
    assert refusal({"a": 1, "l": [1, 2]}, operations, JSON) == expected


def test_what_is_wrong_with_a_json_patch_is_said_in_the_details() -> None:
    with pytest.raises(ApiError) as caught:
        apply_json({}, [{"op": "remove", "path": "/x"}])
    assert caught.value.details == {
        "causes": [{"message": "can't remove a non-existent object 'x'"}]
    }


# Strategic merge patch.


A, B, C = ({"name": name} for name in "abc")
B_IMAGE = {"name": "b", "image": "x"}


@pytest.mark.parametrize(
    ("obj", "patch", "expected"),
    [
        pytest.param(
            {"a": 1, "b": {"c": 1}},
            {"a": None, "b": {"d": 2}},
            {"b": {"c": 1, "d": 2}},
            id="as maps merge",
        ),
        pytest.param(
            {"containers": [A, B]},
            {"containers": [B_IMAGE]},
            {"containers": [A, B_IMAGE]},
            id="an item by its name",
        ),
        pytest.param(
            {"containers": [A, {**B_IMAGE, "args": ["1"]}]},
            {"containers": [{"name": "b", "image": None, "args": ["2"]}]},
            {"containers": [A, {"name": "b", "args": ["2"]}]},
            id="inside an item",
        ),
        pytest.param(
            {"containers": [A]},
            {"containers": [C]},
            {"containers": [A, C]},
            id="a new item is appended",
        ),
        pytest.param(
            {"containers": [A, B]},
            {"containers": [{"name": "a", "$patch": "delete"}, C]},
            {"containers": [B, C]},
            id="an item is deleted",
        ),
        pytest.param(
            {"containers": [A]},
            {"containers": [{"name": "x", "$patch": "delete"}]},
            {"containers": [A]},
            id="an item that isn't there is deleted",
        ),
        pytest.param(
            {},
            {
                "containers": [
                    {"name": "x", "$patch": "delete"},
                    {"name": "a", "$retainKeys": ["name"], "b": None},
                ]
            },
            {"containers": [A]},
            id="directives in a new list",
        ),
        pytest.param(
            {"containers": [A, B]},
            {
                "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                "containers": [B_IMAGE],
            },
            {"containers": [A, B_IMAGE]},
            id="the order stays",
        ),
        pytest.param(
            {}, {"$setElementOrder/containers": [{"name": "b"}]}, {}, id="the order of nothing"
        ),
        pytest.param(
            {
                "webhooks": [
                    {
                        "name": "w",
                        "matchConditions": [{**A, "expression": "1"}, {**B, "expression": "2"}],
                    }
                ]
            },
            {
                "$setElementOrder/webhooks": [{"name": "w"}],
                "webhooks": [
                    {
                        "$setElementOrder/matchConditions": [B],
                        "matchConditions": [{**A, "$patch": "delete"}, {**B, "expression": "3"}],
                        "name": "w",
                    }
                ],
            },
            {"webhooks": [{"name": "w", "matchConditions": [{**B, "expression": "3"}]}]},
            id="matchConditions of a webhook, as kubectl apply changes them",
        ),
        pytest.param(
            {"tolerations": [A]},
            {"tolerations": [B]},
            {"tolerations": [B]},
            id="a list without a key",
        ),
        pytest.param(
            {"taints": [{"key": "a"}]},
            {"taints": [{"key": "b"}]},
            {"taints": [{"key": "b"}]},
            id="taints",
        ),
        pytest.param({"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}, id="a list of texts"),
        pytest.param(
            {"ports": [{"containerPort": 1}]},
            {"ports": [{"containerPort": 2}]},
            {"ports": [{"containerPort": 1}, {"containerPort": 2}]},
            id="ports of a container",
        ),
        pytest.param(
            {"ports": [{"port": 1, "name": "a"}]},
            {"ports": [{"port": 1, "$patch": "delete"}, {"port": 2}]},
            {"ports": [{"port": 2}]},
            id="ports of a service",
        ),
        pytest.param({"ports": [1]}, {"ports": []}, {"ports": []}, id="ports that say nothing"),
        pytest.param(
            {"finalizers": ["a", "b"]},
            {"finalizers": ["c"]},
            {"finalizers": ["a", "b", "c"]},
            id="a set gains",
        ),
        pytest.param(
            {"finalizers": ["a", "b"]},
            {"finalizers": ["b", "c"]},
            {"finalizers": ["a", "b", "c"]},
            id="a set keeps its order",
        ),
        pytest.param(
            {"finalizers": ["a", "b"]},
            {
                "$deleteFromPrimitiveList/finalizers": ["a"],
                "$setElementOrder/finalizers": ["b", "c"],
                "finalizers": ["c"],
            },
            {"finalizers": ["b", "c"]},
            id="a set loses and gains",
        ),
        pytest.param(
            {},
            {"$deleteFromPrimitiveList/finalizers": ["a"]},
            {"finalizers": []},
            id="a set that isn't",
        ),
        pytest.param(
            {"a": 1},
            {"a": {"b": None, "c": 1}},
            {"a": {"c": 1}},
            id="a map in the place of a number",
        ),
        pytest.param({"a": {"b": 1}}, {"a": 1}, {"a": 1}, id="a number in the place of a map"),
    ],
)
def test_strategic_merge_patches(obj: Object, patch: Object, expected: Object) -> None:
    assert apply_patch(obj, patch, STRATEGIC) == expected


@pytest.mark.parametrize("item", [{"image": "z"}, {"$patch": "delete"}])
def test_an_item_of_a_strategic_merge_patch_has_its_key(item: Object) -> None:
    code, reason, message = refusal({"containers": [A]}, {"containers": [item]}, STRATEGIC)
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith("the patch has an item without its merge key name: ")


@pytest.mark.parametrize("directive", ["replace", "delete", "merge"])
def test_a_strategic_merge_patch_does_not_replace_maps(directive: str) -> None:
    told = f"the sandbox supports $patch only to delete items of lists: {{'$patch': '{directive}'}}"
    assert refusal({"a": {"b": 1}}, {"a": {"$patch": directive}}, STRATEGIC) == (
        400,
        "BadRequest",
        told,
    )


# Types.


@pytest.mark.parametrize("media_type", [MERGE, STRATEGIC])
def test_a_patch_must_be_an_object(media_type: str) -> None:
    assert refusal({}, [], media_type) == (400, "BadRequest", "the patch must be an object")


@pytest.mark.parametrize(
    ("media_type", "custom", "told"),
    [
        pytest.param("text/plain", False, "not 'text/plain'", id="no patch type"),
        pytest.param(
            STRATEGIC, True, "for built-in kinds", id="strategic merge patch of a custom resource"
        ),
        pytest.param(
            APPLY, False, "use kubectl apply without --server-side", id="server-side apply"
        ),
    ],
)
def test_types_that_are_not_served(media_type: str, custom: bool, told: str) -> None:
    code, reason, message = refusal({}, {}, media_type, custom=custom)
    assert (code, reason, told in message) == (415, "UnsupportedMediaType", True)


@pytest.mark.parametrize("media_type", [MERGE, STRATEGIC])
def test_the_object_itself_stays_as_it_was(media_type: str) -> None:
    obj = {"metadata": {"labels": {"a": "b"}}, "containers": [{"name": "a"}]}
    patch = {"metadata": {"labels": {"c": "d"}}, "containers": [{"name": "a", "image": "x"}]}
    assert apply_patch(obj, patch, media_type)["metadata"]["labels"] == {"a": "b", "c": "d"}
    assert obj == {"metadata": {"labels": {"a": "b"}}, "containers": [{"name": "a"}]}
