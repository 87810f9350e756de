"""Tries every placement of demands on nodes, until there is one or none is left.

A part with a required level goes into one domain of it; where pods of it run already, into one of
theirs. Preferred levels decide only which domains are tried first. Parts with a constraint get only
nodes with the labels of all levels, as in KAI.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from app.explain.known.domains import Domain
from app.explain.placing.demand import Demand
from app.explain.placing.ground import Board, Ground, Taker, fullest_first
from app.facts.kubernetes.pod import Shape

MOST_PODS = 100
"""More pods are not tried in every placement: each is a step of a recursion."""

_MOST_TAKERS = 300
"""Of more nodes that have room, the fullest are tried."""

_ONE_SEARCH = 2_000_000
"""Nodes that one search looks at, about half a second."""

Placing = tuple[Ground, Demand]
"""A demand, and the ground that it is to be placed on."""

Ways = Iterator[None]
"""One way after the other to place something, which stays placed until the next one."""


class Exhausted(Exception):
    """The search was ended before all placements were tried."""


class Search(Board):
    """A search for places of all demands at once, each on its ground.

    All grounds have the same free amounts. `looked` is at how many nodes it has looked, of which it
    looks at no more than `most`.
    """

    def __init__(
        self,
        pairs: Sequence[Placing],
        most: int,
    ) -> None:
        super().__init__(pairs[0][0])
        self.looked = 0
        self._most = min(most, _ONE_SEARCH)
        self._is_cut = False
        self._pairs = pairs
        self._starts = [0] * len(pairs)

    def find(self) -> list[frozenset[int]] | None:
        """Place everything, and return the nodes of each demand; None if there is no placement.

        Raise Exhausted if not all were tried.
        """
        if sum(demand.count for _, demand in self._pairs) > MOST_PODS:
            raise Exhausted
        for _ in self._from(0):
            bounds = itertools.pairwise([*self._starts, self.mark])
            return [self.used(start, end) for start, end in bounds]
        if self._is_cut:
            raise Exhausted
        return None

    def _from(self, number: int) -> Ways:
        """Place a demand and all after it."""
        if number == len(self._pairs):
            yield
            return

        self._starts[number] = self.mark
        ground, demand = self._pairs[number]
        for _ in self._place(ground, demand, ground.domains.everywhere):
            yield from self._from(number + 1)

    def _place(
        self,
        ground: Ground,
        demand: Demand,
        scope: Domain,
    ) -> Ways:
        """Place a demand in a domain of `scope`: its parts before its pods, the heaviest first."""
        parts = sorted(demand.bound, key=lambda part: part.count)[::-1]
        pods = sorted(demand.loose, key=lambda pods: ground.asks[pods[0]])[::-1]
        for domain in _candidates(ground, demand, scope):
            ways: list[Callable[[], Ways]] = [
                partial(self._place, ground, part, domain) for part in parts
            ]
            ways += [partial(self._fill, ground, *run, domain.nodes) for run in pods]
            yield from _in_turn(ways)

    def _fill(
        self,
        ground: Ground,
        shape: Shape,
        count: int,
        nodes: Sequence[int],
    ) -> Ways:
        """Place pods on nodes that have room, the fullest first."""
        asks = ground.asks[shape]
        able = self._able(ground, shape, count, nodes)
        from_here = list(itertools.accumulate(room for room, _ in reversed(able)))[::-1]

        def spread(start: int, left: int) -> Ways:
            """Put what is left on nodes from `start` on, in every way."""
            if not left:
                yield
            for index in range(start, len(able)):
                if not 0 < left <= from_here[index]:
                    return
                room, position = able[index]
                for taken in range(min(room, left), 0, -1):
                    self._look(1)
                    mark = self.mark
                    self._put([(taken, position)], asks, taken)
                    yield from spread(index + 1, left - taken)
                    self.undo(mark)

        return spread(0, count)

    def _able(
        self,
        ground: Ground,
        shape: Shape,
        count: int,
        nodes: Sequence[int],
    ) -> Sequence[Taker]:
        """Return the nodes that take pods, the fullest first; none if there is room for fewer."""
        self._look(len(nodes))
        able = self._takers(ground, shape, nodes)
        if sum(room for room, _ in able) < count:
            return []
        self._is_cut |= len(able) > _MOST_TAKERS
        return fullest_first(able, self._free)[:_MOST_TAKERS]

    def _look(self, count: int) -> None:
        self.looked += count
        if self.looked > self._most:
            raise Exhausted


def _in_turn(ways: Sequence[Callable[[], Ways]]) -> Ways:
    """Place the first in every way, and the others in every way beside it."""
    if not ways:
        yield
        return
    for _ in ways[0]():
        yield from _in_turn(ways[1:])


def _candidates(
    ground: Ground,
    demand: Demand,
    scope: Domain,
) -> Iterator[Domain]:
    """Yield the domains that a demand may go to, those of its preferred level first."""
    domains = ground.domains
    levels = demand.depths(domains)
    if not (demand.key or demand.preferred):
        yield scope
        return
    if not levels:
        return

    for depth in dict.fromkeys((levels.preferred, levels.required)):
        is_inside = 0 < len(scope.path) >= depth
        for domain in [scope] if is_inside else domains.within(depth, scope.path):
            if demand.may_join(domain.path, levels.required, domains):
                yield domain
