"""Structural schemas: what is dropped, filled in and refused, and in which words."""

from typing import Any

import pytest

from scripts.apiserver.objects.errors import field_name
from scripts.apiserver.objects.schema import Schema
from tests.apiserver.api import Object

ANYTHING: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TEXT: Object = {"type": "string"}
NUMBER: Object = {"type": "integer"}


def node(**properties: Object) -> Object:
    return {"type": "object", "properties": properties}


def schema(spec: Object, **root: Any) -> Schema:
    return Schema({"type": "object", "properties": {"spec": spec}, **root})


def with_spec(spec: Any, **more: Any) -> Object:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "one"},
        "spec": spec,
        **more,
    }


# Pruning.


@pytest.mark.parametrize(
    ("part", "spec", "kept", "dropped"),
    [
        pytest.param(
            node(a=TEXT), {"a": "x", "b": 1}, {"a": "x"}, ["spec.b"], id="an unknown field"
        ),
        pytest.param(
            node(a=node(b=TEXT)),
            {"a": {"b": "x", "c": {"d": 1}}},
            {"a": {"b": "x"}},
            ["spec.a.c"],
            id="a deep one",
        ),
        pytest.param(
            node(a={"type": "array", "items": node(b=TEXT)}),
            {"a": [{"b": "x"}, {"c": 1}]},
            {"a": [{"b": "x"}, {}]},
            ["spec.a[1].c"],
            id="one of a list's item",
        ),
        pytest.param(
            ANYTHING, {"a": {"b": [1]}}, {"a": {"b": [1]}}, [], id="nothing where everything may be"
        ),
        pytest.param(
            {**ANYTHING, "properties": {"a": node(b=TEXT)}},
            {"a": {"c": 1}, "d": 1},
            {"a": {}, "d": 1},
            ["spec.a.c"],
            id="what is specified inside what may be anything",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": node(b=TEXT)},
            {"x": {"b": "x", "c": 1}},
            {"x": {"b": "x"}},
            ["spec.x.c"],
            id="one of a map's value",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": True},
            {"x": {"y": 1}},
            {"x": {"y": 1}},
            [],
            id="a map of anything",
        ),
        pytest.param(
            node(
                a={
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"spec": ANYTHING},
                }
            ),
            {
                "a": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": "x"},
                    "spec": {"b": 1},
                    "more": 1,
                }
            },
            {"a": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"b": 1}}},
            ["spec.a.more"],
            id="an embedded object keeps what makes it one",
        ),
        pytest.param(node(a=TEXT), "text", "text", [], id="a value that is no object"),
    ],
)
def test_pruning(part: Object, spec: Any, kept: Any, dropped: list[str]) -> None:
    obj = with_spec(spec)
    assert (schema(part).prepare(obj), obj) == (dropped, with_spec(kept))


def test_unknown_fields_of_the_root_are_dropped_and_the_envelope_stays() -> None:
    obj = with_spec({}, data={"a": "b"})
    assert (schema(node()).prepare(obj), obj) == (["data"], with_spec({}))
    free = with_spec({}, data={"a": "b"})
    assert schema(node(), **{"x-kubernetes-preserve-unknown-fields": True}).prepare(free) == []
    assert free["data"] == {"a": "b"}


# Defaults.


@pytest.mark.parametrize(
    ("part", "spec", "expected"),
    [
        pytest.param(node(a={**TEXT, "default": "x"}), {}, {"a": "x"}, id="a missing field"),
        pytest.param(
            node(a={**TEXT, "default": "x"}), {"a": ""}, {"a": ""}, id="an empty one stays"
        ),
        pytest.param(
            node(a={**TEXT, "default": "x"}),
            {"a": None},
            {"a": "x"},
            id="null is as good as missing",
        ),
        pytest.param(node(a=TEXT), {"a": None}, {}, id="null without a default goes"),
        pytest.param(
            node(a={**TEXT, "default": "x", "nullable": True}),
            {"a": None},
            {"a": None},
            id="null that may be stays",
        ),
        pytest.param(
            node(a={**node(b={**NUMBER, "default": 1}), "default": {}}),
            {},
            {"a": {"b": 1}},
            id="defaults inside a default",
        ),
        pytest.param(
            node(a=node(b={**NUMBER, "default": 1})), {}, {}, id="not inside what is missing"
        ),
        pytest.param(
            node(a={"type": "array", "items": node(b={**NUMBER, "default": 1})}),
            {"a": [{}, {"b": 2}]},
            {"a": [{"b": 1}, {"b": 2}]},
            id="in each item",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": node(b={**NUMBER, "default": 1})},
            {"x": {}},
            {"x": {"b": 1}},
            id="in each value",
        ),
    ],
)
def test_defaults(part: Object, spec: Object, expected: Object) -> None:
    obj = with_spec(spec)
    schema(part).prepare(obj)
    assert obj["spec"] == expected


def test_a_default_is_not_shared_between_objects() -> None:
    node_schema = schema(node(a={"type": "array", "items": TEXT, "default": []}))
    first = with_spec({})
    second = with_spec({})
    node_schema.prepare(first)
    first["spec"]["a"].append("x")
    node_schema.prepare(second)
    assert second["spec"] == {"a": []}


# Validation.


@pytest.mark.parametrize(
    ("part", "spec", "expected"),
    [
        pytest.param(
            {**node(a=TEXT), "required": ["a", "b"]},
            {},
            [
                "spec: Invalid value: \"object\": 'a' is a required property",
                "spec: Invalid value: \"object\": 'b' is a required property",
            ],
            id="what is missing, all of it",
        ),
        pytest.param(
            node(a={**TEXT, "enum": ["x", "y"]}),
            {"a": "z"},
            ["spec.a: Invalid value: \"z\": 'z' is not one of ['x', 'y']"],
            id="what is not on the list",
        ),
        pytest.param(
            node(a=TEXT),
            {"a": 1},
            ["spec.a: Invalid value: 1: 1 is not of type 'string'"],
            id="a number for a text",
        ),
        pytest.param(
            node(a=NUMBER),
            {"a": True},
            ["spec.a: Invalid value: true: True is not of type 'integer'"],
            id="a truth for a number",
        ),
        pytest.param(
            node(a={"type": "array", "items": TEXT}),
            {"a": [None]},
            ["spec.a[0]: Invalid value: null: None is not of type 'string'"],
            id="a null in a list",
        ),
        pytest.param(
            node(metadata=node(name=TEXT)),
            {"metadata": {"name": 1}},
            ["spec.metadata.name: Invalid value: 1: 1 is not of type 'string'"],
            id="metadata that isn't the object's own",
        ),
        pytest.param(
            node(a={**TEXT, "pattern": "^[a-z]+$"}),
            {"a": "A"},
            ["spec.a: Invalid value: \"A\": should match '^[a-z]+$'"],
            id="what its pattern excludes",
        ),
        pytest.param(
            node(a={**TEXT, "pattern": "^[a-z]+$"}),
            {"a": "x\n"},
            ["spec.a: Invalid value: \"x\\n\": should match '^[a-z]+$'"],
            id="a newline at the end, which ends no pattern here",
        ),
        pytest.param(
            node(a={**TEXT, "pattern": "^[$]\\$[^$]$"}),
            {"a": "$$x"},
            [],
            id="dollars that end nothing",
        ),
        pytest.param(
            node(a={**TEXT, "minLength": 2, "maxLength": 3}),
            {"a": "x"},
            ["spec.a: Invalid value: \"x\": 'x' is too short"],
            id="too short a text",
        ),
        pytest.param(
            node(a={"type": "array", "items": NUMBER, "minItems": 1}),
            {"a": []},
            ['spec.a: Invalid value: "array": [] should be non-empty'],
            id="too few items",
        ),
        pytest.param(
            node(a={**NUMBER, "minimum": 1, "exclusiveMinimum": True}, b={**NUMBER, "maximum": 1}),
            {"a": 1, "b": 2},
            [
                "spec.a: Invalid value: 1: 1 is less than or equal to the minimum of 1",
                "spec.b: Invalid value: 2: 2 is greater than the maximum of 1",
            ],
            id="numbers out of bounds",
        ),
        pytest.param(
            node(a={**NUMBER, "maximum": 1, "exclusiveMaximum": True}),
            {"a": 1},
            ["spec.a: Invalid value: 1: 1 is greater than or equal to the maximum of 1"],
            id="a number on a bound that is out",
        ),
        pytest.param(
            node(a={**NUMBER, "minimum": 1, "exclusiveMinimum": False}),
            {"a": 1},
            [],
            id="a number on a bound that is in",
        ),
        pytest.param(
            node(a={**NUMBER, "multipleOf": 2}),
            {"a": 3},
            ["spec.a: Invalid value: 3: 3 is not a multiple of 2"],
            id="a rule that has no words of its own",
        ),
        pytest.param(
            node(a={**TEXT, "format": "date-time"}),
            {"a": "yesterday"},
            ["spec.a: Invalid value: \"yesterday\": 'yesterday' is not a 'date-time'"],
            id="no time",
        ),
        pytest.param(
            node(a={**TEXT, "format": "date-time"}), {"a": "2026-01-01T00:00:00Z"}, [], id="a time"
        ),
        pytest.param(
            node(a={**TEXT, "nullable": True}), {"a": None}, [], id="null where it may be"
        ),
        pytest.param(
            node(a={"x-kubernetes-int-or-string": True, "anyOf": [NUMBER, TEXT]}),
            {"a": "50%"},
            [],
            id="a number or text",
        ),
        pytest.param(
            node(a={"x-kubernetes-int-or-string": True}),
            {"a": []},
            ["spec.a: Invalid value: \"array\": [] is not of type 'integer', 'string'"],
            id="neither number nor text",
        ),
        pytest.param(
            node(a={**TEXT, "allOf": [{"pattern": "^a"}, {"pattern": "b$"}]}),
            {"a": "ac"},
            ["spec.a: Invalid value: \"ac\": should match 'b$'"],
            id="one of several rules",
        ),
        pytest.param(
            {**node(a=TEXT, b=TEXT), "not": {"required": ["a", "b"]}},
            {"a": "x", "b": "y"},
            [
                "spec: Invalid value: \"object\": {'a': 'x', 'b': 'y'} should not be valid under {'required': ['a', 'b']}"
            ],
            id="what must not be together",
        ),
        pytest.param(
            node(a={"type": "boolean", "enum": [True]}),
            {"a": False},
            ["spec.a: Invalid value: false: False is not one of [True]"],
            id="a truth that must be",
        ),
    ],
)
def test_validation(part: Object, spec: Any, expected: list[str]) -> None:
    causes = schema(part).validate(with_spec(spec))
    assert [f"{cause['field']}: {cause['message']}" for cause in causes] == expected


def test_the_root_has_a_name() -> None:
    [cause] = schema(node(), required=["spec", "status"]).validate(with_spec({}))
    assert (cause["field"], cause["reason"]) == ("<nil>", "FieldValueInvalid")
    assert field_name(()) == "<nil>"


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        pytest.param(
            {"a": -1, "b": 1}, {"a": -1, "b": 2}, [], id="what was wrong before may stay so"
        ),
        pytest.param(
            {"a": -1, "b": 1}, {"a": -2, "b": 1}, ["spec.a"], id="it may not become otherwise wrong"
        ),
        pytest.param({"a": 1}, {"a": -1}, ["spec.a"], id="what was right may not become wrong"),
    ],
)
def test_an_update_is_judged_by_what_it_changes(
    old: Object, new: Object, fields: list[str]
) -> None:
    node_schema = schema(node(a={**NUMBER, "minimum": 0}, b=NUMBER))
    assert [
        cause["field"] for cause in node_schema.validate(with_spec(new), with_spec(old))
    ] == fields


# Rules.


def ruled(part: Object, *rules: Object) -> Object:
    return {**part, "x-kubernetes-validations": list(rules)}


SAME: Object = {"rule": "self == oldSelf", "message": "is immutable"}
SMALL: Object = {"rule": "self.a < 10"}
NOT_NEW: Object = {
    "rule": "oldSelf.hasValue() || !has(self.b)",
    "optionalOldSelf": True,
    "message": "is deprecated",
}
KEPT: Object = {
    "rule": "oldSelf.orValue(self) == self",
    "optionalOldSelf": True,
    "message": "is immutable",
}


@pytest.mark.parametrize(
    ("part", "old", "new", "expected"),
    [
        pytest.param(ruled(node(a=NUMBER), SMALL), None, {"a": 9}, [], id="a rule that holds"),
        pytest.param(
            ruled(node(a=NUMBER), SMALL),
            None,
            {"a": 10},
            ['spec: Invalid value: "object": failed rule: self.a < 10'],
            id="a rule that doesn't",
        ),
        pytest.param(
            ruled(node(a=NUMBER), {**SMALL, "reason": "FieldValueForbidden"}),
            None,
            {"a": 10},
            ["spec: Forbidden: failed rule: self.a < 10"],
            id="a rule with a reason",
        ),
        pytest.param(
            ruled(node(a=NUMBER), SMALL),
            None,
            {},
            ['spec: Invalid value: "object": rule evaluation error: self.a < 10: no such key: a'],
            id="a rule that can't be evaluated",
        ),
        pytest.param(
            node(a=ruled(NUMBER, SAME)),
            {"a": 1},
            {"a": 2},
            ["spec.a: Invalid value: 2: is immutable"],
            id="a field that may not change",
        ),
        pytest.param(node(a=ruled(NUMBER, SAME)), {"a": 1}, {"a": 1}, [], id="it has not changed"),
        pytest.param(node(a=ruled(NUMBER, SAME)), None, {"a": 2}, [], id="it is new"),
        pytest.param(node(a=ruled(NUMBER, SAME)), {}, {"a": 2}, [], id="it was not set before"),
        pytest.param(
            ruled(node(a=NUMBER, b=NUMBER), NOT_NEW),
            None,
            {"b": 1},
            ['spec: Invalid value: "object": is deprecated'],
            id="with optionalOldSelf a rule is evaluated for a new object too",
        ),
        pytest.param(
            ruled(node(b=NUMBER), NOT_NEW),
            None,
            {},
            [],
            id="with optionalOldSelf, a new object that is right",
        ),
        pytest.param(
            ruled(node(a=NUMBER, b=NUMBER), NOT_NEW),
            {"a": 1},
            {"b": 1},
            [],
            id="with optionalOldSelf, there is a before",
        ),
        pytest.param(
            node(a=ruled(NUMBER, KEPT)),
            {},
            {"a": 2},
            [],
            id="with optionalOldSelf, it was not set before",
        ),
        pytest.param(
            node(a=ruled(NUMBER, KEPT)),
            {"a": 1},
            {"a": 2},
            ["spec.a: Invalid value: 2: is immutable"],
            id="with optionalOldSelf, the value of before is compared",
        ),
        pytest.param(
            node(a={"type": "array", "items": ruled(node(a=NUMBER), SMALL)}),
            None,
            {"a": [{"a": 1}, {"a": 11}]},
            ['spec.a[1]: Invalid value: "object": failed rule: self.a < 10'],
            id="one item of a list",
        ),
        pytest.param(
            node(a={"type": "array", "items": ruled(NUMBER, SAME)}),
            {"a": [1]},
            {"a": [2]},
            [],
            id="items have no before",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": ruled(NUMBER, SAME)},
            {"x": 1, "y": 1},
            {"x": 1, "y": 2, "z": 3},
            ["spec.y: Invalid value: 2: is immutable"],
            id="one value of a map",
        ),
        pytest.param(
            ruled(node(a=NUMBER, b=NUMBER), SMALL),
            {"a": 10, "b": 1},
            {"a": 10, "b": 1},
            [],
            id="a value that broke the rule before and stays",
        ),
        pytest.param(
            ruled({**node(a=NUMBER), "required": ["b"]}, SMALL),
            None,
            {"a": 10},
            ["spec: Invalid value: \"object\": 'b' is a required property"],
            id="rules come after the structure",
        ),
        pytest.param(
            ruled(node(a=NUMBER), {"rule": "self.a"}),
            None,
            {"a": 1},
            ['spec: Invalid value: "object": rule evaluation error: self.a: gives int, not bool'],
            id="a rule that gives no truth",
        ),
        pytest.param(
            ruled(node(a=NUMBER), SMALL),
            None,
            "text",
            None,
            id="rules don't reach what has the wrong type",
        ),
    ],
)
def test_rules(part: Object, old: Object | None, new: Any, expected: list[str] | None) -> None:
    before = None if old is None else with_spec(old)
    causes = schema(part).validate(with_spec(new), before)
    told = [f"{cause['field']}: {cause['message']}" for cause in causes]
    wrong_type = ["spec: Invalid value: \"text\": 'text' is not of type 'object'"]
    assert told == (wrong_type if expected is None else expected)
