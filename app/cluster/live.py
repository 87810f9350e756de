"""The facts of a live cluster: every cache that verdicts need, kept in step by watches."""

import asyncio
from sys import intern
from typing import Any, NoReturn, Protocol

from app.cluster.facts import CachedFacts, Levels, NodeLabels, Stores, read_topology_levels
from app.cluster.gangs import BY_SET, StoredGang, read_stored_gang, set_keys
from app.cluster.mnnvl import OF_GANG, ClusterMnnvl, gang_keys
from app.kube.api import Client, Object
from app.kube.discovery import Discovery, watch_crds
from app.kube.store import WatchStore
from app.kube.watch import run_store
from app.objects.metadata import labels_of
from app.objects.resource import NODE, Resource
from app.rules.kinds import CLUSTER_TOPOLOGY, COMPUTE_DOMAIN, POD_CLIQUE_SET, POD_GANG, RESOURCE_CLAIM
from app.rules.labels import MNNVL_MANAGED
from app.rules.mnnvl.ownership import MnnvlResource, read_resource
from app.rules.podcliqueset import PodCliqueSet, read_pod_clique_set

_MANAGED = f"{MNNVL_MANAGED}=true"


class WatchedClient(Client, Protocol):
    """A client that knows what its cluster serves."""

    @property
    def discovery(self) -> Discovery: ...


class LiveCluster:
    """The caches over `client`. `node_labels` are the keys to keep of nodes, beside those of the managed
    ClusterTopology's levels, which change as it does."""

    def __init__(
        self, client: WatchedClient, *, topology_name: str, topology_enabled: bool, node_labels: tuple[str, ...]
    ) -> None:
        self.client = client
        self.topology_name = topology_name
        self._node_labels = node_labels
        self._keys: tuple[str, ...] = node_labels
        self._keys_changed = asyncio.Event()
        self.topologies: WatchStore[Levels] = WatchStore(read_topology_levels)
        self.sets: WatchStore[PodCliqueSet] = WatchStore(read_pod_clique_set)
        self.nodes: WatchStore[NodeLabels] = WatchStore(self._read_node)
        self.gangs: WatchStore[StoredGang] = WatchStore(read_stored_gang, {BY_SET: set_keys})
        self.domains: WatchStore[MnnvlResource] = WatchStore(read_resource, {OF_GANG: gang_keys})
        self.claims: WatchStore[MnnvlResource] = WatchStore(read_resource, {OF_GANG: gang_keys})
        self.topologies.subscribe(self._topology_changed)
        self.stores = Stores(self.topologies, self.sets, self.nodes, self.gangs, self.domains, self.claims)
        self.facts = CachedFacts(client, self.stores, topology_name=topology_name, topology_enabled=topology_enabled)
        self.resources = ClusterMnnvl(client, self.facts, self.gangs, self.domains, self.claims)

    def watched(self) -> dict[str, WatchStore[Any]]:
        """The caches by the name of their resource."""
        return {
            "clustertopologies": self.topologies,
            "podcliquesets": self.sets,
            "nodes": self.nodes,
            "podgangs": self.gangs,
            "computedomains": self.domains,
            "resourceclaims": self.claims,
        }

    async def until_synced(self) -> None:
        """Returns once every cache has its first list."""
        for store in self.watched().values():
            await store.until_synced()

    async def run(self) -> None:
        """Keeps everything in step until cancelled. Errors of the cluster are retried; anything else is raised."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.client.discovery.run(), name="discovery")
            await self.client.discovery.until_known()
            tasks.create_task(watch_crds(self.client, self.client.discovery), name="watch crds")
            tasks.create_task(self._watch_nodes(), name="watch nodes")
            for store, resource, selector in (
                (self.topologies, CLUSTER_TOPOLOGY, ""),
                (self.sets, POD_CLIQUE_SET, ""),
                (self.gangs, POD_GANG, ""),
                (self.domains, COMPUTE_DOMAIN, _MANAGED),
                (self.claims, RESOURCE_CLAIM, _MANAGED),
            ):
                tasks.create_task(self._watch(store, resource, selector), name=f"watch {resource}")

    async def _watch(self, store: WatchStore[Any], resource: Resource, selector: str = "") -> NoReturn:
        await run_store(
            self.client,
            store,
            resource,
            label_selector=selector,
            metadata_only=resource is NODE,
            served_changed=self.client.discovery.changed,
        )

    async def _watch_nodes(self) -> None:
        """Lists nodes once it is known which of their labels are wanted, and again when others are."""
        await self.topologies.until_synced()
        while True:
            self._keys_changed.clear()
            watching = asyncio.create_task(self._watch(self.nodes, NODE))
            changed = asyncio.create_task(self._keys_changed.wait())
            try:
                await asyncio.wait({watching, changed}, return_when=asyncio.FIRST_COMPLETED)
                if watching.done():
                    await watching
            finally:
                for task in (watching, changed):
                    task.cancel()
                await asyncio.gather(watching, changed, return_exceptions=True)

    def _topology_changed(self, key: tuple[str, str], before: Levels | None, after: Levels | None) -> None:
        if key != ("", self.topology_name):
            return
        keys = tuple(dict.fromkeys((*(level.key for level in after or ()), *self._node_labels)))
        if set(keys) - set(self._keys):
            self._keys_changed.set()
        self._keys = keys

    def _read_node(self, obj: Object) -> NodeLabels:
        labels = labels_of(obj)
        return {intern(key): intern(labels[key]) for key in self._keys if key in labels}
