"""KAI's objects, and those of the Kubernetes Workload API."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.explain.facts.common import NOWHERE, UNBOUND, Amounts, Named, Object, Place, Told, identity, place
from app.explain.facts.pods import NODE_POOL
from app.explain.facts.values import amounts, at, duration, seconds_since_1970, text
from app.objects.shape import int_of, maps_of

GPU = ("nvidia.com/gpu", "gpu")
LAST_EVICTION = "kai.scheduler/last-eviction-timestamp"


@dataclass(frozen=True, slots=True)
class KaiTopology:
    """`owners` are the (kind, name, uid) of its owner references. `aliases` maps an alias to its node label."""

    name: str
    keys: tuple[str, ...]
    owners: tuple[tuple[str, str, str], ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SubGroup:
    name: str
    parent: str = ""
    minimum: int = 0
    told: Told = UNBOUND


@dataclass(frozen=True, slots=True)
class Said:
    """Why KAI says that it can't place a PodGroup: an item of `status.schedulingConditions[].reasons`."""

    reason: str
    message: str
    queue: str = ""
    quota: Amounts = field(default_factory=dict)
    allocated: Amounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KaiPodGroup(Named):
    """A PodGroup of scheduling.run.ai. `owners` are uids. `delay` is preemptionDelay in seconds."""

    kind = "PodGroup"
    namespace: str
    name: str
    uid: str = ""
    owners: tuple[str, ...] = ()
    place: Place = NOWHERE
    minimum: int = 1
    queue: str = ""
    preemptibility: str = ""
    delay: float = 0.0
    evicted: float | None = None
    pool: str = ""
    topology: str = ""
    told: Told = UNBOUND
    subgroups: tuple[SubGroup, ...] = ()
    said: tuple[Said, ...] = ()
    created: float | None = None

    @property
    def constrained(self) -> bool:
        return bool(self.told) or any(bool(sub.told) for sub in self.subgroups)


@dataclass(frozen=True, slots=True)
class Queue(Named):
    """GPUs in thousandths; None is no limit. A quota of None is no promise."""

    kind = "Queue"
    name: str
    parent: str = ""
    quota: int | None = None
    limit: int | None = None
    allocated: int = 0
    allocated_fixed: int = 0
    pool: str = ""


@dataclass(frozen=True, slots=True)
class Workload(Named):
    """A Workload of scheduling.k8s.io and the names of its groups."""

    kind = "Workload"
    namespace: str
    name: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadGroup:
    """A PodGroup of scheduling.k8s.io; `workload` is "" if it has no template."""

    namespace: str
    name: str
    workload: str = ""


def kai_topology(obj: Object) -> KaiTopology:
    metadata = at(obj, "metadata")
    levels = maps_of(at(obj, "spec").get("levels"))
    return KaiTopology(
        name=text(metadata, "name"),
        keys=tuple(filter(None, (text(level, "nodeLabel") for level in levels))),
        owners=tuple(
            (text(owner, "kind"), text(owner, "name"), text(owner, "uid"))
            for owner in maps_of(metadata.get("ownerReferences"))
        ),
        aliases={text(level, "alias"): text(level, "nodeLabel") for level in levels if level.get("alias")},
    )


def kai_pod_group(obj: Object) -> KaiPodGroup:
    metadata, spec = at(obj, "metadata"), at(obj, "spec")
    constraint = at(spec, "topologyConstraint")
    subgroups = maps_of(spec.get("subGroups"))
    return KaiPodGroup(
        *identity(metadata),
        owners=tuple(text(owner, "uid") for owner in maps_of(metadata.get("ownerReferences"))),
        place=place(metadata),
        minimum=int_of(spec.get("minMember"), 1),
        queue=text(spec, "queue"),
        preemptibility=text(spec, "preemptibility"),
        delay=duration(spec.get("preemptionDelay")),
        evicted=seconds_since_1970(at(metadata, "annotations").get(LAST_EVICTION)),
        pool=text(at(metadata, "labels"), NODE_POOL),
        topology=text(constraint, "topology") or _topology_of(subgroups),
        told=_told(constraint),
        subgroups=tuple(
            SubGroup(
                text(item, "name"),
                text(item, "parent"),
                int_of(item.get("minMember")),
                _told(at(item, "topologyConstraint")),
            )
            for item in subgroups
        ),
        said=_said(at(obj, "status")),
        created=seconds_since_1970(metadata.get("creationTimestamp")),
    )


def _topology_of(subgroups: Iterable[Object]) -> str:
    names = (text(at(item, "topologyConstraint"), "topology") for item in subgroups)
    return next(filter(None, names), "")


def _told(constraint: Object) -> Told:
    return Told(text(constraint, "requiredTopologyLevel"), text(constraint, "preferredTopologyLevel"))


def _said(status: Object) -> tuple[Said, ...]:
    """The reasons of the last UnschedulableOnNodePool condition of each node pool; the condition's own words if it has
    no reasons, as in older releases."""
    latest: dict[str, Object] = {}
    for condition in maps_of(status.get("schedulingConditions")):
        if condition.get("type") == "UnschedulableOnNodePool":
            latest[text(condition, "nodePool")] = condition
    return tuple(
        said
        for _, condition in sorted(latest.items())
        if condition.get("status", "True") == "True"
        for said in _reasons(condition)
    )


def _reasons(condition: Object) -> list[Said]:
    reasons = maps_of(condition.get("reasons"))
    if not reasons and (condition.get("message") or condition.get("reason")):
        return [Said(text(condition, "reason"), text(condition, "message"))]
    return [_reason(item, at(item, "details", "queueDetails")) for item in reasons]


def _reason(item: Object, details: Object) -> Said:
    return Said(
        text(item, "reason"),
        text(item, "message"),
        text(details, "name"),
        amounts(details.get("queueDeservedResources")),
        amounts(details.get("queueAllocatedResources")),
    )


def queue(obj: Object) -> Queue:
    metadata, spec, status = at(obj, "metadata"), at(obj, "spec"), at(obj, "status")
    gpu = at(spec, "resources", "gpu")
    return Queue(
        name=text(metadata, "name"),
        parent=text(spec, "parentQueue"),
        quota=_bound(gpu.get("quota")),
        limit=_bound(gpu.get("limit")),
        allocated=gpus(amounts(status.get("allocated"))),
        allocated_fixed=gpus(amounts(status.get("allocatedNonPreemptible"))),
        pool=text(at(metadata, "labels"), NODE_POOL),
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
    metadata, spec = at(obj, "metadata"), at(obj, "spec")
    groups = maps_of(spec.get("podGroupTemplates")) or maps_of(spec.get("podGroups"))
    return Workload(*identity(metadata)[:2], tuple(text(item, "name") for item in groups))


def workload_group(obj: Object) -> WorkloadGroup:
    """`podGroupTemplateRef` of Kubernetes 1.36, `workloadRef` since 1.37."""
    spec = at(obj, "spec")
    template = at(spec, "podGroupTemplateRef")
    reference = at(template, "workload") or template or at(spec, "workloadRef")
    return WorkloadGroup(*identity(at(obj, "metadata"))[:2], text(reference, "workloadName"))
