"""Lists and watch events: only the fields of a form are decoded, and odd answers as a whole."""

import json
from typing import Any, TypedDict

import pytest

from app.kube.api import Unavailable
from app.kube.decoders import MOST_DEPTH, Items, decoded, decoded_event, decoded_list


class Metadata(TypedDict, total=False):
    name: str


class Form(TypedDict, total=False):
    metadata: Metadata


WHOLE = {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"images": ["i"]}}
PART = {"metadata": {"name": "a"}}
ODD = {"metadata": {"name": 7}, "spec": {}}


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("obj", "form", "expected"),
    [
        pytest.param(WHOLE, None, WHOLE, id="without a form"),
        pytest.param(WHOLE, Form, PART, id="with a form"),
        pytest.param(ODD, Form, ODD, id="of other types than those of the form"),
    ],
)
def test_an_object_has_the_fields_of_its_form(obj: Any, form: Any, expected: Any) -> None:
    assert decoded(encoded(obj), form) == expected
    event = {"type": "ADDED", "object": obj}
    assert decoded_event(encoded(event), form) == {"type": "ADDED", "object": expected}


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"])
def test_bookmarks_and_errors_are_decoded_as_a_whole(kind: str) -> None:
    event = {"type": kind, "object": WHOLE}
    has_form = kind in ("ADDED", "MODIFIED", "DELETED")
    found = decoded_event(encoded(event), Form)
    assert found == {"type": kind, "object": PART if has_form else WHOLE}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(b"<html>", "is not JSON", id="no JSON"),
        pytest.param(b"", "is not JSON", id="nothing"),
        pytest.param(b"[]", "is not a JSON object", id="no object"),
        pytest.param(b"7", "is not a JSON object", id="a number"),
        pytest.param(b'{"metadata": {"name": "\xff"}}', "is not JSON", id="no UTF-8"),
        pytest.param(b'{"spec": %s}' % (b"[" * 5000), "is not JSON", id="deep, and not closed"),
    ],
)
@pytest.mark.parametrize("form", [None, Form])
def test_what_is_no_object_is_an_error_of_the_api_server(
    content: bytes, text: str, form: Any
) -> None:
    for read in (decoded, decoded_event):
        with pytest.raises(Unavailable, match=text):
            read(content, form)
    with pytest.raises(Unavailable, match=text):
        decoded_list(content)


DEEP = b"[" * 5000 + b'1, "]\\"]", {}' + b"]" * 5000


@pytest.mark.parametrize("form", [None, Form])
def test_an_object_that_is_nested_too_deeply_hides_no_other_one(form: Any) -> None:
    """Anybody may write such parameters of a ResourceClaim: API servers accept 10,000 levels."""
    deep = b'{"metadata": {"name": "deep"}, "spec": {"x": %s, "y": "["}}' % DEEP
    listed = decoded_list(b'{"items": [%s, {"metadata": {"name": "a"}}]}' % deep)
    items = list(Items(listed["items"], "v1", "Pod", form))
    assert [item["metadata"]["name"] for item in items] == ["deep", "a"]
    event = decoded_event(b'{"type": "ADDED", "object": %s}' % deep, form)
    assert event["object"]["metadata"] == {"name": "deep"}


def test_of_an_object_that_is_nested_too_deeply_the_deepest_values_are_null() -> None:
    spec = decoded(b'{"spec": {"x": %s, "y": "["}}' % DEEP)["spec"]
    assert spec["y"] == "["
    value, levels = spec["x"], 2
    while value is not None:
        [value], levels = value, levels + 1
    assert levels == MOST_DEPTH


@pytest.mark.parametrize("form", [None, Form])
def test_items_are_decoded_one_by_one_and_know_their_kind(form: Any) -> None:
    own = {**PART, "kind": "Own", "apiVersion": "own/v1"}
    listed = decoded_list(encoded({"kind": "PodList", "items": [WHOLE, own, ODD]}))
    items = Items(listed["items"], "v1", "Pod", form)
    first = {**(PART if form else WHOLE), "apiVersion": "v1", "kind": "Pod"}
    last = {**ODD, "apiVersion": "v1", "kind": "Pod"}
    second = {**(PART if form else own)} | ({"apiVersion": "v1", "kind": "Pod"} if form else {})
    assert len(items) == 3
    assert list(items) == [first, second, last]
    assert items[2] == last
    assert list(items[1:]) == [second, last]


def test_a_list_of_another_form_is_decoded_as_a_whole() -> None:
    answer = {"kind": "Status", "items": {"a": 1}}
    assert decoded_list(encoded(answer)) == answer
    assert decoded_list(b'{"items": null}') == {"items": None}
