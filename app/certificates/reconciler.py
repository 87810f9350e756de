"""Reconcile self-managed certificates.

All replicas share a certificate in a Secret. Its CAs are in the caBundles of both webhook
configurations.

All replicas run this reconciler, not only the leader: a replica needs a certificate before API
servers can call it, and our own webhooks admit the leader's writes. Three rules prevent replicas
from reverting each other's writes, even if a replica ends between any two calls:

- The Secret is created only if it does not exist. Otherwise, it is written only with the
  resourceVersion that was read. A replica that loses the race uses the Secret of the winner.
- The configurations are read before the Secret, and written only with the resourceVersion that was
  read. Each caBundle was in the Secret earlier, so the Secret that is read afterwards is not older.
  Therefore, a caBundle is never replaced by an older one.
- A replica uses a certificate only after all our caBundles have its CA. If the current certificate
  is valid, the replica waits until they have had the CA for `settleSeconds`, because API servers
  get a changed configuration with a delay.

Each reconcile makes at most one step of a rotation (`certificates/rotation.py`). The next reconcile
publishes its result.
"""

import asyncio
import logging
import time
from collections.abc import Iterator
from datetime import datetime, timedelta

from msgspec.structs import replace

from app.base.sample import Sample
from app.certificates.ca_bundles import CONFIGURATIONS, CaBundles
from app.certificates.certificate import inspect, make_ca, make_leaf
from app.certificates.rotation import (
    Terms,
    due,
    early,
    is_own_ca,
    new_holdings,
    next_due,
    rotated,
    still_trusted,
)
from app.certificates.secret import BrokenHoldingsError, Holdings, read_holdings, written_holdings
from app.certificates.source import BrokenPairError, CertificateSource, ServingCertificate
from app.config.schema import Certificates
from app.facts.labels import MANAGED_BY, MANAGER
from app.kube.api import Client, ClusterError, Conflict, Key, Object, ObjectRef, Selection, find
from app.kube.competing_writers import Rewrites, remedy_for_writers
from app.kube.loop import Loop, Observe
from app.kube.store import WatchStore
from app.kube.watch import run_store
from app.objects.resource import SECRET
from app.objects.time import Clock, Now, utc_now

OUR_LABELS = {MANAGED_BY: MANAGER}
"""The labels of the Secret. A Secret with content but without these labels is not overwritten."""
LOOK_SECONDS = 600.0
"""The maximum time between two reconciles, in seconds."""
RETRY_SECONDS = 5.0
"""The time until the next reconcile after a problem, in seconds."""
_PLACEHOLDER_LIFE = timedelta(days=365)
"""The validity of the certificate that is served before the Secret has been read."""

Step = tuple[str, Holdings]
"""A reason and the new content of the Secret.

The reason is a `Reason` of `certificates/rotation.py`, `restore` (the Secret is missing or broken,
and this replica knows its previous content), or `trust` (the Secret lacks the CA of the certificate
that this replica uses).
"""

logger = logging.getLogger(__name__)


class CertificateReconciler(CertificateSource):
    """A reconciler of the Secret, the caBundles and the serving `certificate`.

    Changes of the Secret and of both webhook configurations trigger a reconcile. `names` are the
    names of the certificate: the host name that API servers call, and loopback names for forwarded
    ports. `observe` is called after each step, and `clock` returns the monotonic time in seconds.
    """

    name = "certificates"

    def __init__(
        self,
        client: Client,
        settings: Certificates,
        certificate: ServingCertificate,
        observe: Observe,
        *,
        now: Now = utc_now,
        clock: Clock = time.monotonic,
    ) -> None:
        super().__init__(certificate, now)
        self.client = client
        self.settings = settings
        self.terms = Terms(
            timedelta(hours=settings.ca_validity_hours), timedelta(hours=settings.validity_hours)
        )
        self.names = (
            f"{settings.service_name}.{settings.namespace}.svc",
            "localhost",
            "127.0.0.1",
            "::1",
        )
        service = settings.namespace, settings.service_name
        self._bundles = CaBundles(client, settings.webhook_configurations, service, clock)
        self._rewrites = Rewrites(window=10.0, clock=clock)
        self._secret = ObjectRef(SECRET, settings.secret_name, settings.namespace)
        self._place = f"{settings.namespace}/{settings.secret_name}"
        self._holdings: Holdings | None = None
        """The last usable content of the Secret, or None if there was none yet."""
        self._shown: Holdings | None = None
        """The content of the Secret with the served certificate, or None before one is served."""
        self._problems: list[str] = []
        """The problems of the current reconcile, for people."""
        self._watched: dict[str, WatchStore[str]] = {}
        self._loop = Loop(self, observe=observe)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(self._secret), name="watch the certificate Secret")
            for resource in CONFIGURATIONS:
                ref = ObjectRef(resource, self.settings.webhook_configurations)
                tasks.create_task(self._watch(ref), name=f"watch {resource}")
            tasks.create_task(self._loop.run(), name=self.name)

    async def _watch(self, ref: ObjectRef) -> None:
        """Reconcile after each change of one object, until cancelled."""
        store = self._watched[ref.resource.plural] = WatchStore(
            lambda obj: str(obj["metadata"].get("resourceVersion"))
        )
        store.subscribe(self._loop.add_all)
        fields = f"metadata.name={ref.name}"
        selection = Selection(ref.resource, ref.namespace, fields=fields, metadata_only=True)
        await run_store(self.client, store, selection)

    def samples(self) -> Iterator[Sample]:
        yield from super().samples()
        for name, store in self._watched.items():
            yield from store.restart_samples(name)

    @property
    def not_after(self) -> datetime | None:
        return super().not_after if self._shown else None

    def ca_bundle(self) -> bytes | None:
        return self._holdings.bundle_pem if self._holdings else None

    def all_keys(self) -> list[Key]:
        return [(self.settings.namespace, self.settings.secret_name)]

    async def reconcile(self, key: Key) -> float | None:
        """Read the Secret and the configurations, and bring them closer to the desired state.

        Publish the caBundles, serve the certificate if clients trust it, and make at most one step
        of a rotation. Return the seconds until the next reconcile. Raise ClusterError if a request
        fails.
        """
        self._problems = []
        try:
            return await self._look()
        except Conflict:
            raise
        except ClusterError as error:
            self._problems.append(error.message)
            raise
        finally:
            self._note("could not reconcile certificates", "; ".join(self._problems))

    async def _look(self) -> float:
        """Do the work of `reconcile`, and return the seconds until the next reconcile.

        Raise ClusterError if a request fails.
        """
        await self._bundles.read()  # this must come before the Secret: see the module docstring
        secret = await find(self.client, self._secret)
        holdings = self._usable(secret)
        failed = None
        if holdings and not self._missing_trust(secret, holdings):
            self._holdings = holdings
            failed = await self._bundles.publish(holdings.bundle_pem)
            self._problems += self._bundles.problems
            self._show(holdings)

        step = self._step(secret, holdings)
        if step is not None and await self._take_step(secret, *step):
            return 0.0
        if failed:
            raise failed

        return self._next_look(holdings)

    def _usable(self, secret: Object | None) -> Holdings | None:
        """Return the content of the Secret. If it can't be used, add a problem and return None.

        A Secret that is missing or empty is not a problem before this replica has used one.
        """
        if secret is None or not secret.get("data"):
            if self._holdings:
                self._problems.append(f"Secret {self._place} is gone or empty")
            return None
        try:
            return read_holdings(secret["data"])
        except BrokenHoldingsError as broken:
            self._problems.append(f"Secret {self._place} can't be used: {broken}")
            return None

    def _show(self, holdings: Holdings) -> None:
        """Serve the certificate in `holdings`, unless it is served already or must not be yet."""
        if self._is_shown(holdings) or not self._is_timely(holdings):
            return

        trusted = self._bundles.seconds_trusted(holdings.issuer())
        if trusted is None or (trusted < self.settings.settle_seconds and self._serves_well()):
            return

        try:
            self._load(holdings.leaf)
        except BrokenPairError as broken:
            self._problems.append(
                f"the certificate and key in Secret {self._place} can't be used: {broken}"
            )
            return

        self._shown = holdings

    def _is_timely(self, holdings: Holdings) -> bool:
        """Return whether the certificate in `holdings` can be served at this time.

        An expired certificate can't be served. A certificate that is not valid yet, or whose CA is
        not, is served only if there is no better one: a replica whose clock is ahead has probably
        created it.
        """
        now = self._now()
        infos = [inspect(pem) for pem in (holdings.leaf.cert_pem, holdings.issuer())]
        begin = max(info.not_before for info in infos)
        if now < begin and self._serves_well():
            message = (
                f"the certificate of Secret {self._place} is not valid before {begin.isoformat()}"
            )
            self._problems.append(f"{message}: synchronize the clocks of the nodes")
            return False
        return now <= infos[0].not_after

    def _is_shown(self, holdings: Holdings) -> bool:
        """Return whether this replica serves the certificate in `holdings`."""
        return self._shown is not None and self._shown.leaf.cert_pem == holdings.leaf.cert_pem

    def _serves_well(self) -> bool:
        """Return whether the served certificate has not expired and all webhooks trust its CA."""
        shown = self._shown
        return (
            shown is not None
            and self.healthy()
            and self._bundles.seconds_trusted(shown.issuer()) is not None
        )

    def _missing_trust(self, secret: Object | None, holdings: Holdings) -> tuple[bytes, ...]:
        """Return the CA of the served certificate if the Secret's bundle lacks this CA.

        Otherwise, or if the CA has expired or the Secret is not ours, return ().
        """
        if not self._shown or self._shown.issuer() in holdings.bundle or _is_foreign(secret):
            return ()
        return still_trusted([self._shown.issuer()], self._now(), self.terms)

    def _step(self, secret: Object | None, holdings: Holdings | None) -> Step | None:
        """Return the step that is due for the Secret, or None if no step is due.

        `holdings` is the content of the Secret, or None if it can't be used.
        """
        now = self._now()
        if not holdings:
            if self._holdings:
                return "restore", self._holdings
            # Other replicas may still use certificates that these CAs signed.
            carried = sorted(filter(is_own_ca, self._bundles.trusted()))
            return "issue", new_holdings(self.names, now, self.terms, carried)

        if missing := self._missing_trust(secret, holdings):
            return "trust", replace(holdings, retired=(*holdings.retired, *missing))

        trusted = self._bundles.seconds_trusted(holdings.ca.cert_pem)
        settled = trusted is not None and trusted >= self.settings.settle_seconds
        reason = due(holdings, self.names, now, self.terms, settled=settled)
        if self._shown is None or self._is_shown(holdings):
            reason = reason or early(holdings, now)  # there is no better certificate to use

        return (
            None
            if reason is None
            else (reason, rotated(reason, holdings, self.names, now, self.terms))
        )

    async def _take_step(self, secret: Object | None, reason: str, holdings: Holdings) -> bool:
        """Write `holdings` to the Secret and return True.

        If the Secret must not be written, add the problem and return False.
        """
        if _is_foreign(secret):
            secret_name = f"{self.settings.secret_name} -n {self.settings.namespace}"
            self._problems.append(
                f"Secret {self._place} was not created by grove-admission, so it is not changed. To"
                " let grove-admission manage it, run kubectl label --overwrite secret"
                f" {secret_name} {MANAGED_BY}={MANAGER}. Or, if nothing else uses it, run kubectl"
                f" delete secret {secret_name}"
            )
            return False

        if reason in ("restore", "trust") and not self._rewrites.may_write(("secret", reason)):
            self._problems.append(
                f"another writer keeps changing Secret {self._place}."
                f" {remedy_for_writers(self._secret)}"
            )
            return False

        await self._write(secret, holdings)
        self.rotations[reason] += 1
        logger.info("wrote Secret %s: %s", self._place, reason)

        return True

    async def _write(self, secret: Object | None, holdings: Holdings) -> None:
        """Create the Secret, or write it if it has not changed since it was read.

        Raise Conflict if another replica has written it first.
        """
        data = written_holdings(holdings)
        if secret is None:
            metadata = {"name": self.settings.secret_name, "labels": OUR_LABELS}
            obj = {"metadata": metadata, "type": "kubernetes.io/tls", "data": data}
            await self.client.create(SECRET, obj, self.settings.namespace)
            return
        metadata = {"resourceVersion": secret["metadata"]["resourceVersion"], "labels": OUR_LABELS}
        await self.client.patch(self._secret, {"metadata": metadata, "data": data})

    def _next_look(self, holdings: Holdings | None) -> float:
        """Return the seconds until the next reconcile."""
        if not holdings or self._problems:
            return RETRY_SECONDS

        now = self._now()
        waits = [LOOK_SECONDS]
        if (at := next_due(holdings, now, self.terms)) is not None:
            waits.append((at - now).total_seconds())

        awaited = holdings.ca.cert_pem if self._is_shown(holdings) else holdings.issuer()
        trusted = self._bundles.seconds_trusted(awaited)
        if trusted is None or trusted < self.settings.settle_seconds:
            waits.append(
                RETRY_SECONDS if trusted is None else self.settings.settle_seconds - trusted
            )

        return max(0.05, min(waits))


def _is_foreign(secret: Object | None) -> bool:
    """Return whether a Secret has content but not our label.

    An empty Secret without the label may have been created for us.
    """
    if secret is None or not secret.get("data"):
        return False
    labels = secret["metadata"].get("labels") or {}
    return not OUR_LABELS.items() <= labels.items()


def self_managed_source(
    settings: Certificates, client: Client, observe: Observe, client_cas: bytes
) -> CertificateReconciler:
    """Return the source of self-managed certificates.

    Until the Secret has been read, the source serves a certificate that no API server trusts.
    Probes don't verify certificates, so they can learn why the server is not ready.
    """
    source = CertificateReconciler(client, settings, ServingCertificate(client_cas), observe)
    now = utc_now()
    end = now + _PLACEHOLDER_LIFE
    ca = make_ca("grove-admission, not ready yet", now, end)
    source.certificate.load(make_leaf(ca, source.names, now, end))
    return source
