"""Kueue's Workloads, as they are stored."""

from typing import Any

import pytest

from app.facts.kubernetes.kueue import (
    KueueCheck,
    read_cluster_queue,
    read_kueue_queue,
    read_kueue_workload,
)
from app.facts.kubernetes.pod import read_pod


def workload(**status: Any) -> Any:
    return {"metadata": {"name": "w", "namespace": "n"}, "spec": {}, "status": status}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (None, (0, None)),
        ({"count": 3, "requeueAt": "2026-11-28T12:00:00Z"}, (3, 1795867200.0)),
        ({"count": 1, "requeueAt": None}, (1, None)),
        ({"count": "x", "requeueAt": 7}, (0, None)),
        ([], (0, None)),
    ],
)
def test_how_often_and_when_it_is_tried_again(state: Any, expected: Any) -> None:
    read = read_kueue_workload(workload(requeueState=state))
    assert (read.requeues, read.again) == expected


def test_conditions_are_read_with_their_times() -> None:
    condition = {
        "type": "Evicted",
        "status": "True",
        "reason": "Preempted",
        "message": "for another",
        "lastTransitionTime": "2026-11-28T12:00:00Z",
    }
    (read,) = read_kueue_workload(workload(conditions=[condition])).conditions
    assert (read.type, read.reason, read.message) == ("Evicted", "Preempted", "for another")


def test_flavors_checks_and_evictions_are_read() -> None:
    assigned = [
        {"flavors": {"cpu": "small", "nvidia.com/gpu": "h100"}},
        {"flavors": {"cpu": "small"}},
    ]
    check = {"name": "prov", "state": "Retry", "message": "no room", "retryCount": 2}
    stats = [{"reason": "Preempted", "count": 2}, {"reason": "PodsReadyTimeout", "count": 1}]
    read = read_kueue_workload(
        workload(
            admission={"clusterQueue": "team-a", "podSetAssignments": assigned},
            admissionChecks=[check | {"lastTransitionTime": "2026-11-28T12:00:00Z"}],
            schedulingStats={"evictions": stats},
        )
    )
    assert read.flavors == ("h100", "small")
    assert read.checks == (KueueCheck("prov", "Retry", "no room", 1795867200.0, 2),)
    assert read.evictions == 3


@pytest.mark.parametrize(
    ("status", "cluster"),
    [
        ({}, ""),
        ({"clusterName": "worker-1"}, "worker-1"),
        ({"nominatedClusterNames": ["worker-1"]}, ""),
        (
            {"admissionChecks": [{}, {"message": 'The workload got reservation on "worker-2"'}]},
            "worker-2",
        ),
    ],
)
def test_the_cluster_that_multikueue_chose_is_read(status: Any, cluster: str) -> None:
    assert read_kueue_workload(workload(**status)).cluster == cluster


def test_the_levels_by_which_nodes_were_chosen_are_read() -> None:
    chosen = {"topologyAssignment": {"levels": ["a/block", "kubernetes.io/hostname"]}}
    admission = {"podSetAssignments": [chosen, {"flavors": {}}, chosen]}
    read = read_kueue_workload(workload(admission=admission))
    assert read.levels == ("a/block", "kubernetes.io/hostname")


@pytest.mark.parametrize(
    ("name", "size", "group"),
    [("g", "4", ("g", 4)), ("g", None, None), ("", "4", None), ("g", "x", None), ("g", 4, None)],
)
def test_pods_of_a_pod_group_know_its_size(name: str, size: Any, group: Any) -> None:
    labels = {"kueue.x-k8s.io/pod-group-name": name, "kueue.x-k8s.io/managed": "true"}
    annotations = {"kueue.x-k8s.io/pod-group-total-count": size}
    pod = read_pod({"metadata": {"labels": labels, "annotations": annotations}})
    assert pod.kueue_group == group


@pytest.mark.parametrize("field", ["cohort", "cohortName"])
def test_queues_of_both_versions_are_read(field: str) -> None:
    inactive = {"type": "Active", "status": "False", "reason": "Stopped", "message": "is stopped"}
    obj = {
        "metadata": {"name": "team-a"},
        "spec": {field: "all"},
        "status": {"conditions": [inactive]},
    }
    read = read_cluster_queue(obj)
    assert read.cohort == "all"
    assert read.inactive is not None
    assert read.inactive.reason == "Stopped"
    active = {"conditions": [inactive | {"status": "True"}]}
    assert read_cluster_queue(obj | {"status": active}).inactive is None

    queue = {"metadata": {"name": "lab", "namespace": "n"}, "spec": {"clusterQueue": "team-a"}}
    assert read_kueue_queue(queue).cluster_queue == "team-a"


@pytest.mark.parametrize(
    ("metadata", "spec", "queued"),
    [
        ({}, {}, False),
        ({"labels": {"app": "x", "kueue.x-k8s.io/queue-name": "lab"}}, {}, True),
        ({"finalizers": ["kueue.x-k8s.io/managed"]}, {}, True),
        ({}, {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, True),
        ({"labels": {"kueue": "x"}, "finalizers": [7]}, {"schedulingGates": [{}]}, False),
    ],
)
def test_pods_of_kueue_are_known_by_their_marks(metadata: Any, spec: Any, queued: bool) -> None:
    assert read_pod({"metadata": metadata, "spec": spec}).queued is queued
