"""One trial of placing pods on nodes: what nodes and domains have left, and the way back."""

import itertools
import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Generic, TypeVar

from app.explain.known.amounts import is_gpu
from app.explain.known.domains import Domains, Path
from app.explain.placing.demand import Board, Demand, Ground, Vector, capacity_of, sum_of
from app.facts.kubernetes.pod import Shape

T = TypeVar("T")

Scores = Mapping[int, int] | None
"""KAI's rank of each node by its preferred domain; None if there is no such rank."""


class Order(Generic[T]):
    """Items in the order of their keys, which is kept while items change.

    An item whose key is None is left out.
    """

    def __init__(self, items: Iterable[T], key: Callable[[T], Any]) -> None:
        self._key = key
        self._keys = {item: key(item) for item in items}
        self._sorted = sorted(filter(None, self._keys.values()))
        self.changed: set[T] = set()

    def places(self) -> list[Any]:
        """Return the keys of the items as they are now, in their order."""
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
    """The sum of what the nodes of each domain have, as `measure` sees what is free on one.

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
        """Take notice of a change of a node in the domains `around` it."""
        had = self._measure(before)
        has = self._measure(after)
        for path in around:
            total = self._by_path.get(path)
            if total is not None:
                changed = zip(total, had, has, strict=True)
                self._by_path[path] = tuple([old - less + more for old, less, more in changed])


class Tree:
    """What the domains of a topology have left of what is free on their nodes."""

    def __init__(self, domains: Domains, names: Sequence[str], free: Sequence[Vector]) -> None:
        self.domains = domains
        self._free = free
        self._counted = [position for position, name in enumerate(names) if name != "pods"]
        self._tallies: dict[Vector, DomainSums] = {}
        nothing = (0,) * len(names)
        self._sums = DomainSums(domains, free, lambda have: have, nothing)
        self._orders: dict[Path, dict[Vector, Order[Path]]] = {}

    def tally(self, largest: Vector) -> DomainSums:
        """For how many pods of this size each domain has room."""
        if largest not in self._tallies:
            self._tallies[largest] = DomainSums(
                self.domains, self._free, cache(lambda have: (capacity_of(have, largest),)), (0,)
            )
        return self._tallies[largest]

    def order(self, asked: Vector, path: Path) -> list[Path]:
        """Return the children of a domain, those first that `asked` would fill most, then by name.

        So does KAI.
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
        """Return the largest part of what a domain has free that is asked for, by the domain.

        Pods are not counted.
        """
        # A function that knew the trial, which keeps it, would be freed long after its use.
        left = self._sums
        counted = self._counted

        def of(path: Path) -> float:
            free = left.of(path)
            parts = (_part(asked[position], free[position]) for position in counted)
            return max(parts, default=0.0)

        return of

    def change(self, position: int, before: Vector, after: Vector) -> None:
        """Take notice of a change of a node."""
        around = self.domains.around(position)
        for tally in self._tallies.values():
            tally.change(around, before, after)
        self._sums.change(around, before, after)
        for parent, child in itertools.pairwise(around):
            for order in self._orders.get(parent, {}).values():
                order.changed.add(child)


class Trial(Board):
    """Pods on nodes, and what each domain of each topology has left."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        names = ground.names
        self._gpus = [position for position, name in enumerate(names) if is_gpu(name)]
        self._cpus = [position for position, name in enumerate(names) if name == "cpu"]
        self._trees: dict[Domains, Tree] = {}
        self._fullest: dict[Shape, Order[int]] = {}
        """Of all nodes, the fullest first."""

    def tree(self, demand: Demand) -> Tree:
        """Return what the domains have left of the topology that a demand is about."""
        domains = self._domains.by(demand.levels)
        if domains not in self._trees:
            self._trees[domains] = Tree(domains, self._ground.names, self._free)
        return self._trees[domains]

    def fill(self, shape: Shape, count: int, nodes: Sequence[int], scores: Scores) -> bool:
        """Put pods of one shape on nodes, the fullest nodes first. False if not all have room."""
        of_all = scores is None and nodes is self._domains.everywhere.nodes
        order = self._fullest.get(shape) if of_all else None
        if not order:
            order = Order(nodes, self._rank(shape, scores))
        if of_all:
            self._fullest[shape] = order
        able = ((capacity, position) for *_, position, capacity in order.places())
        return not self._put(able, self._ground.asks[shape], count)

    def _rank(self, shape: Shape, scores: Scores) -> Callable[[int], tuple[int, ...] | None]:
        """Return the key of a node in KAI's order; None if it takes no pod.

        The order is by score, without GPUs for pods without, and the fullest first.
        """
        asks = self._ground.asks[shape]
        fit = self._ground.fit[shape]
        for_gpus = any(asks[position] for position in self._gpus)
        main = self._gpus if for_gpus else self._cpus
        free = self._free
        has_gpus = self._domains.has_gpus

        @cache
        def room(have: Vector) -> tuple[int, int]:
            return capacity_of(have, asks), sum([have[index] for index in main])

        def rank(position: int) -> tuple[int, ...] | None:
            capacity, rest = room(free[position])
            if not fit[position] or not capacity:
                return None
            score = scores.get(position, 0) if scores is not None else 0
            return -score, has_gpus[position] and not for_gpus, rest, position, capacity

        return rank

    def _set(self, position: int, have: Vector) -> None:
        before = self._free[position]
        super()._set(position, have)
        for tree in self._trees.values():
            tree.change(position, before, have)
        for of_shape in self._fullest.values():
            of_shape.changed.add(position)


def _part(ask: int, have: int) -> float:
    """Return what part of an amount is asked for."""
    if not ask:
        return 0.0
    return ask / have if have > 0 else math.inf
