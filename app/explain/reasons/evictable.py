"""Whom KAI evicts for a gang: as its PodGroup says, or by the value of its PriorityClass.

See `pkg/scheduler/actions/preempt` and `pkg/common/podgroup` of KAI.
"""

from collections.abc import Iterator

from app.explain.known.belongings import key_of
from app.explain.known.index import Index
from app.explain.placing.placements import Assumption
from app.explain.reasons.room import Obstacle
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kubernetes.pod import Pod
from app.facts.named import Key

NOT_PREEMPTIBLE = 100
"""From this value on, KAI evicts a PodGroup for no other, unless it says otherwise."""
DEFAULT_PRIORITY = 50
"""The value of a PodGroup whose PriorityClass doesn't exist, if no class is the default."""


def evicted_for(obstacle: Obstacle) -> list[Pod]:
    """Return the pods in the same queue that KAI may evict for the gang, if that makes room for it.

    Only pods on nodes that are open to those that wait are looked at, and none if PriorityClasses
    are not known.
    """
    gang = obstacle.gang
    group = gang.pod_group
    facts = gang.facts
    if not group or "priorities" in facts.unseen.keys() | facts.skipped:
        return []

    losing = _losing_against(gang.index, group)
    if not losing:
        return []

    victims = [
        pod
        for pod in _pods_in_the_way(obstacle)
        if (pod.namespace, pod.group) in losing and pod not in gang.placed
    ]
    gone = frozenset(map(key_of, victims))
    return victims if victims and obstacle.placements.under(Assumption(gone=gone)).fits else []


def _losing_against(index: Index, group: KaiPodGroup) -> set[Key]:
    """Return the PodGroups in the same queue that KAI evicts for `group`."""
    own = priority_of(index, group.priority_class)
    return {
        other.key
        for other in index.facts.pod_groups
        if other.queue == group.queue
        and priority_of(index, other.priority_class) < own
        and group_is_preemptible(index, other)
    }


def _pods_in_the_way(obstacle: Obstacle) -> Iterator[Pod]:
    """Yield the pods on nodes that are open to those that wait."""
    index = obstacle.gang.index
    fits = obstacle.fits
    for position, node in enumerate(index.nodes):
        if any(fit[position] for fit in fits):
            yield from index.pods_on.get(node.name, ())


def group_is_preemptible(index: Index, group: KaiPodGroup) -> bool:
    """Return whether KAI evicts a PodGroup for others."""
    if group.preemptibility in ("preemptible", "non-preemptible"):
        return group.preemptibility == "preemptible"
    return priority_of(index, group.priority_class) < NOT_PREEMPTIBLE


def priority_of(index: Index, name: str) -> int:
    """Return the value of a PriorityClass, or of the default one if it doesn't exist."""
    known = index.priorities.get(name)
    if known:
        return known.value
    defaults = [(each.name, each.value) for each in index.facts.priorities if each.is_default]
    return min(defaults)[1] if defaults else DEFAULT_PRIORITY
