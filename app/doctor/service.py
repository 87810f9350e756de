"""Check the Service that API servers call, and its endpoints."""

from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from app.base.sentences import lower_first
from app.base.value import Value
from app.doctor.report import Checks, logs_of, ok, problem, warning
from app.doctor.webhooks import webhooks_in
from app.kube.api import Client, Object, ObjectRef, Selection, every, find
from app.objects.resource import ENDPOINT_SLICE, POD, SERVICE
from app.objects.shape import JsonMap, int_of, map_at, maps_at, text_at, texts_at

_PORT = 443
SERVICE_LABEL = "kubernetes.io/service-name"
_ABSENT = (
    "Apply the manifests or the chart of this version again. If the Service has another name, set"
    " certificates.serviceName and clientConfig of the webhooks to that name."
)
_AGAIN = "Apply the manifests or the chart of this version again."
_UNREADY = (
    "Find out why its Pods are not ready: {logs}. If a Pod runs, run: kubectl -n {namespace}"
    " port-forward deployment/grove-admission 8444, and then: curl -k"
    " 'https://localhost:8444/readyz?verbose'."
)


class Endpoint(Value):
    """The IP address and port of a server, or the host and port of a URL."""

    address: str
    port: int
    pod: str = ""
    """The name of the Pod with this address, or "" if it is not known."""

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.port}"


def count_of(endpoints: Iterable[Endpoint]) -> int:
    """Return the number of servers behind `endpoints`.

    In a dual-stack cluster, a Pod has two addresses, each in its own EndpointSlice.
    """
    return len({endpoint.pod or str(endpoint) for endpoint in endpoints})


ServiceKey = tuple[str, str]
"""The namespace and name of a Service."""


class Target(Value):
    """The server that API servers call for a webhook: a port of a Service or of a URL's host."""

    name: str
    """The DNS name that the server's certificate must have."""
    port: int = 443
    """The port of the Service or the host."""
    service: ServiceKey | None = None
    """The Service, or None if the webhook has a URL."""


def target_of(webhook: JsonMap) -> Target:
    """Return the target of a webhook.

    If the webhook has an invalid URL, which no API server stores, the target's name is "".
    """
    client = map_at(webhook, "clientConfig")
    service = map_at(client, "service")
    if service:
        namespace = str(service.get("namespace", ""))
        name = str(service.get("name", ""))
        port = int_of(service.get("port"), _PORT)
        return Target(f"{name}.{namespace}.svc", port, (namespace, name))
    try:
        url = urlsplit(text_at(client, "url"))
        return Target(url.hostname or "", url.port or 443)
    except ValueError:
        return Target("")


def is_called(configurations: Iterable[Object]) -> bool:
    """Return whether any webhook of the configurations is called through a Service."""
    return any(target_of(webhook).service for webhook in webhooks_in(configurations))


async def check_service(
    client: Client, namespace: str, name: str, also: str = ""
) -> tuple[Checks, list[Endpoint]]:
    """Return the checks of our Service, and its ready endpoints.

    There are no endpoints if the Service or its port is missing. `also` is the end of each
    problem's remedy: it says what to do while no server answers. Raise ClusterError if something
    cannot be read.
    """
    title = f"Service {namespace}/{name}"
    service = await find(client, ObjectRef(SERVICE, name, namespace))
    if service is None:
        return [problem(f"{title} does not exist", f"{_ABSENT}{also}")], []

    port = port_of(service, _PORT)
    if port is None:
        message = f"{title} has no port {_PORT}, which the webhook configurations name"
        # kubectl apply would add the port next to a changed port of the same name.
        recreate = (
            f"Run: kubectl -n {namespace} delete service {name}. Then apply the manifests or"
            f" the chart again, which create it.{also}"
        )
        return [problem(message, recreate)], []

    of_service = Selection(ENDPOINT_SLICE, namespace, labels=f"{SERVICE_LABEL}={name}")
    slices = await every(client, of_service)
    ready = ready_endpoints(slices, port)
    count = count_of(ready)
    if count > 1:
        return [ok(f"{title} has {count} ready endpoints")], ready
    if count == 1:
        message = f"{title} has only 1 ready endpoint: no webhook answers while its Pod restarts"
        command = f"kubectl -n {namespace} scale deployment grove-admission --replicas=2"
        remedy = f"Set two replicas in your overlay or the values of the chart, and run: {command}"
        return [warning(message, remedy)], ready

    why, mend = await _why_unready(client, namespace, service, slices)
    return [problem(f"{title} has no ready endpoint{why}", f"{mend}{also}")], []


async def _why_unready(
    client: Client, namespace: str, service: Object, slices: Iterable[JsonMap]
) -> tuple[str, str]:
    """Return why a Service has no ready endpoint, to be added to a message, and the remedy."""
    remedy = _UNREADY.format(namespace=namespace, logs=logs_of(namespace))
    conditions = [
        map_at(endpoint, "conditions") for item in slices for endpoint in maps_at(item, "endpoints")
    ]
    if any(condition.get("ready") is not False for condition in conditions):
        target = next(iter(maps_at(service, "spec", "ports")), {}).get("targetPort")
        return f", because its ready Pods have no port {target}", _AGAIN

    labels = ",".join(
        f"{key}={value}" for key, value in map_at(service, "spec", "selector").items()
    )
    if conditions or not labels:
        return "", remedy
    if await every(client, Selection(POD, namespace, labels=labels)):
        return "", remedy
    return (
        f", because no Pod has the labels {labels} of its selector",
        f"If the Deployment has Pods (kubectl -n {namespace} get pods --show-labels), correct the"
        f" selector of the Service: {lower_first(_AGAIN)}",
    )


def port_of(service: JsonMap, number: int) -> JsonMap | None:
    """Return the item of a Service's `spec.ports` with the port `number`, or None."""
    ports = maps_at(service, "spec", "ports")
    return next((port for port in ports if port.get("port") == number), None)


def ready_endpoints(slices: Iterable[JsonMap], port: JsonMap) -> list[Endpoint]:
    """Return the ready endpoints behind `port`, an item of a Service's `spec.ports`.

    `slices` are the EndpointSlices of the Service.
    """
    name = port.get("name") or ""
    found = (endpoint for item in slices for endpoint in _ready_in(item, name))
    return list(dict.fromkeys(found))  # two slices may have the same endpoint for a moment


def _ready_in(endpoint_slice: JsonMap, port_name: str) -> Iterator[Endpoint]:
    """Yield the ready endpoints of an EndpointSlice for the port `port_name`.

    An endpoint without the condition `ready` counts as ready:
    https://kubernetes.io/docs/reference/kubernetes-api/service-resources/endpoint-slice-v1/.
    """
    named = (
        item for item in maps_at(endpoint_slice, "ports") if (item.get("name") or "") == port_name
    )
    port = next((int_of(item.get("port")) for item in named), 0)
    for endpoint in maps_at(endpoint_slice, "endpoints"):
        ready = map_at(endpoint, "conditions").get("ready")
        addresses = texts_at(endpoint, "addresses")
        if port and ready is not False and addresses:
            pod = text_at(map_at(endpoint, "targetRef"), "name")
            yield Endpoint(addresses[0], port, pod)
