"""Nodes. What decides on placement is kept; other annotations and images are not."""

import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from app.explain.facts.common import Amounts, Labels, Named, interned
from app.explain.facts.fields import read
from app.explain.facts.selectors import Taint, taints
from app.facts.quantity import amounts
from app.objects.shape import map_of, maps_of


def _labels(labels: Any) -> Labels:
    """With one object for equal values; YAML files may have values that are no strings."""
    labels = map_of(labels)
    try:
        return dict(zip(labels, map(sys.intern, labels.values()), strict=True))
    except TypeError:
        return {key: sys.intern(str(value)) for key, value in labels.items()}


@lru_cache(maxsize=4096)
def _shared(pairs: tuple[tuple[str, int], ...]) -> Amounts:
    """Nodes of one kind share one map."""
    return dict(pairs)


def _allocatable(quantities: Any) -> Amounts:
    return _shared(tuple(sorted(amounts(quantities).items())))


def _is_ready(conditions: Any) -> bool:
    return all(
        item.get("status") == "True" for item in maps_of(conditions) if item.get("type") == "Ready"
    )


@dataclass(frozen=True, slots=True)
class Node(Named):
    kind = "Node"
    name: str = read("metadata", "name", of=interned)
    labels: Labels = read("metadata", "labels", of=_labels)
    allocatable: Amounts = read(
        "status", "allocatable", of=lambda value: _shared(tuple(sorted(amounts(value).items())))
    )
    taints: tuple[Taint, ...] = read("spec", "taints", of=taints)
    unschedulable: bool = read("spec", "unschedulable", of=lambda value: value is True)
    ready: bool = read("status", "conditions", of=_is_ready)
