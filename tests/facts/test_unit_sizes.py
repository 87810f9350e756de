"""How many Pods share a unit, by the spec of each kind of workload."""

from typing import Any

import pytest

from app.facts.unit_owners import NO_KIND, OWNER_KINDS, NamedOwner, OwnerKind
from app.facts.unit_sizes import size_of_unit

BY_TITLE = {kind.title: kind for kind in OWNER_KINDS}
GROUP = "leaderworkerset.sigs.k8s.io/group-index"
INDEX_OF_SUB = "leaderworkerset.sigs.k8s.io/subgroup-index"
JOB = "jobset.sigs.k8s.io/replicatedjob-name"
INDEX = "jobset.sigs.k8s.io/job-index"
RAY = "ray.io/group"


def template(gpus: int = 4, enabled: str = "true") -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": gpus}}
    return {
        "metadata": {"annotations": {"grove.io/mnnvl-enabled": enabled}},
        "spec": {"containers": [{"name": "c", "resources": resources}]},
    }


ON = template()
OFF = template(enabled="false")
CPU = template(gpus=0)


def lws(size: int, leader: Any = None, **spec: Any) -> dict[str, Any]:
    inner = {"size": size, "workerTemplate": ON, **({"leaderTemplate": leader} if leader else {})}
    return {"leaderWorkerTemplate": {**inner, **spec.pop("inner", {})}, **spec}


def subgroups(size: int, of: int, leader: Any = None, **policy: Any) -> dict[str, Any]:
    """Return two replicas with subgroups of `of` Pods."""
    return lws(size, leader, replicas=2, inner={"subGroupPolicy": {"subGroupSize": of, **policy}})


def job(**spec: Any) -> dict[str, Any]:
    return {"template": ON, **spec}


JOBS = {
    "replicatedJobs": [
        {"name": "a", "replicas": 2, "template": {"spec": job(parallelism=3)}},
        {"name": "b", "template": {"spec": job()}},
    ]
}
RAY_SPEC = {
    "headGroupSpec": {"template": CPU},
    "workerGroupSpecs": [
        {"groupName": "g", "replicas": 2, "numOfHosts": 3, "template": ON},
        {"groupName": "h", "template": ON},
    ],
}
BERT = {
    "pytorchReplicaSpecs": {"Master": {"template": ON}, "Worker": {"replicas": 3, "template": ON}}
}


@pytest.mark.parametrize(
    ("title", "scope", "values", "spec", "expected"),
    [
        ("LeaderWorkerSet", "group", {GROUP: "0"}, lws(4), (4, 1)),
        ("LeaderWorkerSet", "group", {GROUP: "0"}, lws(4, ON, replicas=3), (4, 3)),
        ("LeaderWorkerSet", "group", {GROUP: "0"}, lws(4, OFF), (3, 1)),
        ("LeaderWorkerSet", "group", {GROUP: "0"}, lws(4, CPU), (3, 1)),
        (
            "LeaderWorkerSet",
            "subgroup",
            {GROUP: "0"},
            lws(4, inner={"subGroupPolicy": {"subGroupSize": 2}}),
            (2, 2),
        ),
        ("LeaderWorkerSet", "subgroup", {INDEX_OF_SUB: "0"}, subgroups(8, 4), (4, 4)),
        ("LeaderWorkerSet", "subgroup", {INDEX_OF_SUB: "1"}, subgroups(8, 4), (4, 4)),
        ("LeaderWorkerSet", "subgroup", {INDEX_OF_SUB: "0"}, subgroups(8, 4, CPU), (3, 4)),
        ("LeaderWorkerSet", "subgroup", {INDEX_OF_SUB: "1"}, subgroups(8, 4, CPU), (4, 4)),
        ("LeaderWorkerSet", "subgroup", {INDEX_OF_SUB: "0"}, subgroups(9, 4), (5, 4)),
        ("LeaderWorkerSet", "subgroup", {INDEX_OF_SUB: "1"}, subgroups(9, 4), (4, 4)),
        (
            "LeaderWorkerSet",
            "subgroup",
            {INDEX_OF_SUB: "0"},
            subgroups(9, 4, subGroupPolicyType="LeaderExcluded"),
            (4, 4),
        ),
        ("LeaderWorkerSet", "subgroup", {INDEX_OF_SUB: "0"}, subgroups(8, 0), (2, 14)),
        ("JobSet", "set", {}, JOBS, (7, 1)),
        ("JobSet", "replicatedJob", {JOB: "a"}, JOBS, (6, 1)),
        ("JobSet", "job", {JOB: "a", INDEX: "0"}, JOBS, (3, 2)),
        ("JobSet", "job", {JOB: "b", INDEX: "0"}, JOBS, (1, 1)),
        ("RayCluster", "cluster", {}, RAY_SPEC, (7, 1)),
        ("RayCluster", "workerGroup", {RAY: "h"}, RAY_SPEC, (1, 1)),
        ("Job", "job", {}, job(parallelism=4, completions=2), (2, 1)),
        ("Job", "job", {}, job(), (1, 1)),
        ("training job", "job", {}, BERT, (4, 1)),
        ("training job", "job", {}, {"runPolicy": {}, **BERT}, (4, 1)),
        ("Job", "job", {}, {"parallelism": "x", "template": 7}, (0, 1)),
    ],
)
def test_the_size_of_a_unit(
    title: str, scope: str, values: dict[str, str], spec: Any, expected: tuple[int, int]
) -> None:
    size = size_of_unit(named(BY_TITLE[title], values), scope, spec)
    assert size is not None
    assert (size.pods, size.units) == expected


def named(kind: OwnerKind, values: dict[str, str]) -> NamedOwner:
    return NamedOwner(kind, "w", tuple(values.items()))


@pytest.mark.parametrize("kind", [BY_TITLE["PodGroup"], BY_TITLE["Workload"], NO_KIND])
def test_a_group_of_kubernetes_does_not_tell_it(kind: OwnerKind) -> None:
    assert size_of_unit(named(kind, {}), kind.scopes[0].name, {}) is None
