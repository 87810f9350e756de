"""What of a gang still has to be placed, as the scheduler must place it: all at once, each part in one domain."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from app.explain.facts.pods import Shape
from app.explain.gang import Gang, Member, Unit


@dataclass(frozen=True)
class Demand:
    """`pods` (shape and count) and `parts` go together into one domain of the level `key`, into the whole cluster if
    it is "". `occupied` are nodes that already have pods of it: the rest must join their domain."""

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
        total: dict[Shape, int] = {}
        for shape, count in (*self.pods, *(pair for part in self.parts for pair in part.shapes)):
            total[shape] = total.get(shape, 0) + count
        return tuple(total.items())

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


def demand_of(gang: Gang, *, all_of_it: bool = False) -> Demand:
    """What is missing up to the minimum of each part, or, if every minimum is reached, one more pod of each part that
    waits. No pods if nothing waits. `all_of_it` is the demand as if nothing were placed."""
    extra = all(len(member.placed) >= member.minimum for member in gang.members) and not all_of_it
    return _of_unit(gang.whole, extra=extra, anew=all_of_it) or Demand(gang.whole.name, "")


def _of_unit(unit: Unit, *, extra: bool, anew: bool) -> Demand | None:
    members = [_of_member(member, extra=extra, anew=anew) for member in unit.members]
    units = [_of_unit(part, extra=extra, anew=anew) for part in unit.units]
    parts = [demand for demand in (*members, *units) if demand is not None]
    if not parts:
        return None
    free = [part for part in parts if not part.key and not part.parts]
    bound = tuple(part for part in parts if part.key or part.parts)
    occupied = frozenset(pod.node for member in unit.all_members for pod in member.placed)
    pods: dict[Shape, int] = {}
    for shape, count in (pair for part in free for pair in part.pods):
        pods[shape] = pods.get(shape, 0) + count
    return Demand(unit.name, unit.told.required, tuple(pods.items()), bound, frozenset() if anew else occupied)


def _of_member(member: Member, *, extra: bool, anew: bool) -> Demand | None:
    placed = 0 if anew else len(member.placed)
    count = min(1, member.expected - placed) if extra else member.minimum - placed
    if count <= 0:
        return None
    occupied = frozenset() if anew else frozenset(pod.node for pod in member.placed)
    return Demand(member.name, member.told.required, ((member.shape, count),), (), occupied)
