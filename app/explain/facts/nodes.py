"""Nodes. What decides on placement is kept; other annotations and images are not."""

import sys
from dataclasses import dataclass
from functools import lru_cache

from app.explain.facts.common import Amounts, Labels, Named, Object
from app.explain.facts.selectors import Taint, taints
from app.explain.facts.values import amounts, at, items, text


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
    ready = [item.get("status") == "True" for item in items(status.get("conditions")) if item.get("type") == "Ready"]
    return Node(
        name=sys.intern(text(metadata, "name")),
        labels={key: sys.intern(str(value)) for key, value in at(metadata, "labels").items()},
        allocatable=_allocatable(tuple(sorted(amounts(status.get("allocatable")).items()))),
        taints=taints(spec),
        unschedulable=spec.get("unschedulable") is True,
        ready=all(ready),
    )


@lru_cache(maxsize=4096)
def _allocatable(pairs: tuple[tuple[str, int], ...]) -> Amounts:
    """Nodes of one kind share one map."""
    return dict(pairs)
