"""Check the Service that API servers call, and its endpoints."""

from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from app.base.value import Value
from app.doctor.report import Check, Checks, ok, problem, warning
from app.doctor.webhooks import webhooks_in
from app.kube.api import Client, Object, ObjectRef, Selection, every, find
from app.objects.resource import ENDPOINT_SLICE, SERVICE
from app.objects.shape import JsonMap, int_of, map_at, maps_at, text_at, texts_at

_PORT = 443
SERVICE_LABEL = "kubernetes.io/service-name"
_ABSENT = (
    "Apply the manifests or the chart of this version again. If the Service has another name, set"
    " certificates.serviceName and clientConfig of the webhooks to that name."
)
_UNREADY = (
    "Find out why its Pods are not ready: kubectl -n {namespace} logs deployment/grove-admission."
    " If a Pod runs, run: kubectl -n {namespace} port-forward deployment/grove-admission 8444, and"
    " then: curl -k 'https://localhost:8444/readyz?verbose'"
)


class Endpoint(Value):
    """The IP address and port of a server, or the host and port of a URL."""

    address: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.port}"


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


async def check_service(client: Client, namespace: str, name: str) -> tuple[Checks, list[Endpoint]]:
    """Return the checks of our Service, and its ready endpoints.

    There are no endpoints if the Service or its port is missing. Raise ClusterError if something
    cannot be read.
    """
    title = f"Service {namespace}/{name}"
    service = await find(client, ObjectRef(SERVICE, name, namespace))
    if service is None:
        return [problem(f"{title} does not exist", _ABSENT)], []

    port = port_of(service, _PORT)
    if port is None:
        message = f"{title} has no port {_PORT}, which the webhook configurations name"
        # kubectl apply would add the port next to a changed port of the same name.
        remedy = (
            f"Run: kubectl -n {namespace} delete service {name}. Then apply the manifests or"
            " the chart again, which create it."
        )
        return [problem(message, remedy)], []

    of_service = Selection(ENDPOINT_SLICE, namespace, labels=f"{SERVICE_LABEL}={name}")
    ready = ready_endpoints(await every(client, of_service), port)

    return [_judge(namespace, title, len(ready))], ready


def _judge(namespace: str, title: str, ready: int) -> Check:
    if ready == 0:
        return problem(f"{title} has no ready endpoint", _UNREADY.format(namespace=namespace))
    if ready == 1:
        message = f"{title} has only 1 ready endpoint: no webhook answers while its Pod restarts"
        command = f"kubectl -n {namespace} scale deployment grove-admission --replicas=2"
        return warning(message, f"Run at least two replicas: {command}")
    return ok(f"{title} has {ready} ready endpoints")


def port_of(service: JsonMap, number: int) -> JsonMap | None:
    """Return the item of a Service's `spec.ports` with the port `number`, or None."""
    ports = maps_at(service, "spec", "ports")
    return next((port for port in ports if port.get("port") == number), None)


def ready_endpoints(slices: Iterable[JsonMap], port: JsonMap) -> list[Endpoint]:
    """Return the ready endpoints behind `port`, an item of a Service's `spec.ports`.

    `slices` are the EndpointSlices of the Service.
    """
    name = port.get("name") or ""
    return [endpoint for item in slices for endpoint in _ready_in(item, name)]


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
            yield Endpoint(addresses[0], port)
