"""The facts of a live cluster, each read once: for commands that look and go. A watch would wait for ever for what may
not be read; here that is known at once, and verdicts that need it say so.

Resources are read before the PodGangs and sets that should own them, so that whoever is missing at the end was missing
when its resource was there already.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from app.cluster.facts import CachedFacts, Levels, NodeLabels, Stores, read_topology_levels
from app.cluster.gangs import BY_SET, set_keys
from app.cluster.mnnvl import OF_GANG, ClusterMnnvl, gang_keys
from app.cluster.offline import desired_cluster_topology
from app.kube.api import Client, ClusterError, Gone, NotFound, Object
from app.kube.store import WatchStore
from app.kube.watch import Pace, Selection, list_into
from app.objects.metadata import labels_of
from app.objects.resource import Resource
from app.rules.kinds import CLUSTER_TOPOLOGY, COMPUTE_DOMAIN, POD_CLIQUE_SET, POD_GANG, RESOURCE_CLAIM
from app.rules.labels import MNNVL_MANAGED
from app.rules.mnnvl.ownership import Gang, MnnvlResource, read_gang, read_resource
from app.rules.podcliqueset import PodCliqueSet, read_pod_clique_set
from app.rules.topology.levels import Level

T = TypeVar("T")

_MANAGED = f"{MNNVL_MANAGED}=true"
_TRIES = 3


@dataclass(frozen=True, slots=True)
class DatedResource(MnnvlResource):
    """With the time at which it was made (RFC 3339), as the API server has it."""

    created: str = ""


class SnapshotCluster:
    """What verdicts need of `client`'s cluster, or of one namespace of it. Empty until `read`.

    Where the managed ClusterTopology doesn't exist, one with `levels` stands in, as the operator would make it. Nodes
    are not read: nothing that is stored is judged by them.
    """

    def __init__(
        self,
        client: Client,
        *,
        topology_name: str,
        topology_enabled: bool,
        levels: Sequence[Level] = (),
        namespace: str | None = None,
    ) -> None:
        self.client = client
        self.unread: dict[Resource, ClusterError] = {}
        """The resources that could not be read, and why."""
        self.stands_in = False
        """Whether configured levels took the place of the managed ClusterTopology."""
        self.topologies: WatchStore[Levels] = WatchStore(read_topology_levels)
        self.sets: WatchStore[PodCliqueSet] = WatchStore(read_pod_clique_set)
        self.gangs: WatchStore[Gang] = WatchStore(_read_gang, {BY_SET: set_keys})
        self.domains: WatchStore[DatedResource] = WatchStore(_read_dated, {OF_GANG: gang_keys})
        self.claims: WatchStore[DatedResource] = WatchStore(_read_dated, {OF_GANG: gang_keys})
        self._name, self._levels, self._namespace = topology_name, levels, namespace
        nodes: WatchStore[NodeLabels] = WatchStore(labels_of)
        stores = Stores(self.topologies, self.sets, nodes, self.gangs, self.domains, self.claims)
        self.facts = CachedFacts(client, stores, topology_name=topology_name, topology_enabled=topology_enabled)
        self.resources = ClusterMnnvl(client, self.facts, self.gangs, self.domains, self.claims)

    async def read(self) -> None:
        """Reads everything, once. What can't be read is in `unread`; what isn't installed counts as read and empty."""
        stores: tuple[tuple[Resource, WatchStore[Any], str], ...] = (
            (COMPUTE_DOMAIN, self.domains, _MANAGED),
            (RESOURCE_CLAIM, self.claims, _MANAGED),
            (CLUSTER_TOPOLOGY, self.topologies, ""),
            (POD_GANG, self.gangs, ""),
            (POD_CLIQUE_SET, self.sets, ""),
        )
        for resource, store, selector in stores:
            namespace = self._namespace if resource.namespaced else None
            try:
                await _fill(self.client, store, Selection(resource, namespace, selector))
            except NotFound:
                store.mark_not_served()
            except ClusterError as error:
                self.unread[resource] = error
        self._stand_in()

    def _stand_in(self) -> None:
        if not self.topologies.synced or not self._levels or self.topologies.get("", self._name) is not None:
            return
        replacement = self.topologies.replace()
        replacement.take([desired_cluster_topology(self._name, self._levels)])
        replacement.done("0")
        self.stands_in = True


async def _fill(client: Client, store: WatchStore[T], selection: Selection) -> None:
    """A list that lapses while it is read is begun again, a few times."""
    for _ in range(_TRIES - 1):
        try:
            await list_into(client, store, selection, Pace())
            return
        except Gone:
            continue
    await list_into(client, store, selection, Pace())


def _read_dated(obj: Object) -> DatedResource:
    one = read_resource(obj)
    known = {field.name: getattr(one, field.name) for field in fields(one)}
    return DatedResource(**known, created=obj["metadata"].get("creationTimestamp") or "")


def _read_gang(obj: Object) -> Gang:
    return read_gang(obj, obj["metadata"].get("namespace") or "")
