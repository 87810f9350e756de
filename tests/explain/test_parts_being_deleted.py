"""PodCliques and PodGangs that stay in deletion, so that Grove does not create them again.

Tests `part_being_deleted` in `app/explain/reasons/creation.py`.
"""

from typing import Any

import pytest

from tests.explain.fleet import NOW, answer, cliques, facts, gang, pcs, pods
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
