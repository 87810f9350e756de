"""A cluster of documents: `check`, `serve --objects` and tests.

There is no API server.
"""

from collections.abc import Callable, Iterable, Sequence

from app.cluster.cluster import Cluster
from app.cluster.dialects import dialect_of
from app.config.schema import Configuration
from app.facts.grove.topology import Level
from app.facts.kinds import CLUSTER_TOPOLOGY
from app.kube.api import Object
from app.objects.resource import Resource
from app.rules.topology.levels import desired_levels
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
