"""Find places for a demand, in the actual state of the cluster and under assumptions."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Literal

from msgspec.structs import replace

from app.base.groups import by_key
from app.base.value import Value
from app.explain.placing.demand import Demand, Ground, Vector, capacity_of
from app.explain.placing.fitness import asks_gpus, is_selected, refused_by, unfit_because
from app.explain.placing.packer import AS_KAI, Packer, Rules
from app.explain.placing.room import DomainRoom, RoomCounter
from app.explain.state import amounts
from app.explain.state.amounts import is_device, resources_of
from app.explain.state.domains import Domains
from app.explain.state.gpu_sharing import Shares, shares_of
from app.explain.state.index import Index
from app.explain.state.levels import Topology
from app.facts.kubernetes.pod import Pod, Shape
from app.facts.quantity import Amounts

ANY_POOL = "*"
"""The name that stands for all node pools together."""
Free = Literal["now", "soon", "empty"]


class Assumption(Value):
    """Assumed differences from the actual state of the cluster."""

    free: Free = "now"
    """The amounts that count as free.

    They are the amounts that are free now, the amounts that are free once the terminating pods are
    gone ("soon"), or all amounts that the gang's own pods do not use ("empty").
    """
    emptied: frozenset[int] = frozenset()
    """The positions of nodes on which the pods of other gangs count as using nothing."""
    opened: bool = False
    """Do all nodes count as ready, without cordons and taints?

    If so, deleted pods that only a dead kubelet keeps count as gone too.
    """
    without: str = ""
    """The resource whose requests do not count, or "" for none."""
    devices: bool = False
    """Do only requests for devices count?"""
    pool: str | None = None
    """Another node pool for the gang, ANY_POOL, or None for its own."""
    only: frozenset[int] | None = None
    """The positions of the only nodes that take pods, or None for all nodes."""
    gone: frozenset[tuple[str, str]] = frozenset()
    """The keys of the pods that count as gone."""
    rules: Rules = AS_KAI
    """Which of KAI's `Rules` apply."""

    def counts(self, resource: str) -> bool:
        """Return whether requests for a resource count."""
        return resource != self.without and (is_device(resource) or not self.devices)


AS_IT_IS = Assumption()
SOON = Assumption(free="soon")
OPENED = Assumption(opened=True)
EMPTIED = Assumption(free="empty")
"""The assumption that no other pods run."""
EMPTY = Assumption(free="empty", opened=True)
"""The assumption that no other pods run, and all nodes are ready and open to the gang."""


class Own(Value):
    """The gang's own pods that are already placed."""

    pods: tuple[Pod, ...] = ()
    leave: bool = False
    """Do all of these pods leave their nodes?"""


NOBODY = Own()


class Outcome:
    """The result of KAI's search for a place for a demand on a ground."""

    def __init__(self, demand: Demand, ground: Ground, rules: Rules) -> None:
        self._parts = list(demand.flat())
        self._ground = ground
        self._rules = rules
        packer = Packer(ground, rules)
        is_placed = packer.places(demand)
        self.waits_for_ending = is_placed and packer.waits
        """Does the demand have a place only once other pods have terminated?"""
        self.fits = is_placed and not packer.waits
        """Does the whole demand have a place now?"""
        self._used = packer.used() if is_placed else frozenset()

    def short_of(self, demand: Demand) -> Demand | None:
        """Return the innermost part of a demand that has no place by itself.

        Return the demand itself if each part has a place but all together have none, and None if
        the demand fits. `demand` may differ from the demand of this outcome in names.
        """
        return None if self.fits else list(demand.flat())[self._position]

    @cached_property
    def _position(self) -> int:
        """The position of the innermost part without a place, or else of the demand itself."""
        packer = Packer(self._ground, self._rules)
        tried = set()
        for position, part in enumerate(self._parts):
            if part.profile not in tried and not packer.has_room(part):
                return position
            tried.add(part.profile)
        return len(self._parts) - 1

    @cached_property
    def rooms(self) -> tuple[DomainRoom, ...]:
        """The room for the part without a place in each domain that it may use, most room first.

        Empty if the demand fits.
        """
        if self.fits:
            return ()
        return RoomCounter(self._ground).rooms(self._parts[self._position])

    @property
    def nodes(self) -> frozenset[str]:
        """The names of the nodes that KAI would choose, or none if the demand has no place."""
        nodes = self._ground.domains.nodes
        return frozenset(nodes[position].name for position in self._used)

    @property
    def best(self) -> DomainRoom | None:
        """The domain with the most room for the part without a place.

        None if the demand fits, or if the part may use no domain.
        """
        return self.rooms[0] if self.rooms else None


class Placements:
    """The placements of a demand under different assumptions, computed when first needed.

    `own` are the placed pods of the same gang. Demands that differ only in names may share one
    Placements, so `demand` may have the names of another gang.
    """

    def __init__(
        self, topology: Topology, demand: Demand, pool: str = ANY_POOL, own: Own = NOBODY
    ) -> None:
        self.demand = demand
        self.pool = pool
        self._index = topology.index
        self._topology = topology
        self._own = own
        self.shapes = [shape for shape, _ in demand.shapes]
        self.names = resources_of(self.shapes, offered=self._index.offered)
        self._outcomes: dict[Assumption, Outcome] = {}
        self._fits: dict[Assumption, Mapping[Shape, Sequence[bool]]] = {}

    @property
    def domains(self) -> Domains:
        """The topology domains of the nodes in the gang's node pool."""
        return self._domains(self.pool)

    def _domains(self, pool: str) -> Domains:
        if pool == ANY_POOL or not (pool or self._index.has_pools):
            return self._topology.domains
        return self._index.domains(self._topology.keys, pool)

    def free(self, position: int) -> Amounts:
        """Return the free amounts on a node of the resources that the demand requests."""
        return dict(zip(self.names, self._free_now[position], strict=True))

    @cached_property
    def _free_now(self) -> Sequence[Vector]:
        return self._index.free(self.names)

    def under(self, assumption: Assumption) -> Outcome:
        """Return the outcome of KAI's search for a place for the demand under an assumption."""
        assumption = self._simplified(assumption)
        if assumption not in self._outcomes:
            ground = self._ground(assumption)
            self._outcomes[assumption] = Outcome(self.demand, ground, assumption.rules)
        return self._outcomes[assumption]

    def _simplified(self, assumption: Assumption) -> Assumption:
        """Return the assumption without differences that have no effect here.

        Equal assumptions share one outcome.
        """
        rules = assumption.rules
        if not rules.sizes and not self._sizes_matter:
            assumption = replace(assumption, rules=replace(rules, sizes=True))
        if assumption.opened and self._all_open:
            assumption = replace(assumption, opened=False)
        if assumption.devices and not self._other_resources_matter:
            assumption = replace(assumption, devices=False)
        return assumption

    @cached_property
    def _sizes_matter(self) -> bool:
        constrained = (part for part in self.demand.every() if part.key or part.preferred)
        return any(len(part.shapes) > 1 for part in constrained)

    @cached_property
    def _all_open(self) -> bool:
        return self.fit() == self.fit(OPENED)

    @cached_property
    def _other_resources_matter(self) -> bool:
        """Does any node have less room than its devices alone would allow?"""
        full = self._ground(AS_IT_IS).asks
        part = self._ground(Assumption(devices=True)).asks
        return any(
            capacity_of(have, full[shape]) != capacity_of(have, part[shape])
            for shape in self.shapes
            for have in set(self._free_now)
        )

    @property
    def now(self) -> Outcome:
        """The outcome in the actual state of the cluster."""
        return self.under(AS_IT_IS)

    def rooms(self, assumption: Assumption = AS_IT_IS) -> tuple[DomainRoom, ...]:
        """Return the room for the demand in each domain, most room first."""
        return RoomCounter(self._ground(assumption)).rooms(self.demand)

    def fit(self, assumption: Assumption = AS_IT_IS) -> Mapping[Shape, Sequence[bool]]:
        """Return, for each shape and each node, whether the node may take such pods."""
        if assumption not in self._fits:
            fits = {shape: self._fit_of(shape, assumption) for shape in self.shapes}
            only = assumption.only
            if only is not None:
                fits = {
                    shape: [ok and position in only for position, ok in enumerate(fit)]
                    for shape, fit in fits.items()
                }
            self._fits[assumption] = fits
        return self._fits[assumption]

    def with_labels(self, labels: Mapping[str, Mapping[str, str]]) -> "Placements":
        """Return the placements under the assumption that nodes have more labels.

        `labels` has the additional labels by node name.
        """
        nodes = tuple(
            replace(node, labels={**node.labels, **labels[node.name]})
            if node.name in labels
            else node
            for node in self._index.facts.nodes
        )
        index = Index(replace(self._index.facts, nodes=nodes))
        topology = replace(self._topology, index=index)
        return Placements(topology, self.demand, self.pool, self._own)

    def _ground(self, assumption: Assumption) -> Ground:
        stuck = self._index.stuck_on_dead if assumption.opened else frozenset()
        if stuck:
            assumption = replace(assumption, gone=assumption.gone | stuck)
        return Ground(
            self._domains(self.pool if assumption.pool is None else assumption.pool),
            self.names,
            self._free(assumption),
            self.fit(assumption),
            assumption.counts,
            self._coming(assumption),
            self._shares(assumption),
        )

    def _coming(self, assumption: Assumption) -> Mapping[int, Vector]:
        """Return the amounts that terminating pods will free, by the position of the node.

        Nodes whose pods are assumed to be gone already are left out. The result is empty unless
        `assumption.free` is "now".
        """
        if assumption.free != "now":
            return {}
        coming = self._index.coming(self.names)
        emptied = assumption.emptied
        return {at: more for at, more in coming.items() if at not in emptied} if emptied else coming

    def _shares(self, assumption: Assumption) -> Mapping[int, Shares]:
        """Return the shared GPUs under `assumption`, by the position of the node.

        Pods that are assumed to be gone do not count.
        """
        index = self._index
        leaving = self._own.pods if self._own.leave else ()
        gone = assumption.gone | {pod.key for pod in leaving}
        if assumption.free == "now" and not (assumption.emptied or gone):
            return index.shares

        own = {pod.key for pod in self._own.pods}
        found = {}
        for position in index.shares:
            node = index.nodes[position]
            is_emptied = assumption.free == "empty" or position in assumption.emptied
            pods = [
                pod
                for pod in index.pods_on.get(node.name, ())
                if pod.key not in gone
                and (not is_emptied or pod.key in own)
                and not (assumption.free == "soon" and index.is_releasing(pod))
            ]
            shares = shares_of(node, pods, index.is_releasing)
            if shares.groups:
                found[position] = shares
        return found

    def _fit_of(self, shape: Shape, assumption: Assumption) -> Sequence[bool]:
        index = self._index
        nodes = index.nodes
        selects = shape.selects
        of_a_kind = bool(shape.part or (index.has_mig and asks_gpus(shape)))
        if assumption.opened:
            if not (selects or of_a_kind):
                return [True] * len(nodes)
            return [is_selected(shape, node) and not refused_by(shape, node) for node in nodes]
        if selects or of_a_kind:
            return [not unfit_because(shape, node) for node in nodes]
        return _open_to(shape, index)

    def _free(self, assumption: Assumption) -> Sequence[Vector]:
        names = self.names
        soon = assumption.free == "soon"
        free = self._index.soon_free(names) if soon else self._index.free(names)
        leaving = self._own.pods if self._own.leave else ()
        positions: Collection[int] = assumption.emptied
        if assumption.free == "empty":
            positions = range(len(self._index.nodes))
        if not (positions or assumption.gone or leaving):
            return free

        emptied = list(free)
        self._empty(emptied, positions)
        known = (self._index.pods.get(key) for key in assumption.gone)
        gone = [pod for pod in known if pod]
        self._release(emptied, (*leaving, *gone), positions)
        return emptied

    def _empty(self, free: list[Vector], positions: Collection[int]) -> None:
        """Change `free` as if only the gang's staying pods were on the nodes at `positions`."""
        allocatable = self._index.allocatable(self.names)
        staying = _by_node(() if self._own.leave else self._own.pods)
        if len(positions) == len(free):
            free[:] = allocatable
        else:
            for position in positions:
                free[position] = allocatable[position]

        for name, pods in staying.items():
            position = self.domains.positions.get(name, -1)
            if position in positions:
                used = amounts.taken(pods)
                free[position] = amounts.left(allocatable[position], used, self.names)

    def _release(self, free: list[Vector], pods: Iterable[Pod], emptied: Collection[int]) -> None:
        """Add the resources that pods use to `free`, except on nodes that are already emptied."""
        for name, of_node in _by_node(pods).items():
            position = self.domains.positions.get(name)
            if position is None or position in emptied:
                continue
            gone = {pod.key for pod in of_node}
            all_pods = self._index.pods_on.get(name, ())
            before = amounts.taken(all_pods)
            after = amounts.taken(pod for pod in all_pods if pod.key not in gone)
            more = (before.get(name, 0) - after.get(name, 0) for name in self.names)
            pairs = zip(free[position], more, strict=True)
            free[position] = tuple([have + add for have, add in pairs])


def _open_to(shape: Shape, index: Index) -> Sequence[bool]:
    """Return, for each node, whether it takes pods of a shape without selectors and affinity."""
    if not shape.tolerations:
        return index.open_nodes
    pairs = zip(index.open_nodes, index.nodes, strict=True)
    return [is_open or not unfit_because(shape, node) for is_open, node in pairs]


def _by_node(pods: Iterable[Pod]) -> Mapping[str, Sequence[Pod]]:
    return by_key((pod.node, pod) for pod in pods)
