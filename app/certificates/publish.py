"""The caBundles of the two webhook configurations: reads and writes them, and tracks which CAs they trust."""

import logging
from collections.abc import Callable

from app.certificates.ca_bundle import Service, injector_annotation, trusted_cas, with_ca_bundle
from app.certificates.trust import Trust
from app.kube.api import Client, ClusterError, NotFound, Object
from app.kube.rewrites import Rewrites, same
from app.objects.resource import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource

CONFIGURATIONS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)

logger = logging.getLogger(__name__)


class CaBundles:
    """The caBundles of the webhooks that call `service`, in the configurations `name`. `problems` has the reasons why
    the last `publish` did not write a configuration. `clock` is monotonic, in seconds."""

    def __init__(self, client: Client, name: str, service: Service, clock: Callable[[], float]) -> None:
        self.problems: list[str] = []
        self._client, self._name, self._service, self._clock = client, name, service, clock
        self._trust = Trust()
        self._rewrites = Rewrites(tolerated=5, window=10.0, clock=clock)
        self._read: dict[Resource, Object] = {}

    async def read(self) -> None:
        """Reads both configurations. One of them may be missing."""
        configurations = {}
        for resource in CONFIGURATIONS:
            try:
                configurations[resource] = await self._client.get(resource, self._name)
            except NotFound:
                logger.debug("there is no %s %s", resource.kind, self._name)
        self._read = configurations
        self._track()

    def seconds_trusted(self, ca: bytes) -> float | None:
        """The seconds for which all webhooks have trusted `ca` (PEM) without interruption; None if one does not."""
        return self._trust.seconds(ca, self._clock())

    def trusted(self) -> set[bytes]:
        """All CAs that a webhook trusts."""
        return {
            ca
            for configuration in self._read.values()
            for cas in trusted_cas(configuration, self._service)
            for ca in cas
        }

    async def publish(self, bundle_pem: bytes) -> ClusterError | None:
        """Writes `bundle_pem` to the configurations that have another caBundle, at the resourceVersion that was read.
        Tries both configurations, and returns the last error."""
        self.problems = []
        failed = None
        for resource, configuration in list(self._read.items()):
            try:
                self._read[resource] = await self._publish_in(resource, configuration, bundle_pem)
            except ClusterError as error:
                failed = error
        self._track()
        return failed

    async def _publish_in(self, resource: Resource, configuration: Object, bundle_pem: bytes) -> Object:
        webhooks = with_ca_bundle(configuration, self._service, bundle_pem)
        if webhooks == (configuration.get("webhooks") or []):
            return configuration
        if (annotation := injector_annotation(configuration)) is not None:
            advice = "remove the annotation, or set certificates.mode to files"
            self.problems.append(f"{resource.kind} {self._name} is cert-manager's by {annotation}: {advice}")
            return configuration
        if not self._rewrites.may(same(str(resource), {"caBundle": bundle_pem.decode()})):
            self.problems.append(f"somebody keeps changing the caBundle of {resource.kind} {self._name}")
            return configuration
        logger.info("writing the caBundle of %s %s", resource.kind, self._name)
        version = {"resourceVersion": configuration["metadata"]["resourceVersion"]}
        return await self._client.patch(resource, self._name, {"metadata": version, "webhooks": webhooks})

    def _track(self) -> None:
        bundles = [cas for configuration in self._read.values() for cas in trusted_cas(configuration, self._service)]
        self._trust.see(bundles, self._clock())
