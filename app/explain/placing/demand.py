"""What has to be placed together: pods, and parts that go into one domain each."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from msgspec.structs import replace

from app.base.value import Value
from app.explain.known.amounts import gpus_of, is_gpu
from app.explain.known.domains import Domains, Path
from app.facts.kubernetes.pod import Shape


class Depths(Value):
    """The levels of a constraint by their depth, 0 for none. KAI tries the narrow ones first."""

    required: int
    preferred: int

    @property
    def tried(self) -> range:
        """The depths of the domains that KAI tries, in its order."""
        return range(self.preferred, self.required - 1, -1)


Run = tuple[Shape, int]
"""Pods of one shape, and how many there are."""


class Demand(Value, dict=True):
    """Pods and parts that go together into one domain of a level.

    `key` is the label of the required level, "" for none; `preferred` likewise. `pods` (shape and
    count) and `parts` are in the order in which KAI places them. `occupied` are nodes that already
    have pods of the parts that are to be placed: the rest must join their domain.
    """

    name: str
    key: str
    pods: tuple[Run, ...] = ()
    parts: tuple["Demand", ...] = ()
    occupied: frozenset[str] = frozenset()
    preferred: str = ""

    @cached_property
    def count(self) -> int:
        """How many pods it has."""
        return sum(count for _, count in self.pods) + sum(part.count for part in self.parts)

    @cached_property
    def in_order(self) -> tuple[Run, ...]:
        """All pods, those of the parts too, in KAI's order."""
        return (*self.pods, *(pair for part in self.parts for pair in part.in_order))

    @cached_property
    def shapes(self) -> tuple[Run, ...]:
        """All pods by shape, those of the parts too."""
        return by_shape(self.in_order)

    @cached_property
    def profile(self) -> tuple[object, ...]:
        """Equal for demands that differ only in their names."""
        parts = tuple(part.profile for part in self.parts)
        return (self.key, self.preferred, self.pods, parts, self.occupied)

    @cached_property
    def constrained(self) -> bool:
        """Whether it, or a part of it, has a constraint."""
        own = bool(self.key or self.preferred)
        return own or any(part.constrained for part in self.parts)

    @cached_property
    def loose(self) -> tuple[Run, ...]:
        """The pods that may go anywhere in its domain, by shape."""
        free = (part.in_order for part in self.parts if not part.constrained)
        return by_shape((*self.pods, *(pair for pairs in free for pair in pairs)))

    @cached_property
    def bound(self) -> tuple["Demand", ...]:
        """The parts that have constraints."""
        return tuple(part for part in self.parts if part.constrained)

    def asks(self, resource: str) -> int:
        """Return what all pods ask for, in thousandths; of GPUs, of all kinds together."""
        measure = gpus_of if is_gpu(resource) else (lambda requests: requests.get(resource, 0))
        return sum(measure(dict(shape.requests)) * count for shape, count in self.shapes)

    def depths(self, domains: Domains) -> Depths | None:
        """Return its levels. None if one doesn't exist, or if KAI refuses them together."""
        required = domains.depth(self.key) if self.key else 0
        preferred = domains.depth(self.preferred) if self.preferred else required
        if required is None or preferred is None or preferred < required:
            return None
        return Depths(required, preferred)

    def joined(self, domains: Domains, depth: int) -> set[Path | None]:
        """Return the domains of a level in which pods of it run already."""
        return domains.domains_of(self.occupied, depth)

    def may_join(self, path: Path, required: int, domains: Domains) -> bool:
        """Return whether pods of it run in a domain of the required level already, if any run."""
        if not (self.occupied and required):
            return True
        return domains.known(path[:required]) in self.joined(domains, required)

    def every(self) -> Iterator["Demand"]:
        """Itself and all its parts."""
        yield self
        for part in self.parts:
            yield from part.every()

    def changed(self, change: Callable[["Demand"], "Demand"]) -> "Demand":
        """Return the demand with a change of itself and of all its parts, the inner ones first."""
        parts = tuple(part.changed(change) for part in self.parts)
        return change(replace(self, parts=parts))

    def flat(self) -> Iterator["Demand"]:
        """Itself after its parts that have constraints, the innermost first."""
        for part in self.bound:
            yield from part.flat()
        yield self


def by_shape(pods: Iterable[Run]) -> tuple[Run, ...]:
    """Return how many pods there are of each shape."""
    total: Counter[Shape] = Counter()
    for shape, count in pods:
        total[shape] += count
    return tuple(total.items())


def where(domains: Domains, demand: Demand, used: frozenset[int]) -> tuple[str, ...]:
    """Return the domains that nodes are in.

    They are of the narrowest level that is required, else of the one above the narrowest. Nodes
    that are in none are called by their names.
    """
    depths = [domains.depth(part.key) or 0 for part in demand.every() if part.key]
    depth = max(depths, default=max(1, len(domains.keys) - 1))
    names: dict[str, None] = {}
    for position in sorted(used):
        path = domains.domain_of(position, depth) if domains.keys else None
        name = domains.nodes[position].name if path is None else "/".join(path)
        names.setdefault(name)
    return tuple(sorted(names))
