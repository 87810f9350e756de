"""Composition root: builds everything, starts it in order, stops it in the reverse order. No rules here.

Start: certificate -> caches -> listener -> leader-only work. Stop: not ready -> drain -> listener -> log.
"""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from app.admission.handler import Route
from app.cluster.api import Object
from app.cluster.facts import Stores
from app.cluster.offline import OfflineCluster
from app.config import Configuration
from app.listener import Listener, bind
from app.logs import VerdictLog
from app.metrics import Metrics
from app.server import build_app
from app.tls.development import ensure_development_certificate
from app.tls.reload import FileSource, ServingCertificate
from app.webhooks import registry
from app.webhooks.dry_run import Asker, Judgement, judge

FLUSH_SECONDS = 0.2
CERTIFICATE_NAMES = ("localhost", "127.0.0.1", "::1", "grove-admission.grove-system.svc")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """What `serve` was asked for. `objects` are the facts of a server without a cluster."""

    configuration: Configuration
    certificates: Path
    objects: tuple[Object, ...] = ()


def webhook_settings(configuration: Configuration) -> registry.Settings:
    return registry.Settings(
        topology_name=configuration.cluster_topology.name,
        authorized_users=configuration.authorization.authorized_users,
        claim_mode=configuration.mnnvl.claim_mode,
        node_labels=configuration.pod_binding.node_labels,
    )


def offline_cluster(configuration: Configuration, objects: Iterable[Object]) -> OfflineCluster:
    return OfflineCluster(
        objects,
        topology_name=configuration.cluster_topology.name,
        topology_enabled=configuration.cluster_topology.enabled,
        levels=configuration.levels,
    )


def build_routes(configuration: Configuration, cluster: OfflineCluster) -> dict[str, Route]:
    facts = registry.Facts(cluster.facts, cluster.facts, cluster.facts, cluster.resources)
    return registry.routes(webhook_settings(configuration), facts)


async def check(configuration: Configuration, documents: Sequence[Object], asker: Asker) -> list[Judgement]:
    """Offline verdicts on `documents`, which are facts for each other."""
    routes = build_routes(configuration, offline_cluster(configuration, documents))
    return [await judge(routes, document, asker) for document in documents]


@dataclass(slots=True)
class Readiness:
    """What `/readyz` and `/healthz` say."""

    stores: Stores
    certificate: FileSource
    draining: bool = False

    def live(self) -> dict[str, str | None]:
        return {"process": None}

    def ready(self) -> dict[str, str | None]:
        checks: dict[str, str | None] = {
            "draining": "is shutting down" if self.draining else None,
            "certificate": None if self.certificate.healthy() else "has expired",
        }
        for name, store in self.stores.by_name().items():
            checks[f"cache/{name}"] = None if store.synced else "the first list is not in yet"
        return checks


async def serve(settings: ServeSettings) -> None:
    """Serves until SIGTERM or SIGINT. OSError where the port can't be had or the certificate can't be used."""
    server = settings.configuration.server
    source = certificate_source(settings.certificates)
    sock = bind(server.host, server.port)
    cluster = offline_cluster(settings.configuration, settings.objects)
    readiness = Readiness(cluster.stores, source)
    log = VerdictLog(sys.stdout.buffer)
    metrics = Metrics()
    app = build_app(build_routes(settings.configuration, cluster), metrics, log, readiness.live, readiness.ready)
    listener = Listener(app, sock, source.certificate.context)
    metrics.add_gauges(lambda: _gauges(cluster.stores, source))
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(listener.run_until_stopped(), name="listener")
            flushing = tasks.create_task(_flush(log), name="log")
            watching = tasks.create_task(source.run(), name="certificate")
            await listener.wait_started()
            settle_garbage_collector()
            logger.info("serving on https://%s:%d", server.host, listener.port)
            await _signalled()
            readiness.draining = True
            logger.info("draining for %g s", server.drain_seconds)
            await _drain(server.drain_seconds)
            listener.stop()
            await running
            flushing.cancel()
            watching.cancel()
    finally:
        log.close()


def settle_garbage_collector() -> None:
    """What is here now stays: the collector need not walk it again, and looks at young objects less often. A request
    leaves no cycles behind."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def certificate_source(directory: Path) -> FileSource:
    """The pair of `directory`, followed when its files change. Where there is no `tls.crt`, or one that was made here,
    a development pair is seen to. OSError where none can be had."""
    certificate, key = directory / "tls.crt", directory / "tls.key"
    if not certificate.exists() or (directory / "ca.key").exists():
        ensure_development_certificate(directory, CERTIFICATE_NAMES, datetime.now(UTC))
    source = FileSource(certificate, key, ServingCertificate())
    source.poll()
    if source.not_after is None:
        raise OSError(source.last_error)
    return source


def _gauges(stores: Stores, certificate: FileSource) -> Iterator[tuple[str, str, dict[str, str], float]]:
    for name, store in stores.by_name().items():
        yield "cache_objects", "Objects in the cache.", {"resource": name}, len(store)
    for name, store in stores.by_name().items():
        yield "cache_synced", "1 once the first list is in.", {"resource": name}, float(store.synced)
    text = "When the serving certificate expires, in seconds since the epoch."
    if certificate.not_after is not None:
        yield "certificate_expiry_timestamp_seconds", text, {}, certificate.not_after.timestamp()


async def _flush(log: VerdictLog) -> None:
    while True:
        await asyncio.sleep(FLUSH_SECONDS)
        log.flush()


async def _signalled() -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()


async def _drain(seconds: float) -> None:
    """Goes on serving until the Service's endpoints have gone; a second signal ends it at once."""
    try:
        async with asyncio.timeout(seconds):
            await _signalled()
    except TimeoutError:
        return
