"""KAI's queues."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.facts.labels import NODE_POOL
from app.facts.named import Named
from app.facts.quantity import amounts
from app.objects.shape import map_at, text_at

_GPU = ("nvidia.com/gpu", "gpu")


@dataclass(frozen=True, slots=True)
class Queue(Named):
    """A queue, with GPUs in thousandths. None is no limit; a quota of None is no promise."""

    kind = "Queue"
    name: str = ""
    parent: str = ""
    quota: int | None = None
    limit: int | None = None
    allocated: int = 0
    allocated_fixed: int = 0
    pool: str = ""


def read_queue(obj: Mapping[str, Any]) -> Queue:
    metadata = map_at(obj, "metadata")
    spec = map_at(obj, "spec")
    gpus = map_at(spec, "resources", "gpu")
    status = map_at(obj, "status")
    return Queue(
        name=text_at(metadata, "name"),
        parent=text_at(spec, "parentQueue"),
        quota=_bound(gpus.get("quota")),
        limit=_bound(gpus.get("limit")),
        allocated=_gpus(status.get("allocated")),
        allocated_fixed=_gpus(status.get("allocatedNonPreemptible")),
        pool=text_at(map_at(metadata, "labels"), NODE_POOL),
    )


def _bound(value: Any) -> int | None:
    """Return GPUs in thousandths, or None for -1, which is no bound, and for nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    return round(value * 1000)


def _gpus(quantities: Any) -> int:
    values = amounts(quantities)
    return next((values[name] for name in _GPU if name in values), 0)
