"""What the tree says of the claims and ComputeDomains of a workload.

Tests `app/explain/answers/branch.py`, `app/explain/answers/tree.py` and
`app/explain/answers/answer.py`.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import explain
from app.explain.answers.branch import Branch
from app.explain.state.index import Index
from app.facts.identity import Ref
from app.facts.kubernetes.claim import ResourceClaim
from app.facts.kubernetes.pod import PodClaim
from app.facts.nvidia.computedomain import ComputeDomain, DomainClique, DomainNode
from tests.explain.fleet import (
    GANG,
    NAMESPACE,
    NOW,
    ROUTER,
    SET_REF,
    WORKERS,
    cliques,
    facts,
    placed,
    pods,
)

CLAIM = ResourceClaim(NAMESPACE, "llm-0-mnnvl")
READY = ComputeDomain(NAMESPACE, "cd", "u", 0, "llm-0-template", ready=True)
NODE = DomainNode("gpu-00", ready=True)
Row = tuple[str, str, str]


def below(branch: Branch, kind: str) -> list[Row]:
    rows = [row for child in branch.children for row in below(child, kind)]
    is_of_kind = branch.ref.kind == kind
    return [(branch.where, branch.state, branch.words), *rows] if is_of_kind else rows


def tree_of(claim: PodClaim, **more: Any) -> Branch:
    """The tree of a gang whose pods have a claim."""
    claimed = tuple(replace(pod, claims=(claim,)) for pod in pods())
    answer = explain(Index(facts(pods=claimed, **more)), Ref("PodGang", NAMESPACE, GANG))
    assert answer is not None
    return answer.tree


CLAIMS: Mapping[str, tuple[dict[str, Any], Row]] = {
    "allocated": ({"claims": (replace(CLAIM, allocated=True),)}, ("", "well", "allocated")),
    "not allocated yet": ({"claims": (CLAIM,)}, ("", "waits", "not allocated")),
    "being deleted": (
        {"claims": (replace(CLAIM, allocated=True, deleting=NOW),)},
        ("", "warning", "being deleted"),
    ),
    "missing": ({"claims": ()}, ("", "problem", "does not exist")),
    "not readable": (
        {"claims": (), "unseen": {"claims": "no permission to list"}},
        ("", "unknown", ""),
    ),
    "not in the files": ({"claims": (), "skipped": frozenset({"claims"})}, ("", "unknown", "")),
}


@pytest.mark.parametrize(("known", "row"), CLAIMS.values(), ids=CLAIMS)
def test_claims(known: dict[str, Any], row: Row) -> None:
    tree = tree_of(PodClaim("mnnvl", CLAIM.name), **known)
    assert below(tree, "ResourceClaim") == [row]


DOMAINS: Mapping[str, tuple[dict[str, Any], Row]] = {
    "a node by the status": (
        {"compute_domains": (replace(READY, nodes=(NODE,)),)},
        ("1 node ready", "well", "ready"),
    ),
    "two nodes by the cliques of the driver": (
        {
            "compute_domains": (READY,),
            "domain_cliques": (
                DomainClique("driver", "u.0", (NODE, DomainNode("gpu-01", ready=True))),
                DomainClique("driver", "other.0", (DomainNode("gpu-02", ready=True),)),
            ),
        },
        ("2 nodes ready", "well", "ready"),
    ),
    "no node": (
        {"compute_domains": (replace(READY, ready=False),)},
        ("0 nodes ready", "waits", "not ready"),
    ),
}


@pytest.mark.parametrize(("known", "row"), DOMAINS.values(), ids=DOMAINS)
def test_compute_domains(known: dict[str, Any], row: Row) -> None:
    tree = tree_of(PodClaim("mnnvl", "made", "llm-0-template"), **known)
    assert below(tree, "ComputeDomain") == [row]


def test_pods_run_on_without_their_podgang_and_podcliques() -> None:
    """Nothing of the set waits then, although nothing that Grove makes first is there."""
    running = placed("gpu-00", "gpu-01", "gpu-02", "gpu-03")
    answer = explain(Index(facts(gangs=(), cliques=(), pods=running)), SET_REF)
    assert answer
    assert answer.headline == "llm is placed, with remarks: 4 of 4 pods placed"
    assert [reason.id for reason in answer.reasons] == ["PodGangMissing"]
    assert [(branch.ref.name, branch.placed, branch.total) for branch in answer.tree.children] == [
        (WORKERS, 3, 3),
        (ROUTER, 1, 1),
    ]


@pytest.mark.parametrize(
    ("deleted", "row", "state"),
    [
        (NOW - 5, ("", "well", "being deleted"), "well"),
        (None, ("", "waits", "in no gang yet"), "waits"),
    ],
)
def test_a_podclique_that_is_deleted_after_a_scale_in_lacks_no_pods(
    deleted: float | None, row: Row, state: str
) -> None:
    leaving = replace(cliques()[0], name="llm-1-router", uid="uid-1", deleted_at=deleted)
    running = placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")
    answer = explain(Index(facts(pods=running, cliques=(*cliques(), leaving))), SET_REF)
    assert answer is not None
    assert below(answer.tree, "PodClique")[-1] == row
    assert answer.state == state
