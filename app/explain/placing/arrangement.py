"""Search for places of several demands at the same time.

The search first places them as KAI would, which is quick. If that fails, it tries every placement,
which is only possible for few pods. So a placement that is found is always real, and "there is no
placement" is either certain or marked as uncertain.

The second search is needed. Without it, the answer about a recorded cluster is uncertain
(tests/explain/whatif/test_recordings.py), and the answers about 35 of 200 small random clusters are
uncertain or wrong (tests/explain/whatif/test_brute_force.py).

In every placement, a part with a required level goes into one domain of that level, and into a
domain where its pods already run, if any run. Preferred levels only decide which domains are tried
first. Parts with a constraint only get nodes that have the labels of all levels, as in KAI.
"""

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import zip_longest
from types import MappingProxyType

from msgspec.structs import replace

from app.base.value import Value
from app.explain.placing.demand import Board, Demand, Ground, Taker, Vector, fullest_first, sum_of
from app.explain.placing.packer import Packer, Rules
from app.explain.state.domains import Domain, Domains
from app.explain.state.gpu_sharing import Shares
from app.facts.kubernetes.gpu_sharing import GpuPart
from app.facts.kubernetes.pod import Shape

# Search for any placement.


MOST_PODS = 100
"""The maximum number of pods for which every placement is tried."""

_MOST_TAKERS = 300
"""The maximum number of nodes that are tried for pods of one shape.

If more have room, the fullest are tried.
"""

_ONE_SEARCH = 2_000_000
"""The maximum number of nodes that one search examines. This takes about half a second."""

Placing = tuple[Ground, Demand]
"""A demand that needs a place: (ground, demand)."""


class ToPlace(Value):
    """A demand that needs a place in a domain of `scope`."""

    ground: Ground
    demand: Demand
    scope: Domain
    number: int | None = None
    """The position of the demand in the search, or None if it is a part of another demand."""


class ToFill(Value):
    """Pods of one shape that need places on nodes."""

    left: int
    """The number of pods that have no place yet."""
    able: Sequence[Taker]
    """The nodes that have room for at least one of these pods."""
    asks: Vector
    """The request of each pod, without GPU fractions."""
    part: GpuPart | None
    """The GPU fraction that each pod requests, or None."""
    room: Sequence[int]
    """For each position in `able`, the number of pods that fit on the nodes from there on."""
    start: int = 0
    """The position in `able` of the next node to be tried."""


class ToLook(Value):
    """Pods of one shape. The search must first find out which nodes have room for them."""

    ground: Ground
    shape: Shape
    count: int
    nodes: Sequence[int]


Agenda = tuple[ToPlace | ToLook | ToFill, "Agenda"] | None
"""The steps that are still to be done, next step first."""


class Exhausted(Exception):
    """The search ended before all placements were tried."""


class Search(Board):
    """A search for places of all demands of `pairs` at once, each on its ground.

    All grounds have the same free amounts. The search examines at most `most` nodes.
    """

    def __init__(self, pairs: Sequence[Placing], most: int) -> None:
        super().__init__(pairs[0][0])
        self.looked = 0
        """The number of nodes that were examined."""
        self._most = min(most, _ONE_SEARCH)
        self._is_cut = False
        """Were nodes with room left out because there were too many?"""
        self._pairs = pairs
        self._starts = [0] * len(pairs)
        """The mark at which the placing of each demand began."""

    def find(self) -> list[frozenset[int]] | None:
        """Place everything, and return the nodes (positions) of each demand.

        Return None if there is no placement. Raise Exhausted if no placement was found, but not all
        were tried.
        """
        if sum(demand.count for _, demand in self._pairs) > MOST_PODS:
            raise Exhausted
        agenda: Agenda = None
        for number, (ground, demand) in reversed(list(enumerate(self._pairs))):
            agenda = ToPlace(ground, demand, ground.domains.everywhere, number), agenda
        # for each step that was done, the ways to do it that have not been tried yet
        begun = [self._ways(agenda)]
        while begun:
            for left in begun[-1]:
                if left is None:
                    bounds = itertools.pairwise([*self._starts, self.mark])
                    return [self.used(start, end) for start, end in bounds]
                begun.append(self._ways(left))
                break
            else:
                begun.pop()
        if self._is_cut:
            raise Exhausted
        return None

    def _ways(self, agenda: Agenda) -> Iterator[Agenda]:
        """Do the next step of an agenda in each possible way, and yield the remaining steps.

        The placements of an alternative are undone before the next one.
        """
        assert agenda is not None
        step, rest = agenda
        match step:
            case ToPlace():
                yield from self._place(step, rest)
            case ToLook():
                yield self._look_for(step), rest
            case ToFill():
                yield from self._fill(step, rest)

    def _place(self, step: ToPlace, rest: Agenda) -> Iterator[Agenda]:
        """Try each domain for a demand, and yield the remaining steps.

        The parts of the demand are placed before its own pods, the largest part first.
        """
        if step.number is not None:
            self._starts[step.number] = self.mark
        ground = step.ground
        parts = sorted(step.demand.bound, key=lambda part: part.count)
        pods = sorted(step.demand.loose, key=lambda run: ground.asks[run[0]])
        for domain in _candidates(ground, step.demand, step.scope):
            agenda = rest
            for shape, count in pods:
                agenda = ToLook(ground, shape, count, domain.nodes), agenda
            for part in parts:
                agenda = ToPlace(ground, part, domain), agenda
            yield agenda

    def _look_for(self, step: ToLook) -> ToFill:
        """Find the nodes that have room for pods, and return the step that places these pods."""
        able = self._able(step.ground, step.shape, step.count, step.nodes)
        return ToFill(
            left=step.count,
            able=able,
            asks=step.ground.takes[step.shape],
            part=step.ground.part_of(step.shape),
            room=list(itertools.accumulate(room for room, _ in reversed(able)))[::-1],
        )

    def _fill(self, step: ToFill, rest: Agenda) -> Iterator[Agenda]:
        """Try each node for the pods, fullest first: as many pods as possible, then fewer.

        After each attempt, yield the remaining steps.
        """
        if not step.left:
            yield rest
            return
        for position in range(step.start, len(step.able)):
            if step.left > step.room[position]:
                return
            room, node = step.able[position]
            for taken in range(min(room, step.left), 0, -1):
                self._look(1)
                mark = self.mark
                self._put([(taken, node)], step.asks, taken, step.part)
                yield replace(step, start=position + 1, left=step.left - taken), rest
                self.undo(mark)

    def _able(
        self, ground: Ground, shape: Shape, count: int, nodes: Sequence[int]
    ) -> Sequence[Taker]:
        """Return the nodes that take pods, fullest first, or none if not all pods have room."""
        self._look(len(nodes))
        able = self._takers(ground, shape, nodes)
        if sum(room for room, _ in able) < count:
            return []
        self._is_cut |= len(able) > _MOST_TAKERS
        return fullest_first(able, self._free)[:_MOST_TAKERS]

    def _look(self, count: int) -> None:
        """Count `count` more examined nodes. Raise Exhausted if they are too many in total."""
        self.looked += count
        if self.looked > self._most:
            raise Exhausted


def _candidates(ground: Ground, demand: Demand, scope: Domain) -> Iterator[Domain]:
    """Yield the domains that a demand may use, domains of its preferred level first."""
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


_WITHOUT_REJECTIONS = Rules(sizes=False, shared=False)
"""KAI's rules, except for the rules by which it rejects possible placements."""

MOST_TRIED = 40_000_000
"""The maximum number of nodes that all searches of an arrangement examine.

This takes about ten seconds.
"""


class Wish(Value, dict=True):
    """A demand that needs a place, and the nodes that it may use."""

    demand: Demand
    domains: Domains
    """The tree of the nodes that it may use."""
    fit: Mapping[Shape, Sequence[bool]]
    """For each shape, whether each node may take such pods."""
    freed: tuple[tuple[int, Vector], ...]
    """The amounts that leaving pods of the gang free first: (position of the node, amounts)."""


class Arrangement:
    """Wishes that have places at the same time.

    `names` are the resources that count, and `free` has their free amounts on each node.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        free: Sequence[Vector],
        shares: Mapping[int, Shares] = MappingProxyType({}),
    ) -> None:
        self.is_certain = True
        """Is the result of the last `add` certain? If not, a placement may exist nevertheless."""
        self._names = names
        self._start = list(free)
        self._free = list(free)
        self._first_shares = shares
        self._shares = shares
        self._wishes: list[Wish] = []
        self.used: list[frozenset[int]] = []
        """The nodes (positions) of each wish, in the order of the wishes."""
        self._budget = MOST_TRIED
        """The number of nodes that further searches may examine."""
        self._failed: dict[Hashable, tuple[Wish, bool]] = {}
        """Wishes that got no place, and whether that was certain.

        An equal wish is not tried again until a wish that frees resources gets a place, because
        only then can there be more room than before.
        """

    def add(self, wish: Wish) -> bool:
        """Place a wish in addition to the earlier ones, which may be moved.

        Return whether a place for all wishes was found. `is_certain` then says whether that is
        certain.
        """
        alike = wish.demand.profile, wish.freed, id(wish.domains), id(wish.fit)
        if alike in self._failed:
            _, self.is_certain = self._failed[alike]
            return False

        self.is_certain = True
        wishes = [*self._wishes, wish]
        if self._place_as_kai(wish) or self._place_all_again(wishes):
            self._wishes = wishes
            if wish.freed:
                self._failed.clear()
            return True
        self._failed[alike] = wish, self.is_certain
        return False

    def _place_as_kai(self, wish: Wish) -> bool:
        """Place a wish without moving the earlier wishes. Return whether it has a place.

        It is placed as KAI would, or else without the rules by which KAI rejects possible
        placements.
        """
        packer = Packer(self._ground(wish, _after_leaving(self._free, wish), self._shares), Rules())
        if not packer.places(wish.demand):
            # The same packer is used again, because it has already added up the room of domains.
            packer.undo(0)
            packer.rules = _WITHOUT_REJECTIONS
            if not packer.places(wish.demand):
                return False

        self.used.append(packer.used())
        self._free = packer.free
        self._shares = packer.shares
        return True

    def _ground(self, wish: Wish, free: Sequence[Vector], shares: Mapping[int, Shares]) -> Ground:
        return Ground(wish.domains, self._names, free, wish.fit, shares=shares)

    def _place_all_again(self, wishes: Sequence[Wish]) -> bool:
        """Search for any placement of all wishes. Return whether one was found.

        The earlier wishes are moved accordingly. If the search was cut short, `is_certain` is set
        to False.
        """
        free = reduce(_after_leaving, wishes, self._start)
        shares = self._first_shares
        pairs = [(self._ground(wish, free, shares), wish.demand) for wish in wishes]
        if _is_too_much(pairs):
            return False
        try:
            # The last wish is tried alone first: often it has no place even then.
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
        """Try every placement of some demands. Raise Exhausted if there are too many to try.

        Return the nodes of each demand, and the free amounts and shared GPUs afterwards, or None if
        there is no placement.
        """
        search = Search(pairs, self._budget)
        try:
            used = search.find()
        finally:
            self._budget -= search.looked
        return None if used is None else (used, search.free, search.shares)


def _is_too_much(pairs: Sequence[Placing]) -> bool:
    """Return whether the demands request more than is free on all usable nodes together."""
    asked = sum_of((ground.taken(demand) for ground, demand in pairs), tuple)
    fits = zip(*(fit for ground, _ in pairs for fit in ground.fit.values()), strict=True)
    nodes = zip(pairs[0][0].free, fits, strict=True)
    usable = (free for free, fit in nodes if any(fit))
    has = sum_of(usable, lambda free: [max(0, amount) for amount in free])
    return any(ask > have for ask, have in zip_longest(asked, has, fillvalue=0))


def _after_leaving(free: Sequence[Vector], wish: Wish) -> list[Vector]:
    """Return the free resources after the leaving pods of a wish's gang have left."""
    after = list(free)
    for position, more in wish.freed:
        pairs = zip(after[position], more, strict=True)
        after[position] = tuple([have + add for have, add in pairs])
    return after
