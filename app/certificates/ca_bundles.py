"""Read and write the caBundles of both webhook configurations, and track which CAs are in them."""

import base64
import logging
import math
from collections.abc import Collection, Sequence

from msgspec import Struct

from app.certificates.certificate import split_bundle
from app.kube.api import Client, ClusterError, NotFound, Object, ObjectRef
from app.kube.competing_writers import Rewrites, remedy_for_writers, write_key
from app.objects.resource import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from app.objects.shape import JsonMap
from app.objects.time import Clock

CONFIGURATIONS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
"""The resources of both webhook configurations, the mutating and the validating one."""

INJECTED = ("inject-ca-from", "inject-ca-from-secret", "inject-apiserver-ca")
"""The annotations `cert-manager.io/...` that make cert-manager's cainjector write the caBundles."""

Service = tuple[str, str]
"""The namespace and name of a Service."""

logger = logging.getLogger(__name__)


class CaBundles:
    """The caBundles of our webhooks in the two webhook configurations with the name `name`.

    Our webhooks are those that call `service` or a URL. `clock` returns the monotonic time in
    seconds.
    """

    def __init__(self, client: Client, name: str, service: Service, clock: Clock) -> None:
        self.problems: list[str] = []
        """The reasons, apart from errors, why the last `publish` did not write a configuration."""
        self._client = client
        self._name = name
        self._service = service
        self._clock = clock
        self._trust = Trust()
        self._rewrites = Rewrites(window=10.0, clock=clock)
        self._read: dict[Resource, Object] = {}

    async def read(self) -> None:
        """Read both webhook configurations, if they exist. Raise ClusterError if a read fails."""
        configurations = {}
        for resource in CONFIGURATIONS:
            try:
                configurations[resource] = await self._client.get(ObjectRef(resource, self._name))
            except NotFound:
                logger.debug("there is no %s %s", resource.kind, self._name)
        self._read = configurations
        self._track()

    def seconds_trusted(self, ca: bytes) -> float | None:
        """Return the seconds for which all webhooks have trusted `ca` without interruption.

        `ca` is normalized PEM. Return infinity if there are no webhooks, and None if a webhook does
        not trust `ca`.
        """
        return self._trust.seconds(ca, self._clock())

    def trusted(self) -> set[bytes]:
        """Return all CAs that at least one webhook trusts."""
        return set[bytes]().union(*self._bundles())

    async def publish(self, bundle_pem: bytes) -> ClusterError | None:
        """Write `bundle_pem` to the configurations that have another caBundle.

        A write fails with a Conflict if the configuration has changed since it was read. If one
        write fails, still try the other one. Return the last error, or None. If a configuration
        must not be written, add the reason to `problems`.
        """
        self.problems = []
        failed = None
        for resource, configuration in list(self._read.items()):
            try:
                self._read[resource] = await self._publish_in(resource, configuration, bundle_pem)
            except ClusterError as error:
                failed = error
        self._track()
        return failed

    async def _publish_in(
        self, resource: Resource, configuration: Object, bundle_pem: bytes
    ) -> Object:
        """Write `bundle_pem` to one configuration if it differs, and return the configuration.

        If the configuration must not be written, add the reason to `problems`.
        """
        webhooks = with_ca_bundle(configuration, self._service, bundle_pem)
        if webhooks == (configuration.get("webhooks") or []):
            return configuration
        if (annotation := injector_annotation(configuration)) is not None:
            advice = (
                f"run kubectl annotate {resource.plural} {self._name} {annotation}-, or set"
                " certificates.mode to files"
            )
            self.problems.append(
                f"{resource.kind} {self._name} has the annotation {annotation}, so cert-manager"
                f" manages its caBundles: {advice}"
            )
            return configuration

        if not self._rewrites.may_write(
            write_key(str(resource), {"caBundle": bundle_pem.decode()})
        ):
            ref = ObjectRef(resource, self._name)
            self.problems.append(
                f"another writer keeps changing the caBundle of {resource.kind} {self._name}."
                f" {remedy_for_writers(ref)}"
            )
            return configuration

        logger.info("writing the caBundle of %s %s", resource.kind, self._name)
        version = {"resourceVersion": configuration["metadata"]["resourceVersion"]}

        return await self._client.patch(
            ObjectRef(resource, self._name), {"metadata": version, "webhooks": webhooks}
        )

    def _track(self) -> None:
        """Record which CAs the webhooks trust now."""
        self._trust.see(self._bundles(), self._clock())

    def _bundles(self) -> list[frozenset[bytes]]:
        return [
            cas
            for configuration in self._read.values()
            for cas in trusted_cas(configuration, self._service)
        ]


class Trust(Struct):
    """The CAs that all webhooks trust, and for how long they have trusted each CA.

    The duration matters, because API servers get a changed configuration with a delay. Without
    webhooks, there are no clients, and every CA counts as trusted. Times are monotonic, in seconds.
    """

    _since: dict[bytes, float] = {}
    """The monotonic time, in seconds, since which all webhooks have trusted a CA, by CA."""
    _has_clients: bool = True
    """Whether there is a webhook."""

    def see(self, bundles: Sequence[Collection[bytes]], at: float) -> None:
        """Record the CAs, as normalized PEM, that each webhook trusts at the time `at`."""
        common = set(bundles[0]).intersection(*bundles[1:]) if bundles else set()
        self._since = {ca: self._since.get(ca, at) for ca in common}
        self._has_clients = bool(bundles)

    def seconds(self, ca: bytes, at: float) -> float | None:
        """Return the seconds for which all webhooks have trusted `ca` without interruption.

        `ca` is normalized PEM. Return infinity if there are no webhooks, and None if a webhook does
        not trust `ca`.
        """
        if not self._has_clients:
            return math.inf
        since = self._since.get(ca)
        return None if since is None else at - since


def injector_annotation(configuration: JsonMap) -> str | None:
    """Return the annotation that makes cert-manager write the caBundles, or None."""
    annotations = configuration["metadata"].get("annotations") or {}
    return next(
        (key for name in INJECTED if (key := f"cert-manager.io/{name}") in annotations), None
    )


def trusted_cas(configuration: JsonMap, service: Service) -> list[frozenset[bytes]]:
    """Return the CAs that each of our webhooks in `configuration` trusts, as normalized PEM.

    A webhook with an invalid caBundle trusts no CA.
    """
    return [
        _cas(_client(webhook))
        for webhook in configuration.get("webhooks") or ()
        if _is_ours(webhook, service)
    ]


def with_ca_bundle(configuration: JsonMap, service: Service, bundle_pem: bytes) -> list[Object]:
    """Return the webhooks of `configuration`, with `bundle_pem` as the caBundle of our webhooks."""
    encoded = base64.b64encode(bundle_pem).decode("ascii")
    return [
        (
            {**webhook, "clientConfig": {**_client(webhook), "caBundle": encoded}}
            if _is_ours(webhook, service)
            else webhook
        )
        for webhook in configuration.get("webhooks") or ()
    ]


def _is_ours(webhook: JsonMap, service: Service) -> bool:
    """Return whether `webhook` calls our Service or a URL."""
    target = _client(webhook).get("service")
    return target is None or (target.get("namespace"), target.get("name")) == service


def _client(webhook: JsonMap) -> JsonMap:
    return webhook.get("clientConfig") or {}


def _cas(client: JsonMap) -> frozenset[bytes]:
    """Return the CAs in the caBundle of a webhook's clientConfig, or no CA if it is invalid."""
    try:
        return frozenset(split_bundle(base64.b64decode(client.get("caBundle") or "")))
    except ValueError:
        return frozenset()
