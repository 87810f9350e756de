"""Whether gangs have places at the same time.

First as KAI looks for them, which is quick, then by trying every placement, which is only possible
for few pods. So "there is a placement" is always true, and "there is none" is either certain or
said to be not ruled out.
"""

from collections.abc import Iterable, Mapping, Sequence

from app.explain.known.domains import Domains
from app.explain.placing.demand import Demand
from app.explain.placing.every import MOST_PODS, Exhausted, every_placement
from app.explain.placing.ground import Ground, Vector
from app.explain.placing.packer import Packer, Rules
from app.facts.kubernetes.pod import Shape
from app.value import Value

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

    def __init__(self, names: tuple[str, ...], free: Sequence[Vector]) -> None:
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
        free = _with(self._free, wish)
        placed = self._as_kai(free, wish)
        if placed is not None:
            self._free = placed[1]
            self._wishes.append(wish)
            self._used.append(placed[0])
            return True

        start = self._start
        for other in (*self._wishes, wish):
            start = _with(start, other)
        if self._is_too_much(start, wish):
            return False
        return self._anew(start, wish)

    def _as_kai(self, free: list[Vector], wish: Wish) -> tuple[frozenset[int], list[Vector]] | None:
        """Return the nodes that a wish gets, and what is then free, nearly as KAI places it."""
        ground = Ground(wish.domains, self._names, free, wish.fit)
        for rules in (Rules(), _FREELY):
            packer = Packer(ground, rules)
            if packer.places(wish.demand):
                return packer.used, packer.free
        return None

    def _is_too_much(self, free: Sequence[Vector], wish: Wish) -> bool:
        """Return whether all together ask for more than there is on nodes that any can use."""
        wishes = (*self._wishes, wish)
        asked = [0] * len(self._names)
        for member in wishes:
            for shape, count in member.demand.shapes:
                requests = dict(shape.requests)
                for position, name in enumerate(self._names):
                    asked[position] += count * requests.get(name, 0)

        usable = _usable(wishes, len(free))
        has = [
            sum(max(0, free[node][position]) for node in usable)
            for position in range(len(self._names))
        ]
        return any(ask > have for ask, have in zip(asked, has, strict=True))

    def _anew(self, free: list[Vector], wish: Wish) -> bool:
        """Look for a placement of all: of the new wish alone first, which says no more often."""
        try:
            if self._every(free, [wish]) is None:
                return False
            solution = self._every(free, [*self._wishes, wish])
        except Exhausted:
            self.is_certain = False
            return False

        if solution is None:
            return False
        self._used, self._free = solution
        self._wishes.append(wish)
        return True

    def _every(
        self, free: list[Vector], wishes: list[Wish]
    ) -> tuple[list[frozenset[int]], list[Vector]] | None:
        if sum(wish.demand.count for wish in wishes) > MOST_PODS:
            raise Exhausted
        grounds = [Ground(wish.domains, self._names, free, wish.fit) for wish in wishes]
        demands = [wish.demand for wish in wishes]
        search = every_placement(grounds, demands, self._budget)
        self._budget = search.budget
        if search.exhausted:
            raise Exhausted
        return search.found


def _with(free: Sequence[Vector], wish: Wish) -> list[Vector]:
    """Return what is free once the pods of a wish have left."""
    after = list(free)
    for position, more in wish.freed:
        pairs = zip(after[position], more, strict=True)
        after[position] = tuple([have + add for have, add in pairs])
    return after


def _usable(wishes: Iterable[Wish], count: int) -> list[int]:
    """Return the nodes that take some pod of some wish."""
    fits = [fit for wish in wishes for fit in wish.fit.values()]
    return [position for position in range(count) if any(fit[position] for fit in fits)]
