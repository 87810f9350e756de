"""How to restart pods whose controllers count a deleted pod as a failure."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.gangs.assembly import gang_of_pod
from app.explain.reasons.restarts import restart_of
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.identity import Ref
from app.facts.kubernetes.kueue import KueueWorkload
from app.facts.kubernetes.pod import Pod
from tests.explain.fleet import NAMESPACE, NOW, answer, facts, pods
from tests.explain.table.row import Row
from tests.explain.test_reasons import ROWS, start

JOB = Ref("Job", NAMESPACE, "train-workers-0")
JOB_SET = Ref("JobSet", NAMESPACE, "train")
LATER = "to false, and back to true once the pods are gone"


def of(controller: Ref | None, *made_for: Ref, **more: Any) -> Pod:
    values: dict[str, Any] = {"controller": controller, "made_for": made_for}
    return Pod(NAMESPACE, "train-workers-0-0", **{**values, **more})


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(
            of(JOB, JOB),
            "suspend Job train-workers-0 (or the object that created it), and resume it once the pods are gone",
            id="a Job",
        ),
        pytest.param(
            of(JOB, JOB_SET, JOB),
            "suspend JobSet train (or the object that created it), and resume it once the pods are gone",
            id="a Job of a JobSet",
        ),
        pytest.param(
            of(JOB, JOB_SET, JOB, queued=True),
            f"set spec.active of Kueue's Workload for JobSet train {LATER}",
            id="a JobSet that Kueue manages",
        ),
        pytest.param(
            of(Ref("Workflow", NAMESPACE, "w")),
            "delete Workflow w and create it again",
            id="a workflow of Argo",
        ),
        pytest.param(
            of(Ref("PyTorchJob", NAMESPACE, "p")),
            "delete all of its pods together",
            id="a controller that creates deleted pods again",
        ),
        pytest.param(
            of(None), "delete all of its pods together and create them again", id="no controller"
        ),
    ],
)
def test_a_restart_is_no_failure_of_the_workload(pod: Pod, expected: str) -> None:
    gang = gang_of_pod(Index(Snapshot(pods=(pod,), now=NOW)), pod)
    assert restart_of(gang, gang.pods, "all of its pods") == expected


def test_several_jobs_are_resumed_together() -> None:
    others = Ref("Job", NAMESPACE, "train-driver-0")
    pods = [of(JOB, JOB), replace(of(others, others), name="train-driver-0-0")]
    gang = gang_of_pod(Index(Snapshot(pods=tuple(pods), now=NOW)), pods[0])
    jobs = "Job train-workers-0 and Job train-driver-0"
    later = "(or the objects that created them), and resume them once the pods are gone"
    assert restart_of(gang, pods, "all pods") == f"suspend {jobs} {later}"
    again = restart_of(gang, pods, "all pods", has_new_template=True)
    assert again == f"delete {jobs} and create them again"


def test_the_workload_of_kueue_is_known_without_a_label_of_the_pod() -> None:
    pod = of(JOB, JOB)
    workload = KueueWorkload(NAMESPACE, "job-train-workers-0-abcde")
    snapshot = Snapshot(pods=(pod,), kueue_workloads=(workload,), now=NOW)
    gang = gang_of_pod(Index(snapshot), pod)
    expected = f"set spec.active of Kueue's Workload for Job train-workers-0 {LATER}"
    assert restart_of(gang, gang.pods, "all of its pods") == expected


def test_a_job_whose_template_must_change_is_created_again() -> None:
    gang = gang_of_pod(Index(Snapshot(now=NOW)), of(JOB, JOB))
    again = restart_of(gang, gang.pods, "all of its pods", has_new_template=True)
    assert again == "delete Job train-workers-0 and create it again"


LEFT = {
    "GangIncomplete": "only Grove's pods",
    "NodeGone": "Kubernetes deletes these pods too",
    "DomainDeleted": "once the pods are no longer needed",
    "OldRevision": "only pods of StatefulSets",
}
"""The reasons whose remedies delete pods, and why that is right for a Job too."""
DELETES = re.compile(r"delete (all|these|this|it\b|the pods)|\bdelete pod\b", re.IGNORECASE)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.id not in LEFT], ids=lambda row: f"{row.id}: {row.name}"
)
def test_no_remedy_deletes_pods_of_jobs(row: Row) -> None:
    state = {**start(row.dialects[0]), **row.hit}
    state["pods"] = tuple(
        replace(pod, controller=JOB, made_for=(JOB_SET, JOB)) if pod.controller is None else pod
        for pod in state.get("pods", pods())
    )
    reasons = answer(facts(**state)).reasons
    said = [text for reason in reasons for text in (reason.remedy, *reason.commands)]
    assert [text for text in said if DELETES.search(text)] == []
