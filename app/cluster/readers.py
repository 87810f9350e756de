"""Protocols of the facts and resources of a cluster that webhooks use."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from app.kube.api import Object, Unavailable
from app.objects.resource import Resource
from app.rules.mnnvl.ownership import Gang, MnnvlResource
from app.rules.mnnvl.plan import ClaimMode, Plan
from app.rules.podcliqueset import PodCliqueSet
from app.rules.topology.dialect import Dialect, TopologyFacts
from app.rules.topology.levels import Topology


class TopologyMissing(Unavailable):
    """The managed ClusterTopology does not exist, or not yet."""


class TopologyReader(TopologyFacts, Protocol):
    """The topologies of the cluster. The methods of TopologyFacts raise Unavailable
    while the cache that they need isn't ready."""

    def dialect(self) -> Dialect:
        """Returns the dialect of Grove's topology API that is in force."""

    def topology(self) -> Topology:
        """Returns the managed topology. TopologyMissing if it doesn't exist although it should."""

    def level_keys(self) -> tuple[str, ...]:
        """Returns the node labels of all levels in use."""


class Facts(TopologyReader, Protocol):
    """All facts of a cluster. A method raises Unavailable while the cache that it needs isn't ready."""

    def is_served(self, resource: Resource) -> bool:
        """Whether the cluster serves `resource`, as of the last discovery."""

    def cached_set(self, namespace: str, name: str) -> PodCliqueSet | None:
        """Returns a set from the cache, or None."""

    def sets_with_groups(self, namespace: str) -> list[PodCliqueSet]:
        """Returns the cached sets of `namespace` with MNNVL groups of Grove."""

    async def read_set(self, namespace: str, name: str) -> PodCliqueSet | None:
        """Returns a set from the cache, or from the API server if the cache lacks it. None if it doesn't exist."""

    def device_classes(self) -> Collection[str]:
        """Returns the names of all DeviceClasses."""

    def node_labels(self, name: str) -> Mapping[str, str] | None:
        """Returns the cached labels of a node, or None if the cache lacks it."""


class NotOurs(Exception):
    """Resources can't be created: an object of the same name exists that we didn't
    make, or the API isn't installed. The message states the reason."""


class MnnvlResources(Protocol):
    """ComputeDomains and ResourceClaims, which are created for PodCliques and adopted by PodGangs."""

    def is_ensured(self, plan: Plan, mode: ClaimMode) -> bool:
        """Whether the caches show all resources of `plan` that `mode` needs, made by us, not being deleted, and with an
        owner that exists. If so, `ensure` is not needed. Unavailable while a cache isn't ready."""

    async def ensure(self, plan: Plan, mode: ClaimMode, *, dry_run: bool) -> list[Object]:
        """Creates the missing resources of `plan`. Returns the created objects, or, on a dry run, those that would be
        created. NotOurs if they can't be created, Unavailable if a later call may succeed."""

    def resources_of(self, gang: Gang) -> list[MnnvlResource]:
        """Returns the cached resources that belong to `gang`. Unavailable while a cache isn't ready."""

    async def adopt(
        self, gang: Gang, *, dry_run: bool, resources: Sequence[MnnvlResource] | None = None
    ) -> list[Object]:
        """Makes `gang`, which has a uid, the owner of its resources that it may adopt, and returns these. `resources`
        is an earlier result of `resources_of`, by default the current one. Conflict if one has changed since."""
