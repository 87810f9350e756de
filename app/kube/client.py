"""The `Client` of a real cluster: raw JSON over aiohttp, every call with a time limit, every error translated.

The API classes and the Watch that kubernetes_asyncio generates are not used: they decode every object several times,
and a Watch there has no time limit.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import quote

import aiohttp
import orjson
from yarl import URL

from app.kube.answers import error_from, error_from_status
from app.kube.api import NotServed, Object, Page, Patch, PatchKind, Unavailable, WatchEvent
from app.kube.credentials import Credentials
from app.kube.discovery import Discovery
from app.kube.gauge import Gauge
from app.kube.lines import LineTooLong, lines_of
from app.kube.ratelimit import TokenBucket
from app.objects.resource import LEASE, Resource

Params = dict[str, str]

_JSON = "application/json"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PATCH_TYPES = {"merge": "application/merge-patch+json", "json": "application/json-patch+json"}
_UNLIMITED = frozenset({str(LEASE)})
"""A leader that must wait behind its own work to renew its lease would lose it."""
_EVENT_TYPES = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a call may cost. Seconds, calls per second, and bytes.

    `total` bounds a whole call: the wait for its turn, every try and the pauses between them. `watch_silence` is the
    last fence round a watch; `app.kube.watch` notices silence earlier. `longest_event` bounds one line of a watch.
    """

    connect: float = 5.0
    total: float = 30.0
    watch_silence: float = 90.0
    qps: float = 50.0
    burst: int = 100
    reads: int = 2
    pause: float = 0.2
    connections: int = 100
    longest_event: int = 16 * 2**20


@dataclass(frozen=True, slots=True)
class _Request:
    """One call: what to send, and under which verb and resource it is counted."""

    verb: str
    resource: str
    method: str
    path: str
    params: Params = field(default_factory=dict)
    accept: str = _JSON
    body: Any = None
    content_type: str = _JSON


class HttpClient:
    """`Client` over HTTP. Use as `async with HttpClient(credentials, resources) as client`, and run `client.discovery`,
    which finds out in which versions the cluster serves `resources`.

    `calls` counts calls by (verb, resource, HTTP status, or "error" if there was no answer), for metrics.
    """

    def __init__(
        self,
        credentials: Credentials,
        resources: Iterable[Resource],
        limits: Limits | None = None,
        *,
        user_agent: str = "",
    ) -> None:
        self.calls: dict[tuple[str, str, str], int] = {}
        self.discovery = Discovery(self.read, resources)
        self._credentials = credentials
        self._limits = limits or Limits()
        self._user_agent = user_agent or "grove-admission"
        self._opened: aiohttp.ClientSession | None = None
        self._turns: TokenBucket | None = None

    def sibling(self, limits: Limits) -> "HttpClient":
        """Another client of the same cluster, with the same discovery and counters but limits and connections of its
        own: what it does doesn't hold this one up. To be closed for itself."""
        sibling = HttpClient(self._credentials, (), limits, user_agent=self._user_agent)
        sibling.discovery, sibling.calls = self.discovery, self.calls
        return sibling

    def gauges(self) -> Iterator[Gauge]:
        for (verb, resource, code), count in self.calls.items():
            labels = {"verb": verb, "resource": resource, "code": code}
            yield "api_requests_total", "Calls of the API server.", labels, count

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    async def read(self, path: str) -> Object:
        """Any path of the API server as JSON; for discovery and /version."""
        return await self._call(_Request("get", "", "GET", path))

    # The Protocol.

    def served_version(self, resource: Resource) -> str | None:
        return self.discovery.served_version(resource)

    async def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        version: str | None = None,
        metadata_only: bool = False,
    ) -> Object:
        path = self._path(resource, namespace, name, version=version)
        accept = _METADATA if metadata_only else _JSON
        return await self._call(_Request("get", str(resource), "GET", path, accept=accept))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
        metadata_only: bool = False,
    ) -> Page:
        params = _selectors(label_selector, field_selector)
        params |= {"limit": str(limit)} if limit else {}
        params |= {"continue": continue_token} if continue_token else {}
        accept = _METADATA_LIST if metadata_only else _JSON
        path = self._path(resource, namespace)
        answer = await self._call(_Request("list", str(resource), "GET", path, params, accept))
        return _page(answer)

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        timeout_seconds: int = 270,
    ) -> AsyncGenerator[WatchEvent, None]:
        params = _selectors(label_selector, field_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds),
        }
        accept = _METADATA if metadata_only else _JSON
        request = _Request("watch", str(resource), "GET", self._path(resource, namespace), params, accept)
        fences = aiohttp.ClientTimeout(
            total=None, sock_connect=self._limits.connect, sock_read=self._limits.watch_silence
        )
        async with _translated(self._credentials.host), self._send(request, fences) as response:
            if response.status != 200:
                raise error_from(response.status, response.headers, await response.read())
            async for line in lines_of(response.content.iter_any(), self._limits.longest_event):
                event = _watch_event(line)
                if event is not None:
                    yield event

    async def create(
        self, resource: Resource, obj: Object, namespace: str | None = None, *, dry_run: bool = False
    ) -> Object:
        path, params = self._path(resource, namespace), _write_params(dry_run)
        body = {"apiVersion": resource.api_version(self._version(resource)), "kind": resource.kind, **obj}
        return await self._call(_Request("create", str(resource), "POST", path, params, body=body))

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str | None = None,
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        path = self._path(resource, namespace, name, subresource=subresource)
        params, content_type = _write_params(dry_run), _PATCH_TYPES[kind]
        request = _Request("patch", str(resource), "PATCH", path, params, body=patch, content_type=content_type)
        return await self._call(request)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        given = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {field: value for field, value in given.items() if value}
        body: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        body |= {"preconditions": preconditions} if preconditions else {}
        path = self._path(resource, namespace, name)
        await self._call(_Request("delete", str(resource), "DELETE", path, body=body))

    # Paths.

    def _version(self, resource: Resource) -> str:
        version = self.served_version(resource)
        if version is None:
            raise NotServed(f"the cluster doesn't serve {resource}", code=404, reason="NotFound")
        return version

    def _path(
        self,
        resource: Resource,
        namespace: str | None,
        name: str = "",
        *,
        subresource: str = "",
        version: str | None = None,
    ) -> str:
        api_version = resource.api_version(version or self._version(resource))
        parts = ["apis" if resource.group else "api", api_version]
        parts += ["namespaces", quote(namespace, safe="")] if namespace else []
        parts += [resource.plural]
        parts += [quote(part, safe=":") for part in (name, subresource) if part]
        return "/" + "/".join(parts)

    # Calls.

    async def _call(self, request: _Request) -> Object:
        """One answered call. Reads are tried again once when the cluster is unavailable; writes only when the API
        server has said that it did not take them (429) and when to come back."""
        try:
            async with asyncio.timeout(self._limits.total):
                return await self._tries(request)
        except TimeoutError:
            self._count(request, "error")
            text = f"{request.verb} {request.path}: no answer within {self._limits.total:g} s"
            raise Unavailable(text, reason="Timeout") from None

    async def _tries(self, request: _Request) -> Object:
        tries_left = self._limits.reads if request.method == "GET" else 2
        while True:
            tries_left -= 1
            try:
                return await self._try(request)
            except Unavailable as error:
                refused = error.code == 429 and error.retry_after is not None
                if tries_left <= 0 or not (refused or request.method == "GET"):
                    raise
                pause = self._limits.pause if error.retry_after is None else error.retry_after
                if pause >= self._limits.total:
                    raise
            await asyncio.sleep(pause)

    async def _try(self, request: _Request) -> Object:
        if request.resource not in _UNLIMITED:
            await self._turn()
        fences = aiohttp.ClientTimeout(total=self._limits.total, sock_connect=self._limits.connect)
        async with _translated(self._credentials.host), self._send(request, fences) as response:
            body = await response.read()
            if response.status >= 300:
                raise error_from(response.status, response.headers, body)
            return _decoded(body)

    @asynccontextmanager
    async def _send(
        self, request: _Request, fences: aiohttp.ClientTimeout
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        """The response, once its headers are in. After a 401 credentials are renewed and the request sent again: one
        that wasn't authenticated has had no effect."""
        response = await self._answer(request, fences)
        if response.status == 401:
            response.release()
            await self._credentials.renew()
            response = await self._answer(request, fences)
        async with response:
            yield response

    async def _answer(self, request: _Request, fences: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        headers = {"Accept": request.accept, "User-Agent": self._user_agent}
        if (authorization := await self._credentials.authorization()) is not None:
            headers["Authorization"] = authorization
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        try:
            async with asyncio.timeout(self._limits.total):
                response = await self._session().request(
                    request.method,
                    URL(self._credentials.host + request.path, encoded=True).update_query(request.params),
                    headers=headers,
                    data=None if request.body is None else orjson.dumps(request.body),
                    timeout=fences,
                    proxy=self._credentials.proxy,
                    server_hostname=self._credentials.server_hostname,
                    allow_redirects=False,
                )
        except Exception:
            self._count(request, "error")
            raise
        self._count(request, str(response.status))
        return response

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            context = self._credentials.ssl_context()
            connector = aiohttp.TCPConnector(limit=self._limits.connections, ssl=True if context is None else context)
            self._opened = aiohttp.ClientSession(connector=connector, trust_env=True)
        return self._opened

    async def _turn(self) -> None:
        if self._turns is None:
            clock = asyncio.get_running_loop().time
            self._turns = TokenBucket(self._limits.qps, self._limits.burst, clock=clock)
        await self._turns.take()

    def _count(self, request: _Request, code: str) -> None:
        key = (request.verb, request.resource, code)
        self.calls[key] = self.calls.get(key, 0) + 1


@asynccontextmanager
async def _translated(host: str) -> AsyncGenerator[None, None]:
    """Connection errors as Unavailable, which names the server; ClusterErrors pass."""
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        why = getattr(error.certificate_error, "verify_message", "") or error.certificate_error
        raise Unavailable(f"{host}: its certificate is not trusted: {why}", reason="TLS") from error
    except aiohttp.ClientSSLError as error:
        raise Unavailable(f"{host}: TLS: {_plainly(error)}", reason="TLS") from error
    except TimeoutError as error:
        raise Unavailable(f"{host} didn't answer in time", reason="Timeout") from error
    except (aiohttp.ClientError, OSError, LineTooLong) as error:
        raise Unavailable(f"{host}: {_plainly(error)}", reason="Connection") from error


def _plainly(error: Exception) -> str:
    """An error of the network in words: "Connection refused", not how a library shows it."""
    inner = getattr(error, "os_error", error)
    if isinstance(inner, ssl.SSLError):
        return str(inner.reason or inner).replace("_", " ").lower()
    if isinstance(inner, OSError) and inner.errno is not None:
        return os.strerror(inner.errno) if inner.errno > 0 else inner.strerror or str(inner)
    return str(error) or type(error).__name__


def _selectors(labels: str, fields: str) -> Params:
    given = {"labelSelector": labels, "fieldSelector": fields}
    return {name: text for name, text in given.items() if text}


def _write_params(dry_run: bool) -> Params:
    return {"fieldManager": "grove-admission"} | ({"dryRun": "All"} if dry_run else {})


def _decoded(body: bytes) -> Object:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Unavailable(f"the API server's answer is not JSON: {error}", reason="Decode") from error
    if not isinstance(answer, dict):
        raise Unavailable("the API server's answer is not an object", reason="Decode")
    return answer


def _page(answer: Object) -> Page:
    """List items lack apiVersion and kind; they are those of the list."""
    metadata: Mapping[str, Any] = answer.get("metadata") or {}
    items = answer.get("items") or []
    api_version, kind = answer.get("apiVersion", ""), str(answer.get("kind", "")).removesuffix("List")
    for item in items:
        item.setdefault("apiVersion", api_version)
        item.setdefault("kind", kind)
    version, token = str(metadata.get("resourceVersion", "")), metadata.get("continue") or ""
    return Page(items, version, token, metadata.get("remainingItemCount"))


def _watch_event(line: bytes) -> WatchEvent | None:
    """One line as an event; None for a type that doesn't exist yet. Raises what an ERROR line says."""
    decoded = _decoded(line)
    kind, obj = decoded.get("type"), decoded.get("object")
    if not isinstance(obj, dict):
        raise Unavailable(f"a watch event without an object: {line[:200]!r}", reason="Decode")
    if kind == "ERROR":
        raise error_from_status(obj)
    return WatchEvent(kind, obj) if kind in _EVENT_TYPES else None
