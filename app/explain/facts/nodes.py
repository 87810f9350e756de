"""Nodes. What decides on placement is kept; other annotations and images are not."""

import sys
from dataclasses import dataclass
from functools import lru_cache

from app.explain.facts.common import Amounts, Labels, Named, Object
from app.explain.facts.selectors import Taint, taints
from app.explain.facts.values import amounts, at, text
from app.objects.shape import maps_of


@dataclass(frozen=True, slots=True)
class Node(Named):
    kind = "Node"
    name: str
    labels: Labels
    allocatable: Amounts
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True


def node(obj: Object) -> Node:
    metadata, spec, status = at(obj, "metadata"), at(obj, "spec"), at(obj, "status")
    ready = [item.get("status") == "True" for item in maps_of(status.get("conditions")) if item.get("type") == "Ready"]
    return Node(
        name=sys.intern(text(metadata, "name")),
        labels=_interned(at(metadata, "labels")),
        allocatable=_allocatable(tuple(sorted(amounts(status.get("allocatable")).items()))),
        taints=taints(spec),
        unschedulable=spec.get("unschedulable") is True,
        ready=all(ready),
    )


def _interned(labels: Labels) -> Labels:
    """With one object for equal values; YAML files may have values that are no strings."""
    try:
        return dict(zip(labels, map(sys.intern, labels.values()), strict=True))
    except TypeError:
        return {key: sys.intern(str(value)) for key, value in labels.items()}


@lru_cache(maxsize=4096)
def _allocatable(pairs: tuple[tuple[str, int], ...]) -> Amounts:
    """Nodes of one kind share one map."""
    return dict(pairs)
