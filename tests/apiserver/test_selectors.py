"""Selectors: which objects they choose, and which can't be read."""

from collections.abc import Callable
from typing import Any

import pytest

from scripts.apiserver.objects.errors import ApiError
from scripts.apiserver.objects.selectors import (
    combined,
    field_selector,
    label_selector,
    object_selector,
)
from tests.apiserver.api import Object

LABELLED: dict[str, Object] = {
    "one": {"metadata": {"labels": {"a": "1", "b": "x"}}},
    "two": {"metadata": {"labels": {"a": "2"}}},
    "empty": {"metadata": {"labels": {"a": ""}}},
    "none": {"metadata": {}},
}


def chosen(
    matches: Callable[[Object], bool] | None, objects: dict[str, Object] = LABELLED
) -> list[str]:
    assert matches is not None
    return [name for name, obj in objects.items() if matches(obj)]


# Labels.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a", ["one", "two", "empty"], id="it is there"),
        pytest.param("!a", ["none"], id="it isn't"),
        pytest.param(" ! a ", ["none"], id="it isn't, with spaces"),
        pytest.param("a=1", ["one"], id="equal"),
        pytest.param("a == 1", ["one"], id="equal, twice"),
        pytest.param("a!=1", ["two", "empty", "none"], id="unequal, what lacks it too"),
        pytest.param("a=", ["empty"], id="equal to nothing"),
        pytest.param("a in (1, 2)", ["one", "two"], id="in a set"),
        pytest.param("a in(1)", ["one"], id="in a set, no space"),
        pytest.param("a in (1,)", ["one", "empty"], id="a set with nothing in it"),
        pytest.param("a in ()", ["empty"], id="a set of nothing"),
        pytest.param("a notin (1)", ["two", "empty", "none"], id="not in a set, what lacks it too"),
        pytest.param("a=1,b=x", ["one"], id="both"),
        pytest.param("a , !b", ["two", "empty"], id="both, with spaces"),
        pytest.param("a in (1,2),!b", ["two"], id="a set and more"),
        pytest.param("in=1", [], id="a label called in"),
        pytest.param("example.com/a.b_c=1", [], id="a prefix"),
    ],
)
def test_label_selectors(text: str, expected: list[str]) -> None:
    assert chosen(label_selector(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a b",
        "a in (1",
        "a=(1)",
        "=1",
        "a!",
        "!a=1",
        "a=b c",
        "a,,b",
        ",a",
        "a,",
        "-a",
        "a/b/c",
        "a=-",
        "a>x",
        "a gt 1",
    ],
)
def test_label_selectors_that_can_not_be_read(text: str) -> None:
    with pytest.raises(ApiError) as caught:
        label_selector(text)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    assert caught.value.message.startswith("unable to parse requirement: ")


@pytest.mark.parametrize("text", ["", "  "])
def test_no_label_selector(text: str) -> None:
    assert label_selector(text) is None


# Selectors as objects.


def expression(key: str, operator: str, *values: str) -> Object:
    return {
        "matchExpressions": [
            {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
        ]
    }


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(None, ["one", "two", "empty", "none"], id="none chooses all"),
        pytest.param({}, ["one", "two", "empty", "none"], id="an empty one chooses all"),
        pytest.param({"matchLabels": {"a": "1"}}, ["one"], id="a label"),
        pytest.param(expression("a", "In", "1", "2"), ["one", "two"], id="In"),
        pytest.param(expression("a", "NotIn", "1"), ["two", "empty", "none"], id="NotIn"),
        pytest.param(expression("b", "Exists"), ["one"], id="Exists"),
        pytest.param(expression("a", "DoesNotExist"), ["none"], id="DoesNotExist"),
        pytest.param(
            {"matchLabels": {"a": "1"}, **expression("b", "DoesNotExist")}, [], id="both must hold"
        ),
    ],
)
def test_selectors_of_webhooks(selector: Object | None, expected: list[str]) -> None:
    assert chosen(object_selector(selector)) == expected


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(ApiError, match="'Near' is not a valid label selector operator"):
        object_selector(expression("a", "Near"))


# Fields.


PODS: dict[str, Object] = {
    "bound": {
        "metadata": {"name": "bound", "namespace": "home"},
        "spec": {"nodeName": "n", "hostNetwork": True, "schedulerName": "kai"},
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    },
    "new": {
        "metadata": {"name": "new", "namespace": "home"},
        "spec": {},
        "status": {"phase": "Pending"},
    },
    "odd": {"metadata": {"name": "odd,name", "namespace": "away"}, "spec": {}},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("metadata.name=new", ["new"], id="a name"),
        pytest.param("metadata.name==new", ["new"], id="a name, twice equal"),
        pytest.param("metadata.name!=new", ["bound", "odd"], id="another name"),
        pytest.param(r"metadata.name=odd\,name", ["odd"], id="an escaped comma"),
        pytest.param("metadata.namespace=home,status.phase=Pending", ["new"], id="both"),
        pytest.param(",metadata.name=new,", ["new"], id="commas around"),
        pytest.param("spec.nodeName=", ["new", "odd"], id="what isn't set"),
        pytest.param(
            "spec.schedulerName=default-scheduler",
            ["new", "odd"],
            id="the scheduler that isn't set",
        ),
    ],
)
def test_field_selectors(text: str, expected: list[str]) -> None:
    assert chosen(field_selector(text, ("", "pods")), PODS) == expected


def test_events_are_chosen_by_their_object() -> None:
    events = {"p": {"involvedObject": {"name": "p"}}, "q": {"involvedObject": {"name": "q"}}}
    assert chosen(field_selector("involvedObject.name=p", ("", "events")), events) == ["p"]


def test_field_selectors_of_the_reason_of_events() -> None:
    events: dict[str, Object] = {
        reason: {"metadata": {}, "reason": reason} for reason in ("Evict", "Unschedulable")
    }
    matches = field_selector("reason=Evict", ("", "events"))
    assert chosen(matches, events) == ["Evict"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            "spec.nope=1",
            "field label not supported: spec.nope",
            id="a field that can't be selected",
        ),
        pytest.param(
            "metadata.name",
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
            id="no comparison",
        ),
        pytest.param(
            "metadata.name in (a)",
            "invalid selector: 'metadata.name in (a)'; can't understand 'metadata.name in (a)'",
            id="a set",
        ),
    ],
)
def test_field_selectors_that_are_refused(text: str, told: str) -> None:
    with pytest.raises(ApiError) as caught:
        field_selector(text, ("", "pods"))
    assert (caught.value.code, caught.value.message) == (400, told)


def test_no_field_selector() -> None:
    assert field_selector("", ("", "pods")) is None


# Both.


@pytest.mark.parametrize(
    ("matchers", "expected"),
    [
        pytest.param([label_selector("a"), None], ["one", "two", "empty"], id="one"),
        pytest.param([label_selector("a"), label_selector("!b")], ["two", "empty"], id="two"),
    ],
)
def test_several_selectors(matchers: list[Any], expected: list[str]) -> None:
    assert chosen(combined(*matchers)) == expected


def test_no_selectors() -> None:
    assert combined(None, None) is None
