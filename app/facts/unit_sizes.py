"""Count the Pods of a workload that share a unit, from the spec of the workload.

Only Pods whose template requests MNNVL and GPUs count, because each of them needs its own node.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from app.base.value import Value
from app.facts.kinds import (
    JOB_SET,
    LEADER_WORKER_SET,
    RAY_CLUSTER,
    TRAINING_JOBS,
)
from app.facts.kubernetes.gpus import gpus_of_pod
from app.facts.labels import MNNVL_ENABLED
from app.facts.unit_owners import (
    JOBS_OF_SET,
    JOBS_OF_TEMPLATE,
    RAY_GROUP,
    REPLICATED_JOB,
    SET_SUBGROUP,
    NamedOwner,
    UnitSize,
    replicas_of_jobs,
)
from app.objects.resource import JOB
from app.objects.shape import JsonMap, annotations_of, int_of, map_at, map_of, maps_at, text_at


class PodsOfTemplate(Value):
    """The Pods of one template of a workload that are in one unit."""

    template: JsonMap
    """The template, with its metadata and spec."""
    pods: int
    """The number of Pods. It is negative if another item of the unit counts too many Pods."""
    labels: Mapping[str, str] = {}
    """The labels by which these Pods differ from the Pods of other templates."""


Counting = Callable[[JsonMap, str], Iterator[PodsOfTemplate]]
"""A function that yields the Pods of units of a scope, from the spec of the workload.

`size_of_unit` keeps the Pods of one unit, by the labels of the items.
"""


def size_of_unit(owner: NamedOwner, scope: str, spec: JsonMap) -> UnitSize | None:
    """Return the size of the unit of a Pod, in the scope `scope`.

    `owner` is the workload that the Pod names, and `spec` is the spec of this workload. Return None
    for a kind whose spec does not determine the size.
    """
    counting = next(
        (_COUNTING[kind] for kind in owner.kind.resource_kinds & _COUNTING.keys()), None
    )
    if counting is None:
        return None

    keys = owner.kind.scope(scope).keys
    own = dict(zip(keys, owner.values_at(keys), strict=True))
    pods = sum(
        part.pods
        for part in counting(spec, scope)
        if _asks(part.template) and all(part.labels.get(key, own[key]) == own[key] for key in keys)
    )
    return UnitSize(pods, _units(owner, scope, spec))


def _asks(template: JsonMap) -> bool:
    is_asking = annotations_of(template).get(MNNVL_ENABLED) == "true"
    return is_asking and gpus_of_pod(map_at(template, "spec")).every > 0


def _of_groups(spec: JsonMap, scope: str) -> Iterator[PodsOfTemplate]:
    inner = map_at(spec, "leaderWorkerTemplate")
    workers = map_at(inner, "workerTemplate")
    leader = map_at(inner, "leaderTemplate") or workers
    if scope == "group":
        yield PodsOfTemplate(leader, 1)
        yield PodsOfTemplate(workers, int_of(inner.get("size"), 1) - 1)
        return

    subgroups = _read_subgroups(inner)
    first = {SET_SUBGROUP: "0"}
    yield PodsOfTemplate(workers, subgroups.size)
    if subgroups.leader != "excluded":
        yield PodsOfTemplate(leader, 1, first)
    if subgroups.leader == "instead":
        yield PodsOfTemplate(workers, -1, first)


class _Subgroups(Value):
    """The subgroups of each replica of a LeaderWorkerSet."""

    number: int
    """The number of subgroups in each replica."""
    size: int
    """The number of Pods in each subgroup, without an extra leader."""
    leader: Literal["instead", "extra", "excluded"]
    """Whether the first subgroup counts the leader as one of its Pods, as an extra Pod, or not."""


def _read_subgroups(inner: JsonMap) -> _Subgroups:
    """Read the subgroups in `spec.leaderWorkerTemplate`.

    Source: `getSubGroupIndex` in
    https://github.com/kubernetes-sigs/lws/blob/004be7ed/pkg/webhooks/pod_webhook.go
    """
    policy = map_at(inner, "subGroupPolicy")
    pods = int_of(inner.get("size"), 1)
    size = max(1, int_of(policy.get("subGroupSize"), pods))
    if policy.get("subGroupPolicyType") == "LeaderExcluded":
        return _Subgroups((pods - 1) // size, size, "excluded")
    if policy and (pods - 1) % size == 0:
        return _Subgroups((pods - 1) // size, size, "extra")
    return _Subgroups(pods // size, size, "instead")


def _of_job_set(spec: JsonMap, scope: str) -> Iterator[PodsOfTemplate]:
    for job in maps_at(spec, "replicatedJobs"):
        copies = 1 if scope == "job" else int_of(job.get("replicas"), 1)
        labels = {REPLICATED_JOB: text_at(job, "name")}
        for part in _of_job(map_at(job, "template", "spec"), scope):
            yield PodsOfTemplate(part.template, copies * part.pods, labels)


def labels_of_jobs(spec: JsonMap, name: str) -> dict[str, str]:
    """Return the labels that JobSet gives a Pod with the numbers of Jobs.

    They say how many Jobs the JobSet has, and how many the replicatedJob `name` of the Pod has.
    `spec` is the spec of the JobSet.
    """
    replicas = replicas_of_jobs(spec)
    return {
        JOBS_OF_SET: str(sum(replicas.values())),
        JOBS_OF_TEMPLATE: str(replicas.get(name, 1)),
    }


def _of_job(spec: JsonMap, _: str) -> Iterator[PodsOfTemplate]:
    parallelism = int_of(spec.get("parallelism"), 1)
    pods = min(parallelism, int_of(spec.get("completions"), parallelism))
    yield PodsOfTemplate(map_at(spec, "template"), pods)


def _of_training_job(spec: JsonMap, _: str) -> Iterator[PodsOfTemplate]:
    for field, roles in spec.items():
        if field.lower().endswith("replicaspecs"):
            for role in map(map_of, map_of(roles).values()):
                yield PodsOfTemplate(map_at(role, "template"), int_of(role.get("replicas"), 1))


def _of_ray_cluster(spec: JsonMap, _: str) -> Iterator[PodsOfTemplate]:
    head = map_at(spec, "headGroupSpec", "template")
    yield PodsOfTemplate(head, 1, {RAY_GROUP: "headgroup"})
    for group in maps_at(spec, "workerGroupSpecs"):
        pods = int_of(group.get("replicas"), 1) * int_of(group.get("numOfHosts"), 1)
        labels = {RAY_GROUP: text_at(group, "groupName")}
        yield PodsOfTemplate(map_at(group, "template"), pods, labels)


_COUNTING: Mapping[str, Counting] = {
    LEADER_WORKER_SET.kind: _of_groups,
    JOB_SET.kind: _of_job_set,
    RAY_CLUSTER.kind: _of_ray_cluster,
    JOB.kind: _of_job,
    **dict.fromkeys((job.kind for job in TRAINING_JOBS), _of_training_job),
}


def _units(owner: NamedOwner, scope: str, spec: JsonMap) -> int:
    """Return the number of copies of the unit in the workload, including the unit itself.

    In the scope `job` of a JobSet, these are the units of the same replicatedJob.
    """
    if LEADER_WORKER_SET.kind in owner.kind.resource_kinds:
        number = 1
        if scope == "subgroup":
            number = _read_subgroups(map_at(spec, "leaderWorkerTemplate")).number
        return int_of(spec.get("replicas"), 1) * number
    if JOB_SET.kind in owner.kind.resource_kinds and scope == "job":
        return sum(
            int_of(job.get("replicas"), 1)
            for job in maps_at(spec, "replicatedJobs")
            if dict(owner.values).get(REPLICATED_JOB) == text_at(job, "name")
        )
    return 1
