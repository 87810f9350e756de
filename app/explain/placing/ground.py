"""What demands are placed on: nodes by domain, with what is free on them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from app.explain.known.domains import Domain, Domains
from app.facts.kubernetes.pod import Shape
from app.value import Value

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

    def _asked(
        self,
        requests: Mapping[str, int],
    ) -> Vector:
        return tuple([requests.get(name, 0) if self.counts(name) else 0 for name in self.names])


def capacity_of(free: Vector, asks: Vector) -> int:
    """Return the number of pods for which a node has room; very many if nothing is asked for."""
    counts = (have // ask for have, ask in zip(free, asks, strict=True) if ask)
    return max(0, min(counts, default=UNLIMITED))


def takers(
    free: Sequence[Vector],
    asks: Vector,
    fit: Sequence[bool],
    nodes: Sequence[int],
    known: dict[Vector, int],
) -> list[Taker]:
    """Return the nodes of a domain that take pods that ask for this.

    `known` remembers how many go where so much is free.
    """
    able = []
    for position in nodes:
        if not fit[position]:
            continue
        have = free[position]
        capacity = known.get(have)
        if capacity is None:
            capacity = known[have] = capacity_of(have, asks)
        if capacity:
            able.append((capacity, position))

    return able


def kinds_of(free: Sequence[Vector], domain: Domain) -> Mapping[Vector, int]:
    """Return how many nodes of a domain have each amount free: few kinds, of many nodes."""
    return Counter(map(free.__getitem__, domain.nodes))
