"""Create the parts of the server, and start and stop them in order.

The leader's work starts after the certificate, the caches and the listener, because our own
webhooks admit the leader's writes. To stop, the server becomes unready, releases the Lease, drains,
and closes the listener and then the log.
"""

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from app.admission.exchange import Exchange
from app.admission.serving import ConnectionLimits
from app.base.value import Value
from app.certificates.reconciler import self_managed_source
from app.certificates.source import CertificateSource, ClientCas, file_source, read_client_cas
from app.cluster.cluster import Cluster
from app.cluster.connect import limits as client_limits
from app.cluster.connect import server_client
from app.config.schema import Configuration
from app.kube.api import Object
from app.kube.client import HttpClient
from app.kube.events import Recorder
from app.objects.resource import Resource
from app.reconcilers.cluster_topology import CreationFailed
from app.reconcilers.leader import Duty, Leader
from app.server.access import protected_paths
from app.server.endpoints import Reports, build_app
from app.server.listener import Listener, authority, bind
from app.server.metrics import Metrics
from app.server.process import allow_files, drain, settle_garbage_collector, signalled
from app.server.readiness import Readiness
from app.server.review_tokens import ReviewTokens
from app.server.tools import ToolsListener
from app.server.verdict_log import VerdictLog
from app.stores import stores
from app.webhooks.registry import served_routes

FLUSH_SECONDS = 0.2
"""The interval, in seconds, at which verdicts are counted and logged."""

logger = logging.getLogger(__name__)

Duties = Callable[[HttpClient, Recorder], Sequence[Duty]]
"""A function that creates more duties of the leader from its client and its event recorder."""

Connection = contextlib.AbstractAsyncContextManager[tuple[Cluster, HttpClient | None]]
"""The cluster that a server reads, and its client. `connected` returns one."""


def no_duties(client: HttpClient, events: Recorder) -> Sequence[Duty]:
    """Return (), because there are no further duties."""
    return ()


class Extras(Value):
    """The parts of a server that depend on the command."""

    readable: bool = False
    """Whether verdicts are logged as readable text instead of JSON."""
    duties: Duties = no_duties
    """Creates further duties of the leader."""


async def serve(
    configuration: Configuration, certificates: Path, connection: Connection, extras: Extras
) -> None:
    """Serve until SIGTERM or SIGINT, or until a task fails.

    `connection` is the result of `connected`. Raise OSError if a port, the certificate or tracing
    can't be used, ClusterError if there are no credentials for a cluster, and CreationFailed if the
    managed ClusterTopology can't be created.
    """
    server = configuration.server
    with alone(CreationFailed):
        async with (
            connection as (cluster, client),
            serving(configuration, certificates, cluster, client, extras) as served,
        ):
            settle_garbage_collector()
            logger.info("serving on https://%s", authority(server.host, served.listener.port))
            logger.info("tools on https://%s", authority(server.host, served.tools.port))
            await signalled()
            served.readiness.draining = True
            served.listener.drain()
            await served.stop_leading()
            logger.info("draining for %g s", server.drain_seconds)
            await drain(server.drain_seconds)


@contextlib.contextmanager
def alone(kind: type[Exception]) -> Iterator[None]:
    """Unwrap exception groups: if their only exception is of `kind`, raise it alone."""
    try:
        yield
    except BaseExceptionGroup as group:
        inner: BaseException = group
        while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
            inner = inner.exceptions[0]
        if isinstance(inner, kind):
            raise inner from None
        raise


class Running(Value):
    """A running server."""

    cluster: Cluster
    """The cluster whose facts decide verdicts."""
    listener: Listener
    """The port for API servers and probes."""
    tools: ToolsListener
    """The tools port."""
    certificate: CertificateSource
    """The source of the serving certificate."""
    readiness: Readiness
    """The checks of all parts."""
    leader: Leader | None
    """The candidate for leader election, or None without a cluster."""
    leading: "asyncio.Task[None] | None"
    """The task that runs the candidate, or None without a cluster."""

    async def stop_leading(self) -> None:
        """End the leader's work and release the Lease, so that another replica leads at once."""
        if self.leading is not None:
            self.leading.cancel()
            await asyncio.wait({self.leading})


class Server(Value):
    """The parts of a server that is not started yet."""

    configuration: Configuration
    cluster: Cluster
    client: HttpClient | None
    """The client of the cluster, or None without a cluster."""
    reports: Reports
    certificate: CertificateSource
    readiness: Readiness
    listener: Listener
    tools: ToolsListener

    def background(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """Yield the names and coroutines of all tasks except the listener and the leader.

        Parts that are created for these tasks are added to the readiness checks.
        """
        yield "reports", flush(self.reports)
        yield "tools", self.tools.run()
        yield "certificate", self.certificate.run()

        client_ca_file = self.configuration.server.client_ca_file
        if client_ca_file:
            shown = self.certificate.certificate
            client_cas = ClientCas(Path(client_ca_file), shown, self.listener.renew)
            self.readiness.parts.append(client_cas)
            yield "client CAs", client_cas.run()

        if self.client:
            exchange = self.listener.serving.exchange
            settings = self.configuration.certificates
            tokens = ReviewTokens(self.client, settings, exchange, self.reports.metrics.reconciled)
            self.readiness.parts += [self.client, tokens]
            hints = self.cluster.hints
            yield "cluster", stores.run(self.cluster.stores, self.client, self.client.discovery)
            yield "hints", stores.run_hints(hints, self.client, self.client.discovery)
            yield "review tokens", tokens.run()


@contextlib.asynccontextmanager
async def serving(
    configuration: Configuration,
    certificates: Path,
    cluster: Cluster,
    client: HttpClient | None = None,
    extras: Extras = Extras(),
) -> AsyncIterator[Running]:
    """Run the server with the facts of `cluster` while the block runs.

    With `client`, its watches fill the caches, and this process can become the leader. If a task of
    the server fails, the block is cancelled.
    """
    metrics = Metrics()
    source = certificate_source(configuration, certificates, client, metrics)
    log = VerdictLog(sys.stdout.buffer, readable=extras.readable)
    readiness = Readiness([source, cluster])
    reports = Reports(metrics, log, readiness.ready, readiness.notes)
    host = configuration.server.host
    with (
        contextlib.closing(reports),
        bind(host, configuration.server.port) as sock,
        bind(host, configuration.server.tools_port) as tools_sock,
    ):
        exchange = exchange_of(configuration, cluster, reports)
        limits = ConnectionLimits(connections=configuration.server.max_connections)
        listener = Listener(exchange, reports.health, sock, source.certificate, limits)
        app = build_app(exchange, reports, protected_paths(configuration.server))
        tools = ToolsListener(app, tools_sock, source.certificate)
        allow_files(listener.most_connections + tools.most_connections)
        for samples in (readiness.samples, log.samples, listener.samples, exchange.samples):
            metrics.add(samples)

        server = Server(configuration, cluster, client, reports, source, readiness, listener, tools)
        async with _started(server, extras.duties) as running:
            yield running


@contextlib.asynccontextmanager
async def _started(server: Server, duties: Duties) -> AsyncIterator[Running]:
    """Run all tasks of `server` while the block runs, and stop them in order at its end."""
    readiness = server.readiness
    listener = server.listener
    configuration = server.configuration
    async with (
        leading(
            configuration, server.cluster, server.client, server.reports.metrics, duties
        ) as leader,
        asyncio.TaskGroup() as tasks,
    ):
        background = [tasks.create_task(task, name=name) for name, task in server.background()]
        listening = tasks.create_task(listener.run_until_stopped(), name="listener")
        await listener.wait_started()

        leads = None
        if leader:
            readiness.parts.append(leader)
            leads = tasks.create_task(leader.run(), name="leader")
        running = Running(
            server.cluster, listener, server.tools, server.certificate, readiness, leader, leads
        )
        yield running

        await running.stop_leading()
        listener.stop()
        await listening
        for task in background:
            task.cancel()


def exchange_of(configuration: Configuration, cluster: Cluster, reports: Reports) -> Exchange:
    """Return the exchange that gives, counts and logs the verdicts of all webhooks."""
    trace = None
    if configuration.tracing.endpoint:
        from app.server.tracing import tracing

        trace = tracing(configuration.tracing.endpoint)
    return Exchange(
        served_routes(configuration, cluster),
        reports.record,
        only_known=bool(configuration.server.client_ca_file),
        trace=trace,
    )


@contextlib.asynccontextmanager
async def leading(
    configuration: Configuration,
    cluster: Cluster,
    client: HttpClient | None,
    metrics: Metrics,
    duties: Duties,
) -> AsyncIterator[Leader | None]:
    """Yield the candidate for leader election, or None without a client.

    The candidate has its own client, so that the calls of reconcilers don't delay verdicts.
    """
    if not client:
        yield None
        return
    async with client.sibling(client_limits(configuration)) as sibling:
        leader = Leader(configuration, cluster, sibling, metrics.reconciled)
        leader.duties += duties(sibling, leader.events)
        yield leader


@contextlib.asynccontextmanager
async def connected(
    configuration: Configuration,
    objects: Sequence[Object] | None,
    kubeconfig: Path | None,
    context: str | None,
    resources: Iterable[Resource],
) -> AsyncIterator[tuple[Cluster, HttpClient | None]]:
    """Yield the cluster of `kubeconfig` and `context`, or of this Pod, and its client.

    The client discovers `resources`, and closes its connections at the end. With `objects`, yield a
    cluster that consists of these objects, and None instead of a client.
    """
    if objects is not None:
        # this loads the readers of documents, which a server of a cluster doesn't need
        from app.cluster.filled import cluster_of

        yield cluster_of(configuration, objects), None
        return
    async with server_client(configuration, kubeconfig, context, resources) as client:
        yield Cluster(client, configuration, client.discovery), client


def certificate_source(
    configuration: Configuration, directory: Path, client: HttpClient | None, metrics: Metrics
) -> CertificateSource:
    """Return the source of the serving certificate.

    Raise OSError if the certificate files or the client CAs are unusable, or if the certificate is
    self-managed and there is no cluster.
    """
    client_ca_file = configuration.server.client_ca_file
    client_cas = b""
    if client_ca_file:
        client_cas = read_client_cas(Path(client_ca_file))
    if configuration.certificates.mode == "files":
        return file_source(directory, client_cas)
    if not client:
        raise OSError(
            "certificates.mode self-managed needs a cluster: set certificates.mode to files"
        )
    return self_managed_source(configuration.certificates, client, metrics.reconciled, client_cas)


async def flush(reports: Reports) -> None:
    """Count and log verdicts every FLUSH_SECONDS."""
    while True:
        await asyncio.sleep(FLUSH_SECONDS)
        reports.flush()
