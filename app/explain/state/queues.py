"""Look up KAI's queues and their parents, and the priority and preemptibility of PodGroups.

See `pkg/common/podgroup` of KAI.
"""

from collections.abc import Iterator

from app.explain.state.index import Index
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kai.queue import Queue
from app.facts.labels import NODE_POOL

SEMI_PREEMPTIBLE = "semi-preemptible"
"""A value of spec.preemptibility: KAI protects the minimum, and may evict the other pods."""
NOT_PREEMPTIBLE = 100
"""A PodGroup with at least this priority is not preemptible, unless spec.preemptibility is set."""
DEFAULT_PRIORITY = 50
"""The priority of a PodGroup whose PriorityClass does not exist, if no class is the default."""

INNER = "has child queues, and KAI places workloads only in queues without children"
"""The text that says why workloads cannot use a parent queue."""


def chain(index: Index, name: str, pool: str | None = None) -> Iterator[Queue]:
    """Yield a queue and its parents. In a cycle, yield each queue once.

    End before the first queue that does not exist or is outside the node pool `pool`, by default
    the queue's own pool. The scheduler of a pool lists only queues of its pool (`ListQueues` in
    `pkg/scheduler/cache/cluster_info/data_lister/kubernetes_lister.go` of KAI).
    """
    seen = {""}
    queue = index.queues.get(name)
    while queue and queue.name not in seen and pool in (None, queue.pool):
        pool = queue.pool
        seen.add(queue.name)
        yield queue
        queue = index.queues.get(queue.parent)


def unusable_because(index: Index, name: str, pool: str | None = None) -> str:
    """Return why the scheduler of a node pool can't use a queue, or "" if it can.

    If `pool` is None, it is the pool of the queue itself.
    """
    queue = index.queues.get(name)
    if not queue or not name:  # objects in files may lack a name
        return "does not exist"
    if pool is not None and queue.pool != pool:
        return f"{_has_label(queue)}, so it does not exist for the scheduler {_of_pool(pool)}"
    above = [*chain(index, name)][-1].parent
    parent = index.queues.get(above) if above else None
    if parent and parent.pool == queue.pool:
        below = "itself" if above == name else f"{above}, which is below itself"
        return f"is below {below}: KAI hangs, and places nothing at all"
    if parent:
        return f"is below {above}, which {_has_label(parent)}, so KAI does not use {name}"
    if above:
        return f"is below {above}, which does not exist, so KAI does not use {name}"
    if any(other.parent == name and other.pool == queue.pool for other in index.facts.queues):
        return INNER
    return ""


def _has_label(queue: Queue) -> str:
    return f"has the label {NODE_POOL}={queue.pool}" if queue.pool else f"has no label {NODE_POOL}"


def _of_pool(pool: str) -> str:
    return f"of node pool {pool}" if pool else "of the nodes without a node pool"


def group_is_preemptible(index: Index, group: KaiPodGroup) -> bool:
    """Return whether KAI may evict every pod of a PodGroup for other gangs."""
    if group.preemptibility in ("preemptible", "non-preemptible", SEMI_PREEMPTIBLE):
        return group.preemptibility == "preemptible"
    return priority_of(index, group.priority_class) < NOT_PREEMPTIBLE


def priority_of(index: Index, name: str) -> int:
    """Return the value of a PriorityClass, or of the default class if `name` does not exist.

    If there is no default class either, return DEFAULT_PRIORITY.
    """
    known = index.priorities.get(name)
    if known:
        return known.value
    defaults = [(each.name, each.value) for each in index.facts.priorities if each.is_default]
    return min(defaults)[1] if defaults else DEFAULT_PRIORITY
