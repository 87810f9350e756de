"""The source of self-managed certificates: the reconciler with its loop and watches."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from app.certificates.inspect import Pair
from app.certificates.issue import make_ca, make_leaf
from app.certificates.keeper import CertificateReconciler
from app.certificates.publish import CONFIGURATIONS
from app.certificates.reload import ServingCertificate
from app.config.schema import Certificates
from app.kube.api import Client
from app.kube.loop import Loop, Observe
from app.kube.store import WatchStore
from app.kube.watch import Selection, run_store
from app.objects.resource import SECRET, Resource

_PLACEHOLDER_LIFE = timedelta(days=365)


class SelfManagedSource(CertificateReconciler):
    """The reconciler with its loop, which watches of the Secret and of both webhook configurations trigger."""

    def __init__(
        self, client: Client, settings: Certificates, certificate: ServingCertificate, observe: Observe
    ) -> None:
        super().__init__(client, settings, certificate)
        self.watched: dict[str, WatchStore[str]] = {}
        self._loop = Loop(self, observe=observe)

    async def run(self) -> None:
        """Runs until it is cancelled."""
        settings = self.settings
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(
                self._watch(SECRET, settings.namespace, settings.secret_name), name="watch the certificate Secret"
            )
            for resource in CONFIGURATIONS:
                tasks.create_task(
                    self._watch(resource, None, settings.webhook_configurations), name=f"watch {resource}"
                )
            tasks.create_task(self._loop.run(), name=self.name)

    def restarts(self) -> Mapping[str, Mapping[str, int]]:
        return {name: store.restarts for name, store in self.watched.items()}

    async def _watch(self, resource: Resource, namespace: str | None, name: str) -> None:
        store = self.watched[resource.plural] = WatchStore(lambda obj: str(obj["metadata"].get("resourceVersion")))
        store.subscribe(lambda _key, _before, _after: self._wake())
        selection = Selection(resource, namespace, field_selector=f"metadata.name={name}", metadata_only=True)
        await run_store(self.client, store, selection)

    def _wake(self) -> None:
        for key in self.all_keys():
            self._loop.add(key)


def self_managed_source(
    settings: Certificates, client: Client, observe: Observe, client_cas: bytes = b""
) -> SelfManagedSource:
    """The source. Until the Secret has been read, it has a certificate that no API server trusts, so that probes, which
    do not verify it, get the reason why the server is not ready."""
    source = SelfManagedSource(client, settings, ServingCertificate(client_cas), observe)
    source.certificate.load(_placeholder(source.names, datetime.now(UTC)))
    return source


def _placeholder(names: tuple[str, ...], now: datetime) -> Pair:
    end = now + _PLACEHOLDER_LIFE
    return make_leaf(make_ca("grove-admission, not ready yet", now, end), names, now, end)
