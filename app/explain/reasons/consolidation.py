"""Find running pods that KAI may move to other nodes to make room for a gang.

See `pkg/scheduler/actions/consolidation` of KAI. KAI moves pods only for a preemptible gang, and
only if all moved pods get another place. It moves at most 16 PodGroups.

KAI tries many sets of pods. Here, only a few sets are tried: the PodGroups on the nodes from which
the fewest pods must be moved. For gangs with a level, recorded cycles show that KAI rarely finds a
set, so none is tried. While KAI places other gangs, they may take the room.
"""

import itertools
from collections.abc import Iterator, Sequence
from operator import itemgetter

from app.explain.gangs.assembly import gang_of_pod_group
from app.explain.gangs.gang import Gang, whole_demand
from app.explain.placing.demand import Demand
from app.explain.placing.placements import Assumption
from app.explain.queue_order.cycle import line_of
from app.explain.state.amounts import is_device, resources_of
from app.explain.state.index import Index
from app.explain.state.queues import group_is_preemptible
from app.facts.identity import Key
from app.facts.kai.podgroup import KaiPodGroup

_MOST_GROUPS = 16
"""The maximum number of PodGroups that KAI moves for a gang, by default."""
_MOST_PODS = 64
"""The maximum number of moved pods that are tried."""
_MOST_TRIED = 6
"""The maximum number of sets of PodGroups that are tried."""


def moved_for(gang: Gang) -> Sequence[KaiPodGroup]:
    """Return PodGroups that KAI may move to make room for a gang, or () if none are found."""
    if not _may_move_others(gang):
        return ()
    # Equal gangs share placements, but a gang can't be moved for itself.
    of = (gang.placements, gang.whole if gang.placed else None)
    return gang.index.one_of_few_of("moved", of, lambda: _found(gang))


def _may_move_others(gang: Gang) -> bool:
    """Return whether KAI tries to move pods for a gang, and no other gang takes room before."""
    group = gang.pod_group
    line = line_of(gang.index)
    turn = line.get(gang.ref)
    if not group or not turn or turn.full or gang.demand.constrained:
        return False
    if not group_is_preemptible(gang.index, group):
        return False
    if any(shard.pool == group.pool and not shard.consolidates for shard in gang.facts.shards):
        return False
    since = max(group.created or 0.0, group.evicted or 0.0)
    if since + group.delay > gang.facts.now:
        return False
    return not any(other.used for other in line.values() if other.pool == group.pool)


def _found(gang: Gang) -> Sequence[KaiPodGroup]:
    """Return PodGroups whose move makes room for a gang, as few of a tried set as possible."""
    tried = itertools.islice(_sets(gang), _MOST_TRIED)
    needed = next((list(groups) for groups in tried if _fits_after(gang, groups)), [])
    for group in needed[:_MOST_TRIED]:
        others = [other for other in needed if other is not group]
        if _fits_after(gang, others):
            needed = others
    return needed


def _sets(gang: Gang) -> Iterator[Sequence[KaiPodGroup]]:
    """Yield sets of PodGroups to try: of single nodes, or of more and more nodes."""
    index = gang.index
    domains = gang.placements.domains
    fit = gang.placements.fit().values()
    shapes = [shape for shape, _ in gang.demand.shapes]
    # Without enough of this resource, in total and on a node, it is not worth a try.
    resource = next(filter(is_device, resources_of(shapes)), "cpu")
    asks = max(dict(shape.requests).get(resource, 0) for shape in shapes)
    free = sum(have for [have] in index.free((resource,)))
    if free < gang.demand.asks(resource) and not index.shares:
        return

    ranked = []
    for position in domains.everywhere.nodes:
        node = domains.nodes[position]
        groups = _movable_on(index, node.name, gang)
        keys = {group.key for group in groups}
        staying = sum(
            dict(pod.shape.requests).get(resource, 0)
            for pod in index.pods_on.get(node.name, ())
            if (pod.namespace, pod.group) not in keys and not pod.reserves
        )
        is_open = any(takes[position] for takes in fit)
        if groups and is_open and node.allocatable.get(resource, 0) - staying >= asks:
            pods = sum(len(index.pods_of_group[key]) for key in keys)
            ranked.append((pods, node.name, groups))

    chosen: dict[Key, KaiPodGroup] = {}
    for _, _, groups in sorted(ranked, key=itemgetter(0, 1)):
        of_node = {group.key: group for group in groups}
        chosen = of_node if gang.demand.count == 1 else {**chosen, **of_node}
        pods = sum(len(index.pods_of_group[key]) for key in chosen)
        if len(chosen) <= _MOST_GROUPS and pods <= _MOST_PODS:
            yield list(chosen.values())


def _movable_on(index: Index, node: str, gang: Gang) -> list[KaiPodGroup]:
    """Return the PodGroups with pods on a node that KAI may move for a gang."""
    keys = dict.fromkeys((pod.namespace, pod.group) for pod in index.pods_on.get(node, ()))
    groups = filter(None, map(index.pod_groups.get, keys))
    own = gang.pod_group.key if gang.pod_group else None
    return [group for group in groups if group.key != own and _is_movable(index, group, gang.pool)]


def _is_movable(index: Index, group: KaiPodGroup, pool: str) -> bool:
    """Return whether KAI may move the pods of a PodGroup in a node pool, as far as is checked.

    Pods that are tied to their nodes or to other pods are left where they are.
    """

    def look() -> bool:
        pods = [pod for pod in index.pods_of_group.get(group.key, ()) if pod.is_alive]
        return group_is_preemptible(index, group) and not any(
            pod.claims or pod.volumes or pod.shape.unchecked or index.is_releasing(pod)
            for pod in pods
        )

    return group.pool == pool and index.remembered(("is movable", group.key), look)


def _fits_after(gang: Gang, groups: Sequence[KaiPodGroup]) -> bool:
    """Return whether a gang fits if PodGroups are moved, and these fit again after it."""
    index = gang.index
    moved = [gang_of_pod_group(index, group) for group in groups]
    gone = frozenset(pod.key for own in moved for pod in own.placed)
    if not gone or not gang.placements.under(Assumption(gone=gone)).fits:
        return False
    again = (whole_demand(own.whole, lambda pod: bool(pod.node)) for own in moved)
    together = Demand("", "", parts=(gang.demand, *again))
    return gang.placements_of(together).under(Assumption(gone=gone)).fits
