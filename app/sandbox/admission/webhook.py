"""One call of one webhook: the AdmissionReview over HTTPS, and what its answer means.

A webhook at a Service is reached at one of its endpoints; its certificate must be valid for
`<service>.<namespace>.svc` under the configuration's caBundle, as on a real API server.
"""

import asyncio
import base64
import binascii
import contextlib
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson

from app.sandbox.objects.objects import Object
from app.sandbox.objects.selectors import Matches, object_selector

FindService = Callable[[str, str, int], str]
"""`<address>:<port>` of a Service, by namespace, name and port. LookupError with the reason if there is none."""

_REVIEW = ("admission.k8s.io/v1", "AdmissionReview")
_TYPES: dict[str, type] = {"allowed": bool, "uid": str, "status": dict, "warnings": list, "patch": str}
_ANSWERED = range(200, 207)
_REFUSALS = {
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


class CallFailedError(Exception):
    """The webhook gave no usable answer: connection, TLS, HTTP status, envelope, a patch that can't be read.
    failurePolicy decides. (A patch that can be read and doesn't apply fails the request whatever the policy.)"""


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

    def __init__(self, find_service: FindService) -> None:
        self._find_service = find_service
        self._clients: dict[str, httpx.AsyncClient] = {}

    async def close(self) -> None:
        clients, self._clients = list(self._clients.values()), {}
        await asyncio.gather(*(client.aclose() for client in clients))

    async def call(self, hook: Hook, request: Object) -> Answer:
        """Raises CallFailedError."""
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
            raise CallFailedError(f"failed to call webhook: {_refusal(response)}")
        return _answer(response.content, request["uid"], hook.mutating)

    def _address(self, client: Object) -> tuple[str, str]:
        """The URL as the configuration means it, and the name that the certificate must have."""
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


def _refusal(response: httpx.Response) -> str:
    """What client-go says of such an answer."""
    code, is_text = response.status_code, response.headers.get("content-type", "").startswith("text/")
    with contextlib.suppress(orjson.JSONDecodeError):
        status = orjson.loads(response.content)
        if isinstance(status, dict) and status.get("kind") == "Status" and status.get("message"):
            return str(status["message"])
    if code in _REFUSALS:
        return _REFUSALS[code]
    if code >= 500:
        said = _quoted((is_text and response.text[:2048].strip()) or "unknown")
        return f"an error on the server ({said}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()


def _answer(body: bytes, uid: str, mutating: bool) -> Answer:
    response = _response(body)
    if (response.get("uid") or "") != uid:
        said = f"expected response.uid={_quoted(uid)}, got {_quoted(str(response.get('uid') or ''))}"
        raise _invalid(said)
    patch, patch_type = response.get("patch"), response.get("patchType")
    if mutating:
        _check_pair(patch, patch_type)
    elif patch or patch_type is not None:
        raise _invalid(f"validating webhook may not return response.{'patch' if patch else 'patchType'}")
    operations = _operations(patch, patch_type) if patch and response.get("allowed") else []
    allowed, warnings = bool(response.get("allowed")), tuple(response.get("warnings") or ())
    return Answer(allowed, response.get("status") or {}, warnings, operations)


def _response(body: bytes) -> Object:
    """The review's `response`, of the right types as far as anybody looks at it."""
    if not body:
        said = "0-length response with status code: 200 and content type: application/json"
        raise CallFailedError(f"failed to call webhook: {said}")
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _undecodable(str(error)) from error
    if not isinstance(review, dict):
        raise _undecodable(f"an object is expected, not {type(review).__name__}")
    version, kind = review.get("apiVersion") or "", review.get("kind") or ""
    if (version, kind) != _REVIEW:
        raise _invalid(f"expected webhook response of {_REVIEW[0]}, Kind={_REVIEW[1]}, got {version}, Kind={kind}")
    response = review.get("response")
    if response is None:
        raise _invalid("webhook response was absent")
    if not isinstance(response, dict):
        raise CallFailedError("failed to call webhook: response must be an object")
    for name, kind_of in _TYPES.items():
        if not isinstance(response.get(name), (kind_of, type(None))):
            raise CallFailedError(f"failed to call webhook: response.{name} must be of type {kind_of.__name__}")
    return response


def _check_pair(patch: Any, patch_type: Any) -> None:
    if patch and patch_type is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    if not patch and patch_type is not None:
        raise _invalid("webhook returned response.patchType but not response.patch")


def _operations(patch: str, patch_type: Any) -> list[Object]:
    if patch_type != "JSONPatch":
        raise CallFailedError(f"unsupported patch type {_quoted(str(patch_type))}")
    try:
        text = base64.b64decode(patch, validate=True)
    except binascii.Error as error:
        raise CallFailedError(f"failed to call webhook: illegal base64 data: {error}") from error
    try:
        operations: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise CallFailedError(f"received undecodable patch in webhook response: {error}") from error
    if not isinstance(operations, list) or not all(isinstance(item, dict) for item in operations):
        raise CallFailedError("received undecodable patch in webhook response: it must be a list of operations")
    return operations


def _invalid(said: str) -> CallFailedError:
    return CallFailedError(f"received invalid webhook response: {said}")


def _undecodable(said: str) -> CallFailedError:
    return CallFailedError(f"failed to call webhook: couldn't get version/kind; json parse error: {said}")
