"""What is kept of objects, also of those of another form."""

from typing import Any

import pytest

from app.facts.identity import Ref
from app.facts.kubernetes.node import read_node
from app.facts.kubernetes.pod import read_pod
from app.facts.kubernetes.workload import WorkloadGroup, read_workload_group

IGNORE = "kai.scheduler/ignore-workload-api"
SKIP = "kai.scheduler/skip-podgrouper"
LWS = "leaderworkerset.sigs.k8s.io/name"


def container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


def test_of_a_pod_only_what_decides_on_placement_is_kept() -> None:
    secret = {"env": [{"name": "TOKEN", "value": "secret"}], "args": ["--password=secret"]}
    obj = {
        "metadata": {
            "name": "p",
            "annotations": {"note": "secret"},
            "managedFields": [{"manager": "secret"}],
        },
        "spec": {"containers": [container("1", **secret)]},
        "status": {
            "conditions": [{"type": "PodScheduled", "status": "False", "message": "no room"}]
        },
    }
    kept = read_pod(obj)
    assert "secret" not in repr(kept)
    assert (kept.unscheduled, kept.scheduler, kept.phase) == (
        "no room",
        "default-scheduler",
        "Pending",
    )


def test_a_pod_says_once_why_its_containers_wait() -> None:
    statuses = [
        {"state": {"waiting": {"reason": "ImagePullBackOff"}}},
        {"state": {"waiting": {"reason": "ImagePullBackOff"}}},
        {"state": {"waiting": {}}},
        {"state": {"running": {}}},
    ]
    pod = read_pod({"metadata": {"name": "p"}, "status": {"containerStatuses": statuses}})
    assert pod.waiting == ("ImagePullBackOff",)


def test_objects_of_another_form_are_read_without_trust() -> None:
    odd: dict[str, Any] = {
        "metadata": None,
        "spec": [],
        "status": {"conditions": "none", "allocatable": 3},
    }
    assert read_pod(odd).name == ""
    assert (
        read_node({"metadata": {"name": "n", "labels": {}}, "status": odd["status"]}).allocatable
        == {}
    )


@pytest.mark.parametrize(
    "reference",
    [
        {
            "podGroupTemplateRef": {
                "workload": {"workloadName": "train", "podGroupTemplateName": "workers"}
            }
        },
        {"podGroupTemplateRef": {"workloadName": "train", "podGroupTemplateName": "workers"}},
        {"workloadRef": {"workloadName": "train", "templateName": "workers"}},
    ],
    ids=["Kubernetes 1.36", "Kubernetes 1.36, flat", "Kubernetes 1.37"],
)
def test_a_pod_group_names_the_workload_that_it_is_made_from(reference: dict[str, Any]) -> None:
    obj = {"metadata": {"namespace": "research", "name": "train-workers"}, "spec": reference}
    assert read_workload_group(obj) == WorkloadGroup(
        "research", "train-workers", "train", template="workers"
    )


@pytest.mark.parametrize(
    ("labels", "gpus", "kept"),
    [
        pytest.param({LWS: "a"}, 4, (Ref("LeaderWorkerSet", "ns", "a"), True), id="of a unit"),
        pytest.param({LWS: "a"}, 0, (Ref("LeaderWorkerSet", "ns", "a"), False), id="no GPUs"),
        pytest.param({LWS: "a", "grove.io/podclique": "c"}, 4, (None, False), id="a PodClique's"),
    ],
)
def test_a_pod_names_the_owner_of_its_unit(labels: Any, gpus: int, kept: Any) -> None:
    annotations = {"grove.io/mnnvl-enabled": "true"}
    metadata = {"name": "p", "namespace": "ns", "labels": labels, "annotations": annotations}
    containers = [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]
    pod = read_pod({"metadata": metadata, "spec": {"containers": containers}})
    assert (pod.unit_owner, pod.asks_mnnvl) == kept


@pytest.mark.parametrize(
    ("annotations", "workload", "skipped"),
    [
        pytest.param({}, "train", False, id="uses its Workload"),
        pytest.param({SKIP: "true"}, "train", False, id="uses its Workload, and is marked"),
        pytest.param({IGNORE: "true"}, "", False, id="opts out"),
        pytest.param({IGNORE: "true", SKIP: "true"}, "", True, id="opts out, and is marked"),
        pytest.param({IGNORE: "True", SKIP: "true"}, "train", False, id="another value"),
    ],
)
def test_a_pod_that_opts_out_of_workloads_waits_for_none(
    annotations: dict[str, str], workload: str, skipped: bool
) -> None:
    metadata = {"name": "p", "namespace": "ns", "annotations": annotations}
    spec = {"workloadRef": {"name": "train", "podGroup": "workers"}}
    pod = read_pod({"metadata": metadata, "spec": spec})
    assert (pod.workload, pod.skipped) == (workload, skipped)
