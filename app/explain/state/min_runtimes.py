"""Compute how long KAI still spares a started gang: by the minimum runtimes of queues.

See `pkg/scheduler/plugins/minruntime` of KAI. A gang that runs with more pods than its minimum may
lose the pods beyond this minimum at any time.
"""

from collections.abc import Sequence

from app.explain.state.index import Index
from app.explain.state.queues import chain
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kai.queue import Queue


def spared_from_preemption(index: Index, group: KaiPodGroup) -> float:
    """Return for how many more seconds gangs of the same queue can't preempt a gang, or 0.

    The minimum runtime is that of its queue, or else of the nearest ancestor of the queue that has
    one, or else of the pool's SchedulingShard.
    """
    queues = chain(index, group.queue, group.pool)
    own = (queue.preempt_after for queue in queues if queue.preempt_after is not None)
    of_shard = (shard.preempt_after for shard in index.facts.shards if shard.pool == group.pool)
    return _left(index, group, next(own, next(of_shard, 0.0)))


def spared_from_reclaim(index: Index, group: KaiPodGroup, queue: str) -> float:
    """Return for how many more seconds gangs of `queue` can't reclaim the room of a gang, or 0.

    Of the gang's queue and its ancestors, the broadest that does not contain `queue` decides. If it
    has no minimum runtime, that of its nearest ancestor that has one counts, or else that of the
    pool's SchedulingShard.
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
    """Return a queue and its ancestors in a pool, broadest first."""
    return [*chain(index, queue, pool)][::-1]


def _left(index: Index, group: KaiPodGroup, after: float) -> float:
    """Return the seconds until a gang has run for `after` seconds, or 0 if not known or over."""
    if group.started is None or not index.facts.now:
        return 0.0
    return max(0.0, group.started + after - index.facts.now)
