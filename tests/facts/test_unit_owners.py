"""Which owner a Pod names, and whether the spec of an owner has a unit."""

from typing import Any

import pytest

from app.facts.unit_owners import OWNER_KINDS, ROLE, SLICE, read_owner
from tests.pods import RECORDED, pod

BY_TITLE = {kind.title: kind for kind in OWNER_KINDS}
OWNERS = {
    "lws-leader": ("LeaderWorkerSet", "a"),
    "lws-labelled-leader": ("LeaderWorkerSet", "a"),
    "lws-worker": ("LeaderWorkerSet", "a"),
    "lws-subgroup": ("LeaderWorkerSet", "a"),
    "disagg-slice": ("DisaggregatedSet", "d"),
    "disagg-role": ("DisaggregatedSet", "d"),
    "jobset": ("JobSet", "train"),
    "jobset-replicated-job": ("JobSet", "train"),
    "jobset-job": ("JobSet", "train"),
    "pytorchjob": ("training job", "bert"),
    "mpijob-launcher": ("training job", "nccl"),
    "raycluster": ("RayCluster", "serve"),
    "raycluster-group": ("RayCluster", "serve"),
    "job": ("Job", "nccl-test"),
    "workload-group": ("PodGroup", "prefill-0"),
    "workload-ref": ("Workload", "w"),
    "workload-ref-without-key": ("Workload", "w"),
}


@pytest.mark.parametrize("name", RECORDED)
def test_the_owner_that_a_pod_names(name: str) -> None:
    named = read_owner(pod(name))
    assert (named.kind.title, named.name, named.second) == (*OWNERS[name], "")


@pytest.mark.parametrize("scope", ["group", None])
def test_a_pod_of_a_disaggregated_set_is_in_the_unit_of_its_group(scope: str | None) -> None:
    named = read_owner(pod("disagg-slice", scope=scope))
    assert (named.kind.title, named.name, named.second) == (
        "LeaderWorkerSet",
        "d-0-5c5fb-prefill",
        "",
    )


@pytest.mark.parametrize(
    ("labels", "second"),
    [
        pytest.param({"ray.io/cluster": "serve"}, "RayCluster", id="another kind"),
        pytest.param({"batch.kubernetes.io/job-name": "j"}, "", id="the Job that made the Pod"),
    ],
)
def test_two_owners(labels: Any, second: str) -> None:
    assert read_owner(pod("lws-worker", labels)).second == second


@pytest.mark.parametrize(
    "odd",
    [{}, {"metadata": None}, {"metadata": {"labels": 7}, "spec": {"workloadRef": []}}],
    ids=["nothing", "no metadata", "wrong types"],
)
def test_a_pod_without_an_owner(odd: Any) -> None:
    named = read_owner(odd)
    assert (named.name, named.values) == ("", ())


GROUP = "leaderworkerset.sigs.k8s.io/group-index"
JOB = "jobset.sigs.k8s.io/replicatedjob-name"
INDEX = "jobset.sigs.k8s.io/job-index"
JOBS = {"replicatedJobs": [{"name": "workers", "replicas": 2}, {"name": "driver"}]}
ROLES = {"slices": 2, "roles": [{"name": "prefill"}, {"name": "decode"}]}
RAY = {"workerGroupSpecs": [{"groupName": "gpus"}]}


@pytest.mark.parametrize(
    ("title", "spec", "labels", "has_unit"),
    [
        ("LeaderWorkerSet", {"replicas": 3}, {GROUP: "2"}, True),
        ("LeaderWorkerSet", {"replicas": 2}, {GROUP: "2"}, False),
        ("LeaderWorkerSet", {}, {GROUP: "0"}, True),
        ("LeaderWorkerSet", {}, {}, False),
        ("DisaggregatedSet", ROLES, {SLICE: "1"}, True),
        ("DisaggregatedSet", ROLES, {SLICE: "2"}, False),
        ("DisaggregatedSet", ROLES, {SLICE: "0", ROLE: "decode"}, True),
        ("DisaggregatedSet", ROLES, {SLICE: "0", ROLE: "gone"}, False),
        ("JobSet", JOBS, {}, True),
        ("JobSet", JOBS, {JOB: "workers"}, True),
        ("JobSet", JOBS, {JOB: "gone"}, False),
        ("JobSet", JOBS, {JOB: "workers", INDEX: "1"}, True),
        ("JobSet", JOBS, {JOB: "driver", INDEX: "1"}, False),
        ("RayCluster", RAY, {}, True),
        ("RayCluster", RAY, {"ray.io/group": "headgroup"}, True),
        ("RayCluster", RAY, {"ray.io/group": "gpus"}, True),
        ("RayCluster", RAY, {"ray.io/group": "gone"}, False),
        ("Job", {}, {}, True),
        ("training job", {}, {}, True),
        ("PodGroup", {}, {}, True),
    ],
)
def test_whether_a_spec_has_a_unit(title: str, spec: Any, labels: Any, has_unit: bool) -> None:
    assert BY_TITLE[title].has_unit(spec, labels) is has_unit
