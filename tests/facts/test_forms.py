"""Lists of which only some fields are decoded give the same facts as whole objects.

Tests `app/facts/kubernetes/pod_fields.py`.
"""

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.base.json import to_json
from app.cluster.leader_rows import UNIT_PODS, read_stored_pod
from app.explain.state.snapshot import CLIQUES
from app.facts.explain_rows import PODS, WIDE_NODES
from app.facts.kubernetes.pod_fields import PodForm
from app.facts.rows import NODES, Row
from app.kube.decoders import Items, decoded_list
from app.rules.mnnvl.missing_claims import is_ending, runs_without_claim
from tests.explain.fleet import facts
from tests.explain.objects import objects_of
from tests.explain.test_reasons import CASES, start
from tests.fields_read import Steps, is_parsed, recorder

TESTDATA = Path(__file__).parents[1] / "testdata"
FORMED = (NODES, WIDE_NODES, PODS, CLIQUES)


def recorded() -> Iterator[Any]:
    """Objects of all recorded states and decisions."""
    for folder in ("grove-states", "kai-decisions"):
        for path in sorted((TESTDATA / folder).iterdir()):
            if path.suffix == ".json":
                yield from json.loads(path.read_text())["items"]
            elif path.suffix == ".gz":
                for line in gzip.decompress(path.read_bytes()).splitlines():
                    yield from json.loads(line)["items"]


def made() -> Iterator[Any]:
    """Objects of all states of the table of reasons."""
    for case in CASES:
        row, dialect = case.values
        yield from objects_of(facts(**{**start(dialect), **row.hit}))  # type: ignore[union-attr,arg-type]


def listed(items: list[Any], row: Row[Any]) -> list[Any]:
    page = {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}
    answer = decoded_list(to_json(page))["items"]
    return [without_kind(item) for item in Items(answer, "", "", row.form)]


def without_kind(item: Any) -> Any:
    """An item as it was sent: the client adds what the items of a list lack."""
    return {key: value for key, value in item.items() if value or key not in ("apiVersion", "kind")}


@pytest.mark.untraced
@pytest.mark.parametrize("source", [recorded, made])
@pytest.mark.parametrize("row", FORMED, ids=lambda row: row.read.__name__)
def test_facts_are_those_of_whole_objects(row: Row[Any], source: Any) -> None:
    items = [item for item in source() if item["kind"] == row.resource.kind]
    assert len(items) > 100
    assert list(map(row.read, listed(items, row))) == list(map(row.read, items))


READ_FROM_LISTS = [
    *((row.resource.kind, row.read, row.form) for row in (*FORMED, UNIT_PODS)),
    ("Pod", read_stored_pod, PodForm),
    ("Pod", runs_without_claim, PodForm),
    ("Pod", is_ending, PodForm),
]


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("kind", "read", "form"), READ_FROM_LISTS, ids=[row[1].__name__ for row in READ_FROM_LISTS]
)
def test_readers_read_only_decoded_fields(
    kind: str, read: Callable[[Any], object], form: Any
) -> None:
    paths: set[Steps] = set()
    for item in (*recorded(), *made()):
        if item["kind"] == kind:
            read(recorder(item, (), paths))
    assert paths
    assert [path for path in sorted(paths) if not is_parsed(path, form)] == []


@pytest.mark.parametrize("row", FORMED, ids=lambda row: row.read.__name__)
def test_other_fields_are_passed_over(row: Row[Any]) -> None:
    obj = {"metadata": {"name": "a", "managedFields": [1]}, "spec": {"x": 1}, "status": {"y": 2}}
    assert listed([obj], row) == [{"metadata": {"name": "a"}, "spec": {}, "status": {}}]


@pytest.mark.parametrize("odd", [[], "text", 3], ids=["a list", "a text", "a number"])
def test_objects_of_another_form_are_read_whole(odd: Any) -> None:
    items = [{"metadata": {"name": "a"}, "spec": odd, "more": 1}]
    answer = decoded_list(to_json({"items": items}))["items"]
    assert [without_kind(item) for item in Items(answer, "", "", PodForm)] == items
