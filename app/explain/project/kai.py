"""KAI's objects, and those of the Kubernetes Workload API, as facts."""

from collections.abc import Mapping
from typing import Any

from app.explain.facts import (
    Amounts,
    KaiPodGroup,
    KaiTopology,
    Queue,
    Said,
    SubGroup,
    Told,
    Workload,
    WorkloadGroup,
)
from app.explain.project.pods import NODE_POOL, place
from app.explain.values import amounts, at, duration, items, mapping, number, seconds_since_1970, text

Object = Mapping[str, Any]

GPU = ("nvidia.com/gpu", "gpu")
LAST_EVICTION = "kai.scheduler/last-eviction-timestamp"


def kai_topology(obj: Object) -> KaiTopology:
    metadata = mapping(obj.get("metadata"))
    levels = items(at(obj, "spec").get("levels"))
    return KaiTopology(
        name=text(metadata, "name"),
        keys=tuple(filter(None, (text(level, "nodeLabel") for level in levels))),
        owners=tuple(
            (text(owner, "kind"), text(owner, "name"), text(owner, "uid"))
            for owner in items(metadata.get("ownerReferences"))
        ),
        aliases={text(level, "alias"): text(level, "nodeLabel") for level in levels if level.get("alias")},
    )


def kai_pod_group(obj: Object) -> KaiPodGroup:
    metadata, spec = mapping(obj.get("metadata")), mapping(obj.get("spec"))
    constraint = mapping(spec.get("topologyConstraint"))
    subgroups = items(spec.get("subGroups"))
    return KaiPodGroup(
        namespace=text(metadata, "namespace"),
        name=text(metadata, "name"),
        uid=text(metadata, "uid"),
        owners=tuple(text(owner, "uid") for owner in items(metadata.get("ownerReferences"))),
        place=place(metadata),
        minimum=number(spec.get("minMember"), 1),
        queue=text(spec, "queue"),
        preemptibility=text(spec, "preemptibility"),
        delay=duration(spec.get("preemptionDelay")),
        evicted=seconds_since_1970(mapping(metadata.get("annotations")).get(LAST_EVICTION)),
        pool=text(mapping(metadata.get("labels")), NODE_POOL),
        topology=text(constraint, "topology") or _topology_of(subgroups),
        told=_told(constraint),
        subgroups=tuple(
            SubGroup(
                text(item, "name"),
                text(item, "parent"),
                number(item.get("minMember")),
                _told(mapping(item.get("topologyConstraint"))),
            )
            for item in subgroups
        ),
        said=_said(mapping(obj.get("status"))),
        created=seconds_since_1970(metadata.get("creationTimestamp")),
    )


def _topology_of(subgroups: list[Object]) -> str:
    names = (text(mapping(item.get("topologyConstraint")), "topology") for item in subgroups)
    return next(filter(None, names), "")


def _told(constraint: Object) -> Told:
    return Told(text(constraint, "requiredTopologyLevel"), text(constraint, "preferredTopologyLevel"))


def _said(status: Object) -> tuple[Said, ...]:
    """The reasons of the last UnschedulableOnNodePool condition of each node pool; the condition's own words if it has
    no reasons, as in older releases."""
    latest: dict[str, Object] = {}
    for condition in items(status.get("schedulingConditions")):
        if condition.get("type") == "UnschedulableOnNodePool":
            latest[text(condition, "nodePool")] = condition
    return tuple(
        said
        for _, condition in sorted(latest.items())
        if condition.get("status", "True") == "True"
        for said in _reasons(condition)
    )


def _reasons(condition: Object) -> list[Said]:
    reasons = items(condition.get("reasons"))
    if not reasons and (condition.get("message") or condition.get("reason")):
        return [Said(text(condition, "reason"), text(condition, "message"))]
    return [_reason(item, at(item, "details", "queueDetails")) for item in reasons]


def _reason(item: Object, details: Object) -> Said:
    return Said(
        text(item, "reason"),
        text(item, "message"),
        text(details, "name"),
        amounts(details.get("queueResourceLimits")),
        amounts(details.get("queueDeservedResources")),
        amounts(details.get("queueAllocatedResources")),
        amounts(details.get("podGroupRequestedResources")),
    )


def queue(obj: Object) -> Queue:
    metadata, spec, status = (mapping(obj.get(key)) for key in ("metadata", "spec", "status"))
    gpu = at(spec, "resources", "gpu")
    return Queue(
        name=text(metadata, "name"),
        parent=text(spec, "parentQueue"),
        quota=_bound(gpu.get("quota")),
        limit=_bound(gpu.get("limit")),
        allocated=gpus(amounts(status.get("allocated"))),
        allocated_fixed=gpus(amounts(status.get("allocatedNonPreemptible"))),
        requested=gpus(amounts(status.get("requested"))),
        pool=text(mapping(metadata.get("labels")), NODE_POOL),
    )


def _bound(value: Any) -> int | None:
    """GPUs in thousandths; None for -1, which is no bound, and for nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    return round(value * 1000)


def gpus(values: Amounts) -> int:
    return next((values[name] for name in GPU if name in values), 0)


def workload(obj: Object) -> Workload:
    """`podGroups` of Kubernetes 1.35, `podGroupTemplates` since 1.36."""
    metadata, spec = mapping(obj.get("metadata")), mapping(obj.get("spec"))
    groups = items(spec.get("podGroupTemplates")) or items(spec.get("podGroups"))
    return Workload(text(metadata, "namespace"), text(metadata, "name"), tuple(text(item, "name") for item in groups))


def workload_group(obj: Object) -> WorkloadGroup:
    metadata = mapping(obj.get("metadata"))
    reference = at(obj, "spec", "podGroupTemplateRef")
    named = mapping(reference.get("workload")) or reference
    return WorkloadGroup(
        text(metadata, "namespace"),
        text(metadata, "name"),
        text(named, "workloadName"),
        text(named, "podGroupTemplateName"),
    )
