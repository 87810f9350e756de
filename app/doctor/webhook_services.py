"""Check that the Services that webhooks call exist and have ready endpoints."""

from collections.abc import Iterator, Sequence

from app.base.groups import by_key
from app.base.value import Value
from app.doctor.report import Check, Status
from app.doctor.service import Endpoint, ServiceKey, count_of, port_of, ready_endpoints
from app.doctor.webhook_configurations import StoredWebhook, Surroundings

_CALLED = (
    "Restore the Service. If its product was removed, delete the webhook configuration: kubectl"
    " delete {configuration}"
)
_PORT = "Correct clientConfig.service.port of the webhook, or add the port to the Service."
_REPLICAS = "Find out why no Pod of the Service is ready: kubectl -n {namespace} describe pods"
_ALONE = "Run at least two replicas of the Service's Pods."
_REJECTED = "matching requests are rejected"
_SKIPPED = "failed calls are ignored"
_INTERRUPTED = "nothing answers while the Pod restarts"


class Fault(Value):
    """A problem with the Service of a webhook."""

    status: Status
    cause: str
    """The problem in words, such as `Service a/b does not exist`."""
    effect: str
    """The effect on requests, in words."""
    remedy: str

    def message(self, configuration: str, names: Sequence[str]) -> str:
        """Return the message about the webhooks `names` of a configuration, which call the Service.

        If there are several, the message has only their number.
        """
        webhooks = names[0] if len(names) == 1 else f"{len(names)} webhooks"
        return f"{configuration}, {webhooks}: {self.cause}, so {self.effect}"


def check_targets(webhooks: Sequence[StoredWebhook], surroundings: Surroundings) -> Iterator[Check]:
    """Yield each problem of a Service, once for all webhooks of a configuration."""
    faults = (
        ((webhook.configuration, fault_of(webhook, surroundings)), webhook.name)
        for webhook in webhooks
    )
    for (configuration, fault), names in by_key(faults).items():
        if fault:
            message = fault.message(configuration, names)
            yield Check(fault.status, message, fault.remedy)


def fault_of(webhook: StoredWebhook, surroundings: Surroundings) -> Fault | None:
    """Return the problem of the Service that `webhook` calls, or None if there is none.

    Return None also if the webhook has a URL instead of a Service.
    """
    target = webhook.target
    if target.service is None:
        return None
    name = f"Service {'/'.join(target.service)}"
    status: Status = "warning"
    effect = _SKIPPED
    if webhook.is_fatal:
        status = "problem"
        effect = _REJECTED

    service = surroundings.services.get(target.service)
    if service is None:
        remedy = _CALLED.format(configuration=webhook.configuration)
        return Fault(status, f"{name} does not exist", effect, remedy)
    if port_of(service, target.port) is None:
        return Fault(status, f"{name} has no port {target.port}", effect, _PORT)

    count = count_of(endpoints_of(target.service, target.port, surroundings))
    if count == 0:
        remedy = _REPLICAS.format(namespace=target.service[0])
        return Fault(status, f"{name} has no ready endpoint", effect, remedy)
    if count == 1 and webhook.is_fatal:
        return Fault("warning", f"{name} has only 1 ready endpoint", _INTERRUPTED, _ALONE)
    return None


def endpoints_of(key: ServiceKey, number: int, surroundings: Surroundings) -> list[Endpoint]:
    """Return the ready endpoints of the port `number` of the Service `key`.

    Return [] if the Service or the port does not exist.
    """
    port = port_of(surroundings.services.get(key, {}), number)
    return [] if port is None else ready_endpoints(surroundings.slices.get(key, ()), port)
