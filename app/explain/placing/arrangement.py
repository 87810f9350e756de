"""Whether gangs have places at the same time.

First as KAI looks for them, which is quick, then by trying every placement, which is only possible
for few pods. So "there is a placement" is always true, and "there is none" is either certain or
said to be not ruled out.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import zip_longest

from app.base.value import Value
from app.explain.known.domains import Domains
from app.explain.placing.demand import Demand
from app.explain.placing.every import Exhausted, Placing, Search
from app.explain.placing.ground import Ground, Vector
from app.explain.placing.packer import Packer, Rules
from app.facts.kubernetes.pod import Shape

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
    ) -> None:
        self.is_certain = True
        self._names = names
        self._start = list(free)
        self._free = list(free)
        self._wishes: list[Wish] = []
        self._used: list[frozenset[int]] = []
        self._budget = MOST_TRIED

    @property
    def used(self) -> tuple[frozenset[int], ...]:
        """The nodes (positions) that each wish has, in their order."""
        return tuple(self._used)

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
        ground = self._ground(wish, _with(self._free, wish))
        for rules in (Rules(), _FREELY):
            packer = Packer(ground, rules)
            if packer.places(wish.demand):
                self._used.append(packer.used())
                self._free = packer.free
                return True
        return False

    def _ground(
        self,
        wish: Wish,
        free: Sequence[Vector],
    ) -> Ground:
        return Ground(wish.domains, self._names, free, wish.fit)

    def _anew(self, wishes: Sequence[Wish]) -> bool:
        """Look for a placement of all: of the last one alone first, which says no more often."""
        free = reduce(_with, wishes, self._start)
        pairs = [(self._ground(wish, free), wish.demand) for wish in wishes]
        if _is_too_much(pairs):
            return False
        try:
            found = self._search(pairs[-1:]) and self._search(pairs)
        except Exhausted:
            self.is_certain = False
            return False
        if found is None:
            return False
        self._used, self._free = found
        return True

    def _search(self, pairs: Sequence[Placing]) -> tuple[list[frozenset[int]], list[Vector]] | None:
        """Try every placement of demands. Raise Exhausted if there are too many."""
        search = Search(pairs, self._budget)
        try:
            used = search.find()
        finally:
            self._budget -= search.looked
        return None if used is None else (used, search.free)


def _is_too_much(pairs: Sequence[Placing]) -> bool:
    """Return whether all together ask for more than there is on nodes that any can use."""
    asked = [ground.asked(demand) for ground, demand in pairs]
    fits = zip(*(fit for ground, _ in pairs for fit in ground.fit.values()), strict=True)
    nodes = zip(pairs[0][0].free, fits, strict=True)
    has = [[max(0, amount) for amount in free] for free, fit in nodes if any(fit)]
    sums = (map(sum, zip(*vectors, strict=True)) for vectors in (asked, has))
    return any(ask > have for ask, have in zip_longest(*sums, fillvalue=0))


def _with(free: Sequence[Vector], wish: Wish) -> list[Vector]:
    """Return what is free once the pods of a wish have left."""
    after = list(free)
    for position, more in wish.freed:
        pairs = zip(after[position], more, strict=True)
        after[position] = tuple([have + add for have, add in pairs])
    return after
