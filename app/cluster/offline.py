"""Facts without a cluster, from documents: `check`, `serve --objects` and the tests.

The same caches, the same ClusterMnnvl and the same facts as on a live cluster, over a MemoryClient.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import TypeVar

from app.cluster.facts import CachedFacts, Stores, read_topology_levels
from app.cluster.gangs import BY_SET, read_stored_gang, set_keys
from app.cluster.memory import MemoryClient
from app.cluster.mnnvl import OF_GANG, ClusterMnnvl, gang_keys
from app.kube.api import Object
from app.kube.store import WatchStore
from app.objects.metadata import labels_of
from app.objects.resource import NODE, Resource
from app.rules.kinds import CLUSTER_TOPOLOGY, COMPUTE_DOMAIN, POD_CLIQUE_SET, POD_GANG, RESOURCE_CLAIM
from app.rules.mnnvl.ownership import read_resource
from app.rules.podcliqueset import read_pod_clique_set
from app.rules.topology.levels import Level, desired_levels

T = TypeVar("T")


class OfflineCluster:
    """A cluster that holds just `objects`. Without a ClusterTopology of the managed name, one with `levels` stands in,
    as the operator would create it."""

    def __init__(
        self,
        objects: Iterable[Object] = (),
        *,
        topology_name: str = "grove-topology",
        topology_enabled: bool = True,
        levels: Sequence[Level] = (),
    ) -> None:
        self.client = MemoryClient()
        known = [one for one in objects if _is_known(one)]
        if levels and not any(_names(one, topology_name) for one in known):
            known.append(desired_cluster_topology(topology_name, levels))
        loaded = self.client.load(known)
        topologies = filled(loaded, CLUSTER_TOPOLOGY, WatchStore(read_topology_levels))
        sets = filled(loaded, POD_CLIQUE_SET, WatchStore(read_pod_clique_set))
        nodes = filled(loaded, NODE, WatchStore(labels_of))
        gangs = filled(loaded, POD_GANG, WatchStore(read_stored_gang, {BY_SET: set_keys}))
        domains = filled(loaded, COMPUTE_DOMAIN, WatchStore(read_resource, {OF_GANG: gang_keys}))
        claims = filled(loaded, RESOURCE_CLAIM, WatchStore(read_resource, {OF_GANG: gang_keys}))
        self.stores = Stores(topologies, sets, nodes, gangs, domains, claims)
        self.facts = CachedFacts(
            self.client, self.stores, topology_name=topology_name, topology_enabled=topology_enabled
        )
        self.resources = ClusterMnnvl(self.client, self.facts, gangs, domains, claims)

    async def run(self) -> None:
        """Nothing changes here: waits until cancelled."""
        await asyncio.Event().wait()


def filled(objects: Iterable[Object], resource: Resource, store: WatchStore[T]) -> WatchStore[T]:
    """`store`, holding those of `objects` that are of `resource`."""
    replacement = store.replace()
    replacement.take(one for one in objects if _is(one, resource))
    replacement.done("0")
    return store


def desired_cluster_topology(name: str, levels: Sequence[Level]) -> Object:
    """The managed ClusterTopology that the configuration asks for."""
    return {
        "apiVersion": CLUSTER_TOPOLOGY.api_version(),
        "kind": CLUSTER_TOPOLOGY.kind,
        "metadata": {"name": name},
        "spec": {"levels": desired_levels(levels)},
    }


_FACTS = (CLUSTER_TOPOLOGY, POD_CLIQUE_SET, NODE, POD_GANG, COMPUTE_DOMAIN, RESOURCE_CLAIM)


def _is_known(obj: Object) -> bool:
    metadata = obj.get("metadata")
    named = isinstance(metadata, dict) and isinstance(metadata.get("name"), str)
    return named and any(_is(obj, resource) for resource in _FACTS)


def _is(obj: Object, resource: Resource) -> bool:
    group = str(obj.get("apiVersion", "")).rpartition("/")[0]
    return (group, obj.get("kind")) == (resource.group, resource.kind)


def _names(obj: Object, topology: str) -> bool:
    return _is(obj, CLUSTER_TOPOLOGY) and obj["metadata"]["name"] == topology
