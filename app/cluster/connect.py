"""Clients and clusters, for the server and for commands."""

import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

from app import __version__
from app.cluster.live import LiveCluster
from app.cluster.offline import OfflineCluster
from app.config.schema import Configuration
from app.kube.api import Object
from app.kube.client import HttpClient, Limits
from app.kube.credentials import from_kubeconfig, in_cluster, is_in_cluster
from app.rules.kinds import (
    ALL,
)

Cluster = OfflineCluster | LiveCluster


def offline_cluster(configuration: Configuration, objects: Iterable[Object]) -> OfflineCluster:
    return OfflineCluster(
        objects,
        topology_name=configuration.cluster_topology.name,
        topology_enabled=configuration.cluster_topology.enabled,
        levels=configuration.levels,
    )


def live_cluster(configuration: Configuration, client: HttpClient) -> LiveCluster:
    """The caches over `client`."""
    return LiveCluster(
        client,
        topology_name=configuration.cluster_topology.name,
        topology_enabled=configuration.cluster_topology.enabled,
        node_labels=configuration.node_labels,
    )


@contextlib.asynccontextmanager
async def api_client(
    configuration: Configuration, kubeconfig: Path | None, context: str | None
) -> AsyncIterator[HttpClient]:
    """A client of the cluster of `kubeconfig` and `context`, or, without either, of the one that this Pod runs in.
    ClusterError where there are no credentials."""
    in_pod = kubeconfig is None and context is None
    credentials = await (in_cluster() if in_pod else from_kubeconfig(kubeconfig, context))
    async with HttpClient(
        credentials, ALL, limits(configuration), user_agent=f"grove-admission/{__version__}"
    ) as client:
        yield client


@contextlib.asynccontextmanager
async def looking_client(
    configuration: Configuration, kubeconfig: Path | None, context: str | None
) -> AsyncIterator[HttpClient]:
    """As `api_client`, for commands of people: outside of a Pod they mean the cluster that kubectl would take. What the
    cluster serves is known."""
    context = context if is_in_cluster() or kubeconfig is not None else context or ""
    async with api_client(configuration, kubeconfig, context) as client:
        await client.discovery.refresh()
        yield client


def limits(configuration: Configuration) -> Limits:
    client = configuration.client
    return Limits(total=client.timeout_seconds, qps=client.queries_per_second, burst=client.burst)


def gauges_of(cluster: Cluster) -> Iterator[tuple[str, str, dict[str, str], float]]:
    stores = cluster.stores.by_name()
    for name, store in stores.items():
        yield "cache_objects", "Objects in the cache.", {"resource": name}, len(store)
    for name, store in stores.items():
        yield "cache_synced", "1 once the first list is in.", {"resource": name}, float(store.synced)
    for name, store in stores.items():
        yield "cache_served", "1 where the cluster serves the resource.", {"resource": name}, float(store.served)
    if isinstance(cluster, LiveCluster):
        yield from _cluster_gauges(cluster)


def _cluster_gauges(cluster: LiveCluster) -> Iterator[tuple[str, str, dict[str, str], float]]:
    for name, store in cluster.watched().items():
        for reason, count in store.restarts.items():
            yield "watch_restarts_total", "Watches begun again.", {"resource": name, "reason": reason}, count
    for name, store in cluster.watched().items():
        age = store.age()
        if age is not None:
            yield "cache_age_seconds", "Since the last sign of life of the watch.", {"resource": name}, age
    if isinstance(cluster.client, HttpClient):
        for (verb, resource, code), count in cluster.client.calls.items():
            labels = {"verb": verb, "resource": resource, "code": code}
            yield "api_requests_total", "Calls of the API server.", labels, count
