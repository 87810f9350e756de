"""A call of a webhook: the AdmissionReview over HTTPS, and its response.

A webhook at a Service is called at one of the endpoints of the Service. Its certificate must be valid for
`<service>.<namespace>.svc` under the caBundle of the configuration, as with kube-apiserver.
"""

import asyncio
import base64
import binascii
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx
import orjson

from app.sandbox.objects.objects import Object
from app.sandbox.objects.selectors import Matches, object_selector

FindService = Callable[[str, str, int], str]
"""Returns `<address>:<port>` for namespace, name and port of a Service. Raises LookupError if it has no endpoint."""

_REVIEW = ("admission.k8s.io/v1", "AdmissionReview")
_TYPES: dict[str, type] = {"allowed": bool, "uid": str, "status": dict, "warnings": list, "patch": str}
_ANSWERED = range(200, 207)


class CallFailedError(Exception):
    """The webhook could not be called, or its response is not a usable AdmissionReview. failurePolicy applies."""


@dataclass(frozen=True, slots=True, eq=False)
class Hook:
    """A webhook of a stored configuration, with the defaults filled in. `timeout` is in seconds."""

    name: str
    mutating: bool
    rules: tuple[Object, ...]
    client: Object
    namespaces: Matches
    objects: Matches
    conditions: tuple[Object, ...]
    fails_closed: bool
    reinvoke: bool
    equivalent: bool
    dry_runs: bool
    timeout: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of a webhook. `status` is a Status, and `patch` a list of JSON Patch operations."""

    allowed: bool
    status: Object
    warnings: tuple[str, ...] = ()
    patch: list[Object] = field(default_factory=list)


def hooks_of(configuration: Object) -> list[Hook]:
    """The webhooks of a MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""
    mutating = configuration["kind"] == "MutatingWebhookConfiguration"
    return [_hook(item, mutating) for item in configuration.get("webhooks") or ()]


def _hook(item: Object, mutating: bool) -> Hook:
    return Hook(
        name=item["name"],
        mutating=mutating,
        rules=tuple(item.get("rules") or ()),
        client=item.get("clientConfig") or {},
        namespaces=object_selector(item.get("namespaceSelector")),
        objects=object_selector(item.get("objectSelector")),
        conditions=tuple(item.get("matchConditions") or ()),
        fails_closed=item.get("failurePolicy", "Fail") == "Fail",
        reinvoke=item.get("reinvocationPolicy", "Never") == "IfNeeded",
        equivalent=item.get("matchPolicy", "Equivalent") == "Equivalent",
        dry_runs=item.get("sideEffects") in ("None", "NoneOnDryRun"),
        timeout=item.get("timeoutSeconds") or 10,
    )


class Transport:
    """Calls webhooks. It has one HTTP client for each caBundle, with up to 25 idle connections for 90 s."""

    def __init__(self, find_service: FindService) -> None:
        self._find_service = find_service
        self._clients: dict[str, httpx.AsyncClient] = {}

    async def close(self) -> None:
        clients, self._clients = list(self._clients.values()), {}
        await asyncio.gather(*(client.aclose() for client in clients))

    async def call(self, hook: Hook, request: Object) -> Answer:
        """Sends `request`, the `request` of an AdmissionReview. Raises CallFailedError."""
        url, server_name = self._address(hook.client)
        shown = f'Post "{url}?timeout={hook.timeout}s"'
        body = orjson.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
        try:
            async with asyncio.timeout(hook.timeout):
                response = await self._client(hook.client.get("caBundle") or "").post(
                    self._reached(url, hook.client, shown),
                    params={"timeout": f"{hook.timeout}s"},
                    content=body,
                    headers={"content-type": "application/json", "accept": "application/json"},
                    extensions={"sni_hostname": server_name},
                )
        except TimeoutError as error:
            raise CallFailedError(f"failed to call webhook: {shown}: context deadline exceeded") from error
        except (httpx.HTTPError, ssl.SSLError) as error:
            raise CallFailedError(f"failed to call webhook: {shown}: {error or type(error).__name__}") from error
        if response.status_code not in _ANSWERED:
            code, text = response.status_code, response.text[:2048].strip()
            raise CallFailedError(f"failed to call webhook: the server responded with the status code {code}: {text}")
        return _answer(response.content, request["uid"], hook.mutating)

    def _address(self, client: Object) -> tuple[str, str]:
        """The URL of a clientConfig, and the name for which the certificate must be valid."""
        if client.get("url"):
            return client["url"], urlsplit(client["url"]).hostname or ""
        service = client.get("service") or {}
        host = f"{service.get('name')}.{service.get('namespace')}.svc"
        return f"https://{host}:{service.get('port') or 443}{service.get('path') or '/'}", host

    def _reached(self, url: str, client: Object, shown: str) -> str:
        if client.get("url"):
            return url
        service = client.get("service") or {}
        try:
            address = self._find_service(service["namespace"], service["name"], service.get("port") or 443)
        except LookupError as error:
            raise CallFailedError(f"failed to call webhook: {shown}: {error}") from error
        return f"https://{address}{service.get('path') or '/'}"

    def _client(self, bundle: str) -> httpx.AsyncClient:
        client = self._clients.get(bundle)
        if client is None:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=25, keepalive_expiry=90)
            client = httpx.AsyncClient(verify=_context(bundle), limits=limits, timeout=30.0, trust_env=False)
            self._clients[bundle] = client
        return client


def _context(bundle: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=base64.b64decode(bundle).decode() or None)
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError) as error:
        raise CallFailedError(f"failed to call webhook: unable to load root certificates: {error}") from error


def _answer(body: bytes, uid: str, mutating: bool) -> Answer:
    response = _response(body)
    if response.get("uid") != uid:
        raise _invalid(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    patch, patch_type = response.get("patch"), response.get("patchType")
    if patch and not mutating:
        raise _invalid("validating webhook may not return response.patch")
    if bool(patch) != (patch_type == "JSONPatch"):
        raise _invalid("response.patch needs response.patchType JSONPatch, and the other way round")
    allowed, warnings = bool(response.get("allowed")), tuple(response.get("warnings") or ())
    return Answer(allowed, response.get("status") or {}, warnings, _operations(patch) if patch and allowed else [])


def _response(body: bytes) -> Object:
    """The `response` of a review, with fields of the right types."""
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _invalid(f"it is not JSON: {error}") from error
    if not isinstance(review, dict) or (review.get("apiVersion"), review.get("kind")) != _REVIEW:
        raise _invalid(f"expected webhook response of {_REVIEW[0]}, Kind={_REVIEW[1]}")
    response = review.get("response")
    if not isinstance(response, dict):
        raise _invalid("webhook response was absent")
    for name, type_ in _TYPES.items():
        if not isinstance(response.get(name), (type_, type(None))):
            raise _invalid(f"response.{name} must be of type {type_.__name__}")
    return response


def _operations(patch: str) -> list[Object]:
    try:
        operations: list[Object] = orjson.loads(base64.b64decode(patch, validate=True))
    except (binascii.Error, orjson.JSONDecodeError) as error:
        raise CallFailedError(f"received undecodable patch in webhook response: {error}") from error
    return operations


def _invalid(problem: str) -> CallFailedError:
    return CallFailedError(f"received invalid webhook response: {problem}")
