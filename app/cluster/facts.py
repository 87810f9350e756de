"""The facts that webhooks ask for, read from the watch caches."""

from collections.abc import Collection, Mapping
from typing import Any

from app.cluster.dialects import dialect_of
from app.cluster.readers import TopologyMissing
from app.cluster.stores import Stores
from app.cluster.table import NODES, SETS, TOPOLOGIES
from app.kube.api import NotFound, Objects, Store, Unavailable
from app.rules.kinds import POD_CLIQUE_SET
from app.rules.podcliqueset import PodCliqueSet, read_pod_clique_set
from app.rules.topology.dialect import Dialect
from app.rules.topology.levels import Topology


def ready(store: Store[Any], what: object) -> None:
    """Unavailable while `store` hasn't got its first list."""
    if not store.synced:
        raise Unavailable(f"the cache of {what} is not filled yet; try again in a few seconds")


class CachedFacts:
    """TopologyReader, PodCliqueSetReader and NodeReader over the caches."""

    def __init__(self, client: Objects, stores: Stores, *, topology_name: str, topology_enabled: bool) -> None:
        self._client = client
        self._stores = stores
        self._name = topology_name
        self._disabled = None if topology_enabled else Topology(topology_name, enabled=False)
        self._current = Topology(topology_name, enabled=True)

    def dialect(self) -> Dialect:
        return dialect_of(self._client)

    def topology(self) -> Topology:
        if self._disabled is not None:
            return self._disabled
        ready(self._stores[TOPOLOGIES], "ClusterTopologies")
        levels = self._stores[TOPOLOGIES].get("", self._name)
        if not levels:
            raise TopologyMissing(
                f'topology support is enabled, but ClusterTopology "{self._name}" does not exist yet; the operator '
                f"creates it from clusterTopology.levels of its configuration"
            )
        if levels != self._current.levels:
            self._current = Topology(self._name, enabled=True, levels=levels)
        return self._current

    def cached_set(self, namespace: str, name: str) -> PodCliqueSet | None:
        ready(self._stores[SETS], "PodCliqueSets")
        return self._stores[SETS].get(namespace, name)

    def sets_naming(self, domains: Collection[str]) -> list[PodCliqueSet]:
        ready(self._stores[SETS], "PodCliqueSets")
        found = [one for one in self._stores[SETS].values() if not one.domains.isdisjoint(domains)]
        return sorted(found, key=lambda one: (one.namespace, one.name))

    async def read_set(self, namespace: str, name: str) -> PodCliqueSet | None:
        found = self.cached_set(namespace, name)
        if found is not None or not name:
            return found
        try:
            return read_pod_clique_set(await self._client.get(POD_CLIQUE_SET, name, namespace))
        except NotFound:
            return None

    def node_labels(self, name: str) -> Mapping[str, str] | None:
        ready(self._stores[NODES], "Nodes")
        return self._stores[NODES].get("", name)
