"""Clusters whose stores are filled once, without watches: from documents, and from lists.

`check`, `serve --objects` and tests have documents, and no API server. Other commands read lists.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import field

from app.base.value import Value
from app.cluster.cluster import Cluster
from app.cluster.dialects import dialect_of
from app.config.schema import Configuration
from app.facts.grove.topology import Level
from app.facts.kinds import CLUSTER_TOPOLOGY
from app.facts.table import TOPOLOGIES
from app.kube.api import Client, ClusterError, Object
from app.objects.resource import Resource
from app.rules.topology.levels import desired_levels
from app.stores import listed
from app.stores.documents import DocumentObjects
from app.stores.stores import fill


def cluster_of(configuration: Configuration, documents: Iterable[Object]) -> Cluster:
    """Return a cluster that contains only `documents`.

    If they lack the managed topology of the dialect in force, one with the configured levels is
    added, as the leader would create it.
    """
    objects = DocumentObjects(documents)
    name = configuration.cluster_topology.name
    levels = configuration.levels
    resource = dialect_of(objects).resource
    if levels and not objects.contains(resource, name):
        objects.add({**desired_cluster_topology(name, levels), "kind": resource.kind})
    cluster = Cluster(objects, configuration)
    fill_from(cluster, objects.of)
    return cluster


def fill_from(cluster: Cluster, objects_of: Callable[[Resource], Iterable[Object]]) -> None:
    """Fill every store with the objects that `objects_of` returns for its resource."""
    for row, store in cluster.all_stores:
        fill(store, objects_of(row.resource))


def desired_cluster_topology(name: str, levels: Sequence[Level]) -> Object:
    """Return the managed ClusterTopology with the configured `levels`."""
    return {
        "apiVersion": CLUSTER_TOPOLOGY.api_version(),
        "kind": CLUSTER_TOPOLOGY.kind,
        "metadata": {"name": name},
        "spec": {"levels": desired_levels(levels)},
    }


class Listing(Value):
    """The result of `read_into`.

    `unread` has the reason for each resource that could not be read. `stands_in` is true if the
    managed ClusterTopology doesn't exist, and one with the configured levels takes its place.
    """

    unread: Mapping[Resource, ClusterError] = field(default_factory=dict)
    stands_in: bool = False


async def read_into(
    cluster: Cluster,
    client: Client,
    levels: tuple[Level, ...],
    namespace: str | None,
) -> Listing:
    """Fill each store of `cluster` once (`stores/listed`).

    If the managed ClusterTopology doesn't exist although its API is in force, one with `levels`
    takes its place.
    """
    unread = await listed.read(cluster.stores, client, namespace)
    topologies = cluster.stores[TOPOLOGIES]
    in_force = cluster.facts.dialect().resource is CLUSTER_TOPOLOGY
    missing = in_force and topologies.synced and topologies.get("", cluster.topology_name) is None
    if missing and levels:
        fill(topologies, [desired_cluster_topology(cluster.topology_name, levels)])

    return Listing(unread, bool(missing and levels))
