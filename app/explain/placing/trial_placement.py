"""Place pods on trial: track the free resources of nodes and domains, and undo steps."""

import itertools
import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from heapq import heapify, heappop, heapreplace
from typing import Any, Generic, TypeVar

from app.explain.placing.demand import (
    MOST_ONE_BY_ONE,
    Board,
    Demand,
    Ground,
    Step,
    Taker,
    Vector,
    capacity_of,
    sum_of,
)
from app.explain.state.amounts import counts_as_gpu
from app.explain.state.domains import Domains, Path
from app.explain.state.gpu_sharing import Shares, attracts, choice_of, fitting, postponed
from app.facts.kubernetes.gpu_sharing import GpuPart
from app.facts.kubernetes.gpus import GPU
from app.facts.kubernetes.pod import Shape

T = TypeVar("T")

Scores = Mapping[int, int] | None
"""KAI's scores of nodes by their position, or None if there are none.

A missing node counts as 0.
"""


class Order(Generic[T]):
    """Items sorted by their keys. Only the items in `changed` are moved to new positions.

    An item whose key is None is omitted.
    """

    def __init__(self, items: Iterable[T], key: Callable[[T], Any]) -> None:
        self._key = key
        self._keys = {item: key(item) for item in items}
        self._sorted = sorted(filter(None, self._keys.values()))
        self.changed: set[T] = set()

    def places(self) -> list[Any]:
        """Return the current keys of the items, sorted."""
        for item in self.changed & self._keys.keys():
            before = self._keys[item]
            if before:
                del self._sorted[bisect_left(self._sorted, before)]
            now = self._keys[item] = self._key(item)
            if now:
                insort(self._sorted, now)
        self.changed.clear()
        return self._sorted


class DomainSums:
    """The sum of `measure(free)` over the nodes of each domain.

    `nothing` is the sum of a domain without nodes.
    """

    def __init__(
        self,
        domains: Domains,
        free: Sequence[Vector],
        measure: Callable[[Vector], Vector],
        nothing: Vector,
    ) -> None:
        self._domains = domains
        self._free = free
        self._measure = measure
        self._nothing = nothing
        self._by_path: dict[Path, Vector] = {}

    def of(self, path: Path) -> Vector:
        """Return the sum of a domain."""
        total = self._by_path.get(path)
        if total is None:
            nodes = self._domains.called(path).nodes
            total = sum_of(map(self._free.__getitem__, nodes), self._measure) or self._nothing
            self._by_path[path] = total
        return total

    def change(self, around: Sequence[Path], before: Vector, after: Vector) -> None:
        """Update the sums of the domains `around` a node whose free amounts have changed."""
        had = self._measure(before)
        has = self._measure(after)
        for path in around:
            total = self._by_path.get(path)
            if total is not None:
                changed = zip(total, had, has, strict=True)
                self._by_path[path] = tuple([old - less + more for old, less, more in changed])


class Tree:
    """The free amounts of each domain of a topology, and KAI's order of these domains."""

    def __init__(
        self,
        domains: Domains,
        names: Sequence[str],
        free: Sequence[Vector],
        shares: Mapping[int, Shares],
    ) -> None:
        self.domains = domains
        self._free = free
        self._shares = shares
        self._gpu = names.index(GPU) if GPU in names else -1
        self._counted = [position for position, name in enumerate(names) if name != "pods"]
        self._tallies: dict[Vector, DomainSums] = {}
        nothing = (0,) * len(names)
        self._sums = DomainSums(domains, free, lambda have: have, nothing)
        self._orders: dict[Path, dict[Vector, Order[Path]]] = {}

    def tally(self, largest: Vector) -> DomainSums:
        """Return how many pods with the request `largest` fit into each domain.

        The sum of a domain has one item, this number.
        """
        if largest not in self._tallies:
            self._tallies[largest] = DomainSums(
                self.domains, self._free, cache(lambda have: (capacity_of(have, largest),)), (0,)
            )
        return self._tallies[largest]

    def room_of_part(self, largest: Vector, path: Path) -> int:
        """Return how many pods with the request `largest` fit into a domain.

        The free parts of shared GPUs count too. KAI uses this number for pods that request less
        than a GPU (`calcNodeAccommodation`).
        """
        nodes = self.domains.called(path).nodes
        return sum(capacity_of(self._with_shared_gpus(at), largest) for at in nodes)

    def _with_shared_gpus(self, position: int) -> Vector:
        """Return the free amounts of a node, including the free parts of its shared GPUs."""
        have = self._free[position]
        shares = self._shares.get(position)
        if not shares or not shares.groups:
            return have
        return (*have[: self._gpu], have[self._gpu] + shares.available, *have[self._gpu + 1 :])

    def order(self, asked: Vector, path: Path) -> list[Path]:
        """Return the children of a domain in KAI's order.

        First come the children that `asked` would fill most. Equal children are sorted by name.
        """
        orders = self._orders.setdefault(path, {})
        if asked not in orders:
            children = [child.path for child in self.domains.children(path)]
            tightness = self.tightness(asked)
            orders[asked] = Order(
                children, lambda child: (-tightness(child), ".".join(child), child)
            )
        return [child for _, _, child in orders[asked].places()]

    def tightness(self, asked: Vector) -> Callable[[Path], float]:
        """Return a function that computes how much of a domain's free amounts `asked` takes.

        Its result is the largest fraction of any resource except `pods`, or infinity if nothing of
        a requested resource is free.
        """
        # The function must not refer to the tree, which keeps it: such a cycle would stay in
        # memory until the garbage collector runs.
        left = self._sums
        counted = self._counted

        def of(path: Path) -> float:
            free = left.of(path)
            parts = (_part(asked[position], free[position]) for position in counted)
            return max(parts, default=0.0)

        return of

    def change(self, position: int, before: Vector, after: Vector) -> None:
        """Update everything that depends on the free amounts of a node."""
        around = self.domains.around(position)
        for tally in self._tallies.values():
            tally.change(around, before, after)
        self._sums.change(around, before, after)
        for parent, child in itertools.pairwise(around):
            for order in self._orders.get(parent, {}).values():
                order.changed.add(child)


class Trial(Board):
    """A trial placement that also tracks the free amounts of each domain of each topology.

    Free amounts include the amounts that terminating pods will free, as in KAI. For nodes with such
    pods, `_idle` has the amounts that are free already. They can exceed the free amounts: waiting
    pods may have been promised more than terminating pods will free.
    """

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        names = ground.names
        self._gpus = [at for at, name in enumerate(names) if name.endswith("gpu")]
        self._cpus = [position for position, name in enumerate(names) if name == "cpu"]
        self._is_any_gpu = [counts_as_gpu(name) for name in names]
        self._idle: dict[int, Vector] = {}
        for position, more in ground.coming.items():
            have = self._free[position]
            self._idle[position] = have
            pairs = zip(have, more, strict=True)
            self._free[position] = tuple([now + then for now, then in pairs])
        self._waiting = 0
        """The number of steps for which KAI waits for pods to terminate."""
        self._trees: dict[Domains, Tree] = {}
        self._fullest: dict[Shape, Order[int]] = {}
        """For each shape, all nodes that take such pods, in KAI's order."""

    @property
    def waits(self) -> bool:
        """Does KAI wait for pods to terminate before it binds the placed pods?"""
        return self._waiting > 0

    def tree(self, demand: Demand) -> Tree:
        """Return the tree of a demand's topology, with the free amounts of its domains."""
        domains = self._domains.by(demand.levels)
        if domains not in self._trees:
            names = self._ground.names
            self._trees[domains] = Tree(domains, names, self._free, self._shares)
        return self._trees[domains]

    def kept(self) -> list[tuple[int, int]]:
        """Make all steps permanent and return them: (position of the node, number of pods).

        If KAI waits for pods to terminate, all placed pods only get resources that terminating pods
        will free. Other pods may still take the resources that are free already
        (`ConvertAllAllocatedToPipelined`).
        """
        if self._waiting:
            for step in reversed(self._journal):
                self._idle[step.position] = step.free if step.idle is None else step.idle
                if step.shares is not None:
                    after = self._shares[step.position]
                    self._shares[step.position] = postponed(step.shares, after)
            self._waiting = 0
        return super().kept()

    def _restore(self, step: Step) -> None:
        self._waiting -= step.waits
        if step.idle is not None:
            self._idle[step.position] = step.idle
        super()._restore(step)

    def fill(self, shape: Shape, count: int, nodes: Sequence[int], scores: Scores) -> bool:
        """Put pods of one shape on nodes in KAI's order. Return False if not all have room."""
        part = self._ground.part_of(shape)
        if part:
            return self._fill_parts(shape, part, count, nodes, scores)
        if self._idle and scores is not None:
            return self._fill_mixed(shape, count, nodes, scores)
        left = self._fill_free(shape, count, nodes, scores)
        if left and self._idle:
            left = self._fill_coming(shape, left, nodes)
        return not left

    def _fill_free(self, shape: Shape, count: int, nodes: Sequence[int], scores: Scores) -> int:
        """Put pods where there is room already. Return how many have no place."""
        of_all = scores is None and nodes is self._domains.everywhere.nodes
        order = self._fullest.get(shape) if of_all else None
        if not order:
            order = Order(nodes, self._rank(shape, scores))
        if of_all:
            self._fullest[shape] = order
        able = ((capacity, position) for *_, position, capacity in order.places())
        return self._put(able, self._ground.takes[shape], count)

    def _fill_coming(self, shape: Shape, count: int, nodes: Sequence[int]) -> int:
        """Put pods where terminating pods will free room. Return how many have no place."""
        rank = self._rank(shape, None, with_coming=True)
        inside = set(nodes)
        ranks = sorted(filter(None, (rank(at) for at in self._idle if at in inside)))
        able = [(capacity, position) for *_, position, capacity in ranks]
        return self._put_each(able, self._ground.takes[shape], count, waits=True)

    def _fill_mixed(self, shape: Shape, count: int, nodes: Sequence[int], scores: Scores) -> bool:
        """Put pods on nodes by score. With equal scores, use free room before room to be freed.

        Return False if not all have room.
        """
        asks = self._ground.takes[shape]
        now = self._rank(shape, scores)
        soon = self._rank(shape, scores, with_coming=True)
        ranks = [(key[0], 0, key) for at in nodes if (key := now(at))]
        ranks += [(key[0], 1, key) for at in nodes if at in self._idle and (key := soon(at))]
        for _, ends, (*_, position, capacity) in sorted(ranks):
            able = [(capacity, position)]
            if ends:
                count = self._put_each(able, asks, count, waits=True)
            else:
                count = self._put(able, asks, count)
            if not count:
                return True
        return False

    def _put(
        self, able: Iterable[Taker], asks: Vector, count: int, part: GpuPart | None = None
    ) -> int:
        if not self._idle:
            return super()._put(able, asks, count, part)
        return self._put_each(able, asks, count, waits=False)

    def _put_each(self, able: Iterable[Taker], asks: Vector, count: int, *, waits: bool) -> int:
        """Put up to `count` pods on nodes, in this order. Return how many have no place.

        With `waits`, the pods wait for the room that terminating pods will free there.
        """
        for capacity, position in able:
            taken = min(capacity, count)
            self._take(position, asks, taken, waits=waits)
            count -= taken
            if not count:
                break
        return count

    def _take(
        self,
        position: int,
        asks: Vector,
        count: int,
        *,
        waits: bool,
        shares: Shares | None = None,
    ) -> None:
        """Take the requests of pods from the free amounts of a node.

        With `waits`, the amounts that are free already stay free for other pods. `shares` are the
        shared GPUs before, if the pods change them.
        """
        have = self._free[position]
        idle = self._idle.get(position)
        self._journal.append(Step(position, have, count, idle, shares, waits))
        self._waiting += waits
        if idle is not None and not waits:
            self._idle[position] = _less(idle, asks, count)
        self._set(position, _less(have, asks, count))

    def _fill_parts(
        self, shape: Shape, part: GpuPart, count: int, nodes: Sequence[int], scores: Scores
    ) -> bool:
        """Place pods that request GPU fractions one by one, like KAI's `OrderedNodesByTask`.

        Return False if not all have room, or if there are more than MOST_ONE_BY_ONE.
        """
        if count > MOST_ONE_BY_ONE:
            return False
        asks = self._ground.takes[shape]
        fit = self._ground.fit[shape]
        ranks = (self._rank_of_part(at, asks, part, scores) for at in nodes if fit[at])
        waiting = [rank for rank in ranks if rank]
        heapify(waiting)
        for _ in range(count):
            if not waiting:
                return False
            position = int(waiting[0][-1])
            self._take_part(position, asks, part)
            rank = self._rank_of_part(position, asks, part, scores)
            if rank:
                heapreplace(waiting, rank)
            else:
                heappop(waiting)
        return True

    def _rank_of_part(
        self, position: int, asks: Vector, part: GpuPart, scores: Scores
    ) -> tuple[float, ...] | None:
        """Return a node's sort key for a pod with a GPU fraction, or None if it has no room."""
        have = self._free[position]
        if not self._room(have, asks) or self._has_one_place(have):
            return None
        shares = self._shares_at(position)
        gpu = self._ground.gpu
        if not choice_of(shares, part, have[gpu] // 1000, is_idle=True):
            return None
        score = scores.get(position, 0) if scores is not None else 0
        is_idle = self._is_idle(position, asks, part)
        return -score, not fitting(shares, part), not is_idle, have[gpu], position

    def _is_idle(self, position: int, asks: Vector, part: GpuPart) -> bool:
        """Return whether a pod with a part fits without waiting (`IsTaskAllocatable`)."""
        idle = self._idle.get(position)
        if idle is None:
            return True
        whole = idle[self._ground.gpu] // 1000
        enough = whole + len(fitting(self._shares_at(position), part)) >= part.devices
        return enough and self._room(idle, asks) > 0

    def _take_part(self, position: int, asks: Vector, part: GpuPart) -> None:
        shares = self._shares_at(position)
        gpu = self._ground.gpu
        whole = self._free[position][gpu] // 1000
        is_idle = self._is_idle(position, asks, part)
        choice = choice_of(shares, part, whole, is_idle=is_idle)
        assert choice
        taken = [ask + 1000 * choice.whole * (at == gpu) for at, ask in enumerate(asks)]
        self._take(position, tuple(taken), 1, waits=choice.waits, shares=shares)
        self._shares[position] = choice.shares

    def _rank(
        self, shape: Shape, scores: Scores, *, with_coming: bool = False
    ) -> Callable[[int], tuple[Any, ...] | None]:
        """Return a function that returns the sort key of a node, or None if it takes no such pod.

        Nodes are sorted by score, then by whether KAI prefers or avoids their GPUs for such pods,
        and then the fullest node comes first. The last item of a key is the number of pods that the
        node takes. With `with_coming`, these are only the pods for which room will be freed.
        """
        asks = self._ground.takes[shape]
        fit = self._ground.fit[shape]
        for_gpus = any(asks[at] for at, any_gpu in enumerate(self._is_any_gpu) if any_gpu)
        for_whole = any(asks[at] for at in self._gpus)
        main = self._gpus if for_gpus else self._cpus
        free = self._free
        idle = self._idle
        shares = self._shares
        has_gpus = self._domains.has_gpus

        @cache
        def room(have: Vector) -> tuple[int, int]:
            return capacity_of(have, asks), sum([have[index] for index in main])

        def rank(position: int) -> tuple[Any, ...] | None:
            if not fit[position]:
                return None
            capacity, rest = room(free[position])
            if position in idle:
                now = min(capacity, room(idle[position])[0])
                capacity = capacity - now if with_coming else now
            if not capacity:
                return None
            score = scores.get(position, 0) if scores is not None else 0
            attracted = not for_whole and position in shares and attracts(shares[position])
            shuns_gpus = has_gpus[position] and not for_gpus
            return -score, not attracted, shuns_gpus, rest, position, capacity

        return rank

    def _set(self, position: int, have: Vector) -> None:
        before = self._free[position]
        super()._set(position, have)
        for tree in self._trees.values():
            tree.change(position, before, have)
        for of_shape in self._fullest.values():
            of_shape.changed.add(position)


def _less(have: Vector, asks: Vector, count: int) -> Vector:
    return tuple([amount - count * ask for amount, ask in zip(have, asks, strict=True)])


def _part(ask: int, have: int) -> float:
    """Return `ask` / `have`: 0 if nothing is requested, or infinity if nothing is free."""
    if not ask:
        return 0.0
    return ask / have if have > 0 else math.inf
