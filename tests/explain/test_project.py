"""Objects become facts again: everything that reasons need survives, everything else is dropped.

Tests `app/explain/output/json.py`.
"""

from typing import Any

import pytest

from app.explain.output.json import document
from app.explain.state.snapshot import Snapshot, projected
from tests.explain.fleet import answer, facts
from tests.explain.objects import objects_of
from tests.explain.table.row import Row
from tests.explain.test_reasons import CASES, start


def read_back(snapshot: Snapshot) -> Snapshot:
    values: dict[str, Any] = {
        name: tuple(values) for name, values in projected(objects_of(snapshot)).items()
    }
    return Snapshot(**values, now=snapshot.now)


def is_of_objects(case: Any) -> bool:
    """Whether a state is made of objects; that an API isn't served is in no object."""
    row: Row = case.values[0]
    return "absent" not in row.hit


@pytest.mark.untraced
@pytest.mark.parametrize(("row", "dialect"), [case for case in CASES if is_of_objects(case)])
def test_the_answer_about_objects_is_that_about_facts(row: Row, dialect: str) -> None:
    snapshot = facts(**{**start(dialect), **row.hit})
    expected = document(answer(snapshot))
    read = document(answer(read_back(snapshot)))
    assert read == expected


def test_a_manifest_without_a_namespace_is_in_default() -> None:
    """Cluster-scoped objects have none, and events are found without one."""
    names: dict[str, str] = {"apiVersion": "v1", "kind": "Pod"}
    manifests = [
        {**names, "metadata": {"name": "a"}},
        {**names, "metadata": {"name": "b", "namespace": "ml"}},
        {**names, "kind": "Node", "metadata": {"name": "n"}},
        {**names, "kind": "Event", "metadata": {"name": "e"}},
    ]
    found = projected(manifests)
    assert [pod.ref.namespace for pod in found["pods"]] == ["default", "ml"]
    assert found["nodes"][0].ref.namespace == ""
    assert found["events"][0].namespace == ""
