"""The Services that webhooks are called at, and whether somebody answers there."""

from collections.abc import Iterator, Sequence

from app.base.groups import by_key
from app.base.value import Value
from app.doctor.installed import StoredWebhook, Surroundings
from app.doctor.report import Check, Status
from app.doctor.service import Endpoint, ServiceKey, port_of, ready_endpoints

_CALLED = "See what installed it. If nobody needs it any more, delete the configuration."
_PORT = "Correct clientConfig.service.port, or the Service."
_REPLICAS = "See why the Pods of this Service are not ready."
_ALONE = "Run two replicas or more."


class Fault(Value):
    """What is wrong with the Service of a webhook.

    `fate` is what becomes of the requests, "" if somebody answers as long as nothing restarts.
    """

    status: Status
    cause: str
    fate: str
    remedy: str

    def message(self, configuration: str, names: Sequence[str]) -> str:
        """Return what is said of webhooks that have this fault in common."""
        webhooks = names[0]
        whose = "its"
        if len(names) > 1:
            webhooks = f"{len(names)} webhooks"
            whose = "their"

        consequence = "nobody answers while it restarts"
        if self.fate:
            consequence = f"nobody answers, and {whose} requests {self.fate}"
        return f"{configuration}, {webhooks}: {self.cause}: {consequence}"


def check_targets(webhooks: Sequence[StoredWebhook], surroundings: Surroundings) -> Iterator[Check]:
    """Yield what is wrong with Services, once for all webhooks of a configuration."""
    faults = (
        ((webhook.configuration, fault_of(webhook, surroundings)), webhook.name)
        for webhook in webhooks
    )
    for (configuration, fault), names in by_key(faults).items():
        if fault:
            message = fault.message(configuration, names)
            yield Check(fault.status, message, fault.remedy)


def fault_of(webhook: StoredWebhook, surroundings: Surroundings) -> Fault | None:
    """Return what is wrong with the Service of a webhook, None if nothing is or there is none."""
    target = webhook.target
    if target.service is None:
        return None
    name = f"Service {'/'.join(target.service)}"
    status: Status = "warning"
    fate = "pass unchanged"
    if webhook.is_fatal:
        status = "problem"
        fate = "are refused"

    service = surroundings.services.get(target.service)
    if service is None:
        return Fault(status, f"{name} does not exist", fate, _CALLED)
    if port_of(service, target.port) is None:
        return Fault(status, f"{name} has no port {target.port}", fate, _PORT)

    count = len(endpoints_of(target.service, target.port, surroundings))
    if count == 0:
        return Fault(status, f"{name} has no ready endpoint", fate, _REPLICAS)
    if count == 1 and webhook.is_fatal:
        return Fault("warning", f"{name} has 1 ready endpoint", "", _ALONE)
    return None


def endpoints_of(key: ServiceKey, number: int, surroundings: Surroundings) -> list[Endpoint]:
    """Return the ready endpoints behind a port of a Service, [] if there is no such port."""
    port = port_of(surroundings.services.get(key, {}), number)
    return [] if port is None else ready_endpoints(surroundings.slices.get(key, ()), port)
