"""Read KAI's PodGroups."""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import field
from msgspec.structs import replace

from app.base.value import Value
from app.facts.constraint import UNBOUND, SchedulerConstraint
from app.facts.identity import Namespaced, read_key
from app.facts.labels import NODE_POOL
from app.facts.quantity import Amounts, amounts
from app.objects.owners import owners_of
from app.objects.shape import JsonMap, int_of, map_at, maps_at, maps_of, text_at
from app.objects.time import duration, seconds_since_1970, signed_duration

LAST_EVICTION = "kai.scheduler/last-eviction-timestamp"
LAST_START = "kai.scheduler/last-start-timestamp"
STALE_SINCE = "kai.scheduler/stale-podgroup-timestamp"


class SubGroup(Value):
    """A SubGroup of a PodGroup: pods with their own minimum and topology constraint."""

    name: str
    parent: str = ""
    """The name of the SubGroup that contains this one, or ""."""
    minimum: int = 0
    """The minimum number of pods that KAI places together (`minMember`)."""
    told: SchedulerConstraint = UNBOUND
    """The levels by which KAI places the SubGroup."""
    needed: int | None = None
    """The number of child SubGroups that KAI must place (`minSubGroup`), or None for all."""
    unnamed: SchedulerConstraint = UNBOUND
    """The levels of a constraint that KAI ignores, because `topology` is ""."""
    topology: str = ""
    """The topology that the constraint names, or ""."""


_DEFAULT_POOL = "default"
"""KAI's name, in conditions, for the nodes without a node pool."""


class Said(Value):
    """A reason that KAI gives, in the status of a PodGroup, for not placing it."""

    reason: str
    """The reason for programs, one CamelCase word, or ""."""
    message: str
    """The message for people, or ""."""
    queue: str = ""
    """The queue that the reason is about, or ""."""
    quota: Amounts = field(default_factory=dict)
    """The quota of `queue`, in thousandths by resource."""
    allocated: Amounts = field(default_factory=dict)
    """The usage of `queue`, in thousandths by resource."""
    time: float | None = None
    """When KAI gave the reason, in seconds since 1970, or None if that is not known."""


class KaiPodGroup(Namespaced):
    """A PodGroup of KAI (scheduling.run.ai): pods that KAI places together."""

    kind = "PodGroup"
    uid: str = ""
    owners: tuple[str, ...] = ()
    """The uids of the objects that own the PodGroup."""
    minimum: int = 1
    """The minimum number of pods that KAI places together (`minMember`)."""
    queue: str = ""
    """The name of the queue, or ""."""
    preemptibility: str = ""
    """The preemptibility in the spec, or ""."""
    delay: float = 0.0
    """The preemptionDelay in seconds."""
    evicted: float | None = None
    """When KAI last evicted pods of the PodGroup, in seconds since 1970, or None if unknown."""
    pool: str = ""
    """The node pool that the PodGroup names in a label, or ""."""
    topology: str = ""
    """The topology of the whole group, or else of the first SubGroup that names one, or ""."""
    told: SchedulerConstraint = UNBOUND
    """The levels by which KAI places the whole group."""
    subgroups: tuple[SubGroup, ...] = ()
    """The SubGroups, in the order of the spec."""
    said: tuple[Said, ...] = ()
    """The reasons why KAI has not placed the pods, from all node pools."""
    created: float | None = None
    """When the PodGroup was created, in seconds since 1970, or None if that is not known."""
    needed: int | None = None
    """The number of SubGroups that KAI must place (`minSubGroup`), or None for all."""
    unnamed: SchedulerConstraint = UNBOUND
    """The levels that KAI ignores, because the constraint names no topology."""
    priority_class: str = ""
    """The name of the PriorityClass, or ""."""
    without_level: tuple[str, ...] = ()
    """The parts whose constraint names a topology but no level.

    A SubGroup is listed by its name, and the whole group by the name of the PodGroup.
    """
    tries_once: bool = False
    """Whether KAI tries to place the PodGroup only once."""
    given_up: bool = False
    """Whether KAI has made its only attempt, and will not try again."""
    stale: float | None = None
    """The time since which fewer pods run than the minimum, in seconds since 1970, or None.

    KAI writes it into an annotation.
    """
    grace: float | None = None
    """The stalenessGracePeriod of the PodGroup in seconds, or None if it sets none."""
    started: float | None = None
    """The time at which the minimum number of pods last started, in seconds since 1970, or None.

    KAI writes it into an annotation.
    """


def read_kai_pod_group(obj: JsonMap) -> KaiPodGroup:
    """Read a PodGroup of KAI. A field that is missing or has the wrong type counts as not set."""
    metadata = map_at(obj, "metadata")
    spec = map_at(obj, "spec")
    pool = text_at(map_at(metadata, "labels"), NODE_POOL)
    told, unnamed = _constraints(spec)
    return KaiPodGroup(
        *read_key(obj),
        uid=text_at(metadata, "uid"),
        owners=tuple(owner.uid for owner in owners_of(obj)),
        minimum=int_of(spec.get("minMember"), 1),
        queue=text_at(spec, "queue"),
        preemptibility=text_at(spec, "preemptibility"),
        pool=pool,
        topology=_topology(spec),
        told=told,
        subgroups=tuple(map(_subgroup, maps_at(spec, "subGroups"))),
        needed=_minimum_of_subgroups(spec),
        unnamed=unnamed,
        priority_class=text_at(spec, "priorityClassName"),
        without_level=tuple(_without_level(text_at(metadata, "name"), spec)),
        **(_times(metadata, spec) | _attempts(obj, pool)),
    )


def _times(metadata: JsonMap, spec: JsonMap) -> dict[str, Any]:
    """Return the fields of a `KaiPodGroup` that are times and durations, by name."""
    annotations = map_at(metadata, "annotations")
    return {
        "delay": duration(spec.get("preemptionDelay")),
        "grace": signed_duration(spec.get("stalenessGracePeriod")),
        "created": seconds_since_1970(metadata.get("creationTimestamp")),
        "evicted": seconds_since_1970(annotations.get(LAST_EVICTION)),
        "stale": seconds_since_1970(annotations.get(STALE_SINCE)),
        "started": seconds_since_1970(annotations.get(LAST_START)),
    }


def _attempts(obj: JsonMap, pool: str) -> dict[str, Any]:
    """Return the fields of a `KaiPodGroup` about KAI's attempts to place it, by name.

    `pool` is the node pool of the PodGroup, or "".
    """
    conditions = maps_of(map_at(obj, "status").get("schedulingConditions"))
    tries_once = int_of(map_at(obj, "spec").get("schedulingBackoff"), -1) != -1
    return {
        "said": _said(conditions),
        "tries_once": tries_once,
        "given_up": tries_once and _is_tried(conditions, pool),
    }


def _is_tried(conditions: Sequence[JsonMap], pool: str) -> bool:
    """Return whether KAI's last attempt to place a PodGroup was in the node pool `pool`.

    Source: `isPodGroupUpForScheduler` in `pkg/scheduler/cache/cluster_info/cluster_info.go` of KAI.
    """
    last = max(conditions, key=_transition, default=None)
    return last is not None and last.get("nodePool") == (pool or _DEFAULT_POOL)


def _transition(condition: JsonMap) -> tuple[int, str]:
    """Return a sort key for the transition ID of a condition, a number of any length."""
    number = text_at(condition, "transitionID")
    return (len(number), number) if number.isdecimal() else (0, "")


def _subgroup(item: JsonMap) -> SubGroup:
    told, unnamed = _constraints(item)
    return SubGroup(
        text_at(item, "name"),
        text_at(item, "parent"),
        int_of(item.get("minMember")),
        told,
        _minimum_of_subgroups(item),
        unnamed,
        _named_topology(item),
    )


def _constraints(holder: JsonMap) -> tuple[SchedulerConstraint, SchedulerConstraint]:
    """Return the levels by which KAI places a PodGroup or SubGroup, and the levels that it ignores.

    KAI ignores levels without a topology.
    """
    constraint = map_at(holder, "topologyConstraint")
    required = text_at(constraint, "requiredTopologyLevel")
    preferred = text_at(constraint, "preferredTopologyLevel")
    levels = SchedulerConstraint(required, preferred)
    return (levels, UNBOUND) if _named_topology(holder) else (UNBOUND, levels)


def _named_topology(holder: JsonMap) -> str:
    return text_at(map_at(holder, "topologyConstraint"), "topology")


def _without_level(name: str, spec: JsonMap) -> Iterator[str]:
    """Yield the parts of the PodGroup `name` whose constraint names a topology but no level."""
    subgroups = ((text_at(item, "name"), item) for item in maps_at(spec, "subGroups"))
    for part, holder in ((name, spec), *subgroups):
        if _named_topology(holder) and not _constraints(holder)[0]:
            yield part


def _minimum_of_subgroups(holder: JsonMap) -> int | None:
    value = holder.get("minSubGroup")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _topology(spec: JsonMap) -> str:
    """Return the topology of the group, else of the first SubGroup that names one, else ""."""
    holders = (spec, *maps_at(spec, "subGroups"))
    return next(filter(None, map(_named_topology, holders)), "")


def _said(conditions: Sequence[JsonMap]) -> tuple[Said, ...]:
    """Return the reasons of the last UnschedulableOnNodePool condition of each node pool.

    A condition that is not True has none. If a condition lists no reasons, as in older releases,
    its own reason and message are used.
    """
    latest: dict[str, JsonMap] = {}
    for condition in conditions:
        if condition.get("type") == "UnschedulableOnNodePool":
            latest[text_at(condition, "nodePool")] = condition

    holding = [
        latest[pool] for pool in sorted(latest) if latest[pool].get("status", "True") == "True"
    ]
    return tuple(said for condition in holding for said in _reasons(condition))


def _reasons(condition: JsonMap) -> tuple[Said, ...]:
    time = seconds_since_1970(condition.get("lastTransitionTime"))
    reasons = [_reason(item) for item in maps_at(condition, "reasons")]
    if not reasons and (condition.get("message") or condition.get("reason")):
        reasons = [Said(text_at(condition, "reason"), text_at(condition, "message"))]
    return tuple(replace(reason, time=time) for reason in reasons)


def _reason(item: JsonMap) -> Said:
    details = map_at(item, "details", "queueDetails")
    return Said(
        text_at(item, "reason"),
        text_at(item, "message"),
        text_at(details, "name"),
        amounts(details.get("queueDeservedResources")),
        amounts(details.get("queueAllocatedResources")),
    )
