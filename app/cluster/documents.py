"""A cluster of documents: `check`, `serve --objects` and tests.

There is no API server.
"""

from collections.abc import Callable, Iterable, Sequence

from app.cluster.cluster import Cluster
from app.cluster.dialects import dialect_of
from app.config.schema import Configuration
from app.facts.grove.topology import Level
from app.facts.kinds import ALL, CLUSTER_TOPOLOGY
from app.kube.api import Object, WatchEvent
from app.objects.resource import Resource
from app.rules.topology.levels import desired_levels
from app.stores.documents import DocumentObjects, resource_of
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


def take_in(cluster: Cluster, document: Object) -> None:
    """Add a document to a cluster that `cluster_of` returned.

    It replaces a document of the same name.
    """
    stored = _documents_of(cluster).add(document)
    if stored is not None:
        _apply(cluster, resource_of(document), WatchEvent("MODIFIED", stored))


def take_out(
    cluster: Cluster,
    group: str,
    plural: str,
    namespace: str,
    name: str,
) -> None:
    """Remove a document from a cluster that `cluster_of` returned."""
    resource = next(
        resource for resource in ALL if (resource.group, resource.plural) == (group, plural)
    )
    removed = _documents_of(cluster).remove(resource, name, namespace)
    if removed is not None:
        _apply(cluster, resource, WatchEvent("DELETED", removed))


def _documents_of(cluster: Cluster) -> DocumentObjects:
    assert isinstance(cluster.client, DocumentObjects)
    return cluster.client


def _apply(cluster: Cluster, resource: Resource | None, event: WatchEvent) -> None:
    for row, store in cluster.all_stores:
        if row.resource == resource:
            store.apply(event)


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
