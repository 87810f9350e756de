"""The source of the serving certificate, as the configuration wants it."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from app.certificates.inspect import Pair
from app.certificates.issue import make_ca, make_leaf, split_names
from app.certificates.keeper import CertificateReconciler, SelfManaged
from app.certificates.publish import CONFIGURATIONS
from app.certificates.reload import ServingCertificate
from app.certificates.rotate import Terms
from app.certificates.source import CertificateSource, Gauge
from app.config.schema import Certificates
from app.kube.api import Client
from app.kube.loop import Loop, Observe
from app.kube.store import WatchStore
from app.kube.watch import run_store
from app.objects.resource import SECRET, Resource

_STAND_IN_LIFE = timedelta(days=365)


class SelfManagedSource(CertificateReconciler):
    """The reconciler with what wakes it: watches of the Secret and of both webhook configurations."""

    def __init__(self, client: Client, wanted: SelfManaged, certificate: ServingCertificate, observe: Observe) -> None:
        super().__init__(client, wanted, certificate)
        self.watched: dict[str, WatchStore[str]] = {}
        self._loop = Loop(self, observe=observe)

    async def run(self) -> None:
        """Until cancelled. Errors of the cluster are retried."""
        wanted = self.wanted
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(SECRET, wanted.namespace, wanted.secret), name="watch the certificate Secret")
            for resource in CONFIGURATIONS:
                tasks.create_task(self._watch(resource, None, wanted.configurations), name=f"watch {resource}")
            tasks.create_task(self._loop.run(), name=self.name)

    async def _watch(self, resource: Resource, namespace: str | None, name: str) -> None:
        store = self.watched[resource.plural] = WatchStore(lambda obj: str(obj["metadata"].get("resourceVersion")))
        store.subscribe(lambda _key, _before, _after: self._wake())
        selector = f"metadata.name={name}"
        await run_store(self.client, store, resource, namespace=namespace, field_selector=selector, metadata_only=True)

    def _wake(self) -> None:
        for key in self.all_keys():
            self._loop.add(key)


def self_managed_source(
    settings: Certificates, client: Client, observe: Observe, client_cas: bytes = b""
) -> SelfManagedSource:
    """Until the Secret has been read a stand-in is shown, which no API server trusts: so that a probe, which trusts
    anything, is told why the server isn't ready."""
    terms = Terms(timedelta(hours=settings.ca_validity_hours), timedelta(hours=settings.validity_hours))
    wanted = SelfManaged(
        namespace=settings.namespace,
        secret=settings.secret_name,
        service=settings.service_name,
        configurations=settings.webhook_configurations,
        terms=terms,
        settle=settings.settle_seconds,
    )
    certificate = ServingCertificate(client_cas)
    certificate.load(_stand_in(wanted.names, datetime.now(UTC)))
    return SelfManagedSource(client, wanted, certificate, observe)


def _stand_in(names: tuple[str, ...], now: datetime) -> Pair:
    end = now + _STAND_IN_LIFE
    return make_leaf(make_ca("grove-admission, not ready yet", now, end), *split_names(names), now, end)


def gauges(source: CertificateSource) -> Iterator[Gauge]:
    """For metrics."""
    if source.not_after is not None:
        text = "When the serving certificate expires, in seconds since the epoch."
        yield "certificate_expiry_timestamp_seconds", text, {}, source.not_after.timestamp()
    if source.ca_not_after is not None:
        text = "When the CA expires, in seconds since the epoch."
        yield "certificate_ca_expiry_timestamp_seconds", text, {}, source.ca_not_after.timestamp()
    for reason, count in source.rotations.items():
        yield "certificate_rotations_total", "Certificates replaced, by why.", {"reason": reason}, count
    text = "Looks at certificates that found something that can't be used or done."
    yield "certificate_failures_total", text, {}, source.failures
    if isinstance(source, SelfManagedSource):
        for name, store in source.watched.items():
            for reason, count in store.restarts.items():
                yield "watch_restarts_total", "Watches begun again.", {"resource": name, "reason": reason}, count
