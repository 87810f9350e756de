"""Make clusters whose stores are filled once: from documents, from lists, or from both.

The server's own stores are kept up to date by watches (`stores/stores`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import field

from app.base.value import Value
from app.cluster.cluster import Cluster
from app.cluster.view import Known, dialect_of
from app.config.schema import Configuration
from app.facts.grove.topology import Level, levels_for_kai
from app.facts.kinds import CLUSTER_TOPOLOGY
from app.facts.rows import TOPOLOGIES
from app.kube.api import Client, ClusterError, Object
from app.objects.resource import Resource
from app.rules.topology.levels import desired_levels
from app.stores import list_reader
from app.stores.offline import DocumentObjects
from app.stores.stores import fill

_NEWEST = str(2**62)
"""A resourceVersion that is newer than any stored one."""


def cluster_of(
    configuration: Configuration, documents: Iterable[Object], *, is_whole: bool = True
) -> Cluster:
    """Return a cluster that contains only `documents`.

    If they lack the managed topology of the dialect in force, add one with the configured levels,
    if there are any. If `is_whole` is true, objects that are not among the documents do not exist.
    Otherwise, nothing is known about them.
    """
    objects = DocumentObjects(documents, is_whole=is_whole)
    name = configuration.cluster_topology.name
    levels = configuration.levels
    dialect = dialect_of(objects)
    if levels and not objects.contains(dialect.resource, name):
        # the leader writes into a binding only the levels that KAI allows
        written = levels if dialect.owns_topology else levels_for_kai(levels)
        topology = desired_cluster_topology(name, written)
        objects.add({**topology, "kind": dialect.resource.kind})
    known = Known(is_whole, objects.names_grove)
    cluster = Cluster(objects, configuration, known=known)
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


async def cluster_around(
    documents: Sequence[Object], client: Client, configuration: Configuration
) -> tuple[Cluster, list[str]]:
    """Return the cluster of `client`, read once, as if `documents` were stored in it.

    Also return the resources that could not be read, each with the reason. Resources that only
    warnings need are omitted from this list, because verdicts are the same without them.
    """
    cluster = Cluster(client, configuration)
    listing = await read_into(cluster, client, configuration.levels, None)
    await list_reader.read(cluster.hints, client, None)
    own = DocumentObjects(documents)
    for fact, store in cluster.all_stores:
        for obj in own.of(fact.resource):
            store.note({**obj, "metadata": {**obj["metadata"], "resourceVersion": _NEWEST}})
    return cluster, [f"{resource} ({error.message})" for resource, error in listing.unread.items()]


class Listing(Value):
    """The result of `read_into`."""

    unread: Mapping[Resource, ClusterError] = field(default_factory=dict)
    """The reason for each resource that could not be read."""
    stands_in: bool = False
    """Whether the managed ClusterTopology doesn't exist and was added."""


async def read_into(
    cluster: Cluster, client: Client, levels: tuple[Level, ...], namespace: str | None
) -> Listing:
    """Fill the stores of `cluster` that verdicts need, once (`stores/list_reader`).

    Read namespaced objects of `namespace` only, unless it is None. If the managed ClusterTopology
    doesn't exist although Grove uses ClusterTopologies, add one with `levels`, if there are any.
    """
    unread = await list_reader.read(cluster.stores, client, namespace)
    topologies = cluster.stores[TOPOLOGIES]
    in_force = cluster.facts.dialect().resource is CLUSTER_TOPOLOGY
    missing = in_force and topologies.synced and topologies.get("", cluster.topology_name) is None
    if missing and levels:
        fill(topologies, [desired_cluster_topology(cluster.topology_name, levels)])

    return Listing(unread, bool(missing and levels))
