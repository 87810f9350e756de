"""What a list of workloads says if it is empty.

Tests `app/explain/output/waiting_text.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.pending import WorkloadRow, waiting_unlisted
from app.explain.output.waiting_text import exit_code, headline, list_document, list_text
from app.facts.identity import NOWHERE, Ref
from app.facts.kubernetes.workload_status import WorkloadStatus
from tests.explain.fleet import facts, occupant, pod

NOTHING: dict[str, Any] = {"sets": (), "pods": ()}
FILES = frozenset({"sets", "pods"})
JOBS = (WorkloadStatus(Ref("Job", "a", "j")), WorkloadStatus(Ref("Job", "ml", "k")))
DENIED = {"unseen": {"sets": "no permission to list"}}


@pytest.mark.parametrize(
    ("changes", "namespace", "expected", "code"),
    [
        pytest.param(
            {**NOTHING, **DENIED},
            "",
            "PodCliqueSets in all namespaces could not be read. Use -n NAMESPACE to read only one namespace",
            2,
            id="no right in any namespace",
        ),
        pytest.param(
            {**NOTHING, **DENIED},
            "ml",
            "PodCliqueSets in namespace ml could not be read",
            2,
            id="no right in one",
        ),
        pytest.param(
            {**NOTHING, "skipped": frozenset({"sets"})},
            "",
            "there are no PodCliqueSets in these files, and no pod is pending in any namespace",
            2,
            id="files without sets",
        ),
        pytest.param(
            {**NOTHING, "skipped": FILES},
            "",
            "there are no PodCliqueSets and no pods in these files",
            2,
            id="files with other objects",
        ),
        pytest.param(
            {**NOTHING, "skipped": FILES, "workload_statuses": JOBS},
            "ml",
            "there are no PodCliqueSets and no pods in these files. To ask about Job k:"
            " grove-admission explain job/k -n ml --offline FILES",
            2,
            id="files with jobs",
        ),
        pytest.param(
            {"sets": (), "skipped": frozenset({"sets"}), "pods": (occupant("gpu-00"),)},
            "research",
            "there are no PodCliqueSets in these files, and no pod is pending in namespace research."
            " To ask about Pod batch-gpu-00-0: grove-admission explain pod/batch-gpu-00-0 -n research"
            " --offline FILES",
            2,
            id="files with placed pods",
        ),
        pytest.param(
            {**NOTHING, "skipped": frozenset({"sets"}), "pods": (pod("a", 0),)},
            "",
            "no workload with GPUs is pending in any namespace, but 1 other pod is:"
            " grove-admission explain pod/a-0 -n inference",
            2,
            id="files with other pending pods",
        ),
        pytest.param(
            NOTHING,
            "ml",
            "there are no workloads in namespace ml. Use -A to list all namespaces",
            0,
            id="an empty namespace",
        ),
        pytest.param(NOTHING, "", "there are no workloads in any namespace", 0, id="nothing"),
        pytest.param(
            {**NOTHING, "pods": (pod("b", 1), pod("a", 0))},
            "",
            "no workload with GPUs is pending in any namespace, but 2 other pods are:"
            " grove-admission explain pod/a-0 -n inference",
            1,
            id="other pods",
        ),
        pytest.param(
            {**NOTHING, "pods": (pod("a", 0),)},
            "ml",
            "there are no workloads in namespace ml. Use -A to list all namespaces",
            0,
            id="pods of another namespace",
        ),
        pytest.param(
            {**NOTHING, "pods": (occupant("gpu-00"),)},
            "",
            "there are no workloads in any namespace",
            0,
            id="pods that are placed",
        ),
    ],
)
def test_without_rows(changes: dict[str, Any], namespace: str, expected: str, code: int) -> None:
    snapshot = facts(**changes)
    others = waiting_unlisted((), snapshot, namespace)
    assert headline((), snapshot, namespace, others) == expected
    assert exit_code((), snapshot, others) == code


def test_pods_beside_placed_workloads_are_pending_too() -> None:
    """Exit code 0 means that nothing is pending."""
    placed, other = pod("llm-0-a", 0, node="gpu-00"), pod("web", 0, place=NOWHERE, group="")
    snapshot = facts(sets=(), pods=(placed, other))
    row = WorkloadRow(placed.ref, "well", None, 1, 1)
    others = waiting_unlisted([row], snapshot, "")
    assert [each.name for each in others] == ["web-0"]
    shown = list_text([row], snapshot, "", others=others, everything=False, width=0)
    assert shown.splitlines() == [
        "no workload with GPUs is pending in any namespace: 1 workload placed",
        "1 more workload is placed as requested (use --all to list everything)",
        "1 pod without GPUs is pending too: grove-admission explain pod/web-0 -n inference",
    ]
    assert exit_code([row], snapshot, others) == 1
    assert list_document([row], snapshot, others)["totals"]["otherPendingPods"] == 1


@pytest.mark.parametrize("kind", ["PodCliqueSet", "PodGroup", "Job", "Pod"])
def test_a_pod_of_a_row_is_not_listed_again(kind: str) -> None:
    made = replace(pod("a", 0), group="g", made_for=(Ref("Job", "inference", "j"),))
    names = {"PodCliqueSet": made.place.pcs, "PodGroup": "g", "Job": "j", "Pod": made.name}
    row = WorkloadRow(Ref(kind, "inference", names[kind]), "waits", None, 0, 1)
    assert not waiting_unlisted([row], facts(pods=(made,)), "")
    assert waiting_unlisted([], facts(pods=(made,)), "")
    assert not waiting_unlisted([], facts(pods=(replace(made, daemon_of="uid"),)), "")
    assert not waiting_unlisted([], facts(pods=(replace(made, reserves=True),)), "")
