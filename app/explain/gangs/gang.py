"""What is placed together.

It is a PodGang, or a KAI PodGroup without one, or a pod alone; one form for all three.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from app.base.value import Value
from app.explain.known.amounts import PREFIX, resources_of
from app.explain.known.domains import Domains
from app.explain.known.index import Index
from app.explain.known.levels import Topology
from app.explain.known.snapshot import PodClique, Snapshot
from app.explain.placing.demand import Demand, Run
from app.explain.placing.placements import Own, Placements
from app.facts.constraint import UNBOUND, SchedulerConstraint
from app.facts.grove.podcliqueset import SetWithStatus
from app.facts.grove.podgang import PodGang
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kubernetes.pod import Pod, Shape
from app.facts.named import Ref

Pods = tuple[Pod, ...]


class Member(Value, dict=True):
    """Pods of one kind in a gang.

    `minimum` of them are placed together; `replicas` is how many there should be. `shapes` is what
    each of `pods` asks for, and `shape` what those will ask for that don't exist yet.
    """

    name: str
    minimum: int
    replicas: int
    shape: Shape
    pods: Pods
    told: SchedulerConstraint = UNBOUND
    clique: PodClique | None = None
    shapes: tuple[Shape, ...] = ()

    @property
    def expected(self) -> int:
        """How many pods there should be."""
        return max(self.replicas, len(self.pods))

    @cached_property
    def placed(self) -> Pods:
        """The pods that have a node."""
        return tuple(pod for pod in self.pods if pod.node)

    @property
    def is_ready(self) -> bool:
        """Whether there are as many pods as KAI waits for."""
        return sum(1 for pod in self.pods if not pod.gates) >= self.minimum

    @property
    def is_satisfied(self) -> bool:
        """Whether as many pods as KAI needs are placed."""
        return len(self.placed) >= self.minimum

    @property
    def rank(self) -> "Rank":
        """Its place in the order in which KAI takes up the parts of a gang."""
        return _rank(len(self.placed), self.minimum, self.name)

    def demand(self, *, anew: bool = False) -> Demand:
        """Return what KAI places of it next: what is missing up to the minimum, else one pod.

        With `anew`, as if nothing were placed.
        """
        placed = () if anew else self.placed
        missing = max(1, self.minimum - len(placed))
        pods = tuple(self._runs_to_come(min(missing, self.expected - len(placed)), anew))
        return demand_of(self, pods=pods, occupied=nodes_of(placed))

    def demand_for(self, takes: Callable[[Pod], bool]) -> Demand:
        """Return the demand for some of its pods, which must join those that have a node."""
        pairs = zip(self.pods, self.shapes, strict=True)
        pods = _runs(shape for pod, shape in pairs if takes(pod))
        return demand_of(self, pods=tuple(pods), occupied=nodes_of(self.placed))

    def _runs_to_come(self, count: int, anew: bool) -> Iterator[Run]:
        """Yield the shapes of the next pods, in KAI's order, each with how many follow each other.

        Pods that are still to be made are counted and not listed: a minimum may be any number.
        """
        known = [
            (pod.created or 0.0, pod.uid, position)
            for position, pod in enumerate(self.pods)
            if anew or not pod.node
        ]
        chosen = [self.shapes[position] for _, _, position in sorted(known)[:count]]
        runs = list(_runs(chosen))
        rest = count - len(chosen)

        if rest and runs and runs[-1][0] == self.shape:
            rest += runs.pop()[1]
        yield from runs
        if rest:
            yield self.shape, rest


Rank = tuple[bool, bool, float, str]


def _rank(count: int, threshold: int, name: str) -> Rank:
    """KAI's order: first what is below its threshold, then by how far it is above, then by name."""
    if count < threshold:
        return (False, False, 0.0, name)
    if threshold == 0:
        return (True, True, float(count), name)
    return (True, False, count / threshold, name)


def _runs(shapes: Iterable[Shape]) -> Iterator[Run]:
    """Neighbours of one shape as a shape and a count."""
    for shape, same in itertools.groupby(shapes):
        yield shape, sum(1 for _ in same)


class Unit(Value, dict=True):
    """A part of a gang with a constraint of its own.

    It is a replica of a scaling group, or a SubGroup with children.

    KAI needs `minimum` of its members and units, all of them if it is None.
    """

    name: str
    told: SchedulerConstraint = UNBOUND
    members: tuple[Member, ...] = ()
    units: tuple["Unit", ...] = ()
    minimum: int | None = None

    def parts(self) -> Iterator["Unit | Member"]:
        """This unit, its members, and the parts of its units."""
        yield self
        yield from self.members
        for unit in self.units:
            yield from unit.parts()

    @cached_property
    def all_members(self) -> tuple[Member, ...]:
        """Its members and those of its units."""
        return (*self.members, *(member for unit in self.units for member in unit.all_members))

    @cached_property
    def pods(self) -> Pods:
        """All its pods."""
        return tuple(pod for member in self.all_members for pod in member.pods)

    @cached_property
    def placed(self) -> Pods:
        """The pods that have a node."""
        return tuple(pod for pod in self.pods if pod.node)

    @cached_property
    def expected(self) -> int:
        """How many pods there should be."""
        return sum(member.expected for member in self.all_members)

    @property
    def own(self) -> tuple["Member | Unit", ...]:
        """Its members and units."""
        return (*self.units, *self.members)

    @property
    def needed(self) -> int:
        """How many of its members and units KAI needs."""
        return len(self.own) if self.minimum is None else self.minimum

    @cached_property
    def is_ready(self) -> bool:
        """Whether enough of its members and units have the pods that KAI waits for."""
        return sum(part.is_ready for part in self.own) >= self.needed

    @cached_property
    def satisfied(self) -> int:
        """How many of its members and units have their minimum placed."""
        return sum(part.is_satisfied for part in self.own)

    @property
    def is_satisfied(self) -> bool:
        """Whether as much as KAI needs is placed."""
        return self.satisfied >= self.needed

    @property
    def rank(self) -> Rank:
        """Its place in the order in which KAI takes up the parts of a gang."""
        return _rank(self.satisfied, self.needed, self.name)

    def demand(self, *, anew: bool = False) -> Demand:
        """Return what KAI places of it next: what is missing up to its minimum, else one part more.

        With `anew`, as if nothing were placed.
        """
        if anew:
            parts = self._first_parts(sorted(self.own, key=lambda part: part.name), anew=True)
        elif self.is_satisfied:
            demands = (part.demand() for part in sorted(self.own, key=lambda part: part.rank))
            parts = [demand for demand in demands if demand.count][:1]
        else:
            parts = self._first_parts(sorted(self.own, key=lambda part: part.rank), anew=False)

        occupied = frozenset(node for part in parts for node in part.occupied)

        return demand_of(self, parts=tuple(parts), occupied=occupied)

    def demand_for(self, takes: Callable[[Pod], bool]) -> Demand:
        """Return the demand for some of its pods, which must join those that have a node."""
        by_name = sorted(self.own, key=lambda part: part.name)
        parts = (part.demand_for(takes) for part in by_name)
        needed = tuple(part for part in parts if part.count)
        return demand_of(self, parts=needed, occupied=nodes_of(self.placed))

    def _first_parts(self, own: "list[Member | Unit]", *, anew: bool) -> list[Demand]:
        """Return those of as many parts as are needed that are not placed yet."""
        chosen = [part for part in own[: self.needed] if anew or not part.is_satisfied]
        demands = [part.demand(anew=anew) for part in chosen]
        return [demand for demand in demands if demand.count]


def demand_of(part: Member | Unit, **content: Any) -> Demand:
    """Return a demand with the name and the levels of a part of a gang."""
    told = part.told
    return Demand(part.name, told.required, preferred=told.preferred, levels=told.levels, **content)


def whole_demand(part: Member | Unit) -> Demand:
    """Return the demand for all pods of a part, as if none were placed."""
    demand = part.demand_for(lambda pod: True)
    return demand.changed(lambda part: replace(part, occupied=frozenset()))


def nodes_of(pods: Iterable[Pod]) -> frozenset[str]:
    return frozenset(pod.node for pod in pods)


class Gang(Value, dict=True):
    """`whole` has the gang's own constraint and all its parts.

    `pcs` is the PodCliqueSet that it is made for.
    """

    ref: Ref
    whole: Unit
    topology: Topology
    pod_gang: PodGang | None = None
    pod_group: KaiPodGroup | None = None
    pcs: SetWithStatus | None = None

    @property
    def index(self) -> Index:
        return self.topology.index

    @property
    def namespace(self) -> str:
        return self.ref.namespace

    @property
    def members(self) -> tuple[Member, ...]:
        return self.whole.all_members

    @property
    def pods(self) -> Pods:
        return self.whole.pods

    @property
    def placed(self) -> Pods:
        return self.whole.placed

    @cached_property
    def waiting(self) -> Pods:
        return tuple(pod for pod in self.pods if not pod.node)

    @property
    def shared_claims(self) -> set[str]:
        """The names of the claims that its pods share by name."""
        claims = (claim for pod in self.pods for claim in pod.claims)
        return {claim.claim for claim in claims if claim.claim and not claim.template}

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
        names = resources_of(member.shape for member in self.members)
        return any(name.startswith(PREFIX) for name in names)

    @property
    def named_topology(self) -> str:
        """The topology that it names for KAI, "" if it names none."""
        if self.pod_gang:
            return self.pod_gang.topology
        return self.pod_group.topology if self.pod_group else ""

    @property
    def facts(self) -> Snapshot:
        return self.index.facts

    @property
    def domains(self) -> Domains:
        """The tree of all nodes by its topology."""
        return self.topology.domains

    @property
    def is_of_grove(self) -> bool:
        """Whether Grove makes it."""
        return self.pod_gang is not None or self.pcs is not None

    @property
    def has_epoch(self) -> bool:
        """Whether Grove's release names in a PodGangMap what it waits for."""
        return self.pod_gang is not None and bool(self.pod_gang.role)

    def is_constrained(self) -> bool:
        """Return whether the scheduler is told a constraint, or the set asks for one."""
        asked = [asked for _, asked in self.pcs.constraints] if self.pcs else []
        return any(part.told for part in self.whole.parts()) or any(map(bool, asked))

    @cached_property
    def demand(self) -> Demand:
        """What KAI places next: what is missing up to the minimum, else one part more.

        That may be no pod at all.
        """
        return self.whole.demand()

    @cached_property
    def placements(self) -> Placements:
        """Placements of what KAI places next; gangs that are alike share them, with any names."""
        return self.placements_of(self.demand)

    @cached_property
    def short(self) -> Demand | None:
        """The innermost part of what KAI places next that has no place; None if all has one."""
        return self.placements.now.short_of(self.demand)

    @cached_property
    def anew(self) -> Placements:
        """Placements of the whole gang, as if none of it were placed."""
        return self.placements_of(self.whole.demand(anew=True), anew=True)

    @property
    def pool(self) -> str:
        """The node pool that it is bound to, "" for the nodes without one."""
        return self.pod_group.pool if self.pod_group else ""

    def placements_of(self, demand: Demand, *, anew: bool = False) -> Placements:
        """Gangs that differ only in names share what is computed for them.

        With `anew`, the pods of the gang that are placed make room.
        """
        own = Own(self.placed, leave=anew)
        key = (self.topology.keys, demand.profile, self.pool, own)
        return self.index.remembered(key, lambda: Placements(self.topology, demand, self.pool, own))
