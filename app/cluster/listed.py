"""Fills the stores of a cluster with one list each, for commands that read it once.

If a resource may not be read, a watch would wait for ever, while a list reports the reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.cluster.cluster import Cluster
from app.cluster.documents import desired_cluster_topology
from app.cluster.table import TOPOLOGIES, fill
from app.facts.grove.topology import Level
from app.facts.kinds import CLUSTER_TOPOLOGY
from app.kube.api import Client, ClusterError, Gone, NotFound, Selection
from app.kube.store import WatchStore
from app.kube.watch import Pace, list_into
from app.objects.resource import Resource

_TRIES = 3


@dataclass(frozen=True, slots=True)
class Listing:
    """The result of `read`.

    `unread` has the reason for each resource that could not be read. `stands_in` is true if the
    managed ClusterTopology doesn't exist, and one with the configured levels takes its place.
    """

    unread: Mapping[Resource, ClusterError] = field(default_factory=dict)
    stands_in: bool = False


async def read(
    cluster: Cluster, client: Client, levels: tuple[Level, ...], namespace: str | None
) -> Listing:
    """Read each fact once, in the order of the table, from `namespace`, or from all namespaces if
    that is None.

    The store of a resource that isn't installed is empty and synced. If the managed ClusterTopology
    doesn't exist although its API is in force, one with `levels` takes its place.
    """
    unread: dict[Resource, ClusterError] = {}
    for fact, store in cluster.stores:
        scope = namespace if fact.resource.namespaced else None
        try:
            await _fill(client, store, fact.selection(scope))
        except NotFound:
            store.mark_not_served()
        except ClusterError as error:
            unread[fact.resource] = error

    topologies = cluster.stores[TOPOLOGIES]
    in_force = cluster.facts.dialect().resource is CLUSTER_TOPOLOGY
    missing = in_force and topologies.synced and topologies.get("", cluster.topology_name) is None
    if missing and levels:
        fill(topologies, [desired_cluster_topology(cluster.topology_name, levels)])

    return Listing(unread, bool(missing and levels))


async def _fill(client: Client, store: WatchStore[Any], selection: Selection) -> None:
    """Lists into `store`.

    If the list expires while its pages are read, it is begun again a few times.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            await list_into(client, store, selection, Pace())
            return
        except Gone:
            if not tries_left:
                raise
