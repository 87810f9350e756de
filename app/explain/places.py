"""Where a demand fits, under the assumptions that reasons make."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from app.explain.domains import Domains
from app.explain.facts.common import Amounts
from app.explain.facts.nodes import Node
from app.explain.facts.pods import NODE_POOL, Shape
from app.explain.fitness import unfit_because
from app.explain.index import Index
from app.explain.levels import Topology
from app.explain.room import Board, Demand, Fit, Room
from app.explain.words import is_device


class Places:
    """Where a demand fits, under different assumptions.

    Each is computed when it is first asked for.
    """

    def __init__(self, index: Index, topology: Topology, demand: Demand, pool: str = "") -> None:
        self.demand = demand
        self.pool = pool
        self.domains: Domains = index.domains(topology.keys)
        self._index = index
        self._shapes = [shape for shape, _ in demand.shapes]
        names = {name for shape in self._shapes for name, _ in shape.requests}
        # the scarce ones first
        self.names = tuple(sorted(names, key=lambda name: (not is_device(name), name)))

    def free(self, position: int) -> Amounts:
        """What a node has left of the resources that the demand is about."""
        return dict(zip(self.names, self._index.free(self.names)[position], strict=True))

    @cached_property
    def fit(self) -> Mapping[Shape, Sequence[bool]]:
        """Which nodes may take each shape: with a node pool, only its nodes."""
        return {shape: self._fit(shape, self.pool) for shape in self._shapes}

    def _fit(self, shape: Shape, pool: str) -> Sequence[bool]:
        nodes = self._index.nodes
        everywhere = self._index.open_nodes
        if not (shape.selector or shape.affinity or shape.tolerations):
            fit: Sequence[bool] = everywhere
        else:
            fit = [not unfit_because(shape, node) for node in nodes]
        return (
            [ok and node.labels.get(NODE_POOL) == pool for ok, node in zip(fit, nodes, strict=True)]
            if pool
            else fit
        )

    @cached_property
    def _all_nodes(self) -> Mapping[Shape, Sequence[bool]]:
        every = [True] * len(self._index.nodes)
        return dict.fromkeys(self._shapes, every)

    @cached_property
    def now(self) -> Fit:
        return self._board().fit(self.demand)

    @cached_property
    def rooms(self) -> tuple[Room, ...]:
        """The room for the demand in each domain, the roomiest first."""
        return self._board().rooms(self.demand)

    @cached_property
    def soon(self) -> Fit:
        """As if the pods that are terminating were gone."""
        return self._board(self._index.soon_free(self.names)).fit(self.demand)

    @cached_property
    def any_pool(self) -> Fit:
        """As if node pools did not matter."""
        fit = {shape: self._fit(shape, "") for shape in self._shapes}
        return self._board(fit=fit).fit(self.demand) if self.pool else self.now

    @cached_property
    def empty(self) -> Fit:
        """As if nothing ran, and all nodes were ready and open to the gang."""
        return self._board(self._index.allocatable(self.names), self._all_nodes).fit(self.demand)

    @cached_property
    def all_fit(self) -> Fit:
        """As if all nodes were ready and open to the gang."""
        all_open = all(map(all, self.fit.values()))
        return self.now if all_open else self._board(fit=self._all_nodes).fit(self.demand)

    @cached_property
    def rooms_if_open(self) -> tuple[Room, ...]:
        """The room for the demand in each domain, as if all nodes were ready and open to it."""
        return self._board(fit=self._all_nodes).rooms(self.demand)

    @cached_property
    def needed(self) -> int | None:
        """How many empty domains the demand needs at its level."""
        return self._board(self._index.allocatable(self.names), self._all_nodes).needed(self.demand)

    @cached_property
    def devices_alone(self) -> Fit:
        """As if pods asked only for devices, such as GPUs."""
        return self._counting(is_device)

    @cached_property
    def rooms_for_devices(self) -> tuple[Room, ...]:
        return self._board(counts=is_device).rooms(self.demand)

    def without(self, resource: str) -> Fit:
        """As if pods did not ask for this resource."""
        return self._counting(lambda name: name != resource)

    def on(self, allowed: Callable[[Node], bool]) -> Fit:
        """As if only these nodes could take pods."""
        chosen = [allowed(node) for node in self._index.nodes]
        fit = {
            s: [ok and own for ok, own in zip(ok_for, chosen, strict=True)]
            for s, ok_for in self.fit.items()
        }
        return self._board(fit=fit).fit(self.demand)

    def with_labels(self, labels: Mapping[str, Mapping[str, str]]) -> Board:
        """As if nodes had these labels too, by node name."""
        nodes = [
            (
                replace(node, labels={**node.labels, **labels[node.name]})
                if node.name in labels
                else node
            )
            for node in self._index.nodes
        ]
        return Board(
            Domains(nodes, self.domains.keys), self.names, self._index.free(self.names), self.fit
        )

    def _counting(self, counts: Callable[[str], bool]) -> Fit:
        """As `now`, if the resources that don't count are nowhere what is short."""
        free = set(self._index.free(self.names))
        full = self._board()
        part = self._board(counts=counts)
        same = all(
            full.capacity(shape, have) == part.capacity(shape, have)
            for shape in self._shapes
            for have in free
        )
        return self.now if same else part.fit(self.demand)

    def _board(
        self,
        free: Sequence[tuple[int, ...]] | None = None,
        fit: Mapping[Shape, Sequence[bool]] | None = None,
        counts: Callable[[str], bool] = lambda name: True,
    ) -> Board:
        free = self._index.free(self.names) if free is None else free
        return Board(
            self.domains, self.names, free, self.fit if fit is None else fit, counts=counts
        )
