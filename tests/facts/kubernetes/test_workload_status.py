"""What is kept of the status of a workload."""

from typing import Any

import pytest

from app.facts.identity import Ref
from app.facts.kubernetes.workload_status import WorkloadStatus, read_workload_status

JOB = Ref("Job", "ns", "train")


def status_of(kind: str = "Job", labels: Any = None, **fields: Any) -> WorkloadStatus:
    metadata = {"namespace": "ns", "name": "train", "labels": labels or {}}
    return read_workload_status({"kind": kind, "metadata": metadata, **fields})


def condition(type: str, status: str = "True") -> dict[str, str]:
    return {
        "type": type,
        "status": status,
        "reason": "Because",
        "message": "of this",
        "lastTransitionTime": "1970-01-01T00:01:00Z",
    }


@pytest.mark.parametrize("type", ["Failed", "Complete", "Completed", "Succeeded"])
def test_a_workload_ends_with_a_condition(type: str) -> None:
    conditions = [condition("Suspended", "False"), condition("Running"), condition(type)]
    assert status_of(status={"conditions": conditions}) == WorkloadStatus(
        JOB, type, "Because", "of this", 60.0, replicas=1
    )


@pytest.mark.parametrize(
    ("type", "ended"), [("FailureTarget", "Failed"), ("SuccessCriteriaMet", "Complete")]
)
def test_a_job_ends_before_its_last_pods_are_gone(type: str, ended: str) -> None:
    known = status_of(status={"conditions": [condition(type), condition(ended)]})
    assert known == WorkloadStatus(JOB, ended, "Because", "of this", 60.0, replicas=1)


def test_a_condition_says_why_pods_can_not_be_created() -> None:
    known = status_of(status={"conditions": [condition("ReplicaFailure")]})
    assert (known.ended, known.refused, known.refused_since) == ("", "of this", 60.0)
    over = status_of(status={"conditions": [condition("ReplicaFailure", "False")]})
    assert over == WorkloadStatus(JOB, replicas=1)


def test_a_workload_that_runs_has_not_ended() -> None:
    conditions = [condition("Failed", "False"), condition("Suspended")]
    assert status_of(status={"conditions": conditions}) == WorkloadStatus(JOB, replicas=1)
    assert status_of() == WorkloadStatus(JOB, replicas=1)


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        ({"jobStatus": "FAILED"}, "Failed"),
        ({"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"}, "Complete"),
        ({"jobStatus": "RUNNING", "jobDeploymentStatus": "Failed"}, "Failed"),
        ({"jobStatus": "RUNNING", "jobDeploymentStatus": "Running"}, ""),
        ({"jobDeploymentStatus": "ValidationFailed"}, "Failed"),
    ],
)
def test_a_ray_job_ends_with_its_status(status: dict[str, str], ended: str) -> None:
    told = {**status, "reason": "AppFailed", "message": "m", "endTime": "1970-01-01T00:01:00Z"}
    known = status_of("RayJob", status=told)
    assert known.ended == ended
    rest = (known.reason, known.message, known.time)
    assert rest == (("AppFailed", "m", 60.0) if ended else ("", "", None))


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"suspend": True}, "spec.suspend"),
        ({"runPolicy": {"suspend": True}}, "spec.runPolicy.suspend"),
        ({"suspend": False}, ""),
        ({"suspend": "true"}, ""),
    ],
)
def test_a_field_suspends_a_workload(spec: Any, field: str) -> None:
    assert status_of(spec=spec).suspended == field


def test_the_controller_of_a_workload_is_kept() -> None:
    owner = {"apiVersion": "a/v1", "kind": "TrainJob", "name": "t", "uid": "u", "controller": True}
    metadata = {"namespace": "ns", "name": "train", "ownerReferences": [owner]}
    known = read_workload_status({"kind": "Job", "metadata": metadata})
    assert known.controller == Ref("TrainJob", "ns", "t")
    assert status_of().controller is None


def test_a_label_names_a_queue_of_kueue() -> None:
    assert status_of(labels={"kueue.x-k8s.io/queue-name": "lab"}).queued
    assert not status_of(labels={"app": "lab"}).queued


@pytest.mark.parametrize(
    ("kind", "status", "created"),
    [
        ("Deployment", {"observedGeneration": 2, "replicas": 3}, 3),
        ("StatefulSet", {"observedGeneration": 1}, 0),
        ("StatefulSet", {}, None),
        ("LeaderWorkerSet", {"observedGeneration": 1, "replicas": 3}, None),
    ],
)
def test_a_status_counts_the_pods_that_exist(kind: str, status: Any, created: int | None) -> None:
    """A number of 0 is omitted, and a manifest that is not applied yet has no status."""
    known = status_of(kind, spec={"replicas": 4}, status=status)
    assert (known.replicas, known.created) == (4, created)


@pytest.mark.parametrize(
    ("kind", "spec", "revision"),
    [
        pytest.param("StatefulSet", {}, "train-2", id="the defaults"),
        pytest.param("StatefulSet", {"podManagementPolicy": "OrderedReady"}, "train-2", id="set"),
        pytest.param("StatefulSet", {"podManagementPolicy": "Parallel"}, "", id="in any order"),
        pytest.param("StatefulSet", {"updateStrategy": {"type": "OnDelete"}}, "", id="by hand"),
        pytest.param(
            "StatefulSet", {"updateStrategy": {"rollingUpdate": {"partition": 1}}}, "", id="a part"
        ),
        pytest.param("Deployment", {}, "", id="another kind"),
    ],
)
def test_the_revision_of_a_stateful_set_that_replaces_all_pods_in_order(
    kind: str, spec: Any, revision: str
) -> None:
    assert status_of(kind, spec=spec, status={"updateRevision": "train-2"}).revision == revision


def test_the_ray_clusters_of_a_ray_service_are_kept() -> None:
    status = {
        "activeServiceStatus": {"rayClusterName": "train-a"},
        "pendingServiceStatus": {"rayClusterName": "train-b"},
    }
    assert status_of("RayService", status=status).clusters == (
        Ref("RayCluster", "ns", "train-a"),
        Ref("RayCluster", "ns", "train-b"),
    )


@pytest.mark.parametrize(
    ("kind", "spec", "startup"),
    [
        ("JobSet", {"startupPolicy": {"startupPolicyOrder": "InOrder"}}, "InOrder"),
        ("JobSet", {}, ""),
        ("MPIJob", {"launcherCreationPolicy": "WaitForWorkersReady"}, "WaitForWorkersReady"),
        ("PyTorchJob", {"launcherCreationPolicy": "WaitForWorkersReady"}, ""),
    ],
)
def test_the_order_in_which_pods_are_created(kind: str, spec: Any, startup: str) -> None:
    assert status_of(kind, spec=spec).startup == startup


@pytest.mark.parametrize(
    ("spec", "managed_by"),
    [
        ({"managedBy": "kueue.x-k8s.io/multikueue"}, "kueue.x-k8s.io/multikueue"),
        ({"runPolicy": {"managedBy": "example.com/own"}}, "example.com/own"),
        ({"managedBy": "kubernetes.io/job-controller"}, ""),
        ({"runPolicy": {"managedBy": "kubeflow.org/training-operator"}}, ""),
        ({}, ""),
    ],
)
def test_another_controller_that_manages_a_workload(spec: Any, managed_by: str) -> None:
    assert status_of(spec=spec).managed_by == managed_by


@pytest.mark.parametrize(
    ("status", "numbers"),
    [
        ({"desiredWorkerReplicas": 2}, (3, 1)),
        ({"desiredWorkerReplicas": 2, "availableWorkerReplicas": 1}, (3, 2)),
        ({}, (None, None)),
    ],
)
def test_a_ray_cluster_has_a_head_and_workers(status: Any, numbers: Any) -> None:
    known = status_of("RayCluster", status=status)
    assert (known.replicas, known.created) == numbers


APPLICATIONS = {
    "b": {"status": "RUNNING"},
    "llm": {"status": "DEPLOY_FAILED", "message": "no module"},
}


@pytest.mark.parametrize(
    ("kind", "status", "unready"),
    [
        ("RayJob", {"jobDeploymentStatus": "Waiting"}, "spec.jobId is not set"),
        ("RayJob", {"jobStatus": "PENDING", "message": "no CPUs"}, "no CPUs"),
        ("RayJob", {"jobStatus": "RUNNING", "message": "it runs"}, ""),
        ("RayService", {"conditions": [condition("Ready", "False")]}, "of this"),
        ("RayService", {"conditions": [condition("Ready")]}, ""),
        (
            "RayService",
            {
                "conditions": [condition("Ready", "False")],
                "pendingServiceStatus": {"applicationStatuses": APPLICATIONS},
            },
            "application llm is DEPLOY_FAILED: no module",
        ),
        (
            "RayService",
            {"conditions": [{"type": "Ready", "status": "False", "reason": "Initializing"}]},
            "Initializing",
        ),
        ("RayCluster", {"conditions": [condition("Ready", "False")]}, ""),
    ],
)
def test_a_workload_says_why_it_is_not_ready(kind: str, status: Any, unready: str) -> None:
    assert status_of(kind, status=status).unready == unready
