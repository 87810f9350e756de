"""A cluster in memory with both webhook configurations, replicas over it, and clocks that are moved
by hand.
"""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from app.certificates.certificate import Pair, check_pair, inspect
from app.certificates.reconciler import CertificateReconciler
from app.certificates.rotation import Terms
from app.certificates.secret import Holdings, read_holdings, written_holdings
from app.certificates.source import ServingCertificate
from app.config.schema import Certificates
from app.kube.api import Client, Conflict, Object, ObjectRef
from app.objects.resource import MUTATING_WEBHOOKS, SECRET, VALIDATING_WEBHOOKS, Resource
from tests.kube.memory.client import MemoryClient

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
WANTED = Certificates()
TERMS = Terms()
NAMES = ("grove-admission.grove-system.svc", "localhost", "127.0.0.1", "::1")
NAME = NAMES[0]
LEAF_RENEWAL = timedelta(days=60)
CA_RENEWAL = timedelta(days=244)
OURS = {"namespace": "grove-system", "name": "grove-admission", "path": "/x", "port": 443}
THEIRS = {"namespace": "other", "name": "webhook", "path": "/y", "port": 443}


class Clock:
    """Wall clock and monotonic clock, moved by hand."""

    def __init__(self) -> None:
        self.now = START
        self.seconds = 0.0

    def pass_by(self, time: timedelta) -> None:
        self.now = self.now + time
        self.seconds = self.seconds + time.total_seconds()


def configuration(kind: str, **annotations: str) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": WANTED.webhook_configurations, "annotations": annotations},
        "webhooks": [
            {"name": "a.ours", "clientConfig": {"service": OURS}, "timeoutSeconds": 5},
            {"name": "b.ours", "clientConfig": {"url": "https://localhost:8443/z"}},
            {"name": "c.theirs", "clientConfig": {"service": THEIRS, "caBundle": "VEhFSVJT"}},
        ],
    }


class Cluster:
    """The objects, and how they look from outside."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.pairs: dict[str, Pair] = {}
        kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        self.client = MemoryClient([configuration(kind) for kind in kinds])

    def replica(self, client: Client | None = None) -> CertificateReconciler:
        clock = self.clock
        certificate = ServingCertificate()
        return CertificateReconciler(
            client or self.client,
            WANTED,
            certificate,
            lambda name, result, seconds: None,
            now=lambda: clock.now,
            clock=lambda: clock.seconds,
        )

    def secret(self) -> Object:
        (secret,) = self.client.objects(SECRET)
        return secret

    def holdings(self) -> Holdings:
        return read_holdings(self.secret()["data"])

    def webhooks(self) -> Iterator[dict[str, Any]]:
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            for webhook_configuration in self.client.objects(resource):
                yield from webhook_configuration["webhooks"]

    def bundles(self) -> set[str]:
        """The different caBundles of our webhooks."""
        return {
            webhook["clientConfig"].get("caBundle", "")
            for webhook in self.webhooks()
            if webhook["name"] != "c.theirs"
        }

    def is_published(self) -> bool:
        return self.bundles() == {base64.b64encode(self.holdings().bundle_pem).decode()}

    async def tamper(self, resource: Resource, bundle: str) -> None:
        (webhook_configuration,) = self.client.objects(resource)
        for webhook in webhook_configuration["webhooks"]:
            webhook["clientConfig"]["caBundle"] = bundle
        await self.client.patch(
            ObjectRef(resource, WANTED.webhook_configurations),
            {"webhooks": webhook_configuration["webhooks"]},
        )

    async def put(self, holdings: Holdings) -> None:
        await self.client.patch(
            ObjectRef(SECRET, WANTED.secret_name, WANTED.namespace),
            {"data": written_holdings(holdings)},
        )

    def accepts(self, replica: CertificateReconciler) -> bool:
        """Whether a client of each of our webhooks accepts what `replica` shows."""
        self.remember()
        if replica.certificate.info is None:
            return False
        pair = self.pairs[replica.certificate.info.fingerprint]
        return not any(
            check_pair(pair, base64.b64decode(bundle), (NAME,), self.clock.now)
            for bundle in self.bundles()
        )

    def remember(self) -> None:
        """A replica shows no more than the fingerprint of what it once found in the Secret."""
        self.pairs[fingerprint(self.holdings())] = self.holdings().leaf


async def settle(replica: CertificateReconciler) -> float:
    """Looks until nothing is left to do now; the seconds until the next look."""
    for _ in range(10):
        try:
            after = await replica.reconcile(("", ""))
        except Conflict:
            continue
        if after:
            return after
    raise AssertionError("it never comes to rest")


async def running(cluster: Cluster, count: int = 1) -> list[CertificateReconciler]:
    replicas = [cluster.replica() for _ in range(count)]
    for replica in replicas:
        await settle(replica)
    return replicas


async def pass_by(cluster: Cluster, time: timedelta, *replicas: CertificateReconciler) -> None:
    cluster.remember()
    cluster.clock.pass_by(time)
    for replica in replicas:
        await settle(replica)


async def rotate_ca(cluster: Cluster, *replicas: CertificateReconciler) -> None:
    """From a leaf in the middle of its life to a CA that is announced."""
    for _ in range(4):
        await pass_by(cluster, LEAF_RENEWAL, *replicas)
    await pass_by(cluster, CA_RENEWAL - 4 * LEAF_RENEWAL, *replicas)


def shown(replica: CertificateReconciler) -> str:
    return replica.certificate.info.fingerprint if replica.certificate.info else ""


def fingerprint(holdings: Holdings) -> str:
    return inspect(holdings.leaf.cert_pem).fingerprint
