"""Pods of a PodCliqueSet that keep an old template, whose mistakes may be corrected by now.

Tests `old_template` in `app/explain/reasons/readiness.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.selectors import Requirement
from tests.explain.fleet import NOW, answer, cliques, facts, pcs, pods, shape
from tests.explain.table.row import Changes

NOWHERE = replace(shape(8), selector=(Requirement("disk", "In", ("nvme",)),))
OLD, FIXED = {"revision": "old", "shape": NOWHERE}, {"revision": "new"}


def waiting(*workers: dict[str, Any]) -> tuple[Pod, ...]:
    """The router and three workers."""
    router, *others = pods()
    own = (replace(pod, **made) for pod, made in zip(others, workers, strict=True))
    return (replace(router, node="gpu-00", phase="Running", is_ready=True), *own)


@pytest.mark.parametrize(
    ("changes", "ids"),
    [
        pytest.param({"pods": waiting(OLD, OLD, OLD)}, ["OldRevision"], id="all pending pods"),
        pytest.param(
            {"pods": waiting(OLD, FIXED, FIXED)},
            ["OldRevision", "NoNodeMatches"],
            id="one of them: the others may have the same mistake",
        ),
        pytest.param(
            {"pods": waiting(*[{**FIXED, "shape": NOWHERE}] * 3)},
            ["NoNodeMatches"],
            id="the new template has the mistake",
        ),
        pytest.param(
            {"pods": waiting(*[{**OLD, "created": NOW - 30}] * 3)},
            ["NoNodeMatches"],
            id="they are new",
        ),
        pytest.param(
            {"pods": waiting(*[{**OLD, "revision": ""}] * 3)}, ["NoNodeMatches"], id="no label"
        ),
        pytest.param(
            {"pods": waiting(OLD, OLD, OLD), "cliques": cliques()},
            ["NoNodeMatches"],
            id="no label of the PodClique",
        ),
        pytest.param(
            {"pods": waiting(OLD, OLD, OLD), "cliques": ()},
            ["NoNodeMatches"],
            id="no PodClique",
        ),
    ],
)
def test_old_templates(changes: Changes, ids: list[str]) -> None:
    told = answer(facts(**{"cliques": cliques(revision="new"), **changes})).reasons
    assert [reason.id for reason in told if reason.id in ("OldRevision", "NoNodeMatches")] == ids


def test_it_is_said_when_grove_replaces_the_pods() -> None:
    old = {"pods": waiting(OLD, OLD, FIXED), "cliques": cliques(revision="new")}
    in_turn, *_ = answer(facts(**old)).reasons
    assert in_turn.text.endswith("and Grove updates one replica of the set after another")
    never, *_ = answer(facts(**old, sets=(pcs(updates_on_delete=True),))).reasons
    assert never.text.endswith("replaces them only after a deletion (updateStrategy OnDelete)")
    assert never.commands[0].count("llm-0-pool-0-workers-") == 2
