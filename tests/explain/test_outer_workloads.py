"""RayJobs, RayServices and TrainJobs, whose pods name only their RayCluster or JobSet.

Tests `app/explain/state/outer_workloads.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import explain
from app.facts.identity import Ref
from tests.explain.table.recorded import whole
from tests.explain.test_workloads import Object, index_of, pod
from tests.said import Said


def ray(kind: str, name: str, status: Any = None, owner: str = "") -> Object:
    made_by, _, of = owner.partition("/")
    owners = [{"apiVersion": "ray.io/v1", "kind": made_by, "name": of, "controller": True}]
    return {
        "apiVersion": "ray.io/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "ns",
            "ownerReferences": owners if owner else [],
        },
        "spec": {},
        "status": status or {},
    }


ACTIVE = {"activeServiceStatus": {"rayClusterName": "c-x"}}
PENDING = {"activeServiceStatus": {}, "pendingServiceStatus": {"rayClusterName": "c-x"}}


@pytest.mark.parametrize(
    ("objects", "placed"),
    [
        pytest.param(
            [ray("RayJob", "w", {"rayClusterName": "c-x"})], 1, id="a RayJob by its status"
        ),
        pytest.param([ray("RayService", "w", ACTIVE)], 1, id="the active RayCluster"),
        pytest.param([ray("RayService", "w", PENDING)], 1, id="the pending RayCluster"),
        pytest.param(
            [ray("RayJob", "w"), ray("RayCluster", "c-x", owner="RayJob/w")], 1, id="by the owner"
        ),
        pytest.param(
            [ray("RayJob", "w", {"rayClusterName": "c-y"})], None, id="another RayCluster"
        ),
        pytest.param(
            [ray("RayJob", "w"), ray("RayCluster", "c-x", owner="RayJob/v")],
            None,
            id="another owner",
        ),
    ],
)
def test_pods_of_a_ray_cluster_are_those_of_its_maker(
    objects: list[Object], placed: int | None
) -> None:
    pods = [
        pod("head", {"ray.io/cluster": "c-x"}, controller="RayCluster/c-x", node="n0"),
        pod("worker", {"ray.io/cluster": "c-x"}, controller="RayCluster/c-x"),
    ]
    index = index_of(*objects, *pods)
    answer = explain(index, Ref(objects[0]["kind"], "ns", "w"))
    assert answer
    if placed is None:
        assert (answer.placed, answer.total) == (0, 0)
        assert answer.headline == "w is pending: it has no pods yet"
    else:
        assert (answer.placed, answer.total) == (1, 2)
        assert answer.headline.startswith("w is pending: 1 of 2 pods placed")
    cluster = explain(index, Ref("RayCluster", "ns", "c-x"))
    assert cluster
    assert (cluster.placed, cluster.total) == (1, 2)


def test_a_failed_ray_job_is_told_although_the_pods_of_its_cluster_run() -> None:
    status = {"rayClusterName": "c-x", "jobStatus": "FAILED", "message": "exit code 1"}
    failed = ray("RayJob", "w", status)
    of_head: dict[str, Any] = {"controller": "RayCluster/c-x", "node": "n0", "phase": "Running"}
    head = pod("head", {"ray.io/cluster": "c-x"}, **of_head)
    answer = explain(index_of(failed, head), Ref("RayJob", "ns", "w"))
    assert answer
    assert [(reason.id, reason.text) for reason in answer.reasons] == [
        ("WorkloadFailed", "RayJob w has failed: exit code 1")
    ]


def test_a_pod_of_a_ray_cluster_stays_the_same_object_until_it_changes() -> None:
    """An index that follows a cluster finds changes by identity."""
    labels = {"ray.io/cluster": "c-x"}
    head = pod("head", labels, controller="RayCluster/c-x", node="n0")
    worker = pod("worker", labels, controller="RayCluster/c-x")
    index = index_of(ray("RayJob", "w", {"rayClusterName": "c-x"}), head, worker, pod("other", {}))
    before = index.facts.pods
    asked = index.remembered("asked", lambda: object(), ["pods"])

    index.follow(replace(index.given, now=index.given.now + 60.0))
    assert index.facts.pods is before
    assert index.remembered("asked", lambda: object(), ["pods"]) is asked

    without_other = tuple(each for each in index.given.pods if each.name != "other")
    index.follow(replace(index.given, pods=without_other))
    assert index.facts.pods == tuple(each for each in before if each.name != "other")
    assert all(any(each is old for old in before) for each in index.facts.pods)
    assert len(index.pods_made_for[Ref("RayJob", "ns", "w")]) == 2

    index.follow(replace(index.given, workload_statuses=()))
    assert Ref("RayJob", "ns", "w") not in index.pods_made_for


# What KubeRay says in the status, beside pods that are ready.


def ready(name: str) -> Object:
    of_head: dict[str, Any] = {"controller": "RayCluster/c-x", "node": "n0", "phase": "Running"}
    head = pod(name, {"ray.io/cluster": "c-x"}, **of_head)
    head["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return head


@pytest.mark.parametrize(
    ("kind", "status", "text", "remedy"),
    [
        (
            "RayJob",
            {"rayClusterName": "c-x", "jobDeploymentStatus": "Waiting"},
            "RayJob w waits for somebody to submit a Ray job (submissionMode: InteractiveMode)",
            "Submit a Ray job to its RayCluster, and set spec.jobId of RayJob w to the ID",
        ),
        (
            "RayJob",
            {"rayClusterName": "c-x", "jobStatus": "PENDING", "message": "no GPUs"},
            "The Ray job of RayJob w has not started, although all pods are ready. KubeRay says: no",
            "Lower the resources that the entrypoint requests",
        ),
        (
            "RayService",
            {**ACTIVE, "conditions": [{"type": "Ready", "status": "False", "message": "none"}]},
            "RayService w is not ready, although all of its existing pods are. KubeRay says: none",
            "Correct the Serve application if the message is about it",
        ),
    ],
)
def test_kuberay_says_what_is_not_ready_beside_ready_pods(
    kind: str, status: Any, text: str, remedy: str, said: Said
) -> None:
    answer = explain(index_of(ray(kind, "w", status), ready("head")), Ref(kind, "ns", "w"))
    assert answer
    said(whole(answer))
    [reason] = answer.reasons
    assert (reason.id, reason.severity) == ("PodsNotReady", "warning")
    assert reason.text.startswith(text)
    assert reason.remedy.startswith(remedy)
    waiting = pod("worker", {"ray.io/cluster": "c-x"}, controller="RayCluster/c-x")
    objects = ray(kind, "w", status), ready("head"), waiting
    waits = explain(index_of(*objects), Ref(kind, "ns", "w"))
    assert waits
    assert "PodsNotReady" not in {each.id for each in waits.reasons}


@pytest.mark.parametrize(("available", "state"), [(0, "waits"), (2, "well")])
def test_workers_that_a_ray_cluster_wants_are_missed(available: int, state: str) -> None:
    """Files may lack pods that the status counts."""
    status = {"desiredWorkerReplicas": 2, "availableWorkerReplicas": available}
    answer = explain(
        index_of(ray("RayCluster", "c-x", status), ready("head")), Ref("RayCluster", "ns", "c-x")
    )
    assert answer
    assert answer.state == state
    assert ("1 of 1 pod placed, 2 pods not created yet" in answer.headline) is (state == "waits")
