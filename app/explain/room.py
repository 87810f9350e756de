"""Where a gang fits: every pod is put on a node, one after the other, never judged by sums.

Larger pods first, each on the node with the least room that still takes it, as schedulers do. What
this finds is a placement; in rare mixes of sizes there may be one that it does not find.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from app.explain.domains import Domain, Domains
from app.explain.facts.pods import Shape

Vector = tuple[int, ...]
"""Amounts of some resources, in a given order."""

UNLIMITED = 1_000_000


@dataclass(frozen=True)
class Demand:
    """`pods` (shape and count) and `parts` go together into one domain of the level `key`, into the
    whole cluster if it is "". `occupied` are nodes that already have pods of it: the rest must
    join their domain.
    """

    name: str
    key: str
    pods: tuple[tuple[Shape, int], ...] = ()
    parts: tuple["Demand", ...] = ()
    occupied: frozenset[str] = frozenset()

    @cached_property
    def count(self) -> int:
        return sum(count for _, count in self.pods) + sum(part.count for part in self.parts)

    @cached_property
    def shapes(self) -> tuple[tuple[Shape, int], ...]:
        """All pods by shape, those of the parts too."""
        return by_shape((*self.pods, *(pair for part in self.parts for pair in part.shapes)))

    @cached_property
    def profile(self) -> tuple[object, ...]:
        """Equal for demands that differ only in their names."""
        return (self.key, self.pods, tuple(part.profile for part in self.parts), self.occupied)

    @cached_property
    def constrained(self) -> bool:
        return bool(self.key) or any(part.constrained for part in self.parts)

    def flat(self) -> Iterator["Demand"]:
        """Itself after its parts, the innermost first."""
        for part in self.parts:
            yield from part.flat()
        yield self


def by_shape(pods: Iterable[tuple[Shape, int]]) -> tuple[tuple[Shape, int], ...]:
    """How many pods there are of each shape."""
    total: Counter[Shape] = Counter()
    for shape, count in pods:
        total[shape] += count
    return tuple(total.items())


@dataclass(frozen=True, slots=True)
class Room:
    """For how many pods of a demand a domain has room, alone in it."""

    domain: Domain
    pods: int


@dataclass(frozen=True, slots=True)
class Fit:
    """`fits` if all has a place.

    If not, `short` is the innermost demand that has none by itself (the whole if only the parts
    together have none), and `rooms` has its room in every domain that it may go to, the roomiest
    first.
    """

    fits: bool
    short: Demand | None = None
    rooms: tuple[Room, ...] = ()

    @property
    def best(self) -> Room | None:
        return self.rooms[0] if self.rooms else None


class Board:
    """Trials of placing demands on nodes.

    `free` has, for each node of `domains`, the free amounts of the resources called `names`. `fit`
    gives for each shape which nodes may take it. Of the resources, only those are looked at for
    which `counts` holds.
    """

    def __init__(
        self,
        domains: Domains,
        names: Sequence[str],
        free: Sequence[Vector],
        fit: Mapping[Shape, Sequence[bool]],
        *,
        counts: Callable[[str], bool] = lambda name: True,
    ) -> None:
        self._domains = domains
        self._fit = fit
        self._free = list(free)
        requests = {shape: dict(shape.requests) for shape in fit}
        self._asks = {
            shape: tuple(asked.get(name, 0) if counts(name) else 0 for name in names)
            for shape, asked in requests.items()
        }
        self._capacities: dict[Shape, dict[Vector, int]] = {shape: {} for shape in fit}
        self._journal: list[tuple[int, Vector]] = []

    def capacity(self, shape: Shape, free: Vector) -> int:
        """For how many pods of a shape a node with these free amounts has room."""
        known = self._capacities[shape]
        if free not in known:
            known[free] = _capacity(free, self._asks[shape])
        return known[free]

    def fit(self, demand: Demand) -> Fit:
        """A demand without pods fits."""
        if not demand.count or self._has_room(demand):
            return Fit(fits=True)
        parts = (part for part in _distinct(demand.flat()) if part is not demand)
        short = next((part for part in parts if not self._has_room(part)), demand)
        return Fit(False, short, self.rooms(short))

    def rooms(self, demand: Demand) -> tuple[Room, ...]:
        """The room for a demand in every domain that it may go to, the roomiest first."""
        rooms = []
        for domain in self._candidates(demand, self._scope(demand)):
            rooms.append(Room(domain, self._place(demand, domain)))
            self._undo(0)
        return tuple(sorted(rooms, key=lambda room: (-room.pods, room.domain.path)))

    def needed(self, demand: Demand) -> int | None:
        """How many domains take all pods of a demand without parts, the roomiest ones first; None
        if all together can't.
        """
        left = dict(sorted(demand.pods, key=_weight_of_pods, reverse=True))
        number = None
        for count, room in enumerate(self.rooms(demand), 1):
            for shape in left:
                left[shape] -= self._fill(shape, left[shape], room.domain.nodes, mixed=True)
            if not any(left.values()):
                number = count
                break
        self._undo(0)
        return number

    def _has_room(self, demand: Demand) -> bool:
        """Whether a domain has room for this demand alone."""
        for domain in self._candidates(demand, self._scope(demand)):
            placed = self._place(demand, domain)
            self._undo(0)
            if placed == demand.count:
                return True
        return False

    def _scope(self, demand: Demand) -> Domain:
        return self._domains.inside if demand.constrained else self._domains.everywhere

    def _candidates(self, demand: Demand, scope: Domain) -> Sequence[Domain]:
        """The domains that a demand may go to: with pods that are already placed, only theirs."""
        depth = self._domains.depth(demand.key)
        if depth is None:
            return [scope]
        domains = self._domains.within(depth, scope.path[:depth])
        if not demand.occupied:
            return domains
        positions = self._domains.positions
        occupied = {
            self._domains.domain_of(positions[name], depth)
            for name in demand.occupied
            if name in positions
        }
        return [domain for domain in domains if domain.path in occupied]

    def _place(self, demand: Demand, domain: Domain) -> int:
        """Places as much of a demand as goes into a domain; gives the number of pods."""
        placed = 0
        tried = dict[object, int]()
        for part in sorted(demand.parts, key=_weight, reverse=True):
            placed += self._place_part(part, domain, tried)
        for shape, count in sorted(demand.pods, key=_weight_of_pods, reverse=True):
            placed += self._fill(shape, count, domain.nodes, mixed=len(demand.pods) > 1)
        return placed

    def _place_part(self, part: Demand, domain: Domain, tried: dict[object, int]) -> int:
        """Goes on at the domain at which the last equal part ended: those before have no room left
        for it. If none has room for all of it, the roomiest takes what it can.
        """
        candidates = self._candidates(part, domain)
        start = tried.get(part.profile, 0)
        for position in range(start, len(candidates)):
            mark = len(self._journal)
            if self._place(part, candidates[position]) == part.count:
                tried[part.profile] = position
                return part.count
            self._undo(mark)
        tried[part.profile] = len(candidates)
        return self._place_some(part, candidates) if start < len(candidates) else 0

    def _place_some(self, part: Demand, candidates: Sequence[Domain]) -> int:
        best = None
        most = 0
        for candidate in candidates:
            mark = len(self._journal)
            placed = self._place(part, candidate)
            self._undo(mark)
            if placed > most:
                best = candidate
                most = placed
        return self._place(part, best) if best is not None else 0

    def _fill(self, shape: Shape, count: int, nodes: Sequence[int], *, mixed: bool) -> int:
        """Places up to `count` pods of one shape; the fullest nodes first if other shapes are to
        follow.
        """
        asks = self._asks[shape]
        fit = self._fit[shape]
        free = self._free
        known = self._capacities[shape]
        takers = []
        for position in nodes:
            if fit[position]:
                capacity = known.get(free[position])
                if capacity is None:
                    capacity = self.capacity(shape, free[position])
                if capacity:
                    takers.append((capacity, position))
        if mixed:
            takers.sort(key=lambda taker: (taker[0], free[taker[1]], taker[1]))
        left = count
        for capacity, position in takers:
            taken = min(capacity, left)
            self._journal.append((position, free[position]))
            free[position] = tuple(
                [have - taken * ask for have, ask in zip(free[position], asks, strict=True)]
            )
            left -= taken
            if not left:
                break
        return count - left

    def _undo(self, mark: int) -> None:
        while len(self._journal) > mark:
            position, before = self._journal.pop()
            self._free[position] = before


def _capacity(free: Vector, asks: Vector) -> int:
    """For how many pods a node has room; for very many if nothing is asked for."""
    return max(
        0,
        min((have // ask for have, ask in zip(free, asks, strict=True) if ask), default=UNLIMITED),
    )


def _distinct(demands: Iterable[Demand]) -> list[Demand]:
    """The first of each profile."""
    distinct: dict[tuple[object, ...], Demand] = {}
    for demand in demands:
        distinct.setdefault(demand.profile, demand)
    return list(distinct.values())


def _weight(demand: Demand) -> tuple[int, ...]:
    heaviest = max((_weight_of_pods(pair) for pair in demand.shapes), default=(0,))
    return (*heaviest, demand.count)


def _weight_of_pods(pair: tuple[Shape, int]) -> tuple[int, ...]:
    """Devices first, then CPU and memory: what is hardest to place."""
    requests = dict(pair[0].requests)
    devices = max((amount for name, amount in requests.items() if "/" in name), default=0)
    return (devices, requests.get("memory", 0), requests.get("cpu", 0))
