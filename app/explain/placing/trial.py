"""One trial of placing pods on nodes: what nodes and domains have left, and the way back."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from heapq import nsmallest

from app.explain.known.amounts import is_gpu
from app.explain.known.domains import Domains, Path
from app.explain.placing.demand import Board, Ground, Taker, Vector, capacity_of
from app.facts.kubernetes.pod import Shape

Scores = Mapping[int, int] | None
"""KAI's rank of each node by its preferred domain; None if there is no such rank."""


class Order:
    """Domains in the order in which KAI tries them: the fullest first, then by name."""

    def __init__(self, children: Sequence[Path], tightness: Callable[[Path], float]) -> None:
        self._tightness = tightness
        self._keys = {child: self._key(child) for child in children}
        self._sorted = sorted(self._keys.values())
        self.changed: set[Path] = set()

    def paths(self) -> list[Path]:
        """Return the domains as they are now."""
        changed = self.changed & self._keys.keys()
        if changed:
            self._keys |= {child: self._key(child) for child in changed}
            self._sorted = sorted(self._keys.values())

        self.changed.clear()
        return [child for _, _, child in self._sorted]

    def _key(self, child: Path) -> tuple[float, str, Path]:
        return -self._tightness(child), ".".join(child), child


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
            # few kinds, of many nodes
            kinds = Counter(map(self._free.__getitem__, nodes))
            vectors = [
                [count * amount for amount in self._measure(free)] for free, count in kinds.items()
            ]
            total = tuple(map(sum, zip(*vectors, strict=True))) or self._nothing
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


class Trial(Board):
    """Pods on nodes, and what each domain has left."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        names = ground.names
        self._gpus = [position for position, name in enumerate(names) if is_gpu(name)]
        self._cpus = [position for position, name in enumerate(names) if name == "cpu"]
        self._counted = [position for position, name in enumerate(names) if name != "pods"]
        self._tallies: dict[Vector, DomainSums] = {}
        nothing = (0,) * len(names)
        self._sums = DomainSums(self._domains, self._free, lambda have: have, nothing)
        self._orders: dict[Path, dict[Vector, Order]] = {}

    def tally(self, largest: Vector) -> DomainSums:
        """For how many pods of this size each domain has room."""
        if largest not in self._tallies:
            self._tallies[largest] = DomainSums(
                self._domains, self._free, cache(lambda have: (capacity_of(have, largest),)), (0,)
            )
        return self._tallies[largest]

    def order(self, asked: Vector, path: Path) -> list[Path]:
        """Return the children of a domain, those first that `asked` would fill most."""
        orders = self._orders.setdefault(path, {})
        if asked not in orders:
            children = [child.path for child in self._domains.children(path)]
            orders[asked] = Order(children, self.tightness(asked))
        return orders[asked].paths()

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

    def fill(self, shape: Shape, count: int, nodes: Sequence[int], scores: Scores) -> bool:
        """Put pods of one shape on nodes, the fullest nodes first. False if not all have room."""
        asks = self._ground.asks[shape]
        able = self._takers(self._ground, shape, nodes)
        return not self._put(self._ranked(asks, able, scores, count), asks, count)

    def _ranked(self, asks: Vector, able: list[Taker], scores: Scores, most: int) -> list[Taker]:
        """Return the first nodes in KAI's order, at most `most`, as each takes a pod.

        The order is by score, without GPUs for pods without, and the fullest first.
        """
        for_gpus = any(asks[position] for position in self._gpus)
        main = self._gpus if for_gpus else self._cpus
        free = self._free
        has_gpus = self._domains.has_gpus

        def rank(taker: Taker) -> tuple[int, bool, int, int]:
            position = taker[1]
            have = sum([free[position][index] for index in main])
            score = scores.get(position, 0) if scores is not None else 0
            return -score, has_gpus[position] and not for_gpus, have, position

        return nsmallest(most, able, key=rank)

    def _set(self, position: int, have: Vector) -> None:
        before = self._free[position]
        super()._set(position, have)
        around = self._domains.around(position)

        for tally in self._tallies.values():
            tally.change(around, before, have)
        self._sums.change(around, before, have)
        for parent, child in itertools.pairwise(around):
            for order in self._orders.get(parent, {}).values():
                order.changed.add(child)


def _part(ask: int, have: int) -> float:
    """Return what part of an amount is asked for."""
    if not ask:
        return 0.0
    return ask / have if have > 0 else math.inf
