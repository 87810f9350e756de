"""Represent gangs, which are pods that are placed together.

A `Gang` stands for a PodGang, a KAI PodGroup without a PodGang, or a single pod.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from app.base.value import Value
from app.explain.placing.demand import Demand, Run
from app.explain.placing.placements import ANY_POOL, Own, Placements
from app.explain.state.amounts import PREFIX, resources_of
from app.explain.state.domains import Domains
from app.explain.state.index import Index
from app.explain.state.label_guesses import guessed_labels
from app.explain.state.levels import Topology
from app.explain.state.snapshot import Snapshot
from app.facts.constraint import UNBOUND, SchedulerConstraint
from app.facts.grove.podclique import PodClique
from app.facts.grove.podcliqueset import SetWithStatus
from app.facts.grove.podgang import PodGang
from app.facts.identity import Ref
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kubernetes.pod import Pod, Shape
from app.facts.labels import KAI_SCHEDULER, KUEUE

Pods = tuple[Pod, ...]


class Member(Value, dict=True):
    """The pods of a gang that share a minimum, such as the pods of a PodClique."""

    name: str
    """The name of its PodClique, SubGroup, PodGroup or pod."""
    minimum: int
    """The number of its pods that must be placed together."""
    replicas: int
    """The number of pods that should exist, which may be less than the number of `pods`."""
    shape: Shape
    """The shape of pods that do not exist yet."""
    pods: Pods
    """The existing pods."""
    told: SchedulerConstraint = UNBOUND
    """The topology constraint that the scheduler gets."""
    clique: PodClique | None = None
    """Its PodClique, or None if it has none."""
    shapes: tuple[Shape, ...] = ()
    """The shape of each of `pods`, in the same order."""

    @property
    def expected(self) -> int:
        """The number of pods that should exist, including existing ones beyond `replicas`."""
        return max(self.replicas, len(self.pods))

    @cached_property
    def placed(self) -> Pods:
        """The pods that have a node."""
        return tuple(pod for pod in self.pods if pod.node)

    @property
    def is_ready(self) -> bool:
        """Do at least `minimum` of its pods have no scheduling gate?"""
        return sum(1 for pod in self.pods if not pod.gates) >= self.minimum

    @property
    def is_satisfied(self) -> bool:
        """Do at least `minimum` of its pods have a node?"""
        return len(self.placed) >= self.minimum

    @property
    def rank(self) -> "Rank":
        """The sort key by which KAI orders the parts of a gang."""
        return _rank(len(self.placed), self.minimum, self.name)

    def demand(self, *, from_scratch: bool = False) -> Demand:
        """Return the demand for the pods that KAI places next: all up to the minimum, or one more.

        With `from_scratch`, assume that no pod is placed yet.
        """
        placed = () if from_scratch else self.placed
        missing = max(1, self.minimum - len(placed))
        pods = tuple(self._runs_to_come(min(missing, self.expected - len(placed)), from_scratch))
        return demand_of(self, pods=pods, occupied=nodes_of(placed))

    def demand_for(self, takes: Callable[[Pod], bool]) -> Demand:
        """Return the demand for the pods that `takes` accepts.

        If a level is required, they must join the domain of the placed pods.
        """
        pairs = zip(self.pods, self.shapes, strict=True)
        pods = _runs(shape for pod, shape in pairs if takes(pod))
        return demand_of(self, pods=tuple(pods), occupied=nodes_of(self.placed))

    def next_pods(self) -> list[Pod]:
        """Return the existing pods that KAI places next, as in `demand`."""
        missing = max(1, self.minimum - len(self.placed))
        return [self.pods[position] for position in self._in_order(from_scratch=False)[:missing]]

    def _in_order(self, from_scratch: bool) -> list[int]:
        """Return the positions of the pending pods in KAI's order; `from_scratch`, of all pods."""
        known = [
            (pod.created or 0.0, pod.uid, position)
            for position, pod in enumerate(self.pods)
            if from_scratch or not pod.node
        ]
        return [position for _, _, position in sorted(known)]

    def _runs_to_come(self, count: int, from_scratch: bool) -> Iterator[Run]:
        """Yield the next `count` pods in KAI's order, as runs of equal shapes.

        Pods that do not exist yet are one run, because a minimum may be any number.
        """
        chosen = [self.shapes[position] for position in self._in_order(from_scratch)[:count]]
        runs = list(_runs(chosen))
        rest = count - len(chosen)

        if rest and runs and runs[-1][0] == self.shape:
            rest += runs.pop()[1]
        yield from runs
        if rest:
            yield self.shape, rest


Rank = tuple[bool, bool, float, str]


def _rank(count: int, threshold: int, name: str) -> Rank:
    """Return the sort key of a part of a gang in KAI's order.

    Parts below their threshold come first. Other parts follow by the ratio of their count to their
    threshold, and parts with threshold 0 come last, by their count.
    """
    if count < threshold:
        return (False, False, 0.0, name)
    if threshold == 0:
        return (True, True, float(count), name)
    return (True, False, count / threshold, name)


def _runs(shapes: Iterable[Shape]) -> Iterator[Run]:
    """Yield the shapes as runs: each shape, with the number of times it is repeated in a row."""
    for shape, same in itertools.groupby(shapes):
        yield shape, sum(1 for _ in same)


class Unit(Value, dict=True):
    """A whole gang, or a part of a gang: a scaling group's replica, or a SubGroup with children."""

    name: str
    told: SchedulerConstraint = UNBOUND
    """The topology constraint that the scheduler gets."""
    members: tuple[Member, ...] = ()
    """The members directly inside this unit, not inside one of `units`."""
    units: tuple["Unit", ...] = ()
    """The units directly inside this unit."""
    minimum: int | None = None
    """The number of its members and units that KAI needs, or None if KAI needs all of them."""

    def parts(self) -> Iterator["Unit | Member"]:
        """Yield this unit, its members, and all parts of its units."""
        yield self
        yield from self.members
        for unit in self.units:
            yield from unit.parts()

    @cached_property
    def all_members(self) -> tuple[Member, ...]:
        """Its members, including the members of its units."""
        return (*self.members, *(member for unit in self.units for member in unit.all_members))

    @cached_property
    def pods(self) -> Pods:
        """The pods of all members."""
        return tuple(pod for member in self.all_members for pod in member.pods)

    @cached_property
    def placed(self) -> Pods:
        """The pods that have a node."""
        return tuple(pod for pod in self.pods if pod.node)

    @cached_property
    def expected(self) -> int:
        """The number of pods that exist or should exist."""
        return sum(member.expected for member in self.all_members)

    @property
    def own(self) -> tuple["Member | Unit", ...]:
        """The units and members directly inside this unit."""
        return (*self.units, *self.members)

    @property
    def needed(self) -> int:
        """The number of parts directly inside this unit that KAI must place for its minimum."""
        return len(self.own) if self.minimum is None else self.minimum

    @cached_property
    def is_ready(self) -> bool:
        """Are at least `needed` of its members and units ready?"""
        return sum(part.is_ready for part in self.own) >= self.needed

    @cached_property
    def satisfied(self) -> int:
        """The number of members and units whose minimum is placed."""
        return sum(part.is_satisfied for part in self.own)

    @property
    def is_satisfied(self) -> bool:
        """Are the minimums of at least `needed` of its members and units placed?"""
        return self.satisfied >= self.needed

    @property
    def rank(self) -> Rank:
        """The sort key by which KAI orders the parts of a gang."""
        return _rank(self.satisfied, self.needed, self.name)

    def demand(self, *, from_scratch: bool = False) -> Demand:
        """Return the demand for the parts that KAI places next.

        Until the minimum is placed, these are the parts that the minimum still needs, and after
        that, one part. With `from_scratch`, assume that no pod is placed yet.
        """
        chosen = self._next_parts(from_scratch)
        demands = [part.demand(from_scratch=from_scratch) for part in chosen]
        parts = [demand for demand in demands if demand.count]
        occupied = frozenset(node for part in parts for node in part.occupied)

        return demand_of(self, parts=tuple(parts), occupied=occupied)

    def demand_for(self, takes: Callable[[Pod], bool]) -> Demand:
        """Return the demand for the pods that `takes` accepts.

        If a level is required, they must join the domain of the placed pods.
        """
        by_name = sorted(self.own, key=lambda part: part.name)
        parts = (part.demand_for(takes) for part in by_name)
        needed = tuple(part for part in parts if part.count)
        return demand_of(self, parts=needed, occupied=nodes_of(self.placed))

    def next_pods(self) -> list[Pod]:
        """Return the existing pods that KAI places next, as in `demand`."""
        return [pod for part in self._next_parts(from_scratch=False) for pod in part.next_pods()]

    def _next_parts(self, from_scratch: bool) -> "list[Member | Unit]":
        """Return the parts of `own` that KAI places next.

        Parts whose minimum is placed are left out until all needed parts are placed, unless the
        parts start `from_scratch`.
        """
        if from_scratch:
            return sorted(self.own, key=lambda part: part.name)[: self.needed]
        by_rank = sorted(self.own, key=lambda part: part.rank)
        if self.is_satisfied:
            return [part for part in by_rank if part.demand().count][:1]
        return [part for part in by_rank[: self.needed] if not part.is_satisfied]


def demand_of(part: Member | Unit, **content: Any) -> Demand:
    """Return a demand with the name and the levels of a part of a gang."""
    told = part.told
    return Demand(part.name, told.required, preferred=told.preferred, levels=told.levels, **content)


def whole_demand(part: Member | Unit, takes: Callable[[Pod], bool] = lambda pod: True) -> Demand:
    """Return the demand for the existing pods of a part, assuming that none is placed yet.

    Only pods that `takes` accepts count, by default all.
    """
    demand = part.demand_for(takes)
    return demand.changed(lambda part: replace(part, occupied=frozenset()))


def _with_told(unit: Unit, above: SchedulerConstraint) -> Iterator[Member]:
    """Yield the members with their own constraint, or else with that of the innermost unit."""
    told = unit.told or above
    for member in unit.members:
        yield replace(member, told=member.told or told)
    for part in unit.units:
        yield from _with_told(part, told)


def nodes_of(pods: Iterable[Pod]) -> frozenset[str]:
    """Return the names of the nodes of placed pods."""
    return frozenset(pod.node for pod in pods)


class Gang(Value, dict=True):
    """Pods that are placed together, with their constraints."""

    ref: Ref
    """The object that the gang represents: a PodGang, a PodGroup or a Pod.

    If there is none of these, it is the PodCliqueSet or another object that stands for the pods.
    """
    whole: Unit
    """All its parts, with the constraint of the gang itself."""
    topology: Topology
    """The topology by which its pods are placed."""
    pod_gang: PodGang | None = None
    """Its PodGang, or None."""
    pod_group: KaiPodGroup | None = None
    """Its KAI PodGroup, or None."""
    pcs: SetWithStatus | None = None
    """The PodCliqueSet for which Grove creates the gang, or None."""

    @property
    def index(self) -> Index:
        """The index that has its facts."""
        return self.topology.index

    @property
    def namespace(self) -> str:
        return self.ref.namespace

    @property
    def members(self) -> tuple[Member, ...]:
        """All its members, including the members of its units."""
        return self.whole.all_members

    @property
    def pods(self) -> Pods:
        """The pods of all members."""
        return self.whole.pods

    @property
    def placed(self) -> Pods:
        """The pods that have a node."""
        return self.whole.placed

    @cached_property
    def waiting(self) -> Pods:
        """The pods that have no node."""
        return tuple(pod for pod in self.pods if not pod.node)

    @cached_property
    def made_for(self) -> tuple[Ref, ...]:
        """The workloads that its pods were created for, such as a Job and its JobSet."""
        return tuple(dict.fromkeys([ref for pod in self.pods for ref in pod.made_for]))

    @property
    def lacks_required(self) -> bool:
        """Whether fewer pods of a member exist than must be placed together."""
        return any(len(member.pods) < member.minimum for member in self.members)

    @property
    def shared_claims(self) -> set[str]:
        """The claims that its pods name without a template, so that several pods may share one."""
        claims = (claim for pod in self.pods for claim in pod.claims)
        return {claim.claim for claim in claims if claim.claim and not claim.template}

    @property
    def waits(self) -> bool:
        """Are some of its pods missing or not placed?

        A workload that has ended misses no pods.
        """
        if len(self.placed) >= self.whole.expected:
            return False
        return bool(self.waiting) or not self.has_ended

    @property
    def has_ended(self) -> bool:
        """Has the workload that created its first pod ended, according to the workload's status?

        A Job may end while the JobSet that created it still creates pods.
        """
        statuses = self.index.workload_statuses
        known = (statuses.get(ref) for pod in self.pods[:1] for ref in pod.made_for)
        outermost = next(filter(None, known), None)
        return outermost is not None and bool(outermost.ended)

    def may_wait(self) -> bool:
        """Return whether the gang has members, some of whose pods are or may be pending."""
        return bool(self.members) and ("pods" in self.index.facts.unseen or self.waits)

    @cached_property
    def claims_gpus(self) -> bool:
        """Does it request GPUs that DRA allocates?"""
        names = resources_of(member.shape for member in self.members)
        return any(name.startswith(PREFIX) for name in names)

    @property
    def named_topology(self) -> str:
        """The topology that its PodGang names for KAI, or "" if it names none.

        Without a PodGang, it is the topology of its PodGroup.
        """
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
        """Does it have a PodGang or a PodCliqueSet?"""
        return self.pod_gang is not None or self.pcs is not None

    @property
    def has_epoch(self) -> bool:
        """Does its PodGang have a role, as in Grove's releases with epochs (PodGangMaps)?"""
        return self.pod_gang is not None and bool(self.pod_gang.role)

    def is_constrained(self) -> bool:
        """Return whether the gang or its PodCliqueSet has a topology constraint."""
        asked = [asked for _, asked in self.pcs.constraints] if self.pcs else []
        return any(part.told for part in self.whole.parts()) or any(map(bool, asked))

    @cached_property
    def demand(self) -> Demand:
        """The demand for the parts that KAI places next: all up to the minimum, or one more.

        It may have no pods.
        """
        return self.whole.demand()

    @cached_property
    def placements(self) -> Placements:
        """The placements of `demand`. Gangs that differ only in names share them."""
        return self.placements_of(self.demand)

    @cached_property
    def fits_once_labelled(self) -> bool:
        """Whether the gang fits once nodes have their missing labels, with the guessed values."""
        labels = guessed_labels(self.topology)
        return bool(labels) and self.placements.with_labels(labels).now.fits

    @cached_property
    def short(self) -> Demand | None:
        """The innermost part of `demand` that has no place now, or None if `demand` fits."""
        return self.placements.now.short_of(self.demand)

    @cached_property
    def from_scratch(self) -> Placements:
        """The placements of the gang's minimum, assuming that none of its pods is placed yet."""
        return self.placements_of(self.whole.demand(from_scratch=True), from_scratch=True)

    @property
    def pool(self) -> str:
        """The node pool of the gang, or "" for nodes without a pool.

        It is ANY_POOL if KAI does not place the gang's pods, because only KAI has node pools.
        """
        if self.pod_group:
            return self.pod_group.pool
        return "" if self.is_of_kai else ANY_POOL

    @cached_property
    def is_of_kai(self) -> bool:
        """Does KAI schedule some of its pods? True if no pods exist yet."""
        schedulers = {pod.scheduler for pod in self.pods}
        return not schedulers or KAI_SCHEDULER in schedulers

    @property
    def is_of_kueue(self) -> bool:
        """Does its PodGang name Kueue as the scheduler?"""
        return self.pod_gang is not None and self.pod_gang.scheduler == KUEUE

    @property
    def bound_parts(self) -> "tuple[Unit | Member, ...]":
        """The parts with the constraints that their pods must satisfy.

        Kueue applies the constraint of a unit separately to each PodClique in the unit.
        """
        if not self.is_of_kueue:
            return tuple(self.whole.parts())
        return tuple(_with_told(self.whole, UNBOUND))

    def placements_of(
        self, demand: Demand, *, from_scratch: bool = False, leaving: Iterable[Pod] = ()
    ) -> Placements:
        """Return the placements of a demand of this gang.

        If `from_scratch`, the room of the gang's placed pods counts as free. If pods are `leaving`,
        only their room does. Gangs that differ only in names share one computation.
        """
        own = Own(self.placed, leave=from_scratch)
        if leaving:
            own = Own(tuple(leaving), leave=True)
        key = (self.topology.keys, demand.profile, self.pool, own)
        return self.index.one_of_few(
            "placements", key, lambda: Placements(self.topology, demand, self.pool, own)
        )
