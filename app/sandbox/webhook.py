"""One call of one webhook: the AdmissionReview over HTTPS, and what its answer means.

A webhook at a Service is reached at the configured base URL, but its certificate must still be valid for
`<service>.<namespace>.svc` under the configuration's caBundle, as on a real API server.
"""

import asyncio
import base64
import binascii
import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson

from app.sandbox.objects import Object
from app.sandbox.selectors import Matches, object_selector

_NO_TRANSPORT = "no address is configured for services: start the sandbox with a webhook URL"


class CallFailedError(Exception):
    """The webhook gave no usable answer: connection, TLS, HTTP status, envelope. failurePolicy decides."""


class BadPatchError(Exception):
    """The webhook's patch can't be read or applied: the request fails whatever the failurePolicy."""


@dataclass(frozen=True, slots=True, eq=False)
class Hook:
    """One webhook of one configuration, read once per change of the configuration."""

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
    allowed: bool
    status: Object
    warnings: tuple[str, ...] = ()
    patch: list[Object] = field(default_factory=list)


def hooks_of(configuration: Object) -> list[Hook]:
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
    """Keeps one HTTP client per caBundle, with 25 idle connections for 90 s as the real server does."""

    def __init__(self, base_url: str | None = None) -> None:
        self.base_url = base_url
        self._clients: dict[str, httpx.AsyncClient] = {}

    async def close(self) -> None:
        clients, self._clients = list(self._clients.values()), {}
        await asyncio.gather(*(client.aclose() for client in clients))

    async def call(self, hook: Hook, request: Object) -> Answer:
        """Raises CallFailedError or BadPatchError."""
        url, server_name = self._address(hook.client)
        shown = f'Post "{url}?timeout={hook.timeout}s"'
        body = orjson.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
        try:
            async with asyncio.timeout(hook.timeout):
                response = await self._client(hook.client.get("caBundle") or "").post(
                    self._reached(url, hook.client),
                    params={"timeout": f"{hook.timeout}s"},
                    content=body,
                    headers={"content-type": "application/json", "accept": "application/json"},
                    extensions={"sni_hostname": server_name},
                )
        except TimeoutError as error:
            raise CallFailedError(f"failed to call webhook: {shown}: context deadline exceeded") from error
        except (httpx.HTTPError, ssl.SSLError) as error:
            raise CallFailedError(f"failed to call webhook: {shown}: {error or type(error).__name__}") from error
        if response.status_code != 200:
            raise CallFailedError(f"failed to call webhook: {_refusal(response)}")
        return _answer(response.content, request["uid"], hook.mutating)

    def _address(self, client: Object) -> tuple[str, str]:
        """The URL as the configuration means it, and the name that the certificate must have."""
        if client.get("url"):
            return client["url"], urlsplit(client["url"]).hostname or ""
        service = client.get("service") or {}
        host = f"{service.get('name')}.{service.get('namespace')}.svc"
        return f"https://{host}:{service.get('port') or 443}{service.get('path') or '/'}", host

    def _reached(self, url: str, client: Object) -> str:
        if client.get("url"):
            return url
        if not self.base_url:
            raise CallFailedError(f'failed to call webhook: Post "{url}": {_NO_TRANSPORT}')
        return self.base_url.rstrip("/") + ((client.get("service") or {}).get("path") or "/")

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


def _refusal(response: httpx.Response) -> str:
    text = response.text[:1000]
    return (
        text or f"the server responded with the status code {response.status_code} but did not return more information"
    )


def _answer(body: bytes, uid: str, mutating: bool) -> Answer:
    try:
        review = orjson.loads(body)
        response = review["response"]
        allowed = response["allowed"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise CallFailedError(f"failed to call webhook: the answer is not an AdmissionReview: {error!r}") from error
    if (review.get("kind"), review.get("apiVersion")) != ("AdmissionReview", "admission.k8s.io/v1"):
        raise CallFailedError(
            "received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview"
        )
    if response.get("uid") != uid:
        raise CallFailedError(
            f"received invalid webhook response: expected response.uid={uid!r}, got {response.get('uid')!r}"
        )
    patch = _patch(response) if mutating and allowed else []
    return Answer(bool(allowed), response.get("status") or {}, tuple(response.get("warnings") or ()), patch)


def _patch(response: Object) -> list[Object]:
    if not response.get("patch"):
        return []
    if response.get("patchType") != "JSONPatch":
        raise CallFailedError(f"received invalid webhook response: unsupported patchType {response.get('patchType')!r}")
    try:
        operations: Any = orjson.loads(base64.b64decode(response["patch"], validate=True))
    except (binascii.Error, orjson.JSONDecodeError, TypeError) as error:
        raise BadPatchError(str(error)) from error
    if not isinstance(operations, list):
        raise BadPatchError("the patch is not a list of operations")
    return operations
