"""Who gives the rights that are missing, and with which command.

Tests `app/explain/output/rights.py`.
"""

from typing import Any

import pytest

from app.explain.output.rights import how_to_get, lacks_right, refusal, unread_because
from app.explain.state.index import Index
from app.explain.state.snapshot import OF_KIND
from app.facts.identity import Ref
from app.facts.kinds import POD_GROUP
from tests.explain.fleet import NAMESPACE, facts

NO_RIGHT = "no permission to list"
ROLE = "--clusterrole=grove-admission-view --user=USER"


@pytest.mark.parametrize(
    ("unseen", "namespace", "lines"),
    [
        pytest.param({"sets": "not served"}, "ns", [], id="no right is missing"),
        pytest.param(
            {"sets": NO_RIGHT, "pods": NO_RIGHT},
            "ns",
            [
                f"Ask an admin of namespace ns for permission to read its objects (USER is your user name): kubectl -n ns create rolebinding USER-view {ROLE}"
            ],
            id="of one namespace",
        ),
        pytest.param(
            {"sets": NO_RIGHT, "nodes": NO_RIGHT},
            "ns",
            [
                f"Ask an admin of namespace ns for permission to read its objects (USER is your user name): kubectl -n ns create rolebinding USER-view {ROLE}",
                f"Ask a cluster admin for permission to read the whole cluster (USER is your user name): kubectl create clusterrolebinding USER-view {ROLE}",
            ],
            id="of one namespace and of the cluster",
        ),
        pytest.param(
            {"nodes": NO_RIGHT},
            "ns",
            [
                f"Ask a cluster admin for permission to read the whole cluster (USER is your user name): kubectl create clusterrolebinding USER-view {ROLE}"
            ],
            id="of the cluster",
        ),
        pytest.param(
            {"sets": NO_RIGHT},
            "",
            [
                f"Ask a cluster admin for permission to read the whole cluster (USER is your user name): kubectl create clusterrolebinding USER-view {ROLE}"
            ],
            id="of all namespaces",
        ),
    ],
)
def test_who_gives_what_is_missing(
    unseen: dict[str, str], namespace: str, lines: list[str]
) -> None:
    assert list(how_to_get(unseen, namespace)) == lines


def test_of_two_kinds_of_one_name_that_of_the_neighbour_is_meant() -> None:
    assert OF_KIND["PodGroup"] is POD_GROUP


SET = Ref("PodCliqueSet", NAMESPACE, "llm")
ASK = f"Ask an admin of namespace {NAMESPACE} for permission to read its objects (USER is your user name): kubectl -n {NAMESPACE} create rolebinding USER-view {ROLE}"


def denied(kind: str, **changes: Any) -> Index:
    return Index(facts(unseen={kind: NO_RIGHT}, **changes))


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        pytest.param({}, "podgang/llm-0", id="its PodGangs"),
        pytest.param(
            {"gangs": ()},
            "podclique/llm-0-pool-0-workers and podclique/llm-0-router",
            id="its cliques",
        ),
        pytest.param({"gangs": (), "cliques": (), "pods": ()}, "", id="nothing"),
    ],
)
def test_a_set_that_may_not_be_read_has_parts_that_may(changes: dict[str, Any], parts: str) -> None:
    lines = list(refusal(denied("sets", sets=(), **changes), SET, exists=False))
    assert lines[:2] == [
        f"You have no permission to get and list podcliquesets.grove.io in namespace {NAMESPACE},"
        f" so it is not known whether {SET} exists",
        ASK,
    ]
    assert lines[2:] == (
        [f"These parts can be explained with your permissions: {parts}"] if parts else []
    )


@pytest.mark.parametrize(
    ("kind", "unseen", "resource"),
    [
        ("PodCliqueScalingGroup", "cliques", "podcliques.grove.io"),
        ("LeaderWorkerSet", "pods", "pods"),
    ],
)
def test_the_permission_is_the_one_for_the_objects_that_are_read(
    kind: str, unseen: str, resource: str
) -> None:
    ref = Ref(kind, NAMESPACE, "x")
    assert list(refusal(denied(unseen), ref, exists=False)) == [
        f"You have no permission to get and list {resource} in namespace {NAMESPACE}, so it is not"
        f" known whether {ref} exists",
        ASK,
    ]


@pytest.mark.parametrize(
    ("kind", "unseen", "expected"),
    [
        ("PodCliqueSet", "sets", True),
        ("PodCliqueSet", "pods", False),
        ("PodCliqueScalingGroup", "cliques", True),
        ("LeaderWorkerSet", "pods", True),
        ("PodGang", "gangs", True),
    ],
)
def test_objects_of_these_kinds_may_not_be_read(kind: str, unseen: str, expected: bool) -> None:
    ref = Ref(kind, NAMESPACE, "x")
    assert lacks_right(unread_because(denied(unseen), ref)) is expected
    index = Index(facts(unseen={unseen: "not served"}))
    assert unread_because(index, ref) == ("not served" if expected else "")
