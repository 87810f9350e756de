"""Whether gangs have places at the same time.

First as KAI looks for them, which is quick, then by trying every placement, which is only possible
for few pods. So "there is a placement" is always true, and "there is none" is either certain or
said to be not ruled out.

Of all placements, a part with a required level goes into one domain of it; where pods of it run
already, into one of theirs. Preferred levels decide only which domains are tried first. Parts with
a constraint get only nodes with the labels of all levels, as in KAI.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import zip_longest
from types import MappingProxyType

from app.base.value import Value
from app.explain.known.domains import Domain, Domains
from app.explain.known.sharing import Shares
from app.explain.placing.demand import Board, Demand, Ground, Taker, Vector, fullest_first, sum_of
from app.explain.placing.packer import Packer, Rules
from app.facts.kubernetes.pod import Shape

# Every placement.


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

    def __init__(self, pairs: Sequence[Placing], most: int) -> None:
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

    def _place(self, ground: Ground, demand: Demand, scope: Domain) -> Ways:
        """Place a demand in a domain of `scope`: its parts before its pods, the heaviest first."""
        parts = sorted(demand.bound, key=lambda part: part.count)[::-1]
        pods = sorted(demand.loose, key=lambda pods: ground.asks[pods[0]])[::-1]
        for domain in _candidates(ground, demand, scope):
            ways: list[Callable[[], Ways]] = [
                partial(self._place, ground, part, domain) for part in parts
            ]
            ways += [partial(self._fill, ground, *run, domain.nodes) for run in pods]
            yield from _in_turn(ways)

    def _fill(self, ground: Ground, shape: Shape, count: int, nodes: Sequence[int]) -> Ways:
        """Place pods on nodes that have room, the fullest first."""
        asks = ground.takes[shape]
        part = ground.part_of(shape)
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
                    self._put([(taken, position)], asks, taken, part)
                    yield from spread(index + 1, left - taken)
                    self.undo(mark)

        return spread(0, count)

    def _able(
        self, ground: Ground, shape: Shape, count: int, nodes: Sequence[int]
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


def _candidates(ground: Ground, demand: Demand, scope: Domain) -> Iterator[Domain]:
    """Yield the domains that a demand may go to, those of its preferred level first."""
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


# One gang after the other.


_FREELY = Rules(sizes=False, shared=False)
"""Without what KAI refuses although there is a placement."""

MOST_TRIED = 40_000_000
"""Nodes that all searches of one arrangement look at, which takes about ten seconds."""


class Wish(Value, dict=True):
    """A demand that needs a place.

    `freed` is what each node (position) gets back first, because pods of the gang leave it.
    """

    demand: Demand
    domains: Domains
    fit: Mapping[Shape, Sequence[bool]]
    freed: tuple[tuple[int, Vector], ...]


class Arrangement:
    """Wishes that have places at the same time, and what is then free.

    `names` are the resources that are counted; `free` is what each node has of them.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        free: Sequence[Vector],
        shares: Mapping[int, Shares] = MappingProxyType({}),
    ) -> None:
        self.is_certain = True
        self._names = names
        self._start = list(free)
        self._free = list(free)
        self._first_shares = shares
        self._shares = shares
        self._wishes: list[Wish] = []
        self.used: list[frozenset[int]] = []
        """The nodes (positions) that each wish has, in their order."""
        self._budget = MOST_TRIED

    def add(self, wish: Wish) -> bool:
        """Give a wish its place, beside all before it, which may get other places for that.

        False if there is no placement of all; `is_certain` is then false if there could be one.
        """
        self.is_certain = True
        wishes = [*self._wishes, wish]
        if self._as_kai(wish) or self._anew(wishes):
            self._wishes = wishes
            return True
        return False

    def _as_kai(self, wish: Wish) -> bool:
        """Give a wish its place nearly as KAI does, and leave all others theirs."""
        packer = Packer(self._ground(wish, _with(self._free, wish), self._shares), Rules())
        if not packer.places(wish.demand):
            # the same one, which has summed up what domains have
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

    def _anew(self, wishes: Sequence[Wish]) -> bool:
        """Look for a placement of all: of the last one alone first, which says no more often."""
        free = reduce(_with, wishes, self._start)
        shares = self._first_shares
        pairs = [(self._ground(wish, free, shares), wish.demand) for wish in wishes]
        if _is_too_much(pairs):
            return False
        try:
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
        """Try every placement of demands. Raise Exhausted if there are too many."""
        search = Search(pairs, self._budget)
        try:
            used = search.find()
        finally:
            self._budget -= search.looked
        return None if used is None else (used, search.free, search.shares)


def _is_too_much(pairs: Sequence[Placing]) -> bool:
    """Return whether all together ask for more than there is on nodes that any can use."""
    asked = sum_of((ground.taken(demand) for ground, demand in pairs), tuple)
    fits = zip(*(fit for ground, _ in pairs for fit in ground.fit.values()), strict=True)
    nodes = zip(pairs[0][0].free, fits, strict=True)
    usable = (free for free, fit in nodes if any(fit))
    has = sum_of(usable, lambda free: [max(0, amount) for amount in free])
    return any(ask > have for ask, have in zip_longest(asked, has, fillvalue=0))


def _with(free: Sequence[Vector], wish: Wish) -> list[Vector]:
    """Return what is free once the pods of a wish have left."""
    after = list(free)
    for position, more in wish.freed:
        pairs = zip(after[position], more, strict=True)
        after[position] = tuple([have + add for have, add in pairs])
    return after
