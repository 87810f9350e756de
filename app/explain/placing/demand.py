"""Represent demands (pods to be placed together) and grounds (nodes with free resources)."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from app.base.value import Value
from app.explain.state.amounts import NOT_OFFERED, counts_as_gpu, gpus_of
from app.explain.state.domains import Domains, Path
from app.explain.state.gpu_sharing import Shares, capacity_for, choice_of, without_shares
from app.facts.kubernetes.gpu_sharing import GpuPart
from app.facts.kubernetes.gpus import GPU
from app.facts.kubernetes.pod import Shape


class Depths(Value):
    """The depths of a constraint's levels: 1 is the broadest level, and 0 stands for no level."""

    required: int
    """The depth of the required level."""
    preferred: int
    """The depth of the preferred level, or of the required one if no level is preferred."""

    @property
    def tried(self) -> range:
        """The depths of the levels whose domains KAI tries, narrowest level first."""
        return range(self.preferred, self.required - 1, -1)


Run = tuple[Shape, int]
"""Some equal pods: (shape, number of pods)."""


class Demand(Value, dict=True):
    """Pods and parts that are placed together, in one domain if there is a required level.

    The pods and the parts are in KAI's order.
    """

    name: str
    key: str
    """The node label of the required level, or "" for none."""
    pods: tuple[Run, ...] = ()
    """Its own pods, without the pods of its parts."""
    parts: tuple["Demand", ...] = ()
    """Its parts, such as PodCliques. They may have constraints too."""
    occupied: frozenset[str] = frozenset()
    """The names of the nodes with placed pods of the demand.

    If a level is required, its other pods must join a domain of these nodes.
    """
    preferred: str = ""
    """The node label of the preferred level, or "" for none."""
    levels: tuple[str, ...] | None = None
    """The labels of all levels of its topology, or None for the topology of the ground."""

    @cached_property
    def count(self) -> int:
        """The number of its pods, including the pods of its parts."""
        return sum(count for _, count in self.pods) + sum(part.count for part in self.parts)

    @cached_property
    def in_order(self) -> tuple[Run, ...]:
        """All pods, including the parts' pods, in KAI's order."""
        return (*self.pods, *(pair for part in self.parts for pair in part.in_order))

    @cached_property
    def shapes(self) -> tuple[Run, ...]:
        """All pods, including the parts' pods, by shape."""
        return by_shape(self.in_order)

    @cached_property
    def profile(self) -> tuple[object, ...]:
        """A key that is equal for demands that differ only in their names."""
        parts = tuple(part.profile for part in self.parts)
        return (self.key, self.preferred, self.levels, self.pods, parts, self.occupied)

    @cached_property
    def constrained(self) -> bool:
        """Does the demand or one of its parts have a constraint?"""
        own = bool(self.key or self.preferred)
        return own or any(part.constrained for part in self.parts)

    @cached_property
    def loose(self) -> tuple[Run, ...]:
        """The pods that may use any node in the demand's domain, by shape."""
        free = (part.in_order for part in self.parts if not part.constrained)
        return by_shape((*self.pods, *(pair for pairs in free for pair in pairs)))

    @cached_property
    def bound(self) -> tuple["Demand", ...]:
        """The parts that are `constrained`."""
        return tuple(part for part in self.parts if part.constrained)

    @property
    def unchecked(self) -> tuple[str, ...]:
        """The fields of its pods with rules about other pods, which no placement considers."""
        return tuple(sorted({field for shape, _ in self.shapes for field in shape.unchecked}))

    def asks(self, resource: str) -> int:
        """Return the total request for a resource, in thousandths.

        For any GPU resource, this is the sum of all kinds of GPUs.
        """
        measure = (
            gpus_of if counts_as_gpu(resource) else (lambda requests: requests.get(resource, 0))
        )
        return sum(measure(dict(shape.requests)) * count for shape, count in self.shapes)

    def depths(self, domains: Domains) -> Depths | None:
        """Return the depths of the required and the preferred level in a tree.

        Return None if a level does not exist, or if the preferred level is broader than the
        required one, which KAI rejects.
        """
        required = domains.depth(self.key) if self.key else 0
        preferred = domains.depth(self.preferred) if self.preferred else required
        if required is None or preferred is None or preferred < required:
            return None
        return Depths(required, preferred)

    def may_join(self, path: Path, required: int, domains: Domains) -> bool:
        """Return whether the demand may use the domain `path`, given the pods already placed.

        At the depth `required`, the domain must be that of a placed pod. If no pod is placed, or no
        level is required, every domain may be used.
        """
        if not (self.occupied and required):
            return True
        return domains.known(path[:required]) in domains.domains_of(self.occupied, required)

    def every(self) -> Iterator["Demand"]:
        """Yield the demand and all its parts."""
        yield self
        for part in self.parts:
            yield from part.every()

    def changed(self, change: Callable[["Demand"], "Demand"]) -> "Demand":
        """Apply `change` to all parts, inner parts first, then to the demand. Return the result."""
        parts = tuple(part.changed(change) for part in self.parts)
        return change(replace(self, parts=parts))

    def flat(self) -> Iterator["Demand"]:
        """Yield the parts with constraints, innermost first, and then the demand itself."""
        for part in self.bound:
            yield from part.flat()
        yield self


def by_shape(pods: Iterable[Run]) -> tuple[Run, ...]:
    """Return one run for each shape, with the number of its pods in all runs."""
    total: Counter[Shape] = Counter()
    for shape, count in pods:
        total[shape] += count
    return tuple(total.items())


def where(domains: Domains, demand: Demand, used: frozenset[int]) -> tuple[str, ...]:
    """Return the domains of the nodes `used` (positions), and the names of nodes outside domains.

    The domains belong to the narrowest required level. If no level is required, they belong to the
    level above the narrowest, or to the only level.
    """
    trees = [(part.key, domains.by(part.levels)) for part in demand.every() if part.key]
    depths = [(tree.depth(key) or 0, tree) for key, tree in trees]
    above = max(1, len(domains.keys) - 1), domains
    depth, domains = max(depths, key=itemgetter(0), default=above)
    names: dict[str, None] = {}
    for position in sorted(used):
        path = domains.domain_of(position, depth) if domains.keys else None
        name = domains.nodes[position].name if path is None else "/".join(path)
        names.setdefault(name)
    return tuple(sorted(names))


# Nodes.


MOST_ONE_BY_ONE = 5000
"""The maximum number of equal pods with GPU fractions that are placed one by one.

More pods count as having no place. KAI has no such maximum, but a PodGroup can have any minimum.
"""

Vector = tuple[int, ...]
"""Amounts of some resources, in a given order."""

Taker = tuple[int, int]
"""A node with room for pods: (number of pods that fit, position of the node)."""

UNLIMITED = 1_000_000
"""The room of a node, as a number of pods, for pods that request nothing."""


def everything(_resource: str) -> bool:
    """Return True: every resource counts."""
    return True


class Ground(Value, dict=True):
    """Nodes with their free resources, and which pods they may take."""

    domains: Domains
    """The tree of the nodes."""
    names: tuple[str, ...]
    """The names of the resources, in the order of all vectors.

    If NOT_OFFERED is one of them, it stands for all requested resources that no node has.
    """
    free: Sequence[Vector]
    """The free amounts of each node."""
    fit: Mapping[Shape, Sequence[bool]]
    """For each shape, whether each node may take such pods."""
    counts: Callable[[str], bool] = everything
    """Returns whether requests for a resource count."""
    coming: Mapping[int, Vector] = MappingProxyType({})
    """The amounts that terminating pods will free, by the position of the node."""
    shares: Mapping[int, Shares] = MappingProxyType({})
    """The GPUs that pods share, by the position of the node."""

    @cached_property
    def asks(self) -> Mapping[Shape, Vector]:
        """The request of a pod of each shape. A GPU fraction counts as a fraction."""
        return {shape: self._asked(dict(shape.requests)) for shape in self.fit}

    @cached_property
    def takes(self) -> Mapping[Shape, Vector]:
        """The request of a pod of each shape, without GPU fractions."""
        return {
            shape: self._without_gpus(asks) if shape.part else asks
            for shape, asks in self.asks.items()
        }

    @cached_property
    def gpu(self) -> int:
        """The position of whole GPUs in `names`, or -1 if `names` lacks them."""
        return self.names.index(GPU) if GPU in self.names else -1

    @cached_property
    def pods(self) -> int:
        """The position of the resource `pods` in `names`, or -1 if `names` lacks it."""
        return self.names.index("pods") if "pods" in self.names else -1

    def part_of(self, shape: Shape) -> GpuPart | None:
        """Return the GPU fraction that a shape requests, or None if it requests none.

        Return None too if requests for GPUs do not count.
        """
        return shape.part if shape.part and self.counts(GPU) else None

    def asked(self, demand: Demand) -> Vector:
        """Return the total request of a demand, with GPU fractions as fractions."""
        return self._sum(demand, self.asks)

    def taken(self, demand: Demand) -> Vector:
        """Return the total request of a demand without GPU fractions."""
        return self._sum(demand, self.takes)

    def _sum(self, demand: Demand, asks: Mapping[Shape, Vector]) -> Vector:
        vectors = [[count * ask for ask in asks[shape]] for shape, count in demand.shapes]
        return tuple(map(sum, zip(*vectors, strict=True)))

    def _asked(self, requests: Mapping[str, int]) -> Vector:
        asks = [requests.get(name, 0) if self.counts(name) else 0 for name in self.names]
        if NOT_OFFERED in self.names:
            others = requests.keys() - set(self.names)
            asks[self.names.index(NOT_OFFERED)] = 1000 * any(map(self.counts, others))
        return tuple(asks)

    def _without_gpus(self, asks: Vector) -> Vector:
        return tuple([0 if at == self.gpu else ask for at, ask in enumerate(asks)])


def sum_of(vectors: Iterable[Vector], measure: Callable[[Vector], Iterable[int]]) -> Vector:
    """Return the sum of `measure(vector)` over all vectors, or () if there are none."""
    # Most nodes have the same amounts, so each vector is measured once.
    kinds = Counter(vectors)
    parts = [[count * amount for amount in measure(kind)] for kind, count in kinds.items()]
    return tuple(map(sum, zip(*parts, strict=True)))


def capacity_of(free: Vector, asks: Vector) -> int:
    """Return the number of pods that fit on a node, or UNLIMITED if they request nothing."""
    counts = (have // ask for have, ask in zip(free, asks, strict=True) if ask)
    return max(0, min(counts, default=UNLIMITED))


def fullest_first(able: list[Taker], free: Sequence[Vector]) -> list[Taker]:
    """Return the nodes `able`, fullest first: those with room for the fewest pods come first."""
    return sorted(able, key=lambda taker: (taker[0], free[taker[1]], taker[1]))


class Step(NamedTuple):
    """Pods that were put on a node, and the state of the node before that."""

    position: int
    """The position of the node."""
    free: Vector
    """The free amounts before."""
    pods: int
    """The number of pods."""
    idle: Vector | None = None
    """The amounts that were free without terminating pods, or None if none terminate there."""
    shares: Shares | None = None
    """The shared GPUs before, or None if they have not changed."""
    waits: bool = False
    """Do the pods wait for other pods to terminate?"""


class Board:
    """The nodes of a ground with pods that are placed on trial. Each step can be undone."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._domains = ground.domains
        self._free = list(ground.free)
        self._shares = dict(ground.shares)
        self._journal: list[Step] = []
        self._room = cache(capacity_of)
        self._room_of_gpus = cache(capacity_for)

    @property
    def mark(self) -> int:
        """The number of steps so far, for `undo`."""
        return len(self._journal)

    @property
    def free(self) -> list[Vector]:
        """The free amounts of each node."""
        return list(self._free)

    @property
    def shares(self) -> dict[int, Shares]:
        """The GPUs that pods share, by the position of the node."""
        return dict(self._shares)

    def used(self, start: int = 0, end: int | None = None) -> frozenset[int]:
        """Return the nodes (positions) on which pods were placed between two marks."""
        return frozenset(step.position for step in self._journal[start:end])

    @property
    def chosen(self) -> list[tuple[int, int]]:
        """The steps so far: (position of the node, number of pods)."""
        return [(step.position, step.pods) for step in self._journal]

    def kept(self) -> list[tuple[int, int]]:
        """Make all steps permanent and return them: (position of the node, number of pods)."""
        kept = self.chosen
        self._journal.clear()
        return kept

    def undo(self, mark: int) -> None:
        """Undo all steps since the property `mark` had the value `mark`."""
        while len(self._journal) > mark:
            self._restore(self._journal.pop())

    def _restore(self, step: Step) -> None:
        if step.shares is not None:
            self._shares[step.position] = step.shares
        self._set(step.position, step.free)

    def _set(self, position: int, have: Vector) -> None:
        self._free[position] = have

    def _shares_at(self, position: int) -> Shares:
        known = self._shares.get(position)
        return known or without_shares(self._domains.nodes[position])

    def _takers(self, ground: Ground, shape: Shape, nodes: Sequence[int]) -> list[Taker]:
        """Return the `nodes` that take pods of a shape.

        `ground` may be another ground of the same nodes.
        """
        asks = ground.takes[shape]
        fit = ground.fit[shape]
        free = self._free
        part = ground.part_of(shape)
        if part:
            places = (at for at in nodes if fit[at])
            able = ((self._room_of_part(at, asks, part), at) for at in places)
        else:
            able = ((self._room(free[at], asks), at) for at in nodes if fit[at])
        return [taker for taker in able if taker[0]]

    def _room_of_part(self, position: int, asks: Vector, part: GpuPart) -> int:
        """Return the number of pods with GPU fractions that fit on a node."""
        have = self._free[position]
        most = self._room(have, asks)
        if not most or self._has_one_place(have):
            return 0
        whole = have[self._ground.gpu] // 1000
        return self._room_of_gpus(self._shares_at(position), part, whole, most)

    def _has_one_place(self, have: Vector) -> bool:
        """Return whether a node takes at most one more pod.

        Then there is no place for KAI's pod that reserves a GPU for the pods that share it.
        """
        at = self._ground.pods
        return at >= 0 and have[at] < 2000

    def _put(
        self, able: Iterable[Taker], asks: Vector, count: int, part: GpuPart | None = None
    ) -> int:
        """Put up to `count` equal pods on nodes, in this order. Return how many have no place."""
        for capacity, position in able:
            taken = capacity if capacity < count else count
            if part:
                for _ in range(taken):
                    self._put_part(position, asks, part)
            else:
                have = self._free[position]
                self._journal.append(Step(position, have, taken))
                rest = [amount - taken * ask for amount, ask in zip(have, asks, strict=True)]
                self._set(position, tuple(rest))
            count -= taken
            if not count:
                break
        return count

    def _put_part(self, position: int, asks: Vector, part: GpuPart) -> bool:
        """Place a pod with a GPU fraction on a node. Return False if its GPUs have no room."""
        have = self._free[position]
        shares = self._shares_at(position)
        gpu = self._ground.gpu
        choice = choice_of(shares, part, have[gpu] // 1000, is_idle=True)
        if not choice:
            return False
        self._journal.append(Step(position, have, 1, shares=shares))
        self._shares[position] = choice.shares
        rest = [amount - ask for amount, ask in zip(have, asks, strict=True)]
        rest[gpu] -= 1000 * choice.whole
        self._set(position, tuple(rest))
        return True
