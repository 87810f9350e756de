"""PodCliques and PodGangs that stay in deletion, so that Grove does not create them again.

Tests `part_being_deleted` in `app/explain/reasons/creation.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.facts.grove.podgang import GangPart
from app.facts.kubernetes.pod import Pod
from tests.explain.fleet import NOW, answer, cliques, facts, gang, pcs, pod_group, pods
from tests.explain.table.row import Changes

OF_GROVE = {"deleted_at": NOW - 900, "finalizers": ("grove.io/podclique.grove.io",)}
FOREIGN = {"deleted_at": NOW - 900, "finalizers": ("example.com/audit",)}
WITHOUT_WORKERS = {"pods": pods()[:1]}


@pytest.mark.parametrize(
    ("changes", "text", "remedy"),
    [
        pytest.param(
            {**WITHOUT_WORKERS, "cliques": cliques(**OF_GROVE)},
            "PodClique llm-0-pool-0-workers has been terminating for 15 minutes, blocked by"
            " finalizer grove.io/podclique.grove.io",
            "Ask the platform team to read the log of Grove's operator, which removes this"
            " finalizer",
            id="a PodClique whose pods are gone",
        ),
        pytest.param(
            {"gangs": (gang(**FOREIGN),)},
            "PodGang llm-0 has been terminating for 15 minutes, blocked by finalizer"
            " example.com/audit",
            "Ask the owner of the finalizer example.com/audit to remove it",
            id="a PodGang that another program keeps",
        ),
    ],
)
def test_what_stays_in_deletion(changes: Changes, text: str, remedy: str) -> None:
    first, *_ = answer(facts(**changes)).reasons
    assert (first.id, first.text, first.remedy) == ("SetBeingDeleted", text, remedy)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"cliques": cliques(**OF_GROVE)}, id="a PodClique whose pods are ending"),
        pytest.param({"gangs": (gang(**{**FOREIGN, "deleted_at": NOW - 30}),)}, id="just now"),
        pytest.param({"gangs": (gang(deleted_at=NOW - 900),)}, id="the garbage collector is late"),
        pytest.param({"gangs": (gang(finalizers=("example.com/audit",)),)}, id="no deletion"),
        pytest.param(
            {"gangs": (gang(**FOREIGN),), "sets": (pcs(replicas=0, deleted_at=NOW - 900),)},
            id="the whole set is being deleted",
        ),
    ],
)
def test_what_does_not(changes: dict[str, Any]) -> None:
    told = answer(facts(**changes)).reasons
    assert not [
        reason
        for reason in told
        if reason.objects[0].kind != "PodCliqueSet" and reason.id == "SetBeingDeleted"
    ]


def of_second_replica(pod: Pod) -> Pod:
    clique = pod.place.clique.replace("llm-0", "llm-1")
    place = replace(pod.place, replica="1", podgang="llm-1", clique=clique)
    name = pod.name.replace("llm-0", "llm-1")
    return replace(pod, name=name, uid=name, place=place, group="llm-1", subgroup=clique)


def test_a_part_in_deletion_explains_every_gang_of_the_set() -> None:
    """The rule is checked with one gang of the set. No scheduler is quoted for the others."""
    second = tuple(map(of_second_replica, pods()))
    names = [frozenset({second[0].name}), frozenset(pod.name for pod in second[1:])]
    parts = (
        GangPart("llm-1-router", 1, names[0]),
        GangPart("llm-1-pool-0-workers", 3, names[1]),
    )
    both = {
        "pods": (*pods(), *second),
        "pod_groups": (pod_group(), pod_group(name="llm-1", uid="second", subgroups=())),
    }

    def silent(**changes: Any) -> list[str]:
        gangs = (gang(**changes), gang(name="llm-1", uid="second", parts=parts, groups=()))
        reasons = answer(facts(gangs=gangs, **both)).reasons
        found = (reason.objects for reason in reasons if reason.id == "KaiSilent")
        return [ref.name for objects in found for ref in objects]

    assert silent() == ["llm-0", "llm-1"]
    assert silent(**FOREIGN) == []
