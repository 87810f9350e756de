"""A cluster that is read once, for commands."""

from collections.abc import Mapping

from msgspec import field

from app.base.value import Value
from app.cluster.cluster import Cluster
from app.cluster.documents import desired_cluster_topology
from app.facts.grove.topology import Level
from app.facts.kinds import CLUSTER_TOPOLOGY
from app.facts.table import TOPOLOGIES
from app.kube.api import Client, ClusterError
from app.objects.resource import Resource
from app.stores import listed
from app.stores.stores import fill


class Listing(Value):
    """The result of `read`.

    `unread` has the reason for each resource that could not be read. `stands_in` is true if the
    managed ClusterTopology doesn't exist, and one with the configured levels takes its place.
    """

    unread: Mapping[Resource, ClusterError] = field(default_factory=dict)
    stands_in: bool = False


async def read(
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
