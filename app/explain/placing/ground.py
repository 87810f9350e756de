"""What demands are placed on: nodes by domain, with what is free on them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from app.base.value import Value
from app.explain.known.domains import Domains
from app.explain.placing.demand import Demand
from app.facts.kubernetes.pod import Shape

Vector = tuple[int, ...]
"""Amounts of some resources, in a given order."""

Taker = tuple[int, int]
"""(for how many pods it has room, position of the node)"""

UNLIMITED = 1_000_000


def everything(_resource: str) -> bool:
    """Return whether a resource counts, if all do."""
    return True


class Ground(Value, dict=True):
    """Nodes, and what is free on them.

    `free` has, for each node of `domains`, the free amounts of the resources called `names`. `fit`
    gives for each shape which nodes may take it. Only those resources are asked for for which
    `counts` holds.
    """

    domains: Domains
    names: tuple[str, ...]
    free: Sequence[Vector]
    fit: Mapping[Shape, Sequence[bool]]
    counts: Callable[[str], bool] = everything

    @cached_property
    def asks(self) -> Mapping[Shape, Vector]:
        """What each shape asks for."""
        return {shape: self._asked(dict(shape.requests)) for shape in self.fit}

    def asked(self, demand: Demand) -> Vector:
        """Return what all pods of a demand ask for together."""
        vectors = [[count * ask for ask in self.asks[shape]] for shape, count in demand.shapes]
        return tuple(map(sum, zip(*vectors, strict=True)))

    def _asked(self, requests: Mapping[str, int]) -> Vector:
        return tuple([requests.get(name, 0) if self.counts(name) else 0 for name in self.names])


def capacity_of(free: Vector, asks: Vector) -> int:
    """Return the number of pods for which a node has room; very many if nothing is asked for."""
    counts = (have // ask for have, ask in zip(free, asks, strict=True) if ask)
    return max(0, min(counts, default=UNLIMITED))


def fullest_first(able: list[Taker], free: Sequence[Vector]) -> list[Taker]:
    """Return the nodes that take pods, those with the least room first."""
    return sorted(able, key=lambda taker: (taker[0], free[taker[1]], taker[1]))


class Board:
    """Pods on the nodes of a ground, and the way back."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._domains = ground.domains
        self._free = list(ground.free)
        self._journal: list[tuple[int, Vector]] = []
        self._capacities: dict[Vector, dict[Vector, int]] = {}

    @property
    def mark(self) -> int:
        """The present moment, for `undo`."""
        return len(self._journal)

    @property
    def free(self) -> list[Vector]:
        """What each node has left."""
        return list(self._free)

    def used(self, start: int = 0, end: int | None = None) -> frozenset[int]:
        """Return the nodes on which something was placed, between two moments."""
        return frozenset(position for position, _ in self._journal[start:end])

    def undo(self, mark: int) -> None:
        """Take away what was placed since a moment."""
        while len(self._journal) > mark:
            self._set(*self._journal.pop())

    def _set(self, position: int, have: Vector) -> None:
        self._free[position] = have

    def _takers(self, ground: Ground, shape: Shape, nodes: Sequence[int]) -> list[Taker]:
        """Return the nodes that take pods of a shape of a ground, which may be another one."""
        asks = ground.asks[shape]
        fit = ground.fit[shape]
        known = self._capacities.setdefault(asks, {})
        able = []
        for position in nodes:
            if not fit[position]:
                continue
            have = self._free[position]
            capacity = known.get(have)
            if capacity is None:
                capacity = known[have] = capacity_of(have, asks)
            if capacity:
                able.append((capacity, position))
        return able

    def _put(self, able: Iterable[Taker], asks: Vector, count: int) -> int:
        """Put up to `count` equal pods on nodes, in their order. Return how many have no place."""
        for capacity, position in able:
            taken = capacity if capacity < count else count
            have = self._free[position]
            self._journal.append((position, have))
            rest = [amount - taken * ask for amount, ask in zip(have, asks, strict=True)]
            self._set(position, tuple(rest))
            count -= taken
            if not count:
                break
        return count
