"""HttpClient against a small local server: what it sends, how it translates errors, that it never
waits for ever.

Tests `app/kube/api.py`.
"""

import asyncio
import contextlib
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from app.base.sample import counter
from app.base.trace import IS_STRANGE, TRACEPARENT
from app.facts.kinds import ALL, COMPUTE_DOMAIN
from app.kube.api import (
    ClusterError,
    Conflict,
    Gone,
    NotFound,
    NotServed,
    Object,
    ObjectRef,
    Rejected,
    Selection,
    Unavailable,
    WatchEvent,
)
from app.kube.client import HttpClient
from app.kube.impersonation import Headers
from app.kube.transport import STRANGE_CALLS, ApiRequest, CallLimits
from app.objects.resource import LEASE, NODE, POD, SECRET
from tests.kube.credentials import PlainCredentials

QUICK = CallLimits(connect=20.0, total=20.0, pause=0.01)
SILENT_SECONDS = 30.0
"""How long a server says nothing, which no client here waits for."""

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass
class Seen:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Server:
    """A server that answers everything with `handler` and remembers what it was asked."""

    handler: Handler
    url: str = ""
    seen: list[Seen] = field(default_factory=list)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        decoded = msgspec.json.decode(body) if body else None
        self.seen.append(
            Seen(request.method, request.path, dict(request.query), dict(request.headers), decoded)
        )
        return await self.handler(request)


@asynccontextmanager
async def serving(handler: Handler) -> AsyncGenerator[Server, None]:
    server = Server(handler)
    runner = web.ServerRunner(web.Server(server), shutdown_timeout=0.05)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def client_of(
    handler: Handler, limits: CallLimits = QUICK
) -> AsyncGenerator[tuple[HttpClient, Server], None]:
    async with (
        serving(handler) as server,
        HttpClient(PlainCredentials(server.url, "secret-token"), ALL, limits) as client,
    ):
        yield client, server


def answering(*answers: tuple[Any, ...]) -> Handler:
    """The given answers in turn, the last one for ever: status, body (JSON unless bytes) and
    headers.
    """
    left = list(answers)

    async def handler(_request: web.BaseRequest) -> web.StreamResponse:
        answer = left.pop(0) if len(left) > 1 else left[0]
        code, body, *headers = answer
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return web.Response(status=code, body=data, headers=headers[0] if headers else None)

    return handler


def status(code: int, reason: str, message: str = "no", **details: Any) -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


def streaming(*chunks: bytes, then: float = 0.0) -> Handler:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        await asyncio.sleep(then)
        return response

    return handler


def line(kind: str, obj: Object) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


async def watched(client: HttpClient) -> list[WatchEvent]:
    async with aclosing(client.watch(Selection(NODE), resource_version="5")) as stream:
        return [event async for event in stream]


# What is sent.


async def test_get() -> None:
    async with client_of(answering((200, {"kind": "Secret"}))) as (client, server):
        assert await client.get(ObjectRef(SECRET, "a b/c", "ns")) == {"kind": "Secret"}
        (seen,) = server.seen
        assert (seen.method, seen.path, seen.query) == (
            "GET",
            "/api/v1/namespaces/ns/secrets/a b/c",
            {},
        )
        assert seen.headers["Authorization"] == "Bearer secret-token"
        assert seen.headers["Accept"] == "application/json"


async def test_calls_for_a_verdict_carry_the_trace_of_its_request() -> None:
    async with client_of(answering((200, {"kind": "Secret"}))) as (client, server):
        await client.get(ObjectRef(SECRET, "a", "ns"))
        token = TRACEPARENT.set("00-trace")
        await client.get(ObjectRef(SECRET, "a", "ns"))
        TRACEPARENT.reset(token)
        assert [seen.headers.get("traceparent") for seen in server.seen] == [None, "00-trace"]


async def test_list_fills_in_what_items_lack() -> None:
    answer = {
        "kind": "NodeList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "7", "continue": "next"},
        "items": [{"metadata": {"name": "a"}}],
    }
    async with client_of(answering((200, answer))) as (client, server):
        page = await client.list(
            Selection(NODE, labels="a in (b,c)"), limit=2, continue_token="before/+="
        )
        whole = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
        assert list(page.items) == list(page.items[:]) == [page.items[0]] == [whole]
        assert page.length > 100
        assert (page.resource_version, page.continue_token) == ("7", "next")
        assert server.seen[0].query == {
            "labelSelector": "a in (b,c)",
            "limit": "2",
            "continue": "before/+=",
        }


@pytest.mark.parametrize(
    ("call", "accept"),
    [
        (
            lambda c: c.get(ObjectRef(NODE, "a"), metadata_only=True),
            "PartialObjectMetadata;g=meta.k8s.io;v=v1",
        ),
        (
            lambda c: c.list(Selection(NODE, metadata_only=True)),
            "PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        ),
    ],
    ids=["get", "list"],
)
async def test_metadata_only(call: Callable[[HttpClient], Awaitable[object]], accept: str) -> None:
    async with client_of(answering((200, {}))) as (client, server):
        await call(client)
        assert server.seen[0].headers["Accept"] == f"application/json;as={accept}"


async def test_a_dry_run_creates_nothing() -> None:
    async with client_of(answering((201, {}))) as (client, server):
        await client.try_create(NODE, {"metadata": {"name": "a"}})
        (request,) = server.seen
    assert (request.method, request.path) == ("POST", "/api/v1/nodes")
    assert request.query == {"fieldManager": "grove-admission", "dryRun": "All"}
    assert request.body == {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}


async def test_writes() -> None:
    async with client_of(answering((200, {}))) as (client, server):
        await client.create(SECRET, {"metadata": {"name": "a"}}, "ns")
        await client.patch(ObjectRef(NODE, "n"), {"status": {}}, subresource="status")
        await client.patch(ObjectRef(NODE, "n"), [{"op": "remove", "path": "/a"}])
        await client.delete(ObjectRef(SECRET, "a", "ns"), uid="u", resource_version="3")
        create, merge, json, delete = server.seen
    assert (create.method, create.path) == ("POST", "/api/v1/namespaces/ns/secrets")
    assert create.query == {"fieldManager": "grove-admission"}
    assert create.body == {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}
    assert (merge.method, merge.path, merge.body) == (
        "PATCH",
        "/api/v1/nodes/n/status",
        {"status": {}},
    )
    assert merge.headers["Content-Type"] == "application/merge-patch+json"
    assert (json.path, json.body) == ("/api/v1/nodes/n", [{"op": "remove", "path": "/a"}])
    assert json.headers["Content-Type"] == "application/json-patch+json"
    assert (delete.method, delete.path) == ("DELETE", "/api/v1/namespaces/ns/secrets/a")
    assert delete.body["preconditions"] == {"uid": "u", "resourceVersion": "3"}
    assert delete.body["propagationPolicy"] == "Background"


# What comes back.


@pytest.mark.parametrize(
    ("code", "body", "kind", "reason"),
    [
        (400, status(400, "BadRequest"), Rejected, "BadRequest"),
        (403, status(403, "Forbidden"), Rejected, "Forbidden"),
        (404, status(404, "NotFound", name="a"), NotFound, "NotFound"),
        (404, b"404 page not found\n", NotServed, ""),
        (405, status(405, "MethodNotAllowed"), Rejected, "MethodNotAllowed"),
        (409, status(409, "AlreadyExists"), Conflict, "AlreadyExists"),
        (409, status(409, "Conflict"), Conflict, "Conflict"),
        (410, status(410, "Expired"), Gone, "Expired"),
        (413, b"too large", Rejected, ""),
        (422, status(422, "Invalid"), Rejected, "Invalid"),
        (429, status(429, "TooManyRequests"), Unavailable, "TooManyRequests"),
        (500, status(500, "InternalError"), Unavailable, "InternalError"),
        (502, b"<html>a proxy</html>", Unavailable, ""),
        (504, status(504, "Timeout"), Unavailable, "Timeout"),
        (302, b"", Rejected, ""),
    ],
)
async def test_errors_are_translated(
    code: int, body: Any, kind: type[ClusterError], reason: str
) -> None:
    async with client_of(answering((code, body))) as (client, _):
        with pytest.raises(ClusterError) as raised:
            await client.patch(ObjectRef(NODE, "a"), {})
    assert (type(raised.value), raised.value.code, raised.value.reason) == (kind, code, reason)
    assert raised.value.message


@pytest.mark.parametrize(
    ("code", "body", "message"),
    [
        pytest.param(502, b" a proxy\n", "a proxy", id="its text is the message"),
        pytest.param(502, b"", "HTTP 502", id="without a text, the code is"),
        pytest.param(
            401,
            b"log in first",
            "the API server doesn't accept these credentials: log in first",
            id="of a proxy that wants credentials",
        ),
    ],
)
async def test_an_error_that_is_no_status(code: int, body: bytes, message: str) -> None:
    async with client_of(answering((code, body))) as (client, _):
        with pytest.raises(ClusterError) as raised:
            await client.patch(ObjectRef(NODE, "a"), {})
    assert raised.value.message == message


async def test_an_answer_that_is_not_json_is_unavailable() -> None:
    async with client_of(answering((200, b"<html>"))) as (client, _):
        with pytest.raises(Unavailable, match="not JSON"):
            await client.get(ObjectRef(NODE, "a"))


async def test_a_resource_that_discovery_did_not_find_is_not_asked_for() -> None:
    async with client_of(answering((200, {}))) as (client, server):
        with pytest.raises(NotServed):
            await client.list(Selection(COMPUTE_DOMAIN))
        assert server.seen == []


BUSY = (429, status(429, "TooManyRequests", retryAfterSeconds=0.02))
DOWN = (503, status(503, "ServiceUnavailable"))
FINE = (200, {"kind": "Node"})


@pytest.mark.parametrize(
    ("verb", "answers", "tries", "works"),
    [
        pytest.param("get", [DOWN, FINE], 2, True, id="a read is tried twice"),
        pytest.param("get", [DOWN], 2, False, id="and not more often"),
        pytest.param(
            "get",
            [(404, status(404, "NotFound", name="a"))],
            1,
            False,
            id="a plain no is not asked again",
        ),
        pytest.param("patch", [DOWN, FINE], 1, False, id="a write may have had an effect"),
        pytest.param("patch", [BUSY, FINE], 2, True, id="a write that was turned away goes again"),
        pytest.param("patch", [BUSY], 2, False, id="once"),
        pytest.param(
            "patch",
            [(429, b"busy", {"Retry-After": "0.01"}), FINE],
            2,
            True,
            id="by the header too",
        ),
        pytest.param("patch", [(429, b"busy"), FINE], 1, False, id="only if it is told when"),
        pytest.param(
            "patch", [(429, b"busy", {"Retry-After": "60"}), FINE], 1, False, id="and that is soon"
        ),
        pytest.param(
            "patch", [(429, b"busy", {"Retry-After": "nan"}), FINE], 1, False, id="not a number"
        ),
    ],
)
async def test_retries(verb: str, answers: list[Any], tries: int, works: bool) -> None:
    async with client_of(answering(*answers)) as (client, server):
        call = (
            client.get(ObjectRef(NODE, "a"))
            if verb == "get"
            else client.patch(ObjectRef(NODE, "a"), {})
        )
        if works:
            assert await call == {"kind": "Node"}
        else:
            with pytest.raises(ClusterError):
                await call
        assert len(server.seen) == tries


async def test_calls_are_counted() -> None:
    async with client_of(answering(DOWN, FINE)) as (client, _):
        await client.get(ObjectRef(NODE, "a"))
        assert client.calls == {("get", "nodes", "503"): 1, ("get", "nodes", "200"): 1}


async def test_a_connection_that_is_refused_is_unavailable() -> None:
    async with HttpClient(PlainCredentials("http://127.0.0.1:1"), ALL, QUICK) as client:
        with pytest.raises(Unavailable) as raised:
            await client.patch(ObjectRef(NODE, "a"), {})
        assert client.calls == {("patch", "nodes", "error"): 1}
    assert (raised.value.code, raised.value.reason) == (0, "Connection")


async def test_a_server_that_never_answers_costs_no_more_than_the_limit() -> None:
    async def silent(_request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(SILENT_SECONDS)
        return web.Response()

    async with client_of(silent, CallLimits(total=0.2)) as (client, server):
        begun = time.monotonic()
        with pytest.raises(Unavailable) as raised:
            await client.get(ObjectRef(NODE, "a"))
        assert raised.value.reason == "Timeout"
        assert time.monotonic() - begun < SILENT_SECONDS
        assert len(server.seen) <= 1


async def test_credentials_are_renewed_after_a_401() -> None:
    @dataclass
    class Rotating:
        host: str
        token: str = "old"
        proxy: str | None = None
        server_hostname: str | None = None
        impersonation: Headers = ()

        def ssl_context(self) -> ssl.SSLContext | None:
            return None

        def files(self) -> tuple[str, ...]:
            return ()

        async def authorization(self) -> str | None:
            return f"Bearer {self.token}"

        async def renew(self) -> None:
            self.token = "new"

    async def only_new(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(
            {}, status=200 if request.headers["Authorization"] == "Bearer new" else 401
        )

    async with serving(only_new) as server, HttpClient(Rotating(server.url), ALL, QUICK) as client:
        await client.create(SECRET, {"metadata": {"name": "a"}}, "ns")
        assert [seen.headers["Authorization"] for seen in server.seen] == [
            "Bearer old",
            "Bearer new",
        ]


@pytest.mark.parametrize(
    ("host", "no_proxy", "is_asked"),
    [
        pytest.param("192.0.2.1", "", True, id="a proxy"),
        pytest.param("0.0.0.0", "0.0.0.0", False, id="not for this host"),
        pytest.param("0.0.0.0", "a.example, 0.0.0.0/8", False, id="not for this network"),
        pytest.param("192.0.2.1", "192.0.3.0/24,::/0", True, id="for another network"),
        pytest.param("api.example", "192.0.2.0/24", True, id="for a name"),
        pytest.param("127.0.0.9", "", False, id="not for this machine"),
        pytest.param("localhost", "", False, id="not for its name"),
        pytest.param("[::1]", "", False, id="not for its address of IPv6"),
    ],
)
async def test_the_proxy_of_the_environment_is_used_as_by_kubectl(
    host: str, no_proxy: str, is_asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls: list[str] = []

    async def proxy(request: web.BaseRequest) -> web.StreamResponse:
        urls.append(str(request.url))
        return web.json_response({"metadata": {"name": "a"}})

    async with serving(proxy) as server:
        monkeypatch.setenv("http_proxy", server.url.removeprefix("http://"))
        monkeypatch.setenv("no_proxy", no_proxy)
        async with HttpClient(PlainCredentials(f"http://{host}:1", "token"), ALL, QUICK) as client:
            with contextlib.nullcontext() if is_asked else pytest.raises(Unavailable):
                assert await client.get(ObjectRef(NODE, "a")) == {"metadata": {"name": "a"}}
    assert urls == ([f"http://{host}:1/api/v1/nodes/a"] if is_asked else [])


async def test_an_error_names_the_proxy_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=407, reason="Proxy Authentication Required")

    for url, reason in (("http://127.0.0.1:9", "Connection refused"), ("", "407 Proxy Auth")):
        async with serving(refuse) as server:
            proxy = url or server.url
            monkeypatch.setenv("https_proxy", proxy.replace("//", "//bob:secret@"))
            credentials = PlainCredentials("https://192.0.2.1:1", "token")
            async with HttpClient(credentials, ALL, QUICK) as client:
                with pytest.raises(Unavailable) as raised:
                    await client.get(ObjectRef(NODE, "a"))
        assert f"https://192.0.2.1:1 through the proxy {proxy}: {reason}" in raised.value.message
        assert "secret" not in raised.value.message


async def test_an_address_without_a_host_is_an_error_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A kubeconfig may have any text as its server."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "a.example")
    async with HttpClient(PlainCredentials("nonsense", "token"), ALL, QUICK) as client:
        with pytest.raises(Unavailable, match="nonsense"):
            await client.get(ObjectRef(NODE, "a"))


async def test_credentials_in_netrc_are_not_for_an_api_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password secret")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    async with client_of(answering((200, {"metadata": {"name": "a"}}))) as (client, server):
        assert await client.get(ObjectRef(NODE, "a")) == {"metadata": {"name": "a"}}
        assert server.seen[0].headers["Authorization"] == "Bearer secret-token"


# Watches.


async def test_a_watch_asks_for_bookmarks_and_an_end() -> None:
    bookmark = {"kind": "Node", "metadata": {"resourceVersion": "9"}}
    chunks = (
        line("ADDED", {"metadata": {"name": "a"}})
        + line("BOOKMARK", bookmark)
        + line("NEW-KIND", {})
    )
    async with client_of(streaming(chunks)) as (client, server):
        events = await watched(client)
        assert [(event.type, event.object) for event in events] == [
            ("ADDED", {"metadata": {"name": "a"}}),
            ("BOOKMARK", bookmark),
        ]
        assert server.seen[0].query == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": "5",
            "timeoutSeconds": "270",
        }


async def test_a_watch_event_of_a_megabyte_in_small_pieces() -> None:
    text = line("ADDED", {"metadata": {"name": "big"}, "data": "x" * 2**20})
    pieces = [text[start : start + 50_000] for start in range(0, len(text), 50_000)]
    async with client_of(streaming(*pieces)) as (client, _):
        (event,) = await watched(client)
        assert len(event.object["data"]) == 2**20


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        pytest.param(line("ERROR", status(410, "Expired")), Gone, id="an expired version"),
        pytest.param(
            line("ERROR", status(500, "InternalError")), Unavailable, id="a server's error"
        ),
        pytest.param(line("ERROR", status(403, "Forbidden")), Rejected, id="a lost permission"),
        pytest.param(b'{"type": "ADDED", "obj', Unavailable, id="a line cut short"),
        pytest.param(b'{"type": "ADDED"}\n', Unavailable, id="an event without object"),
    ],
)
async def test_errors_in_a_watch(sent: bytes, kind: type[ClusterError]) -> None:
    async with client_of(streaming(sent)) as (client, _):
        with pytest.raises(kind):
            await watched(client)


async def test_a_watch_that_is_refused() -> None:
    async with client_of(answering((410, status(410, "Expired")))) as (client, _):
        with pytest.raises(Gone):
            await watched(client)


async def test_a_half_open_watch_ends() -> None:
    handler = streaming(line("ADDED", {}), then=SILENT_SECONDS)
    async with client_of(handler, CallLimits(watch_silence=0.3)) as (client, _):
        begun = time.monotonic()
        with pytest.raises(Unavailable):
            await watched(client)
        assert time.monotonic() - begun < SILENT_SECONDS


async def test_a_watch_may_be_left_at_any_event() -> None:
    async with client_of(streaming(line("ADDED", {}) * 3, then=30)) as (client, _):
        stream = client.watch(Selection(NODE), resource_version="5")
        assert (await anext(stream)).type == "ADDED"
        await stream.aclose()


async def test_leases_do_not_wait_their_turn() -> None:
    async with client_of(answering(FINE), CallLimits(qps=0.1, burst=1, total=5.0)) as (client, _):
        await client.get(ObjectRef(NODE, "a"))
        await client.get(ObjectRef(LEASE, "leader", "ns"))
        assert client.calls == {("get", "nodes", "200"): 1, ("get", str(LEASE), "200"): 1}


async def test_calls_for_strangers_leave_turns_and_connections_for_others() -> None:
    asked: list[str] = []
    begun = asyncio.Event()
    released = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path)
        if "stranger" in request.path:
            if len(asked) == STRANGE_CALLS:
                begun.set()
            await released.wait()
        return web.json_response({})

    async with (
        client_of(answer, CallLimits(total=240.0, qps=1000.0, burst=1, connections=50)) as (
            client,
            _,
        ),
        asyncio.TaskGroup() as tasks,
    ):
        token = IS_STRANGE.set(True)
        for number in range(10 * STRANGE_CALLS):
            tasks.create_task(client.get(ObjectRef(NODE, f"stranger-{number}")))
        IS_STRANGE.reset(token)
        await begun.wait()
        await client.get(ObjectRef(NODE, "known"))
        assert len(asked) <= STRANGE_CALLS + 1
        released.set()
    assert len(asked) == 10 * STRANGE_CALLS + 1


# Beside calls.


def test_a_server_in_a_pod_loads_no_kubernetes_models() -> None:
    code = "import sys, app.commands.serve; sys.exit('kubernetes_asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_discovery_reads_through_the_client() -> None:
    async def documents(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/apis":
            return web.json_response({"kind": "APIGroupList", "groups": []})
        return web.json_response({"kind": "APIResourceList", "resources": [{"name": "nodes"}]})

    async with client_of(documents) as (client, _):
        await client.discovery.refresh()
        assert (client.served_version(NODE), client.served_version(POD)) == ("v1", None)


async def test_calls_and_the_last_answer_are_metrics() -> None:
    async with client_of(answering((200, {}))) as (client, _):
        await client.get(ObjectRef(NODE, "a"))
        await client.get(ObjectRef(NODE, "b"))
        with pytest.raises(NotServed):
            await client.list(Selection(COMPUTE_DOMAIN))
        age, *calls = client.samples()
        checks = client.checks()
    assert (age.name, age.labels) == ("api_answer_age_seconds", {})
    labels = {"verb": "get", "resource": "nodes", "code": "200"}
    assert calls == [counter("api_requests_total", "Calls to the API server.", 2, **labels)]
    assert checks == {"api-server": None}


async def test_a_call_without_an_answer_is_counted_as_an_error() -> None:
    async def silent(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(SILENT_SECONDS)
        return web.Response()

    limits = CallLimits(connect=20.0, total=0.05, pause=0.01)
    async with client_of(silent, limits) as (client, _):
        with pytest.raises(Unavailable) as raised:
            await client.get(ObjectRef(NODE, "a"))
        assert client.calls.keys() == {("get", "nodes", "error")}
    assert raised.value.message.endswith((" did not answer in time", "no answer within 0.05 s"))
    assert raised.value.reason == "Timeout"


async def test_calls_wait_under_their_namespace() -> None:
    """Namespaces take turns (`app/kube/transport.py`)."""
    asked: list[tuple[str, str]] = []

    async def recorded(request: ApiRequest) -> Any:
        asked.append((request.verb, request.namespace))
        return {"metadata": {}, "items": []}

    async with client_of(answering((200, {}))) as (client, _):
        client.call = recorded
        await client.get(ObjectRef(POD, "a", "ns"))
        await client.list(Selection(POD, "ns"))
        await client.list(Selection(POD))
        await client.create(SECRET, {}, "ns")
        await client.patch(ObjectRef(POD, "a", "ns"), {})
        await client.delete(ObjectRef(POD, "a", "ns"))
        await client.delete(ObjectRef(NODE, "a"))
    assert asked == [
        ("get", "ns"),
        ("list", "ns"),
        ("list", ""),
        ("create", "ns"),
        ("patch", "ns"),
        ("delete", "ns"),
        ("delete", ""),
    ]
