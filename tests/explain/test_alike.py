"""What is said of a workload does not depend on which one that is like it was asked about before.

Gangs that differ only in their names share what is computed for them.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import explain
from app.explain.state.index import Index
from app.explain.state.read import facts_of
from app.facts.identity import Ref
from tests.effort import tries
from tests.explain.decisions.recording import NOW, Object, Recording, recordings

PREFIX = "z-"
"""It keeps the order of names, which is KAI's order of the parts of a gang."""


def twins(recording: Recording) -> list[Object]:
    """Return the workload of a recording once more, beside it, with all names and uids of its own.

    Pods of others come with it, on the same nodes.
    """
    own = [
        item
        for item in recording.items
        if item["metadata"].get("namespace") == recording.ref.namespace
    ]
    names = {item["metadata"]["name"] for item in own}
    names |= {item["metadata"]["uid"] for item in own if "uid" in item["metadata"]}
    names |= {part["name"] for item in own for part in _parts(item.get("spec", {}))}
    return [_renamed(item, names) for item in own]


def _parts(spec: Object) -> list[Object]:
    """The parts of a PodGang and of a KAI PodGroup."""
    fields = ("subGroups", "podgroups", "topologyConstraintGroupConfigs")
    return [part for field in fields for part in spec.get(field) or ()]


def _renamed(value: Any, names: set[str]) -> Any:
    """Return a document in which every string that is one of `names` has the prefix."""
    match value:
        case str():
            return f"{PREFIX}{value}" if value in names else value
        case list():
            return [_renamed(element, names) for element in value]
        case dict():
            return {
                key: element if key in ("nodeName", "namespace") else _renamed(element, names)
                for key, element in value.items()
            }
    return value


@pytest.mark.untraced
def test_who_was_asked_about_before_changes_nothing() -> None:
    pending = [recording for recording in recordings() if recording.outcome == "pending"]
    chosen = pending[:: tries(3, 1)]
    assert [recording.name for recording in chosen if not is_same_of_twins(recording)] == []


def is_same_of_twins(recording: Recording) -> bool:
    """Whether the answers about a workload and its twin are those that each gets alone."""
    facts = facts_of([*recording.items, *twins(recording)], NOW)
    twin = replace(recording.ref, name=f"{PREFIX}{recording.ref.name}")
    shared = Index(facts)
    refs: list[Ref] = [recording.ref, twin]
    together = [explain(shared, ref) for ref in refs]
    assert None not in together
    return together == [explain(Index(facts), ref) for ref in refs]
