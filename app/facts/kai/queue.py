"""Read KAI's queues."""

from collections.abc import Mapping
from typing import Any

from app.base.value import Value
from app.facts.identity import ClusterScoped, read_name
from app.facts.kubernetes.gpus import GPU
from app.facts.labels import NODE_POOL
from app.facts.quantity import MOST_THOUSANDTHS, amounts
from app.objects.shape import JsonMap, int_of, map_at, text_at
from app.objects.time import seconds_since_1970, signed_duration

_GPU = (GPU, "gpu")
UNLIMITED = -1
"""The value of a quota or limit that means unlimited."""

_MOST_BOUND = 10**30

MEGABYTE = 1_000_000 * 1000
"""A megabyte in thousandths of a byte. The bounds of a queue give memory in megabytes."""


class BoundUnit(Value):
    """The unit of a bound in KAI's queues, and the larger one that people often assume."""

    name: str
    assumed: str
    thousandths: int
    """The size of the unit, in thousandths of a CPU or byte."""

    def is_mistaken(self, bound: int) -> bool:
        """Return whether a bound, in thousandths, was probably meant in the larger unit.

        It is then below 1 CPU or 1 GB for a whole queue.
        """
        return 0 < bound < 1000 * self.thousandths


BOUND_UNITS = {
    "cpu": BoundUnit("millicores", "CPUs", 1),
    "memory": BoundUnit("megabytes", "GB", MEGABYTE),
}
"""The units of quotas and limits, except those of GPUs."""


class Share(Value):
    """The bounds and the usage of one resource in a queue, in thousandths."""

    quota: int | None = None
    """The amount that the queue gets before capacity is shared, or None for unlimited."""
    limit: int | None = None
    """The maximum amount that the queue can use, or None for unlimited."""
    allocated: int = 0
    """The amount that the pods of the queue use, from the status of the queue."""
    allocated_fixed: int = 0
    """The part of `allocated` that belongs to non-preemptible pods."""
    weight: float = 1.0
    """The weight by which capacity beyond all quotas is divided."""
    unset: tuple[str, ...] = ()
    """The bounds (`quota`, `limit`) that the queue does not set. KAI reads them as 0."""


NO_SHARE = Share()


class Queue(ClusterScoped):
    """A queue of KAI.

    `cpu` and `memory` have the bounds and the usage of these resources. All other bounds and
    amounts are about GPUs, in thousandths.
    """

    kind = "Queue"
    parent: str = ""
    """The name of the parent queue, or ""."""
    quota: int | None = None
    """The GPUs that the queue gets before capacity is shared, or None for unlimited."""
    limit: int | None = None
    """The maximum amount of GPUs that the queue can use, or None for unlimited."""
    allocated: int = 0
    """The GPUs that pods of the queue use, in thousandths, from the status of the queue."""
    allocated_fixed: int = 0
    """The part of `allocated` that belongs to non-preemptible pods."""
    cpu: Share = NO_SHARE
    """The bounds and the usage of CPUs."""
    memory: Share = NO_SHARE
    """The bounds and the usage of memory."""
    weight: float = 1.0
    """The weight by which GPUs beyond all quotas are divided."""
    priority: int = 100
    """The priority. Queues with a higher priority get capacity beyond the quotas first."""
    created: float | None = None
    """When the queue was created, in seconds since 1970, or None if that is not known."""
    pool: str = ""
    """The node pool whose scheduler uses the queue, or "" for the nodes without a pool."""
    unset: tuple[str, ...] = ()
    """The bounds of GPUs (`quota`, `limit`) that the queue does not set. KAI reads them as 0."""
    reclaim_after: float | None = None
    """The seconds for which other queues can't reclaim a started gang, or None if not set."""
    preempt_after: float | None = None
    """The seconds for which gangs of this queue can't preempt a started one, or None."""

    @property
    def shares(self) -> Mapping[str, Share]:
        """The bounds and the usage of each resource, in the order in which KAI checks them."""
        gpus = Share(
            self.quota, self.limit, self.allocated, self.allocated_fixed, self.weight, self.unset
        )
        return {GPU: gpus, "cpu": self.cpu, "memory": self.memory}


def read_queue(obj: JsonMap) -> Queue:
    """Read a queue of KAI."""
    metadata = map_at(obj, "metadata")
    spec = map_at(obj, "spec")
    gpus = _share(obj, "gpu", 1000)
    return Queue(
        name=read_name(obj),
        parent=text_at(spec, "parentQueue"),
        quota=gpus.quota,
        limit=gpus.limit,
        allocated=gpus.allocated,
        allocated_fixed=gpus.allocated_fixed,
        weight=gpus.weight,
        unset=gpus.unset,
        cpu=_share(obj, "cpu", 1),
        memory=_share(obj, "memory", MEGABYTE),
        priority=int_of(spec.get("priority"), 100),
        created=seconds_since_1970(metadata.get("creationTimestamp")),
        pool=text_at(map_at(metadata, "labels"), NODE_POOL),
        reclaim_after=signed_duration(spec.get("reclaimMinRuntime")),
        preempt_after=signed_duration(spec.get("preemptMinRuntime")),
    )


def read_queue_names(obj: JsonMap) -> frozenset[str]:
    """Return the names of Queues in our own QueueNames object."""
    return frozenset(map_at(obj, "spec", "names"))


def _share(queue: JsonMap, name: str, unit: int) -> Share:
    """Return the share of a resource. One unit of its bounds is `unit` thousandths.

    KAI reads a bound that is not set as 0, and only -1 as unlimited: `getQueueQuota` in
    `pkg/scheduler/api/queue_info/queue_info.go`, and `isOverLimit` in
    `pkg/scheduler/plugins/proportion/capacity_policy/max_allowed_check.go`.
    """
    bounds = map_at(queue, "spec", "resources", name)
    status = map_at(queue, "status")
    allocated = amounts(status.get("allocated"))
    fixed = amounts(status.get("allocatedNonPreemptible"))
    names = _GPU if name == "gpu" else (name,)
    share = Share(
        quota=_bound(bounds.get("quota"), unit),
        limit=_bound(bounds.get("limit"), unit),
        allocated=next((allocated[each] for each in names if each in allocated), 0),
        allocated_fixed=next((fixed[each] for each in names if each in fixed), 0),
        weight=max(0, _number(bounds.get("overQuotaWeight"))),
        unset=unset_bounds(bounds),
    )
    return NO_SHARE if share == NO_SHARE else share


def unset_bounds(bounds: JsonMap) -> tuple[str, ...]:
    """Return the names of unset bounds (`quota`, `limit`) of one resource."""
    return tuple(name for name in ("quota", "limit") if bounds.get(name) is None)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return 0
    return max(-_MOST_BOUND, min(value, _MOST_BOUND))


def _bound(value: Any, unit: int) -> int | None:
    """Return a bound in thousandths, or None for -1, which means unlimited."""
    number = _number(value)
    if number == UNLIMITED:
        return None
    return round(max(-1, min(number * unit, MOST_THOUSANDTHS)))
