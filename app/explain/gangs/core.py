"""Separate the core of a semi-preemptible PodGroup from its surplus.

KAI protects the core, and may evict the surplus: the pods beyond the minimums.

Source: `pkg/scheduler/api/podgroup_info/core_info.go` of KAI at 005e7a72, of September 2026.
"""

from collections.abc import Iterator, Sequence

from app.explain.gangs.assembly import unit_of_pod_group
from app.explain.gangs.gang import Gang, Member, Unit
from app.explain.state.index import Index
from app.explain.state.queues import SEMI_PREEMPTIBLE, group_is_preemptible
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kubernetes.pod import Pod


def asks_for_quota(gang: Gang) -> bool:
    """Return whether the pods that KAI places next must fit in the quota of their queue.

    The pods of a semi-preemptible gang must fit until its minimum is placed.
    """
    group = gang.pod_group
    if not group or group_is_preemptible(gang.index, group):
        return False
    return group.preemptibility != SEMI_PREEMPTIBLE or not gang.whole.is_satisfied


def surplus_of(index: Index, group: KaiPodGroup) -> Sequence[Pod]:
    """Return the placed pods of a semi-preemptible PodGroup that KAI may evict.

    These are the pods beyond the minimum of each part, and all pods of parts beyond `minSubGroup`.
    """
    pods = index.pods_of_group.get(group.key, ())
    whole = unit_of_pod_group(index, group, tuple(pod for pod in pods if pod.is_alive))
    core = {pod.key for pod in _core_of(whole)}
    return [pod for pod in whole.placed if pod.key not in core]


def _core_of(part: Unit | Member) -> Iterator[Pod]:
    if isinstance(part, Member):
        oldest = sorted(part.placed, key=lambda pod: pod.created or 0.0)
        yield from oldest[: part.minimum]
        return
    # The names decide, so that the core stays the same while pods come and go.
    in_order = sorted(part.own, key=lambda own: (not own.is_satisfied, own.name))
    for own in in_order[: part.needed]:
        yield from _core_of(own)
