"""What a gang asks of its queue and of those above it, and whether they have it to give.

Also whom KAI evicts. See `pkg/scheduler/actions/preempt` of KAI.
"""

from collections.abc import Callable

from msgspec.structs import replace

from app.base.groups import by_key
from app.base.value import Value
from app.explain.gangs.gang import Gang
from app.explain.known.amounts import gpus_of, requests
from app.explain.known.index import Index
from app.explain.known.queues import (
    SEMI_PREEMPTIBLE,
    chain,
    group_is_preemptible,
    priority_of,
)
from app.explain.reasons.words import amount, plain
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kai.queue import Queue, Share
from app.facts.kubernetes.pod import Pod
from app.facts.named import Key


class Excess(Value):
    """A bound of a queue that a gang would exceed, in thousandths of a resource."""

    queue: Queue
    resource: str
    bound: int
    used: int
    asked: int

    @property
    def words(self) -> str:
        """`8 GPUs, 2 used, 16 asked`."""
        used = _number(self.resource, self.used)
        asked = _number(self.resource, self.asked)
        return f"{amount(self.resource, self.bound)}, {used} used, {asked} asked"


def _number(resource: str, thousandths: int) -> str:
    return amount(resource, thousandths) if resource == "memory" else plain(thousandths)


def over_limit(gang: Gang, name: str) -> Excess | None:
    """Return the first limit that the gang would exceed, in a queue or in one above it.

    None if KAI keeps within the limits by evicting others of the gang's own queue.
    """
    first = _exceeded(gang, name, lambda _, share: (share.limit, share.allocated))
    group = gang.pod_group
    if not first or not group:
        return first

    evicted = requests(losing_against(gang.index, group).values())

    def once_evicted(resource: str, share: Share) -> tuple[int | None, int]:
        return share.limit, share.allocated - evicted.get(resource, 0)

    over = _exceeded(gang, name, once_evicted)
    return over and replace(over, used=over.used + evicted.get(over.resource, 0))


def over_quota(gang: Gang, name: str) -> Excess | None:
    """Return the first quota that the gang would exceed if it is not preemptible."""
    return _exceeded(gang, name, lambda _, share: (share.quota, share.allocated_fixed))


def _exceeded(
    gang: Gang,
    name: str,
    bound_of: Callable[[str, Share], tuple[int | None, int]],
) -> Excess | None:
    """Return the first bound that the gang would exceed; `bound_of` gives it, and what is used."""
    for queue in chain(gang.index, name):
        for resource, share in queue.shares.items():
            bound, used = bound_of(resource, share)
            asked = gang.demand.asks(resource)
            if bound is not None and asked and used + asked > bound:
                return Excess(queue, resource, bound, used, asked)
    return None


def use_words(index: Index, queue: Queue) -> str:
    """`used 16`, as the status of a queue says, unless pods show that it lacks them."""
    if queue.allocated or not _has_placed(index, queue.name):
        return f"used {plain(queue.allocated)}"
    return "use unknown"


def _has_placed(index: Index, name: str) -> bool:
    """Return whether a pod with GPUs is placed in a queue."""

    def look() -> bool:
        groups = (group.key for group in index.facts.pod_groups if group.queue == name)
        pods = (pod for group in groups for pod in index.pods_of_group.get(group, ()))
        return any(pod.node and gpus_of(dict(pod.shape.requests)) for pod in pods)

    return index.remembered(("placed in", name), look, of=("pod_groups", "pods"))


def losing_against(index: Index, group: KaiPodGroup) -> dict[Key, Pod]:
    """Return the placed pods in the same queue that KAI evicts for `group`.

    There are none if the PriorityClasses are not known.
    """
    if "priorities" in index.facts.unseen.keys() | index.facts.skipped:
        return {}
    own = priority_of(index, group.priority_class)
    return {
        pod.key: pod
        for other in index.facts.pod_groups
        if other.queue == group.queue and priority_of(index, other.priority_class) < own
        for pod in _preemptible_pods(index, other)
    }


def _preemptible_pods(index: Index, group: KaiPodGroup) -> list[Pod]:
    """Return the placed pods of a PodGroup that KAI evicts for others.

    Of a semi-preemptible one, these are the last of each part beyond its minimum. Whole SubGroups
    beyond `minSubGroup`, which KAI evicts too, are left out.
    """
    placed = [pod for pod in index.pods_of_group.get(group.key, ()) if pod.node]
    if group.preemptibility != SEMI_PREEMPTIBLE:
        return placed if group_is_preemptible(index, group) else []

    minima = {sub.name: sub.minimum for sub in group.subgroups}
    placed.sort(key=lambda pod: pod.created or 0.0)
    parts = by_key((pod.subgroup, pod) for pod in placed)
    return [pod for name, pods in parts.items() for pod in pods[minima.get(name, group.minimum) :]]
