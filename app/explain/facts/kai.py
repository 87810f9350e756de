"""KAI's objects, and those of the Kubernetes Workload API."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.explain.facts.common import UNBOUND, Amounts, Named, Namespaced, Object, Told
from app.explain.facts.fields import each, number, read, texts_at
from app.explain.facts.pods import NODE_POOL
from app.explain.facts.values import at, duration, seconds_since_1970, text
from app.facts.quantity import amounts
from app.objects.shape import map_of, maps_of

GPU = ("nvidia.com/gpu", "gpu")
LAST_EVICTION = "kai.scheduler/last-eviction-timestamp"


def _keys(levels: Any) -> tuple[str, ...]:
    return tuple(filter(None, texts_at("nodeLabel")(levels)))


def _aliases(levels: Any) -> dict[str, str]:
    return {
        text(level, "alias"): text(level, "nodeLabel")
        for level in maps_of(levels)
        if level.get("alias")
    }


def _owners(references: Any) -> tuple[tuple[str, str, str], ...]:
    return tuple(
        (text(item, "kind"), text(item, "name"), text(item, "uid")) for item in maps_of(references)
    )


@dataclass(frozen=True, slots=True)
class KaiTopology(Named):
    """`owners` are the (kind, name, uid) of its owner references.

    `aliases` maps an alias to its node label.
    """

    kind = "Topology"
    name: str = read("metadata", "name")
    keys: tuple[str, ...] = read("spec", "levels", of=_keys)
    owners: tuple[tuple[str, str, str], ...] = read("metadata", "ownerReferences", of=_owners)
    aliases: Mapping[str, str] = read("spec", "levels", of=_aliases)


def _told(constraint: Any) -> Told:
    """KAI ignores levels that don't say which topology they are of."""
    constraint = map_of(constraint)
    if not text(constraint, "topology"):
        return UNBOUND
    return Told(
        text(constraint, "requiredTopologyLevel"), text(constraint, "preferredTopologyLevel")
    )


def _unnamed(constraint: Any) -> Told:
    """The levels that KAI ignores, because they don't say which topology they are of."""
    constraint = map_of(constraint)
    if text(constraint, "topology"):
        return UNBOUND
    return Told(
        text(constraint, "requiredTopologyLevel"), text(constraint, "preferredTopologyLevel")
    )


def _minimum_of_subgroups(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True)
class SubGroup:
    """`needed` is how many of its own SubGroups are needed, None for all."""

    name: str = read("name")
    parent: str = read("parent")
    minimum: int = read("minMember", of=number())
    told: Told = read("topologyConstraint", of=_told)
    needed: int | None = read("minSubGroup", of=_minimum_of_subgroups)
    unnamed: Told = read("topologyConstraint", of=_unnamed)


@dataclass(frozen=True, slots=True)
class Said:
    """Why KAI says that it can't place a PodGroup: an item of
    `status.schedulingConditions[].reasons`.
    """

    reason: str = read("reason")
    message: str = read("message")
    queue: str = read("details", "queueDetails", "name")
    quota: Amounts = read("details", "queueDetails", "queueDeservedResources", of=amounts)
    allocated: Amounts = read("details", "queueDetails", "queueAllocatedResources", of=amounts)
    time: float | None = read("time", of=seconds_since_1970)


_each_said = each(Said)


def _said(conditions: Any) -> tuple[Said, ...]:
    """The reasons of the last UnschedulableOnNodePool condition of each node pool; the condition's
    own words if it has no reasons, as in older releases.
    """
    latest: dict[str, Object] = {}
    for condition in maps_of(conditions):
        if condition.get("type") == "UnschedulableOnNodePool":
            latest[text(condition, "nodePool")] = condition
    holding = [
        latest[pool] for pool in sorted(latest) if latest[pool].get("status", "True") == "True"
    ]
    return tuple(said for condition in holding for said in _reasons(condition))


def _reasons(condition: Object) -> tuple[Said, ...]:
    time = seconds_since_1970(condition.get("lastTransitionTime"))
    reasons = _each_said(condition.get("reasons"))
    if not reasons and (condition.get("message") or condition.get("reason")):
        reasons = (Said(text(condition, "reason"), text(condition, "message")),)
    return tuple(replace(reason, time=time) for reason in reasons)


def _topology(spec: Any) -> str:
    """That of the whole group, or else of the first SubGroup that has one."""
    holders = (map_of(spec), *maps_of(map_of(spec).get("subGroups")))
    return next(
        filter(None, (text(at(holder, "topologyConstraint"), "topology") for holder in holders)), ""
    )


@dataclass(frozen=True, slots=True)
class KaiPodGroup(Namespaced):
    """A PodGroup of scheduling.run.ai. `owners` are uids. `delay` is preemptionDelay in seconds."""

    kind = "PodGroup"
    uid: str = read("metadata", "uid")
    owners: tuple[str, ...] = read("metadata", "ownerReferences", of=texts_at("uid"))
    minimum: int = read("spec", "minMember", of=number(1))
    queue: str = read("spec", "queue")
    preemptibility: str = read("spec", "preemptibility")
    delay: float = read("spec", "preemptionDelay", of=duration)
    evicted: float | None = read("metadata", "annotations", LAST_EVICTION, of=seconds_since_1970)
    pool: str = read("metadata", "labels", NODE_POOL)
    topology: str = read("spec", of=_topology)
    told: Told = read("spec", "topologyConstraint", of=_told)
    subgroups: tuple[SubGroup, ...] = read("spec", "subGroups", of=each(SubGroup))
    said: tuple[Said, ...] = read("status", "schedulingConditions", of=_said)
    created: float | None = read("metadata", "creationTimestamp", of=seconds_since_1970)
    needed: int | None = read("spec", "minSubGroup", of=_minimum_of_subgroups)
    unnamed: Told = read("spec", "topologyConstraint", of=_unnamed)
    priority_class: str = read("spec", "priorityClassName")


def _bound(value: Any) -> int | None:
    """GPUs in thousandths; None for -1, which is no bound, and for nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    return round(value * 1000)


def _gpus(quantities: Any) -> int:
    values = amounts(quantities)
    return next((values[name] for name in GPU if name in values), 0)


@dataclass(frozen=True, slots=True)
class Queue(Named):
    """GPUs in thousandths; None is no limit. A quota of None is no promise."""

    kind = "Queue"
    name: str = read("metadata", "name")
    parent: str = read("spec", "parentQueue")
    quota: int | None = read("spec", "resources", "gpu", "quota", of=_bound)
    limit: int | None = read("spec", "resources", "gpu", "limit", of=_bound)
    allocated: int = read("status", "allocated", of=_gpus)
    allocated_fixed: int = read("status", "allocatedNonPreemptible", of=_gpus)
    pool: str = read("metadata", "labels", NODE_POOL)


@dataclass(frozen=True, slots=True)
class PriorityClass(Named):
    """`is_default` if it is that of PodGroups that name none, or one that doesn't exist."""

    kind = "PriorityClass"
    name: str = read("metadata", "name")
    value: int = read("value", of=number())
    is_default: bool = read("globalDefault", of=lambda value: value is True)


def _groups(spec: Any) -> tuple[str, ...]:
    """`podGroups` of Kubernetes 1.35, `podGroupTemplates` since 1.36."""
    names = texts_at("name")
    return names(map_of(spec).get("podGroupTemplates")) or names(map_of(spec).get("podGroups"))


@dataclass(frozen=True, slots=True)
class Workload(Namespaced):
    """A Workload of scheduling.k8s.io and the names of its groups."""

    kind = "Workload"
    groups: tuple[str, ...] = read("spec", of=_groups)


def _workload(spec: Any) -> str:
    """`podGroupTemplateRef` of Kubernetes 1.36, `workloadRef` since 1.37."""
    template = at(map_of(spec), "podGroupTemplateRef")
    return text(
        at(template, "workload") or template or at(map_of(spec), "workloadRef"), "workloadName"
    )


@dataclass(frozen=True, slots=True)
class WorkloadGroup(Namespaced):
    """A PodGroup of scheduling.k8s.io; `workload` is "" if it has no template."""

    workload: str = read("spec", of=_workload)
