"""How long KAI spares gangs that it has started: the minimum runtimes of queues.

See `pkg/scheduler/plugins/minruntime` of KAI. A gang that runs with more pods than its minimum may
lose the pods beyond it at any time.
"""

from collections.abc import Sequence

from app.explain.state.index import Index
from app.explain.state.queues import chain
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kai.queue import Queue


def spared_from_preemption(index: Index, group: KaiPodGroup) -> float:
    """Return the seconds for which gangs of the same queue can't preempt a gang, or 0."""
    queues = chain(index, group.queue, group.pool)
    own = (queue.preempt_after for queue in queues if queue.preempt_after is not None)
    of_shard = (shard.preempt_after for shard in index.facts.shards if shard.pool == group.pool)
    return _left(index, group, next(own, next(of_shard, 0.0)))


def spared_from_reclaim(index: Index, group: KaiPodGroup, queue: str) -> float:
    """Return the seconds for which gangs of `queue` can't reclaim the room of a gang, or 0.

    The minimum runtime is that of the ancestor of the gang's queue right below the closest common
    ancestor, or of the queues above it. Between two top-level queues, only their own counts.
    """
    path = _from_top(index, group.queue, group.pool)
    common = 0
    for own, other in zip(path, _from_top(index, queue, group.pool), strict=False):
        if own is not other:
            break
        common += 1
    queues = path[: common + 1][::-1]
    own_after = (each.reclaim_after for each in queues if each.reclaim_after is not None)
    of_shard = (shard.reclaim_after for shard in index.facts.shards if shard.pool == group.pool)
    return _left(index, group, next(own_after, next(of_shard, 0.0)))


def _from_top(index: Index, queue: str, pool: str) -> Sequence[Queue]:
    return [*chain(index, queue, pool)][::-1]


def _left(index: Index, group: KaiPodGroup, after: float) -> float:
    if group.started is None or not index.facts.now:
        return 0.0
    return max(0.0, group.started + after - index.facts.now)
