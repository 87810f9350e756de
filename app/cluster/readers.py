"""What webhooks may ask of the cluster, as Protocols."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from app.kube.api import Object, Unavailable
from app.objects.resource import Resource
from app.rules.mnnvl.ownership import Gang, MnnvlResource
from app.rules.mnnvl.plan import ClaimMode, Plan
from app.rules.podcliqueset import PodCliqueSet
from app.rules.topology.dialect import Dialect, Surroundings
from app.rules.topology.levels import Topology


class TopologyMissing(Unavailable):
    """The managed ClusterTopology does not exist (yet)."""


class TopologyReader(Surroundings, Protocol):
    """The topologies of the cluster, as the rules see them. The methods of Surroundings raise Unavailable while the
    cache that they read isn't ready."""

    def dialect(self) -> Dialect:
        """The dialect of Grove's topology API that is in force."""
        ...

    def topology(self) -> Topology:
        """TopologyMissing while the managed object doesn't exist though it should."""
        ...

    def level_keys(self) -> tuple[str, ...]:
        """The node labels of the levels that are in use."""
        ...


class ApiReader(Protocol):
    def is_served(self, resource: Resource) -> bool:
        """Whether the cluster serves `resource`, as discovery last saw it."""
        ...


class PodCliqueSetReader(Protocol):
    def cached_set(self, namespace: str, name: str) -> PodCliqueSet | None:
        """Unavailable while the cache isn't ready."""
        ...

    def namesakes(self, namespace: str) -> list[PodCliqueSet]:
        """The cached sets of `namespace` that have groups of Grove's MNNVL. Unavailable while the cache isn't ready."""
        ...

    async def read_set(self, namespace: str, name: str) -> PodCliqueSet | None:
        """From the cache, else by one read of the API; None if it doesn't exist."""
        ...


class DeviceClassReader(Protocol):
    def device_classes(self) -> Collection[str]:
        """The names of all DeviceClasses. Unavailable while the cache isn't ready."""
        ...


class NodeReader(Protocol):
    def node_labels(self, name: str) -> Mapping[str, str] | None:
        """The cached labels of a node, None for an unknown one. Unavailable while the cache isn't ready."""
        ...


class NotOurs(Exception):
    """A resource of the planned name exists, but we didn't make it; or its API isn't installed. The text says which."""


class MnnvlResources(Protocol):
    """ComputeDomains and ResourceClaims, made for PodCliques and handed on to PodGangs."""

    def is_ensured(self, plan: Plan, mode: ClaimMode) -> bool:
        """Whether the resources of `plan` that `mode` needs are known to be there, ours, staying and owned by somebody
        who lives: then no call is needed. Unavailable while a cache isn't ready."""
        ...

    async def ensure(self, plan: Plan, mode: ClaimMode, *, dry_run: bool) -> list[Object]:
        """Makes sure that the resources of `plan` exist; gives the objects that were created (on a dry run: that would
        be). NotOurs if that is refused, Unavailable if a later try may succeed."""
        ...

    def resources_of(self, gang: Gang) -> list[MnnvlResource]:
        """The cached resources that belong to `gang`. Unavailable while a cache isn't ready."""
        ...

    async def adopt(self, gang: Gang, *, dry_run: bool, seen: Sequence[MnnvlResource] | None = None) -> list[Object]:
        """Makes `gang` (which has a uid) the owner of its resources that may be adopted; gives those written. Conflict
        if one has changed since it was `seen`: by `resources_of`, before it was known that `gang` lives."""
        ...
