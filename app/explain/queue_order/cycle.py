"""Predict which gangs KAI places in its next cycle, one gang after the other.

See `pkg/scheduler/actions/allocate/allocate.go` of KAI. A gang without a place reserves nothing,
and KAI still tries the gangs behind it. Once the minimum of a gang is placed, its further pods are
placed one by one, in turn with other gangs. A gang that fits only once terminating pods are gone
starts in a later cycle, and takes nothing that is free now.

KAI evicts pods only after it has tried all gangs. `Turn.above` has the queues from which it may
then reclaim.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat

from msgspec.structs import replace

from app.base.groups import by_key
from app.base.value import Value
from app.explain.gangs.assembly import gang_of, gang_of_pod_group
from app.explain.gangs.gang import Gang, Member, Unit
from app.explain.placing.demand import Demand, Ground
from app.explain.placing.packer import AS_KAI, Packer
from app.explain.queue_order.queues import Queues, Waiter, waiter
from app.explain.queue_order.shares import (
    NOTHING,
    Above,
    Quantities,
    added,
)
from app.explain.queue_order.usage import received, total_of
from app.explain.state.index import Index
from app.facts.identity import Ref
from app.facts.kai.queue import Queue
from app.facts.rows import ROOM

NEEDS = ("nodes", ROOM, "pods", "pod_groups", "queues", "priorities")
"""The facts that always decide the order. If one of them was not read, the order is unknown."""


class Turn(Value):
    """The turn of a pending gang in KAI's next cycle, and its outcome."""

    gang: Ref
    """The object that the gang represents."""
    pool: str
    """Its node pool."""
    queue: str
    """The name of its queue."""
    number: int
    """Its position among the gangs of its queue that KAI considers in this cycle, from 1."""
    count: int
    """The number of gangs of its queue that KAI considers in this cycle."""
    order: int
    """Its position among all gangs of its node pool that KAI considers in this cycle, from 1."""
    after: int
    """If the gang gets no place, only gangs before this position may have taken its room.

    The position is the gang's own, or that of the first equal gang without a place. It is 0 if a
    limit or quota kept the gang out before the cycle, or may have: a pod that requests GPU memory
    counts by the GPUs that it gets, which are not known then.
    """
    used: frozenset[int]
    """The positions of the nodes that it gets.

    Empty if it has no place, or has to wait for pods on these nodes to terminate.
    """
    full: str
    """The queue whose limit or quota keeps the gang out at its turn, or "" if there is none."""
    above: Mapping[Queue, Above] = {}
    """The queues from which KAI may reclaim for it, if it gets no nodes, and what they exceed."""


def line_of(index: Index) -> Mapping[Ref, Turn]:
    """Return the turn of each pending gang that KAI considers: pool by pool, in KAI's order.

    The result is empty if facts that decide the order were not read.
    """
    return index.remembered("line", lambda: {turn.gang: turn for turn in _line(index)})


def unread_for_line(index: Index) -> set[str]:
    """Return the facts that decide the order and were not read. With any, the order is unknown.

    Topologies decide it if a PodGroup names one. ResourceSlices decide it if pods claim GPUs, which
    is examined only if nothing else is missing.
    """
    unread = index.facts.unread
    decisive = {kind for kind in NEEDS if kind in unread}
    if "kai_topologies" in unread and index.has_constraints:
        decisive.add("kai_topologies")
    if "slices" in unread and not decisive and _claim_gpus(index):
        decisive.add("slices")
    return decisive


def _claim_gpus(index: Index) -> bool:
    """Return whether a pending gang requests GPUs that DRA allocates."""
    claims = any(pod.claims for pod in index.facts.pods if not pod.node)
    return (claims or bool(index.claimed)) and any(own.gang.claims_gpus for own in _waiters(index))


def _line(index: Index) -> Iterator[Turn]:
    if not unread_for_line(index):
        pools = by_key((own.group.pool, own) for own in _waiters(index))
        for pool, waiters in sorted(pools.items()):
            yield from _Cycle(index, pool, waiters).turns()


def _waiters(index: Index) -> Iterator[Waiter]:
    """Yield the pending gangs that KAI considers.

    They have a PodGroup, and enough pods without scheduling gates for their minimum. Gangs that KAI
    has given up are omitted.
    """
    owners = {(gang.namespace, gang.uid): gang for gang in index.facts.gangs if gang.uid}
    keys = {(pod.namespace, pod.group) for pod in index.facts.pods if not pod.node}
    for group in filter(None, map(index.pod_groups.get, sorted(keys))):
        of_group = (owners.get((group.namespace, uid)) for uid in group.owners)
        owner = next(filter(None, of_group), None)
        gang = gang_of(index, owner) if owner else gang_of_pod_group(index, group)
        gang = replace(gang, whole=_with_nodes(gang.whole, {}))
        if gang.whole.is_ready and gang.demand.count and not group.given_up:
            yield waiter(gang, group)


def _names(demand: Demand) -> Iterator[str]:
    """Yield the name of each pod's part, in the order in which KAI places the pods."""
    yield from repeat(demand.name, sum(count for _, count in demand.pods))
    for part in demand.parts:
        yield from _names(part)


class _Outcome(Value):
    """The result of KAI's attempt to place a gang."""

    used: frozenset[int] = frozenset()
    """The positions of the nodes that it gets, as in `Turn.used`."""
    full: str = ""
    """The queue whose limit or quota keeps it out, or "" if there is none."""
    was_full: bool = False
    """May a limit or quota keep it out even without the gangs that this cycle has placed?"""


class _Cycle:
    """The next cycle of the scheduler of one node pool."""

    def __init__(self, index: Index, pool: str, waiters: Sequence[Waiter]) -> None:
        self._index = index
        self._queues = Queues(index, pool, _total_for(waiters[0].gang), waiters)
        members = (member for own in waiters for member in own.gang.members)
        shapes = (shape for member in members for shape in (member.shape, *member.shapes))
        every = Demand("", "", tuple((shape, 1) for shape in dict.fromkeys(shapes)))
        places = waiters[0].gang.placements_of(every)
        names = places.names
        ground = Ground(
            places.domains,
            names,
            index.free(names),
            places.fit(),
            coming=index.coming(names),
            shares=index.shares,
        )
        self._packer = Packer(ground, AS_KAI)
        self._failed: dict[object, int] = {}
        self._kept_out: dict[object, _Outcome] = {}
        """The outcomes of `_take` since the last placed gang. Equal gangs have the same outcome."""

    def turns(self) -> Iterator[Turn]:
        """Yield the first turn of each gang, in KAI's order."""
        places = {
            own.gang.ref: (queue, number, len(waiting))
            for queue, waiting in self._queues.waiting.items()
            for number, own in enumerate(waiting, 1)
        }
        order = 0
        turns = []
        while own := self._queues.pop():
            place = places.pop(own.gang.ref, None)
            outcome = self._kept_out_by_queue(own) or self._place(own, order + 1)
            if place:
                order += 1
                after = 0
                if not outcome.was_full:
                    after = self._failed.get(own.gang.demand.profile, order)
                turn = Turn(
                    own.gang.ref,
                    own.group.pool,
                    *place,
                    order,
                    after,
                    outcome.used,
                    outcome.full,
                )
                turns.append((turn, own))
        for turn, own in turns:
            yield turn if turn.used else replace(turn, above=self._queues.reclaimed(own))

    def _kept_out_by_queue(self, own: Waiter) -> _Outcome | None:
        """Return the outcome if a limit or quota keeps the gang out, otherwise None."""
        full = self._queues.full(own)
        if not full:
            return None
        return _Outcome(full=full, was_full=self._queues.may_have_been_full(own))

    def _place(self, own: Waiter, order: int) -> _Outcome:
        """Place a gang.

        The outcome has no nodes if the gang has no place, is kept out by a limit or quota of a
        queue, or must wait for other pods to terminate.
        """
        demand = own.gang.demand
        # If an equal gang had no place before, this one has none: room only shrinks in a cycle.
        if demand.profile in self._failed:
            return _Outcome()
        # If no gang was placed since, an equal gang of the same queue gets the same nodes.
        equal = (demand.profile, own.group.queue, own.preemptible)
        if equal in self._kept_out:
            return self._kept_out[equal]
        if not self._packer.places(demand):
            self._packer.undo(0)
            self._failed[demand.profile] = order
            return _Outcome()
        kept_out = self._take(own)
        if kept_out:
            # Equal gangs of other queues may still get this place.
            self._packer.undo(0)
            self._kept_out[equal] = kept_out
            return kept_out

        self._kept_out.clear()
        waits = self._packer.waits
        chosen = self._packer.kept()
        self._put_back(own, chosen)
        return _Outcome(frozenset() if waits else frozenset(position for position, _ in chosen))

    def _take(self, own: Waiter) -> _Outcome | None:
        """Add the resources of a placed gang to the usage of its queues.

        A pod that requests GPU memory counts by the memory of the GPUs that it gets. If the gang
        then exceeds a limit or quota, add nothing and return the outcome. Otherwise, return None.
        """
        if not any(shape.part and shape.part.memory for shape, _ in own.gang.demand.shapes):
            self._queues.take(own.group.queue, own.asked, preemptible=own.preemptible)
            return None
        nodes = (self._index.nodes[at] for at, count in self._packer.chosen for _ in range(count))
        runs = own.gang.demand.in_order
        shapes = (shape for shape, count in runs for _ in range(count))
        gets = NOTHING
        for shape, node in zip(shapes, nodes, strict=True):
            gets = added(gets, received(shape, node))
        kept_out = self._kept_out_by_queue(replace(own, asked=gets, bounded=gets))
        if not kept_out:
            self._queues.take(own.group.queue, gets, preemptible=own.preemptible)
        return kept_out

    def _put_back(self, own: Waiter, kept: Iterable[tuple[int, int]]) -> None:
        """Put a gang back into its queue if some of its pods are not placed yet."""
        gang = own.gang
        nodes = (self._index.nodes[position].name for position, count in kept for _ in range(count))
        places = by_key(zip(_names(gang.demand), nodes, strict=True))
        after = replace(gang, whole=_with_nodes(gang.whole, places))
        if after.demand.count:
            self._queues.push(waiter(after, own.group))


def _with_nodes(unit: Unit, nodes: Mapping[str, Sequence[str]]) -> Unit:
    """Return a part of a gang as KAI sees it once its members' next pods are on these nodes.

    `nodes` has the names of the nodes by the name of the member. KAI ignores pods that have
    scheduling gates or do not exist yet.
    """
    members = tuple(
        _member_with_nodes(member, nodes.get(member.name, ())) for member in unit.members
    )
    units = tuple(_with_nodes(part, nodes) for part in unit.units)
    return replace(unit, members=members, units=units)


def _member_with_nodes(member: Member, nodes: Iterable[str]) -> Member:
    pairs = [pair for pair in zip(member.pods, member.shapes, strict=True) if not pair[0].gates]
    pairs.sort(key=lambda pair: (pair[0].created or 0.0, pair[0].uid))
    left = iter(nodes)
    pods = tuple(pod if pod.node else replace(pod, node=next(left, "")) for pod, _ in pairs)
    shapes = tuple(shape for _, shape in pairs)
    return replace(member, pods=pods, shapes=shapes, replicas=len(pairs))


def _total_for(gang: Gang) -> Quantities:
    positions = gang.placements.domains.everywhere.nodes
    nodes = (gang.index.nodes[at] for at in positions)
    return total_of(gang.index, nodes, {pod.scheduler for pod in gang.pods})
