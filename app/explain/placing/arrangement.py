"""Search for places of several demands at the same time.

The search first places them as KAI would, which is quick. If that fails, it tries every placement,
which is only possible for few pods. So a placement that is found is always real, and "there is no
placement" is either certain or marked as uncertain.

The second search is needed: without it, what-if is wrong about 6 of 200 small random clusters and
uncertain about 71 (tests/explain/whatif/test_brute_force.py).

In every placement, a part with a required level goes into one domain of that level, and into a
domain where its pods already run, if any run. Preferred levels only decide which domains are tried
first. Parts with a constraint only get nodes that have the labels of all levels, as in KAI.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import zip_longest
from types import MappingProxyType

from app.base.value import Value
from app.explain.placing.demand import Board, Demand, Ground, Taker, Vector, fullest_first, sum_of
from app.explain.placing.packer import Packer, Rules
from app.explain.state.domains import Domain, Domains
from app.explain.state.gpu_sharing import Shares
from app.facts.kubernetes.pod import Shape

# Search for any placement.


MOST_PODS = 100
"""The most pods that are searched for in this way: each may add a level of recursion."""

_MOST_TAKERS = 300
"""The most nodes that are tried for pods of one shape. If more have room, the fullest are tried."""

_ONE_SEARCH = 2_000_000
"""The most nodes that one search looks at, which takes about half a second."""

Placing = tuple[Ground, Demand]
"""A demand, and the ground on which it is to be placed."""

Ways = Iterator[None]
"""The ways to place something. At each step, it is placed in one way, until the next step.

An iterator that waits at a step remembers the alternatives that were not tried. With plain
recursion, everything that is placed would stay on the call stack: 100 pods in nested parts would
exceed Python's recursion limit.
"""


class Exhausted(Exception):
    """The search ended before all placements were tried."""


class Search(Board):
    """A search for places of all demands at once, each on its ground.

    All grounds have the same free amounts. The search looks at `most` nodes at most.
    """

    def __init__(self, pairs: Sequence[Placing], most: int) -> None:
        super().__init__(pairs[0][0])
        self.looked = 0
        """The number of nodes that were looked at."""
        self._most = min(most, _ONE_SEARCH)
        self._is_cut = False
        """Whether nodes with room were left out because there were too many."""
        self._pairs = pairs
        self._starts = [0] * len(pairs)
        """The mark at which the placing of each demand began."""

    def find(self) -> list[frozenset[int]] | None:
        """Place everything, and return the nodes of each demand. None if there is no placement.

        Raise Exhausted if no placement was found, but not all were tried.
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
        """Place this demand and all later ones."""
        if number == len(self._pairs):
            yield
            return

        self._starts[number] = self.mark
        ground, demand = self._pairs[number]
        for _ in self._place(ground, demand, ground.domains.everywhere):
            yield from self._from(number + 1)

    def _place(self, ground: Ground, demand: Demand, scope: Domain) -> Ways:
        """Place a demand in a domain of `scope`: parts before pods, and the largest first."""
        parts = sorted(demand.bound, key=lambda part: part.count)[::-1]
        pods = sorted(demand.loose, key=lambda pods: ground.asks[pods[0]])[::-1]
        for domain in _candidates(ground, demand, scope):
            ways: list[Callable[[], Ways]] = [
                partial(self._place, ground, part, domain) for part in parts
            ]
            ways += [partial(self._fill, ground, *run, domain.nodes) for run in pods]
            yield from _in_turn(ways)

    def _fill(self, ground: Ground, shape: Shape, count: int, nodes: Sequence[int]) -> Ways:
        """Place pods of one shape on nodes that have room, the fullest first."""
        asks = ground.takes[shape]
        part = ground.part_of(shape)
        able = self._able(ground, shape, count, nodes)
        # from_here[n] is the room on the nodes from the n-th on.
        from_here = list(itertools.accumulate(room for room, _ in reversed(able)))[::-1]

        def spread(start: int, left: int) -> Ways:
            """Place the remaining pods on the nodes from `start` on, in every way."""
            if not left:
                yield
            for index in range(start, len(able)):
                if not 0 < left <= from_here[index]:
                    return
                room, position = able[index]
                for taken in range(min(room, left), 0, -1):
                    self._look(1)
                    mark = self.mark
                    self._put([(taken, position)], asks, taken, part)
                    yield from spread(index + 1, left - taken)
                    self.undo(mark)

        return spread(0, count)

    def _able(
        self, ground: Ground, shape: Shape, count: int, nodes: Sequence[int]
    ) -> Sequence[Taker]:
        """Return the nodes that take pods, the fullest first. None if not all pods have room."""
        self._look(len(nodes))
        able = self._takers(ground, shape, nodes)
        if sum(room for room, _ in able) < count:
            return []
        self._is_cut |= len(able) > _MOST_TAKERS
        return fullest_first(able, self._free)[:_MOST_TAKERS]

    def _look(self, count: int) -> None:
        """Count nodes that are looked at. Raise Exhausted if they are too many."""
        self.looked += count
        if self.looked > self._most:
            raise Exhausted


def _in_turn(ways: Sequence[Callable[[], Ways]]) -> Ways:
    """Try each way of the first, and for each of these all ways of the others."""
    if not ways:
        yield
        return
    for _ in ways[0]():
        yield from _in_turn(ways[1:])


def _candidates(ground: Ground, demand: Demand, scope: Domain) -> Iterator[Domain]:
    """Yield the domains that a demand may use, those of its preferred level first."""
    domains = ground.domains.by(demand.levels)
    levels = demand.depths(domains)
    if not (demand.key or demand.preferred):
        yield scope
        return
    if not levels:
        return

    parent = scope.path if domains.has(scope) else ()
    for depth in dict.fromkeys((levels.preferred, levels.required)):
        is_inside = 0 < len(parent) >= depth
        for domain in [scope] if is_inside else domains.within(depth, parent):
            if demand.may_join(domain.path, levels.required, domains):
                yield domains.part(domain.path, scope)


# Place one gang after the other.


_FREELY = Rules(sizes=False, shared=False)
"""KAI's rules without those by which it rejects placements that exist."""

MOST_TRIED = 40_000_000
"""The most nodes that all searches of an arrangement look at, which takes about ten seconds."""


class Wish(Value, dict=True):
    """A demand that needs a place."""

    demand: Demand
    domains: Domains
    """The tree of the nodes that it may use."""
    fit: Mapping[Shape, Sequence[bool]]
    """Whether each node may take pods of a shape."""
    freed: tuple[tuple[int, Vector], ...]
    """What pods of the gang free first, because they leave: (position of the node, amounts)."""


class Arrangement:
    """Wishes that have places at the same time, and what is then free.

    `names` are the resources that count, and `free` are their free amounts on each node.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        free: Sequence[Vector],
        shares: Mapping[int, Shares] = MappingProxyType({}),
    ) -> None:
        self.is_certain = True
        """Whether the last answer of `add` is certain."""
        self._names = names
        self._start = list(free)
        self._free = list(free)
        self._first_shares = shares
        self._shares = shares
        self._wishes: list[Wish] = []
        self.used: list[frozenset[int]] = []
        """The nodes (positions) of each wish, in the order of the wishes."""
        self._budget = MOST_TRIED
        """The number of nodes that further searches may look at."""

    def add(self, wish: Wish) -> bool:
        """Place a wish in addition to the earlier ones, which may be moved for that.

        Return False if no placement of all was found. Then `is_certain` says whether there is none.
        """
        self.is_certain = True
        wishes = [*self._wishes, wish]
        if self._place_as_kai(wish) or self._place_all_again(wishes):
            self._wishes = wishes
            return True
        return False

    def _place_as_kai(self, wish: Wish) -> bool:
        """Place a wish as KAI would, or nearly so, without moving the earlier ones."""
        packer = Packer(self._ground(wish, _with(self._free, wish), self._shares), Rules())
        if not packer.places(wish.demand):
            # The same packer is used again, because it has already added up the room of domains.
            packer.undo(0)
            packer.rules = _FREELY
            if not packer.places(wish.demand):
                return False

        self.used.append(packer.used())
        self._free = packer.free
        self._shares = packer.shares
        return True

    def _ground(self, wish: Wish, free: Sequence[Vector], shares: Mapping[int, Shares]) -> Ground:
        return Ground(wish.domains, self._names, free, wish.fit, shares=shares)

    def _place_all_again(self, wishes: Sequence[Wish]) -> bool:
        """Search for any placement of all wishes, and move the earlier ones accordingly."""
        free = reduce(_with, wishes, self._start)
        shares = self._first_shares
        pairs = [(self._ground(wish, free, shares), wish.demand) for wish in wishes]
        if _is_too_much(pairs):
            return False
        try:
            # Most often, the last wish has no place even alone. This is quicker to find out.
            found = self._search(pairs[-1:]) and self._search(pairs)
        except Exhausted:
            self.is_certain = False
            return False
        if found is None:
            return False
        self.used, self._free, self._shares = found
        return True

    def _search(
        self, pairs: Sequence[Placing]
    ) -> tuple[list[frozenset[int]], list[Vector], dict[int, Shares]] | None:
        """Try every placement of some demands. Raise Exhausted if there are too many."""
        search = Search(pairs, self._budget)
        try:
            used = search.find()
        finally:
            self._budget -= search.looked
        return None if used is None else (used, search.free, search.shares)


def _is_too_much(pairs: Sequence[Placing]) -> bool:
    """Return whether all request more than is free on the nodes that any of them can use."""
    asked = sum_of((ground.taken(demand) for ground, demand in pairs), tuple)
    fits = zip(*(fit for ground, _ in pairs for fit in ground.fit.values()), strict=True)
    nodes = zip(pairs[0][0].free, fits, strict=True)
    usable = (free for free, fit in nodes if any(fit))
    has = sum_of(usable, lambda free: [max(0, amount) for amount in free])
    return any(ask > have for ask, have in zip_longest(asked, has, fillvalue=0))


def _with(free: Sequence[Vector], wish: Wish) -> list[Vector]:
    """Return what is free once the pods that a wish moves have left."""
    after = list(free)
    for position, more in wish.freed:
        pairs = zip(after[position], more, strict=True)
        after[position] = tuple([have + add for have, add in pairs])
    return after
