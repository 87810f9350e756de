"""Call a webhook: send an AdmissionReview over HTTPS, and read the response.

A webhook at a Service is called at a ready endpoint of the Service, as with kube-apiserver and
`--enable-aggregator-routing`. The sandbox does not create EndpointSlices. The certificate must be
valid for `<service>.<namespace>.svc` under the caBundle of the webhook.
"""

import asyncio
import itertools
import ssl
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Annotated, Literal
from urllib.parse import urlsplit

import aiohttp
import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Json, ValidationError

from scripts.apiserver.admission.attributes import MatchConstraints
from scripts.apiserver.objects.objects import Object, labels
from scripts.apiserver.processes import authority
from scripts.apiserver.storage import Storage

FindService = Callable[[str, str, int], str]
"""A function that returns `<address>:<port>` for the namespace, name and port of a Service.

It raises LookupError if the Service has no ready endpoint.
"""

_ANSWERED = range(200, 207)
_SERVICES = ("", "services")
_SLICES = ("discovery.k8s.io", "endpointslices")
_SERVICE_NAME = "kubernetes.io/service-name"


class CallFailedError(Exception):
    """The call of a webhook failed, so its failurePolicy applies.

    The webhook could not be called, or its response is not a usable AdmissionReview.
    """


class Hook(MatchConstraints, eq=False, kw_only=True, rename="camel"):
    """A webhook of a stored configuration, with the names and defaults of the API."""

    name: str
    is_mutating: bool
    client_config: Object
    match_conditions: tuple[Object, ...] = ()
    failure_policy: str = "Fail"
    reinvocation_policy: str = "Never"
    side_effects: str = ""
    timeout_seconds: int = 10

    @property
    def fails_closed(self) -> bool:
        return self.failure_policy == "Fail"


class WebhookAnswer(BaseModel):
    """The response of a webhook.

    `status` is a Status, and `patch` a list of JSON Patch operations.
    """

    model_config = ConfigDict(strict=True)
    uid: str = ""
    allowed: bool = False
    status: Object | None = None
    warnings: list[str] | None = None
    patch: Annotated[Json[list[Object]], BeforeValidator(b64decode)] | None = None
    patchType: Literal["JSONPatch"] | None = None


class _Review(BaseModel):
    """An AdmissionReview with a response."""

    apiVersion: Literal["admission.k8s.io/v1"]
    kind: Literal["AdmissionReview"]
    response: WebhookAnswer


def hooks_of(configuration: Object) -> list[Hook]:
    """Return the webhooks of a MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""
    is_mutating = configuration["kind"] == "MutatingWebhookConfiguration"
    return [
        msgspec.convert({**item, "isMutating": is_mutating}, Hook)
        for item in configuration.get("webhooks") or ()
    ]


class WebhookTransport:
    """A client for webhooks.

    It has an HTTP client for each caBundle, which keeps idle connections for 90 s. If a webhook
    ends a connection, this side closes it at once, as an API server does, so that a stopping server
    can end quickly.
    """

    def __init__(self, find_service: FindService) -> None:
        self._find_service = find_service
        self._clients: dict[str, aiohttp.ClientSession] = {}

    async def close(self) -> None:
        clients = list(self._clients.values())
        self._clients = {}
        await asyncio.gather(*(client.close() for client in clients))

    async def call(self, hook: Hook, request: Object) -> WebhookAnswer:
        """Send `request`, the `request` of an AdmissionReview. Raise CallFailedError."""
        url = hook.client_config.get("url") or _service_url(hook.client_config["service"])
        shown = f'Post "{url}?timeout={hook.timeout_seconds}s"'
        body = msgspec.json.encode(
            {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
        )
        try:
            async with asyncio.timeout(hook.timeout_seconds):
                code, content = await self._post(hook, url, body)
        except TimeoutError as error:
            raise CallFailedError(
                f"failed to call webhook: {shown}: context deadline exceeded"
            ) from error
        except (aiohttp.ClientError, ssl.SSLError, LookupError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise CallFailedError(f"failed to call webhook: {shown}: {reason}") from error

        if code not in _ANSWERED:
            text = content.decode(errors="replace")[:2048].strip()
            raise CallFailedError(
                f"failed to call webhook: the server responded with the status code {code}: {text}"
            )

        return _answer(content, request["uid"], hook.is_mutating)

    async def _post(self, hook: Hook, url: str, body: bytes) -> tuple[int, bytes]:
        """Return the status code and the body of the response."""
        posted = self._client(hook.client_config.get("caBundle") or "").post(
            self._reached(url, hook.client_config),
            params={"timeout": f"{hook.timeout_seconds}s"},
            data=body,
            headers={"content-type": "application/json", "accept": "application/json"},
            server_hostname=urlsplit(url).hostname,
            allow_redirects=False,
        )
        async with posted as response:
            return response.status, await response.read()

    def _reached(self, url: str, client: Object) -> str:
        """Return the URL at which a webhook with the URL `url` is called.

        Raise LookupError if its Service has no ready endpoint.
        """
        if client.get("url"):
            return url
        service = client["service"]
        address = self._find_service(
            service["namespace"], service["name"], service.get("port") or 443
        )
        return urlsplit(url)._replace(netloc=address).geturl()

    def _client(self, bundle: str) -> aiohttp.ClientSession:
        client = self._clients.get(bundle)
        if client is None:
            connector = aiohttp.TCPConnector(ssl=_context(bundle), limit=0, keepalive_timeout=90)
            client = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout())
            self._clients[bundle] = client
        return client


def _service_url(service: Object) -> str:
    """Return the URL of a webhook at a Service. Its host is the name in the certificate."""
    host = f"{service['name']}.{service['namespace']}.svc"
    return f"https://{host}:{service.get('port') or 443}{service.get('path') or '/'}"


def _context(bundle: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=b64decode(bundle).decode() or None)
    except (ValueError, ssl.SSLError) as error:
        raise CallFailedError(
            f"failed to call webhook: unable to load root certificates: {error}"
        ) from error


def _answer(body: bytes, uid: str, mutating: bool) -> WebhookAnswer:
    try:
        answer = _Review.model_validate_json(body).response
    except ValidationError as error:
        problem = error.errors()[0]
        raise _invalid(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}") from error

    if answer.uid != uid:
        raise _invalid(f'expected response.uid="{uid}", got "{answer.uid}"')
    if answer.patch is not None and not mutating:
        raise _invalid("validating webhook may not return response.patch")
    if (answer.patch is None) != (answer.patchType is None):
        raise _invalid("response.patch needs response.patchType JSONPatch, and the other way round")

    return answer


def _invalid(problem: str) -> CallFailedError:
    return CallFailedError(f"received invalid webhook response: {problem}")


class Services:
    """The Services and EndpointSlices of a storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._turns = itertools.count()

    def address(self, namespace: str, name: str, port: int) -> str:
        """Return `<address>:<port>` of a ready endpoint, a different one in each call.

        Raise LookupError if there is none.
        """
        service = self._storage.get(_SERVICES, (namespace, name))
        if service is None:
            raise LookupError(f'service "{name}" not found')
        ports = [item for item in service["spec"].get("ports") or () if item["port"] == port]
        if not ports:
            raise LookupError(f'no service port {port} found for service "{name}"')
        addresses = list(self._ready(namespace, name, ports[0].get("name") or ""))
        if not addresses:
            raise LookupError(f'no endpoints available for service "{name}"')
        return addresses[next(self._turns) % len(addresses)]

    def _ready(self, namespace: str, name: str, port_name: str) -> Iterator[str]:
        for endpoints in self._storage.table(_SLICES).items(namespace):
            if labels(endpoints).get(_SERVICE_NAME) == name:
                yield from _addresses(endpoints, port_name)


def _addresses(endpoints: Object, port_name: str) -> Iterator[str]:
    ports = [
        item["port"]
        for item in endpoints.get("ports") or ()
        if (item.get("name") or "") == port_name
    ]
    for endpoint in endpoints.get("endpoints") or ():
        if (endpoint.get("conditions") or {}).get("ready") is not False:
            yield from (authority(endpoint["addresses"][0], port) for port in ports)
