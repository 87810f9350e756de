"""What is placed together: a PodGang, or a KAI PodGroup without one, or a pod alone; one form for
all three.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from app.explain.amounts import PREFIX
from app.explain.facts.common import UNBOUND, Ref, Told
from app.explain.facts.grove import PodClique, PodCliqueSet, PodGang
from app.explain.facts.kai import KaiPodGroup
from app.explain.facts.pods import Pod, Shape
from app.explain.index import Index
from app.explain.levels import Topology
from app.explain.places import Places
from app.explain.room import Demand, by_shape


@dataclass(frozen=True)
class Member:
    """Pods of one kind in a gang.

    `minimum` of them are placed together; `replicas` is how many there should be.
    """

    name: str
    minimum: int
    replicas: int
    shape: Shape
    pods: tuple[Pod, ...]
    told: Told = UNBOUND
    clique: PodClique | None = None

    @property
    def expected(self) -> int:
        """How many pods there should be."""
        return max(self.replicas, len(self.pods))

    @cached_property
    def placed(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if pod.node)

    def demand(self, *, extra: bool = False, anew: bool = False) -> Demand:
        placed = () if anew else self.placed
        count = min(1, self.expected - len(placed)) if extra else self.minimum - len(placed)
        pods = ((self.shape, count),) if count > 0 else ()
        return Demand(
            self.name, self.told.required, pods, occupied=frozenset(pod.node for pod in placed)
        )


@dataclass(frozen=True)
class Unit:
    """A part of a gang with a constraint of its own: a replica of a scaling group, or a SubGroup
    with children.
    """

    name: str
    told: Told = UNBOUND
    members: tuple[Member, ...] = ()
    units: tuple["Unit", ...] = ()

    def parts(self) -> Iterator["Unit | Member"]:
        """This unit, its members, and the parts of its units."""
        yield self
        yield from self.members
        for unit in self.units:
            yield from unit.parts()

    @cached_property
    def all_members(self) -> tuple[Member, ...]:
        return (*self.members, *(member for unit in self.units for member in unit.all_members))

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        return tuple(pod for member in self.all_members for pod in member.pods)

    @cached_property
    def placed(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if pod.node)

    @cached_property
    def expected(self) -> int:
        """How many pods there should be."""
        return sum(member.expected for member in self.all_members)

    def demand(self, *, extra: bool = False, anew: bool = False) -> Demand:
        """What is missing up to the minimum of each member.

        With `extra`, one more pod of each member that waits; with `anew`, as if nothing were
        placed.
        """
        own: list[Member | Unit] = [*self.members, *self.units]
        parts = [demand for part in own if (demand := part.demand(extra=extra, anew=anew)).count]
        bound = tuple(part for part in parts if part.key or part.parts)
        pods = by_shape(
            pair for part in parts if not (part.key or part.parts) for pair in part.pods
        )
        occupied = frozenset(pod.node for pod in self.placed) if not anew else frozenset()
        return Demand(self.name, self.told.required, pods, bound, occupied)


@dataclass(frozen=True)
class Gang:
    """`whole` has the gang's own constraint and all its parts.

    `pcs` is the PodCliqueSet that it is made for.
    """

    index: Index
    ref: Ref
    whole: Unit
    topology: Topology
    pod_gang: PodGang | None = None
    pod_group: KaiPodGroup | None = None
    pcs: PodCliqueSet | None = None

    @property
    def namespace(self) -> str:
        return self.ref.namespace

    @property
    def members(self) -> tuple[Member, ...]:
        return self.whole.all_members

    @property
    def pods(self) -> tuple[Pod, ...]:
        return self.whole.pods

    @property
    def placed(self) -> tuple[Pod, ...]:
        return self.whole.placed

    @cached_property
    def waiting(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if not pod.node)

    @property
    def waits(self) -> bool:
        """Whether pods are missing or not placed."""
        return len(self.placed) < self.whole.expected

    def may_wait(self) -> bool:
        """Like `waits`; if pods can't be seen, every gang may wait."""
        return bool(self.members) and ("pods" in self.index.facts.unseen or self.waits)

    @cached_property
    def claims_gpus(self) -> bool:
        """Whether it asks for GPUs that are allocated by DRA."""
        names = {name for member in self.members for name, _ in member.shape.requests}
        return any(name.startswith(PREFIX) for name in names)

    def is_constrained(self) -> bool:
        """Whether the scheduler is told a constraint, or the set asks for one."""
        asked = [asked for _, asked in self.pcs.constraints] if self.pcs is not None else []
        return any(part.told for part in self.whole.parts()) or any(map(bool, asked))

    @cached_property
    def places(self) -> Places:
        """Places for what is missing up to the minimum of each part; if nothing is, for one more
        pod of each part that waits. That may be no pod at all.
        """
        extra = all(len(member.placed) >= member.minimum for member in self.members)
        return self.places_of(self.whole.demand(extra=extra))

    @cached_property
    def anew(self) -> Places:
        """Places for the whole gang, as if none of it were placed."""
        return self.places_of(self.whole.demand(anew=True))

    def places_of(self, demand: Demand) -> Places:
        """Gangs that differ only in names share what is computed for them."""
        pool = self.pod_group.pool if self.pod_group is not None else ""
        key = (self.topology.keys, demand.profile, pool)
        return self.index.remembered(key, lambda: Places(self.index, self.topology, demand, pool))
