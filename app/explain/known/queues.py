"""The queues of KAI, and the standing of PodGroups in them.

Whether KAI evicts a PodGroup is told by itself, or by the value of its PriorityClass. See
`pkg/common/podgroup` of KAI.
"""

from collections.abc import Iterator

from app.explain.known.index import Index
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kai.queue import Queue

SEMI_PREEMPTIBLE = "semi-preemptible"
"""Preemptible but for the minimum, which is bound to the quota of the queue."""
NOT_PREEMPTIBLE = 100
"""From this value on, KAI evicts a PodGroup for no other, unless it says otherwise."""
DEFAULT_PRIORITY = 50
"""The value of a PodGroup whose PriorityClass doesn't exist, if no class is the default."""


def chain(index: Index, name: str) -> Iterator[Queue]:
    """Yield a queue and those above it, up to the root; a cycle ends where it closes."""
    seen = {""}
    while name in index.queues and name not in seen:
        seen.add(name)
        yield index.queues[name]
        name = index.queues[name].parent


def unusable_because(index: Index, name: str) -> str:
    """Return why KAI places nothing in a queue; "" if it does."""
    queues = list(chain(index, name))
    if not queues:
        return "does not exist"
    above = queues[-1].parent
    if above:
        hangs = "which is below itself: KAI hangs, and places nothing at all"
        ignores = "which does not exist: KAI ignores it"
        return f"is below {above}, {hangs if above in index.queues else ignores}"
    if any(other.parent == name for other in index.facts.queues):
        return "has queues below it, and KAI places nothing in such a queue"
    return ""


def group_is_preemptible(index: Index, group: KaiPodGroup) -> bool:
    """Return whether KAI evicts a PodGroup for others, all of it."""
    if group.preemptibility in ("preemptible", "non-preemptible", SEMI_PREEMPTIBLE):
        return group.preemptibility == "preemptible"
    return priority_of(index, group.priority_class) < NOT_PREEMPTIBLE


def priority_of(index: Index, name: str) -> int:
    """Return the value of a PriorityClass, or of the default one if it doesn't exist."""
    known = index.priorities.get(name)
    if known:
        return known.value
    defaults = [(each.name, each.value) for each in index.facts.priorities if each.is_default]
    return min(defaults)[1] if defaults else DEFAULT_PRIORITY
