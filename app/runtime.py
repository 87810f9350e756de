"""Composition root: builds everything, starts it in order, stops it in the reverse order. No rules here.

Start: certificate -> caches and listener -> leader-only work, since our own webhooks judge what it writes.
Stop: not ready -> the lead is given back -> drain -> listener -> log.
"""

import asyncio
import contextlib
import gc
import logging
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app import __version__
from app.admission.handler import Route
from app.certificates import file_source, gauges, self_managed_source
from app.cluster.live import LiveCluster
from app.cluster.offline import OfflineCluster
from app.cluster.snapshot import SnapshotCluster
from app.config import Configuration, Server
from app.kube.api import Object
from app.kube.client import HttpClient, Limits
from app.kube.credentials import from_kubeconfig, in_cluster, is_in_cluster
from app.leader import Leader, build_leader
from app.listener import Listener, bind
from app.logs import VerdictLog
from app.metrics import Metrics
from app.reconcilers.cluster_topology import CreationFailed
from app.rules.kinds import (
    ALL,
    CLUSTER_TOPOLOGY,
    COMPUTE_DOMAIN,
    K8S_POD_GROUP,
    KAI_TOPOLOGY,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GROUP,
    RESOURCE_CLAIM,
    WORKLOAD,
)
from app.server import build_app
from app.tls.issue import plainly, split_bundle
from app.tls.source import CertificateSource
from app.webhooks import registry
from app.webhooks.dry_run import Asker, Judgement, judge

FLUSH_SECONDS = 0.2

NEIGHBOURS = (
    CLUSTER_TOPOLOGY,
    POD_CLIQUE_SET,
    POD_CLIQUE,
    POD_GANG,
    KAI_TOPOLOGY,
    POD_GROUP,
    COMPUTE_DOMAIN,
    RESOURCE_CLAIM,
    WORKLOAD,
    K8S_POD_GROUP,
)
"""The APIs of the systems beside us: each may be missing."""

NOT_INSTALLED = "is not installed; it is picked up when its CRD appears"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """What `serve` was asked for. With `objects`, these are the facts and there is no cluster; else the cluster is that
    of `kubeconfig` and `context`, or the one that this Pod runs in."""

    configuration: Configuration
    certificates: Path
    objects: tuple[Object, ...] | None = None
    kubeconfig: Path | None = None
    context: str | None = None


Cluster = OfflineCluster | LiveCluster


def webhook_settings(configuration: Configuration, authorized: tuple[str, ...] | None = None) -> registry.Settings:
    """`authorized` may write the managed ClusterTopology in place of those whom the configuration names."""
    return registry.Settings(
        topology_name=configuration.cluster_topology.name,
        authorized_users=configuration.authorization.authorized_users if authorized is None else authorized,
        claim_mode=configuration.mnnvl.claim_mode,
        node_labels=node_labels(configuration),
    )


def node_labels(configuration: Configuration) -> tuple[str, ...]:
    """Keys that a Pod gets from its node: the allowed ones, and those of the configured levels, which hold before the
    managed ClusterTopology is there too, so that nobody's claim passes in that moment."""
    levels = configuration.levels if configuration.cluster_topology.enabled else ()
    return (*configuration.pod_binding.node_labels, *(level.key for level in levels))


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
        node_labels=node_labels(configuration),
    )


def build_routes(configuration: Configuration, cluster: Cluster) -> dict[str, Route]:
    return routes_over(webhook_settings(configuration), cluster)


def routes_over(settings: registry.Settings, cluster: Cluster | SnapshotCluster) -> dict[str, Route]:
    facts = registry.Facts(cluster.facts, cluster.facts, cluster.facts, cluster.resources)
    return registry.routes(settings, facts)


async def check(configuration: Configuration, documents: Sequence[Object], asker: Asker) -> list[Judgement]:
    """Offline verdicts on `documents`, which are facts for each other."""
    routes = build_routes(configuration, offline_cluster(configuration, documents))
    return [await judge(routes, document, asker) for document in documents]


@dataclass(slots=True)
class Readiness:
    """What `/readyz` and `/healthz` say."""

    cluster: Cluster
    certificate: CertificateSource
    leader: Leader | None = None
    draining: bool = False
    failing: frozenset[str] = frozenset()
    """The checks that failed when they were last asked."""
    was_ready: bool = False

    def live(self) -> dict[str, str | None]:
        return {"process": None}

    def ready(self) -> dict[str, str | None]:
        checks: dict[str, str | None] = {
            "draining": "is shutting down" if self.draining else None,
            "certificate": self._certificate(),
        }
        unknown = self._undiscovered()
        if unknown is not None:
            checks["discovery"] = unknown
        for name, store in self.cluster.stores.by_name().items():
            problem = getattr(store, "problem", "") or ("waits for discovery" if unknown else "not asked yet")
            checks[f"cache/{name}"] = None if store.synced else f"the first list is not in yet: {problem}"
        self._note_change(checks)
        return checks

    def _undiscovered(self) -> str | None:
        """Why it isn't known what the cluster serves; None where that is known, and without a cluster."""
        if not isinstance(self.cluster, LiveCluster) or self.cluster.client.discovery.known:
            return None
        return self.cluster.client.discovery.problem or "the API server has not been asked yet"

    def _note_change(self, checks: Mapping[str, str | None]) -> None:
        """Logs what has become unready since it was last asked, so that it can be read where no probe's answer can."""
        failing = {name: f"{name} {problem}" for name, problem in checks.items() if problem is not None}
        if failing.keys() != self.failing:
            level = logging.WARNING if failing and self.was_ready else logging.INFO
            logger.log(level, "%s", f"not ready: {'; '.join(failing.values())}" if failing else "ready")
        self.was_ready |= not failing
        self.failing = frozenset(failing)

    def _certificate(self) -> str | None:
        if self.certificate.healthy():
            return None
        state = "is not there yet" if self.certificate.not_after is None else "has expired"
        return f"{state}: {self.certificate.last_error}" if self.certificate.last_error else state

    def gauges(self) -> Iterable[tuple[str, str, dict[str, str], float]]:
        well = all(problem is None for problem in self.ready().values())
        yield "ready", "Whether /readyz is well.", {}, float(well)

    def notes(self) -> dict[str, str]:
        """Which of the optional APIs this cluster has, and who leads."""
        if not isinstance(self.cluster, LiveCluster) or not self.cluster.client.discovery.known:
            return {}
        served = {resource: self.cluster.client.served_version(resource) for resource in NEIGHBOURS}
        notes = {f"api/{one}": version or NOT_INSTALLED for one, version in served.items()}
        if self.leader is not None:
            notes["leader"] = "this process" if self.leader.leading else self.leader.holder or "nobody"
        return notes


async def serve(settings: ServeSettings) -> None:
    """Serves until SIGTERM or SIGINT. OSError where the port can't be had or the certificate can't be used,
    ClusterError where there are no credentials for a cluster, CreationFailed where the managed ClusterTopology can't be
    made; any other task that ends takes the process down."""
    server = settings.configuration.server
    with alone(CreationFailed):
        await _serve(settings, server)


@contextlib.contextmanager
def alone(kind: type[Exception]) -> Iterator[None]:
    """Where the only thing that went wrong in the block's tasks is of `kind`, raises that, without its groups."""
    try:
        yield
    except BaseExceptionGroup as group:
        inner: BaseException = group
        while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
            inner = inner.exceptions[0]
        if isinstance(inner, kind):
            raise inner from None
        raise


async def _serve(settings: ServeSettings, server: Server) -> None:
    async with (
        connected(settings) as cluster,
        serving(settings.configuration, settings.certificates, cluster) as served,
    ):
        settle_garbage_collector()
        logger.info("serving on https://%s:%d", server.host, served.listener.port)
        await signalled()
        served.readiness.draining = True
        served.listener.drain()
        await served.stop_leading()
        logger.info("draining for %g s", server.drain_seconds)
        await _drain(server.drain_seconds)


@dataclass(frozen=True, slots=True)
class Served:
    """A server that listens, the cluster that it sees, and its candidate for the lead (None without a cluster)."""

    cluster: Cluster
    listener: Listener
    readiness: Readiness
    leader: Leader | None
    leading: "asyncio.Task[None] | None"

    async def stop_leading(self) -> None:
        """Ends the leader's work and gives the lease back, so that another replica goes on at once."""
        if self.leading is not None:
            self.leading.cancel()
            await asyncio.wait({self.leading})


@contextlib.asynccontextmanager
async def serving(configuration: Configuration, certificates: Path, cluster: Cluster) -> AsyncIterator[Served]:
    """The server over `cluster`, while the block runs. The end of any of its tasks ends the block."""
    metrics = Metrics()
    source = certificate_source(configuration, certificates, cluster, metrics)
    sock = bind(configuration.server.host, configuration.server.port)
    log = VerdictLog(sys.stdout.buffer)
    readiness = Readiness(cluster, source)
    routes = build_routes(configuration, cluster)
    only_known = bool(configuration.server.client_ca_file)
    app = build_app(routes, metrics, log, readiness.live, readiness.ready, readiness.notes, only_known=only_known)
    listener = Listener(app, sock, source.certificate.context)
    metrics.add_gauges(lambda: _gauges(cluster))
    metrics.add_gauges(readiness.gauges)
    metrics.add_gauges(lambda: _log_gauges(log))
    metrics.add_gauges(lambda: gauges(source))
    try:
        async with leading(configuration, cluster, metrics) as leader, asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(cluster.run(), name="cluster"),
                tasks.create_task(_flush(log), name="log"),
                tasks.create_task(source.run(), name="certificate"),
            ]
            running = tasks.create_task(listener.run_until_stopped(), name="listener")
            await listener.wait_started()
            readiness.leader = leader
            leads = tasks.create_task(leader.run(), name="leader") if leader else None
            served = Served(cluster, listener, readiness, leader, leads)
            yield served
            await served.stop_leading()
            listener.stop()
            await running
            for task in background:
                task.cancel()
    finally:
        sock.close()
        log.close()


@contextlib.asynccontextmanager
async def leading(configuration: Configuration, cluster: Cluster, metrics: Metrics) -> AsyncIterator[Leader | None]:
    """Our candidate for the lead, with a client of its own: the reconcilers' many calls don't hold a verdict up."""
    if not isinstance(cluster, LiveCluster) or not isinstance(cluster.client, HttpClient):
        yield None
        return
    async with cluster.client.sibling(limits(configuration)) as client:
        leader = build_leader(configuration, cluster, client, metrics.reconciled)
        metrics.add_gauges(leader.gauges)
        yield leader


@contextlib.asynccontextmanager
async def connected(settings: ServeSettings) -> AsyncIterator[Cluster]:
    """The cluster that `settings` name, with its connections closed at the end."""
    configuration = settings.configuration
    if settings.objects is not None:
        yield offline_cluster(configuration, settings.objects)
        return
    async with api_client(configuration, settings.kubeconfig, settings.context) as client:
        yield live_cluster(configuration, client)


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


def certificate_source(
    configuration: Configuration, directory: Path, cluster: Cluster, metrics: Metrics
) -> CertificateSource:
    """OSError where none can be had."""
    client_cas = _client_cas(configuration.server)
    if configuration.certificates.mode == "files":
        return file_source(directory, client_cas)
    if not isinstance(cluster, LiveCluster):
        raise OSError("certificates.mode self-managed needs a cluster; without one, use files")
    return self_managed_source(configuration.certificates, cluster.client, metrics.reconciled, client_cas)


def _client_cas(server: Server) -> bytes:
    if not server.client_ca_file:
        return b""
    pem = Path(server.client_ca_file).read_bytes()
    try:
        split_bundle(pem)
    except ValueError as error:
        raise OSError(f"server.clientCaFile {server.client_ca_file}: {plainly(error)}") from None
    return pem


def settle_garbage_collector() -> None:
    """What is here now stays: the collector need not walk it again, and looks at young objects less often. A request
    leaves no cycles behind."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def _log_gauges(log: VerdictLog) -> Iterable[tuple[str, str, dict[str, str], float]]:
    yield "log_lines_lost_total", "Verdicts that were not logged, for a slow reader of the log.", {}, float(log.lost)


def _gauges(cluster: Cluster) -> Iterator[tuple[str, str, dict[str, str], float]]:
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


async def _flush(log: VerdictLog) -> None:
    while True:
        await asyncio.sleep(FLUSH_SECONDS)
        log.flush()


async def signalled() -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()


async def _drain(seconds: float) -> None:
    """Goes on serving until the Service's endpoints have gone; a second signal ends it at once."""
    try:
        async with asyncio.timeout(seconds):
            await signalled()
    except TimeoutError:
        return
