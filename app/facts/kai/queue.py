"""KAI's queues."""

import math
from collections.abc import Mapping
from typing import Any

from app.base.value import Value
from app.facts.kubernetes.gpus import GPU
from app.facts.named import ClusterScoped, read_name
from app.facts.quantity import MOST_THOUSANDTHS, amounts
from app.objects.shape import JsonMap, int_of, map_at, text_at
from app.objects.time import seconds_since_1970

_GPU = (GPU, "gpu")


MEGABYTE = 1_000_000 * 1000
"""In thousandths of a byte: queues have memory in megabytes."""


class Share(Value):
    """What a queue may have of a resource and has, in thousandths. None is no bound.

    What is beyond all quotas is divided between queues by their `weight`.
    """

    quota: int | None = None
    limit: int | None = None
    allocated: int = 0
    allocated_fixed: int = 0
    weight: float = 1.0


NO_SHARE = Share()


class Queue(ClusterScoped):
    """A queue, with GPUs in thousandths. None is no limit; a quota of None is no promise.

    `weight` is that of its share of GPUs.
    """

    kind = "Queue"
    parent: str = ""
    quota: int | None = None
    limit: int | None = None
    allocated: int = 0
    allocated_fixed: int = 0
    cpu: Share = NO_SHARE
    memory: Share = NO_SHARE
    weight: float = 1.0
    priority: int = 100
    created: float | None = None

    @property
    def shares(self) -> Mapping[str, Share]:
        """By resource, in the order in which they are looked at."""
        gpus = Share(self.quota, self.limit, self.allocated, self.allocated_fixed, self.weight)
        return {GPU: gpus, "cpu": self.cpu, "memory": self.memory}


def read_queue(obj: JsonMap) -> Queue:
    metadata = map_at(obj, "metadata")
    spec = map_at(obj, "spec")
    resources = map_at(spec, "resources")
    gpus = map_at(resources, "gpu")
    status = map_at(obj, "status")
    return Queue(
        name=read_name(obj),
        parent=text_at(spec, "parentQueue"),
        quota=_bound(gpus.get("quota"), 1000),
        limit=_bound(gpus.get("limit"), 1000),
        allocated=_gpus(status.get("allocated")),
        allocated_fixed=_gpus(status.get("allocatedNonPreemptible")),
        cpu=_share(resources, status, "cpu", 1),
        memory=_share(resources, status, "memory", MEGABYTE),
        weight=_weight(gpus),
        priority=int_of(spec.get("priority"), 100),
        created=seconds_since_1970(metadata.get("creationTimestamp")),
    )


def read_queue_names(obj: JsonMap) -> frozenset[str]:
    """Return the names of Queues that our own object lists."""
    return frozenset(map_at(obj, "spec", "names"))


def _share(resources: JsonMap, status: JsonMap, name: str, unit: int) -> Share:
    """Return the share of a resource whose bounds are in a unit of this many thousandths."""
    bounds = map_at(resources, name)
    share = Share(
        _bound(bounds.get("quota"), unit),
        _bound(bounds.get("limit"), unit),
        amounts(status.get("allocated")).get(name, 0),
        amounts(status.get("allocatedNonPreemptible")).get(name, 0),
        _weight(bounds),
    )
    return NO_SHARE if share == NO_SHARE else share


def _weight(bounds: JsonMap) -> float:
    """Return the weight of bounds, which is 0 if it is not set: only what is promised is its share.

    It is 1 if there are no bounds at all.
    """
    value = _bound(bounds.get("overQuotaWeight"), 1000)
    return (value or 0) / 1000 if bounds else 1.0


def _bound(value: Any, unit: int) -> int | None:
    """Return a bound in thousandths, or None for -1, which is no bound, and for nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value < math.inf:
        return None
    return round(min(value * unit, MOST_THOUSANDTHS))


def _gpus(quantities: Any) -> int:
    values = amounts(quantities)
    return next((values[name] for name in _GPU if name in values), 0)
