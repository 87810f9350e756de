"""Paths and findings."""

from typing import Any

import pytest

from app.admission.verdict import judged
from app.objects.edits import ABSENT, value_at
from app.objects.fields import CheckedMap, FieldPath, duplicate, invalid, quote, required


def test_a_path_is_written_as_kubernetes_writes_it() -> None:
    path = FieldPath("spec").child("template.cliques").index(0).child("labels").key("a/b")
    assert str(path) == "spec.template.cliques[0].labels[a/b]"
    assert str(FieldPath("").child("metadata").child("name")) == "metadata.name"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", '"a"'),
        ("é", '"é"'),
        ("a\nb", '"a\\nb"'),
        ("\u202e", '"\\u202e"'),
        ("\ud800", '"\\ud800"'),
        (None, "null"),
        ({"a": [1]}, '{"a": [1]}'),
        ("x" * 300, '"' + "x" * 199 + "... (302 characters)"),
    ],
)
def test_a_value_is_quoted_on_one_line(value: object, text: str) -> None:
    assert quote(value) == text


def test_several_findings_are_one_list() -> None:
    missing = required(FieldPath("a"), "needed")
    repeated = duplicate(FieldPath("b"), 1)
    assert judged([missing]).message == "a: Required value: needed"
    several = judged([missing, repeated])
    assert several.message == "[a: Required value: needed, b: Duplicate value: 1]"
    assert str(invalid(FieldPath("c"), "x", "no")) == 'c: Invalid value: "x": no'


def test_values_at_paths() -> None:
    obj = {"a": [{"b": None}]}
    assert value_at(obj, ("a", 0, "b")) is None
    assert value_at(obj, ("a", 1, "b")) is ABSENT
    assert value_at(obj, ("a", "b")) is ABSENT
    assert value_at(obj, ("a", 0, "b", "c")) is ABSENT
    assert repr(ABSENT) == "ABSENT"


def test_a_value_that_is_nested_too_deeply_is_not_shown() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    assert quote(nested) == "(nested too deeply to be shown)"


def test_a_checked_map_notes_what_has_the_wrong_type_with_its_path() -> None:
    whole = CheckedMap({"spec": {"items": [{"n": 1, "at": 0}, 7, {"n": []}], "m": "x", "l": {}}})
    spec = whole.child("spec")
    first, last = spec.children("items")
    assert (first.text_at("n"), last.text_at("n"), first.text_at("none")) == ("", "", "")
    assert (first.child("at").content, spec.map_at("m"), spec.list_at("l")) == ({}, {}, [])
    assert [str(finding) for finding in whole.findings] == [
        "spec.items[1]: Invalid value: 7: must be a map",
        "spec.items[0].n: Invalid value: 1: must be a string",
        "spec.items[2].n: Invalid value: []: must be a string",
        "spec.items[0].at: Invalid value: 0: must be a map",
        'spec.m: Invalid value: "x": must be a map',
        "spec.l: Invalid value: {}: must be a list",
    ]


def test_a_checked_map_may_begin_at_a_path() -> None:
    pack = CheckedMap({"required": 3}, [], "pack", FieldPath("spec.template"))
    assert pack.text_at("required") == ""
    (finding,) = pack.findings
    assert finding.field == "spec.template.pack.required"
