"""SubGroup names; the messages are the design's."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from app.objects.fields import MOST_ITEMS
from app.objects.names import LABEL_RULE, is_label, label_key_problem
from app.rules.subgroups import validate_pod_group
from tests.said import Said

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"


def names(*subgroups: Any) -> dict[str, Any]:
    """A PodGroup; a subgroup is a name, or (name, parent)."""
    built = [
        dict(zip(("name", "parent"), subgroup, strict=True))
        if isinstance(subgroup, tuple)
        else {"name": subgroup}
        for subgroup in subgroups
    ]
    return {"spec": {"subGroups": built}}


VALID: list[Any] = [
    pytest.param(names("workers"), id="lowercase"),
    pytest.param(names("decode-workers", "a", "worker1", "1"), id="hyphens, digits, one character"),
    pytest.param(names("a" * 63), id="63 characters"),
    pytest.param(names("a", ("b", "a"), ("c", "b")), id="parents before children"),
    pytest.param(names(("b", "a"), "a"), id="children before parents"),
    pytest.param(names(("b", None)), id="a null parent"),
    pytest.param({}, id="no spec"),
    pytest.param({"spec": None}, id="null spec"),
    pytest.param({"spec": {"subGroups": None}}, id="null subGroups"),
    pytest.param({"spec": {"subGroups": []}}, id="no subGroups"),
]


@pytest.mark.parametrize("obj", VALID)
@pytest.mark.statement(
    "3.3", "3.5", "3.21", "3.22", "3.29", "3.30", "3.31", "3.32", "3.40", "3.48", "3.49", "3.56"
)
def test_valid(obj: Any) -> None:
    assert validate_pod_group(obj) == []


def bad(name: str) -> str:
    return f'invalid subgroup name "{name}": {LABEL_RULE}'


INVALID: list[Any] = [
    pytest.param(names("Workers"), [bad("Workers")], id="uppercase"),
    pytest.param(names("decodeWorkers"), [bad("decodeWorkers")], id="mixed case"),
    pytest.param(names("decode_workers"), [bad("decode_workers")], id="underscore"),
    pytest.param(
        names("-workers", "workers-"), [bad("-workers"), bad("workers-")], id="hyphens at the ends"
    ),
    pytest.param(names("workers\n"), [bad("workers\\n")], id="a trailing newline"),
    pytest.param(names("wörker"), [bad("wörker")], id="not ASCII"),
    pytest.param(names(""), ['invalid subgroup name "": name cannot be empty'], id="empty"),
    pytest.param(
        names("a" * 64),
        [f'invalid subgroup name "{"a" * 64}": name must be no more than 63 characters'],
        id="64",
    ),
    pytest.param(
        names("workers", ("leaders", "Workers")),
        [f'invalid parent name "Workers" for subgroup "leaders": {LABEL_RULE}'],
        id="parent in uppercase",
    ),
    pytest.param(names("a", "a"), ["duplicate subgroup name a"], id="twice"),
    pytest.param(names("a", "a", "a"), ["duplicate subgroup name a"] * 2, id="three times"),
    pytest.param(names(("a", "z")), ["parent z of a was not found"], id="no such parent"),
    pytest.param(names(("a", "a")), ["cycle detected in subgroups"], id="its own parent"),
    pytest.param(
        names(("a", "b"), ("b", "a")), ["cycle detected in subgroups"], id="a cycle of two"
    ),
    pytest.param(
        names(("t", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("u", "c")),
        ["cycle detected in subgroups"],
        id="a cycle of three with tails, once",
    ),
    pytest.param(
        names(("a", "a"), ("b", "b")), ["cycle detected in subgroups"] * 2, id="two cycles"
    ),
    pytest.param(
        names("X", ("b", "Y"), "b", ("c", "z"), ("d", "d")),
        [
            bad("X"),
            f'invalid parent name "Y" for subgroup "b": {LABEL_RULE}',
            "duplicate subgroup name b",
            "parent z of c was not found",
            "cycle detected in subgroups",
        ],
        id="everything at once, in order",
    ),
    pytest.param({"spec": 1}, ["spec: Invalid value: 1: must be a map"], id="spec is a number"),
    pytest.param(
        {"spec": {"subGroups": "a"}},
        ['spec.subGroups: Invalid value: "a": must be a list'],
        id="text",
    ),
    pytest.param(
        {"spec": {"subGroups": [1]}},
        ["spec.subGroups[0]: Invalid value: 1: must be a map"],
        id="a number",
    ),
    pytest.param(
        names(7, ("a", 7)),
        [
            "spec.subGroups[0].name: Invalid value: 7: must be a string",
            "spec.subGroups[1].parent: Invalid value: 7: must be a string",
        ],
        id="numbers for names",
    ),
    pytest.param(
        {"spec": {"subGroups": [{}]}},
        ['invalid subgroup name "": name cannot be empty'],
        id="no name",
    ),
]


@pytest.mark.parametrize(("obj", "messages"), INVALID)
@pytest.mark.statement(
    "3.1",
    "3.7",
    "3.16",
    "3.17",
    "3.20",
    "3.23",
    "3.25",
    "3.27",
    "3.33",
    "3.34",
    "3.35",
    "3.36",
    "3.37",
    "3.38",
    "3.39",
    "3.41",
    "3.42",
    "3.48",
    "3.56",
)
def test_invalid(obj: Any, messages: list[str]) -> None:
    assert list(map(str, validate_pod_group(obj))) == messages


Outcome = tuple[str, bool]
"""What KAI's own webhook says to a new PodGroup, "" if nothing, and whether it allows it."""

DUPLICATE = "duplicate subgroup name a"
LOST = "parent zzz of b was not found"
CYCLE = "cycle detected in subgroups"
BEYOND = "minSubGroup (2) exceeds the number of direct child SubGroups (1)"


def group(*subgroups: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {**spec, "subGroups": list(subgroups)}}


def leaf(name: str, parent: str | None = None) -> dict[str, Any]:
    return {"name": name, "minMember": 1, **({"parent": parent} if parent else {})}


BESIDE_KAI: list[Any] = [
    pytest.param(group(leaf("a")), ("", True), [], id="one leaf"),
    pytest.param(group({"name": "top"}, leaf("a", "top")), ("", True), [], id="a hierarchy"),
    pytest.param(
        group(leaf("a", "top"), {"name": "top"}), ("", True), [], id="children before parents"
    ),
    pytest.param(
        group({"name": "top", "minSubGroup": 1}, leaf("a", "top")), ("", True), [], id="minSubGroup"
    ),
    pytest.param(group(leaf("a"), minSubGroup=1), ("", True), [], id="minSubGroup of the PodGroup"),
    pytest.param(
        group(leaf("a"), minSubGroup=2), (BEYOND, True), [], id="minSubGroup beyond the children"
    ),
    pytest.param(
        group(leaf("a"), minSubGroup=1, minMember=1),
        ("minMember and minSubGroup are mutually exclusive", False),
        [],
        id="minMember and minSubGroup",
    ),
    pytest.param(
        group({"name": "top", "minMember": 1}, leaf("a", "top")),
        ('subgroup "top": minMember cannot be set on a mid-level SubGroup', False),
        [],
        id="minMember of a parent",
    ),
    pytest.param(
        group({"name": "a"}),
        ("subgroup a: minMember is required", False),
        [],
        id="a leaf without minMember",
    ),
    pytest.param(
        group({"name": "a", "minSubGroup": 1}),
        ('subgroup "a": minSubGroup cannot be set on a leaf SubGroup', False),
        [],
        id="minSubGroup of a leaf",
    ),
    pytest.param(
        group(leaf("a"), leaf("a")), (DUPLICATE, False), [DUPLICATE], id="a name given twice"
    ),
    pytest.param(group(leaf("b", "zzz")), (LOST, False), [LOST], id="a missing parent"),
    pytest.param(group(leaf("a", "b"), leaf("b", "a")), (CYCLE, False), [CYCLE], id="a cycle"),
    pytest.param(group(leaf("a", "a")), (CYCLE, False), [CYCLE], id="its own parent"),
    pytest.param(
        group(leaf("a"), leaf("a"), leaf("b", "zzz")),
        (DUPLICATE, False),
        [DUPLICATE, LOST],
        id="two problems",
    ),
]


@pytest.mark.parametrize(("obj", "kai", "messages"), BESIDE_KAI)
def test_findings_do_not_contradict_kais_webhook(
    obj: Any, kai: Outcome, messages: list[str]
) -> None:
    """KAI d5bc503a names one problem, here they all are.

    What its webhook allows is allowed, except names that its CRD rejects, and names of more than 63
    characters.
    """
    message, allowed = kai
    assert list(map(str, validate_pod_group(obj))) == messages
    assert not (allowed and messages)
    assert message in messages or not messages


@pytest.mark.parametrize(
    "example", sorted(EXAMPLES.glob("podgroup-*.yaml")), ids=lambda path: path.name
)
def test_kais_webhook_has_nothing_to_say_about_the_minima_of_an_example(example: Path) -> None:
    """KAI d5bc503a was asked about each of them, and about the one with minMember of a parent."""
    subgroups = yaml.safe_load(example.read_text())["spec"]["subGroups"]
    parents = {subgroup.get("parent") for subgroup in subgroups}
    for subgroup in subgroups:
        assert ("minMember" in subgroup) is (subgroup["name"] not in parents)


def test_an_empty_name_is_missing_and_an_empty_parent_is_invalid(said: Said) -> None:
    reasons = [finding.reason for finding in validate_pod_group(names("", ("a", "")))]
    assert reasons == ["FieldValueRequired", "FieldValueInvalid"]
    [invalid] = validate_pod_group(names("B"))
    assert invalid.reason == "FieldValueInvalid"
    said(validate_pod_group(names("", ("a", ""))))


def test_causes_name_fields_that_exist(said: Said) -> None:
    findings = validate_pod_group(names(("a", "B"), ("c", "z"), ("d", "e"), ("e", "d"), "a"))
    assert [finding.field for finding in findings] == [
        "spec.subGroups[0].parent",
        "spec.subGroups[4].name",
        "spec.subGroups[1].parent",
        "spec.subGroups[2].parent",
    ]
    said(findings)


def test_many_subgroups_take_one_pass() -> None:
    chain = [("0", None), *((str(index), str(index - 1)) for index in range(1, 5000))]
    assert validate_pod_group(names(*chain)) == []
    assert validate_pod_group(names(*reversed(chain))) == []


@pytest.mark.parametrize(
    "key", ["a", "a/b", "topology.kubernetes.io/rack", "A_b.c-1", f"{'a' * 63}"]
)
def test_label_keys(key: str) -> None:
    assert label_key_problem(key) is None


@pytest.mark.parametrize("key", ["", "a/", "/a", "a\n", "a/b/c", "-a", f"{'a' * 64}", "A/b"])
def test_what_is_no_label_key(key: str) -> None:
    assert label_key_problem(key) is not None
    assert not is_label(f"{key}\n")


@pytest.mark.parametrize(
    ("count", "found"),
    [(MOST_ITEMS, []), (MOST_ITEMS + 1, ["spec.subGroups: Too many"])],
    ids=["the most", "one more"],
)
def test_only_so_many_subgroups_are_looked_at_one_by_one(
    count: int, found: list[str], said: Said
) -> None:
    """A child before its parent is valid, but not at first sight."""
    subgroups = [("child", "parent"), *(f"s{number}" for number in range(count - 2)), "parent"]
    findings = validate_pod_group(names(*subgroups))
    assert [str(finding)[: len(start)] for finding, start in zip(findings, found, strict=True)] == (
        found
    )
    said(findings)
