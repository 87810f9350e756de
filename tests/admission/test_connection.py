"""A connection: where requests begin and end, however they are cut into pieces, and what it hands
over.

Tests `app/admission/body.py`, `app/admission/head.py` and `app/admission/serving.py`.
"""

import asyncio
import contextlib
import itertools
import json
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from app.admission import review_queue
from app.admission.connection import MAX_HEAD, Connection
from app.admission.decide import Route
from app.admission.exchange import MAX_BODY, Exchange
from app.admission.head import Head, NotHttp, read_head
from app.admission.review import Request
from app.admission.serving import ConnectionLimits, Serving
from app.admission.verdict import ALLOWED, Later, Verdict, not_allowed
from app.objects.tokens import HIDDEN
from tests.admission.ways import connecting, healthy
from tests.effort import tries
from tests.reviews import JSON_HEADERS, OverAsgi, Seen, load


@pytest.fixture(autouse=True, scope="module")
def turns_have_time() -> Iterator[None]:
    """A busy machine leaves nothing of a turn for the next one: test_review_queue has that limit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(review_queue, "TURN_SECONDS", 60.0)
        yield


PATH = "/validate/podgroup"
SLOW = "/validate/slow"
HEAD = (
    b"POST /validate/podgroup?timeout=5s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
)
GET = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


def review(uid: str, **changes: Any) -> bytes:
    loaded = load("podgroup.valid")
    loaded["request"] |= {"uid": uid, **changes}
    return json.dumps(loaded, separators=(",", ":")).encode()


def post(body: bytes, path: str = PATH, headers: bytes = b"", version: bytes = b"1.1") -> bytes:
    head = HEAD.replace(PATH.encode(), path.encode()).replace(b"1.1", version)
    return b"%b%bcontent-length: %d\r\n\r\n%b" % (head, headers, len(body), body)


CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"


def judge(request: Request) -> Verdict:
    return not_allowed("no") if request.name == "refused" else ALLOWED


class Server:
    """An app with two admission paths: PATH answers at once, SLOW waits for `release`."""

    def __init__(self, *, only_known: bool = False, seen: Seen | None = None) -> None:
        self.seen = seen or Seen()
        self.release = asyncio.Event()
        routes = {PATH: self.route(PATH, judge), SLOW: self.route(SLOW, self.later)}
        self.app = OverAsgi(Exchange(routes, self.seen, only_known=only_known))

    def route(self, path: str, handler: Any) -> Route:
        return Route(
            path, "scheduling.run.ai", "PodGroup", "podgroups", "", frozenset({"CREATE"}), handler
        )

    def later(self, _: Request) -> Later:
        async def make() -> Verdict:
            await self.release.wait()
            return ALLOWED

        return Later(make)


Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def opened(server: Server) -> AsyncIterator[Opened]:
    async with connecting(server.app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(240):
            yield reader, writer
        writer.close()


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes, Any]:
    """Status, head and, read from JSON, body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
    )
    return (
        int(head.split()[1]),
        head,
        json.loads(await reader.readexactly(int(length.split(b":")[1]))),
    )


def uid_of(answered: tuple[int, bytes, Any]) -> str:
    uid: str = answered[2]["response"]["uid"]
    return uid


REQUESTS: list[Any] = [
    pytest.param(post(review("u")), "", id="as API servers send it"),
    pytest.param(b"\r\n" + post(review("u")), "", id="behind an empty line"),
    pytest.param(
        post(review("u"), headers=b"connection: close\r\n"),
        "close",
        id="the last one of the client",
    ),
    pytest.param(
        post(review("u"), headers=b"expect: 100-continue\r\n"),
        "",
        id="expects what has come already",
    ),
    pytest.param(
        post(review("u"), headers=b"connection: upgrade\r\nupgrade: h2c\r\n"),
        "",
        id="asks for an upgrade",
    ),
    pytest.param(post(review("u"), version=b"1.0"), "close", id="HTTP/1.0"),
    pytest.param(
        post(review("u"), headers=b"connection: keep-alive\r\n", version=b"1.0"),
        "close",
        id="1.0, kept",
    ),
    pytest.param(
        post(review("u"), headers=b"proxy-connection: keep-alive\r\n", version=b"1.0"),
        "close",
        id="1.0, kept by a proxy",
    ),
    pytest.param(post(review("u"), path="http://host" + PATH), "", id="an absolute target"),
]


@pytest.mark.parametrize(("sent", "end"), REQUESTS)
async def test_a_request_gets_its_verdict(sent: bytes, end: str) -> None:
    server = Server()
    async with opened(server) as (reader, writer):
        writer.write(sent)
        status, head, body = await answer(reader)
        assert (status, body["response"]) == (200, {"uid": "u", "allowed": True})
        assert head.partition(b"connection: ")[2][:5].decode() == end
        if end:
            assert await reader.read() == b""
        else:
            writer.write(post(review("next")))
            assert uid_of(await answer(reader)) == "next"
    assert server.seen.verdicts[0] == (PATH, "u", ALLOWED)


async def test_a_client_that_expects_it_is_asked_to_go_on() -> None:
    async with opened(Server()) as (reader, writer):
        sent = post(review("u"), headers=b"Expect: 100-Continue\r\n")
        begin, _, body = sent.partition(b"\r\n\r\n")
        writer.write(begin + b"\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert uid_of(await answer(reader)) == "u"


async def closed_after(sent: bytes, server: Server) -> tuple[int, str]:
    """The status and the content type of the last answer of a connection."""
    async with opened(server) as (reader, writer):
        writer.write(sent)
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    lines = dict(line.split(b": ") for line in head.split(b"\r\n")[1:])
    assert lines[b"connection"] == b"close"
    assert int(lines[b"content-length"]) == len(body) or sent.startswith(b"HEAD")
    return int(head.split()[1]), lines[b"content-type"].decode()


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
async def test_probes_are_answered_and_end_their_connection(method: bytes) -> None:
    sent = GET.replace(b"GET", method)
    assert await closed_after(sent + post(review("u")), Server()) == (200, "text/plain")


OTHERS = {
    "a query of a probe": GET.replace(b"healthz", b"healthz?a&a"),
    "the tools": GET.replace(b"healthz", b"metrics"),
    "a review to another path": post(review("u"), path="/validate/podgroups"),
    "an encoded path of a webhook": post(review("u"), path="/validate%2fpodgroup"),
    "an encoded probe": GET.replace(b"healthz", b"health%7a"),
    "a webhook, but not by POST": GET.replace(b"/healthz", PATH.encode()),
    "a probe, but not by GET": post(b"{}", path="/healthz"),
    "a body that never comes": post(b"x" * 9, path="/dry-run")[:-9],
    "a proxy": b"CONNECT a:1 HTTP/1.1\r\nhost: x\r\n\r\n",
    "HEAD of nothing": b"HEAD / HTTP/1.1\r\nhost: x\r\n\r\n",
}


@pytest.mark.parametrize("sent", OTHERS.values(), ids=OTHERS)
async def test_everything_else_is_not_found_on_this_port(sent: bytes) -> None:
    server = Server()
    assert await closed_after(sent, server) == (404, "application/json")
    assert server.seen.verdicts == []


NEEDS_A_TOKEN = {
    "a whole review": post(review("u")),
    "its head": post(review("u")).partition(b"{")[0],
    "a token that is not valid": post(review("u"), path=f"/{HIDDEN}{PATH}"),
    "a length that is too large": HEAD + b"content-length: 99999999\r\n\r\n",
}


@pytest.mark.parametrize("sent", NEEDS_A_TOKEN.values(), ids=NEEDS_A_TOKEN)
async def test_where_paths_have_tokens_one_without_is_refused_by_its_head(sent: bytes) -> None:
    server = Server()
    exchange = server.app.exchange
    exchange.needs_token = lambda: True
    exchange.routes["/token" + PATH] = replace(exchange.routes[PATH], trusted=True)
    assert (await closed_after(sent, server))[0] == 401
    assert (server.seen.verdicts, exchange.refused) == ([], 1)
    async with opened(server) as (reader, writer):
        writer.write(post(review("u"), path="/token" + PATH))
        assert uid_of(await answer(reader)) == "u"


async def test_a_head_is_not_kept_while_its_body_arrives() -> None:
    delivery = Pieces(Server())
    wide = b"".join(b"a%d: %b\r\n" % (number, b"x" * 150) for number in range(90))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        delivery.connection.data_received(HEAD + wide + b"content-length: 9\r\n\r\n")
        assert tracemalloc.get_traced_memory()[0] - before < 4096
    finally:
        tracemalloc.stop()
    delivery.lose()


@pytest.mark.parametrize(("version", "expects"), [(b"1.1", True), (b"1.0", False)])
def test_only_http_1_1_knows_what_a_client_expects(version: bytes, expects: bool) -> None:
    sent = post(review("u"), headers=b"expect: 100-continue\r\n", version=version)
    begin, end, _ = sent.partition(b"\r\n\r\n")
    assert Head(begin + end).expects_continue is expects


def test_short_heads_are_kept() -> None:
    def head(path: str, padding: int) -> bytes:
        return b"POST %b HTTP/1.1\r\nhost: a\r\nx: %b\r\n\r\n" % (path.encode(), b"x" * padding)

    assert read_head(head("/a", 0)) is read_head(head("/a", 0))
    assert read_head(head("/b", 0)).path == "/b"
    # strangers choose what they send: long ones would take memory
    assert read_head(head("/a", 2000)) is not read_head(head("/a", 2000))
    for _ in range(2):
        with pytest.raises(NotHttp):
            read_head(b"POST /a HTTP/1.1\r\n\r\n")


NO_HTTP: list[Any] = [
    pytest.param(b"hello there\r\n\r\n", id="text"),
    pytest.param(HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}", id="two lengths"),
    pytest.param(
        HEAD + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}", id="length and chunked"
    ),
    pytest.param(
        HEAD + b"content-length: 99999999999999999999\r\n\r\n{}", id="a length that is none"
    ),
    pytest.param(
        b"CONNECT a:1 HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", id="for a proxy, chunked"
    ),
    pytest.param(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * MAX_HEAD, id="a head without end"),
    pytest.param(GET[:-2] + b"a: " + b"b" * MAX_HEAD + b"\r\n\r\n", id="a head that is too large"),
    pytest.param(GET[:-2] + b"a: b\r\n" * 100 + b"\r\n", id="too many lines"),
]


OTHER_HTTP: list[Any] = [
    pytest.param(b"GET / HTTP/1.1\r\n\r\n", 400, id="no Host"),
    pytest.param(b"GET / HTTP/1.1\r\nhost: x\r\nHost: x\r\n\r\n", 400, id="two Hosts"),
    pytest.param(post(b"{}", headers=b"host: y\r\n"), 400, id="two Hosts of a review"),
    pytest.param(b"GET / HTTP/1.0\r\nhost: x\r\nHost: x\r\n\r\n", 400, id="two Hosts, 1.0"),
    pytest.param(b"GET / HTTP/1.1\r\nhost:\r\n\r\n", 400, id="an empty Host"),
    pytest.param(b"GET / HTTP/1.1\r\nhost: a b\r\n\r\n", 400, id="a Host with a space"),
    pytest.param(b"GET / HTTP/1.1\r\nhost: a/b\r\n\r\n", 400, id="a Host with a path"),
    pytest.param(b"GET / HTTP/1.1\r\nhost: a@b\r\n\r\n", 400, id="a Host with a user"),
    pytest.param(b"GET / HTTP/1.1\r\nhost: a:b\r\n\r\n", 400, id="a port that is none"),
    pytest.param(b"GET / HTTP/1.1\r\nhost: a,b\r\n\r\n", 400, id="a list of Hosts"),
    pytest.param(b"GET / HTTP/1.1\r\nhost: " + b"a" * 1000 + b"\r\n\r\n", 400, id="a long Host"),
    pytest.param(b"GET / HTTP/2.0\r\nhost: x\r\n\r\n", 505, id="HTTP/2.0"),
    pytest.param(post(b"{}", version=b"2.0"), 505, id="a review in HTTP/2.0"),
    pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, id="the preface of HTTP/2"),
    pytest.param(b"GET / HTTP/3.0\r\nhost: x\r\n\r\n", 505, id="HTTP/3.0"),
    pytest.param(b"\r\nGET / HTTP/1.9\r\nhost: x\r\n\r\n", 505, id="HTTP/1.9"),
    pytest.param(b"GET / HTTP/0.9\r\nhost: x\r\n\r\n", 505, id="HTTP/0.9"),
    pytest.param(b"GET /\r\n\r\n", 505, id="no version"),
    pytest.param(CHUNKED, 411, id="chunked"),
    pytest.param(CHUNKED.replace(b"chunked", b"gzip"), 411, id="another coding"),
    pytest.param(CHUNKED.replace(b"chunked", b"gzip, chunked"), 411, id="two codings"),
    pytest.param(CHUNKED.replace(b"1.1", b"1.0"), 411, id="chunked, 1.0"),
    pytest.param(
        CHUNKED.replace(b"\r\n\r\n", b"\r\nexpect: 100-continue\r\n\r\n", 1),
        411,
        id="chunked, with an expectation",
    ),
    pytest.param(CHUNKED.replace(PATH.encode(), b"/other"), 411, id="chunked, elsewhere"),
]


@pytest.mark.parametrize(("sent", "code"), OTHER_HTTP)
async def test_what_this_server_does_not_speak_is_refused_with_the_reason(
    sent: bytes, code: int
) -> None:
    server = Server()
    async with opened(server) as (reader, writer):
        writer.write(sent)
        head, _, reason = (await reader.read()).partition(b"\r\n\r\n")
    assert (int(head.split()[1]), b"connection: close" in head) == (code, True)
    assert reason.endswith(b".")
    assert server.seen.verdicts == []


HOSTS = ["grove-admission.grove-system.svc:443", "10.0.0.1", "[fd00::1]:8443", "x_y", "a:"]


@pytest.mark.parametrize("host", HOSTS)
async def test_a_host_is_a_name_or_an_address_with_a_port(host: str) -> None:
    async with opened(Server()) as (reader, writer):
        writer.write(post(review("u")).replace(b"host: x", b"host: " + host.encode()))
        assert uid_of(await answer(reader)) == "u"
        writer.write(GET.replace(b" x", b"   " + host.encode() + b" "))
        assert (await reader.readline()).endswith(b"200 OK\r\n")


UPGRADE = b"connection: keep-alive, upgrade\r\nUpgrade: websocket\r\n"


async def test_an_upgrade_is_ignored_and_the_body_read() -> None:
    async with opened(Server()) as (reader, writer):
        writer.write(post(review("u"), headers=UPGRADE))
        assert uid_of(await answer(reader)) == "u"


@pytest.mark.parametrize("sent", NO_HTTP)
async def test_what_is_no_http_is_refused_and_ends_the_connection(sent: bytes) -> None:
    server = Server()
    async with opened(server) as (reader, writer):
        writer.write(sent)
        assert (await reader.readuntil(b"\r\n")) == b"HTTP/1.1 400 Bad Request\r\n"
        with contextlib.suppress(ConnectionError):
            assert b"HTTP/1.1" not in await reader.read()
    assert server.seen.verdicts == []


LARGE = b'{"request":{"uid":"u","object":"' + b"x" * (3 * MAX_BODY)


def test_a_body_that_is_too_large_is_refused_before_all_of_it_is_held() -> None:
    async def sends() -> None:
        server = Server()
        delivery = Pieces(server)
        delivery.connection.data_received(b"%bcontent-length: %d\r\n\r\n" % (HEAD, len(LARGE)))
        most = 0
        for begin in range(0, len(LARGE), 2**18):
            delivery.connection.data_received(LARGE[begin : begin + 2**18])
            most = max(most, delivery.connection._holds)
        assert most <= MAX_BODY
        assert (delivery.wire.closed, delivery.connection._holds) == (True, 0)
        head, _, body = bytes(delivery.wire.written).partition(b"\r\n\r\n")
        assert b"connection: close" in head
        assert json.loads(body)["response"]["status"]["code"] == 413
        assert [(uid, verdict.code) for _, uid, verdict in server.seen.verdicts] == [("u", 413)]
        delivery.lose()

    asyncio.run(sends())


@pytest.mark.parametrize("sent", [post(review("u")), post(b"")], ids=["a review", "empty"])
async def test_an_unknown_caller_gets_no_verdict(sent: bytes) -> None:
    server = Server(only_known=True)
    assert await closed_after(sent, server) == (401, "application/json")
    assert server.seen.verdicts == []


class Wire(asyncio.Transport):
    """A transport that records what is done to it."""

    def __init__(self, **extra: Any) -> None:
        super().__init__(extra)
        self.written = bytearray()
        self.paused = self.closed = False
        self.lost = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.written += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True
        self.lost.set()

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Pieces:
    """What a connection answers, given the pieces in which a stream arrives."""

    def __init__(self, server: Server) -> None:
        self.wire = Wire()
        self.connection = Connection(Serving(server.app.exchange, healthy))
        self.connection.connection_made(self.wire)

    def answers(self) -> int:
        return self.wire.written.count(b"HTTP/1.1 200 OK")

    def is_paused(self) -> bool:
        return self.wire.paused

    def lose(self) -> None:
        self.connection.connection_lost(None)


STREAMS: dict[str, list[bytes]] = {
    "verdicts, then another request": [
        post(review("a")),
        b"\r\n" + post(b"{}"),
        post(review("b", name="refused"), headers=b"expect: 100-continue\r\n"),
        GET,
    ],
    "a body that is too large between two others": [
        post(review("a")),
        post(b'{"uid":"u"' + b" " * MAX_BODY),
        post(review("b")),
        post(review("c"), headers=b"connection: close\r\n"),
    ],
    "chunked": [post(review("a")), CHUNKED],
    "another request behind a verdict": [post(review("a")), post(b"a body", path="/other")],
    "no HTTP behind a verdict": [post(review("a")), b"\r\nnothing that is HTTP\r\n\r\n"],
}


@pytest.mark.untraced
@pytest.mark.parametrize("name", STREAMS)
@settings(max_examples=tries(30, 60), deadline=None)
@given(data=st.data())
def test_any_split_of_a_stream_gives_the_same_answers(name: str, data: st.DataObject) -> None:
    stream = b"".join(STREAMS[name])
    ends = st.integers(1, len(stream) - 1) | st.integers(1, min(len(stream), 20_000) - 1)
    cuts = data.draw(st.lists(ends, max_size=30, unique=True).map(sorted))
    turns = data.draw(st.sets(st.integers(0, len(cuts))))

    async def answered(pieces: list[bytes]) -> tuple[bytes, bool]:
        delivery = Pieces(Server())
        for number, piece in enumerate(pieces):
            delivery.connection.data_received(piece)
            if number in turns:
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        delivery.lose()
        return (
            bytes(delivery.wire.written).replace(b"HTTP/1.1 100 Continue\r\n\r\n", b""),
            delivery.wire.closed,
        )

    pieces = [stream[begin:end] for begin, end in zip([0, *cuts], [*cuts, None], strict=True)]
    whole = asyncio.run(answered([stream]))
    assert asyncio.run(answered(pieces)) == whole
    assert whole[1], "each of these streams ends its connection"


async def test_every_single_byte_may_come_alone() -> None:
    stream = post(review("a")) + post(review("b"))
    delivery = Pieces(Server())
    for number in range(len(stream)):
        delivery.connection.data_received(stream[number : number + 1])
    await asyncio.sleep(0)
    assert delivery.wire.written.endswith(b'{"uid":"b","allowed":true}}')
    delivery.lose()


async def test_what_is_pipelined_behind_a_verdict_that_waits_is_kept_and_pauses_reading() -> None:
    server = Server()
    delivery = Pieces(server)
    delivery.connection.data_received(post(review("slow"), path=SLOW))
    assert not delivery.is_paused()
    behind = post(review("next")) * 3
    delivery.connection.data_received(behind)
    assert (delivery.is_paused(), delivery.answers()) == (True, 0)
    assert delivery.connection._holds == len(behind) + len(review("slow"))
    server.release.set()
    async with asyncio.timeout(240):
        while delivery.answers() < 4:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
    assert (delivery.is_paused(), delivery.connection._holds) == (False, 0)
    delivery.lose()


async def test_no_request_is_read_while_answers_are_not() -> None:
    delivery = Pieces(Server())
    delivery.connection.pause_writing()
    delivery.connection.data_received(post(review("a")) + GET)
    assert (delivery.is_paused(), delivery.answers()) == (True, 0)
    delivery.connection.resume_writing()
    assert (delivery.is_paused(), delivery.answers()) == (False, 2)
    delivery.lose()


class Turn:
    """Connections of one listener, each with a whole request, and the order of what is done for
    them.
    """

    def __init__(self, uids: str, behind: bytes = b"") -> None:
        order: list[str] = []
        self.order = order

        class Ordered(Seen):
            def __call__(
                self, path: str, uid: str, request: Request | None, verdict: Verdict, seconds: float
            ) -> None:
                if uid == "fails":
                    raise RuntimeError("a bug")
                order.append(f"judged {uid}")

        class Recording(Wire):
            def write(self, data: bytes | bytearray | memoryview) -> None:
                super().write(data)
                order.append("answered")

        server = Server(seen=Ordered())
        routes = server.app.exchange.routes
        routes[PATH] = replace(routes[PATH], trusted=True)
        serving = Serving(server.app.exchange)
        self.wires = [Recording() for _ in uids.split()]
        self.connections = list[Connection]()
        for uid, wire in zip(uids.split(), self.wires, strict=True):
            self.connections.append(Connection(serving))
            self.connections[-1].connection_made(wire)
            self.connections[-1].data_received(post(review(uid)) + behind)
            order.append("read")

    def lose_all(self) -> None:
        for connection in self.connections:
            connection.connection_lost(None)


FIRST = ["judged first", "answered", "read"]


async def test_the_first_request_of_a_turn_is_judged_at_once_and_the_others_before_the_next_is_answered() -> (
    None
):
    turn = Turn("first a b")
    await asyncio.sleep(0)
    assert turn.order == [*FIRST, "read", "read", "judged a", "judged b", "answered", "answered"]
    turn.order.clear()
    turn.connections[2].data_received(post(review("first")))
    assert turn.order == ["judged first", "answered"]
    turn.lose_all()


async def test_what_is_pipelined_waits_for_a_turn_that_has_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = itertools.count(1, review_queue.TURN_SECONDS * 2)
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    turn = Turn("first a b", behind=post(review("next")))
    assert turn.order == [*FIRST, "read", "read"]
    for uid in ("next", "a", "b"):
        turn.order.clear()
        await asyncio.sleep(0)
        assert turn.order[:2] == [f"judged {uid}", "answered"]
    for _ in turn.wires:
        await asyncio.sleep(0)
    assert [wire.written.count(b"HTTP/1.1 200") for wire in turn.wires] == [2] * 3
    turn.lose_all()


async def test_a_request_whose_client_is_gone_is_not_judged() -> None:
    turn = Turn("first a b")
    turn.connections[1].connection_lost(None)
    await asyncio.sleep(0)
    assert turn.order == [*FIRST, "read", "read", "judged b", "answered"]
    turn.lose_all()


class Waits:
    """A large review that waits for the next turn, because another connection has taken this one."""

    def __init__(self, serving: Serving) -> None:
        self.wires = [Wire(), Wire()]
        self.connections = [Connection(serving) for _ in self.wires]
        for connection, wire in zip(self.connections, self.wires, strict=True):
            connection.connection_made(wire)
        self.connections[0].data_received(post(b"{}"))
        whole = post(b" " * MAX_BODY)
        for begin in range(0, len(whole), 2**18):
            self.connections[1].data_received(whole[begin : begin + 2**18])


def several(held_bytes: int = 2**26) -> Serving:
    server = Server()
    return Serving(server.app.exchange, limits=ConnectionLimits(held_bytes=held_bytes))


@pytest.mark.untraced
@pytest.mark.parametrize("is_lost", [False, True], ids=["answered", "its client is gone"])
async def test_a_review_leaves_the_memory_before_its_connection(is_lost: bool) -> None:
    serving = several()
    tracemalloc.start()
    try:
        waits = Waits(serving)
        assert MAX_BODY < tracemalloc.get_traced_memory()[0] < 1.5 * MAX_BODY
        if is_lost:
            waits.connections[1].connection_lost(None)
        else:
            await asyncio.sleep(0)
            assert waits.wires[1].written
        assert tracemalloc.get_traced_memory()[0] < MAX_BODY / 10
    finally:
        tracemalloc.stop()
    for connection in waits.connections:
        connection.connection_lost(None)


@pytest.mark.parametrize("behind", [b"", b"P"], ids=["alone", "with more behind it"])
async def test_reviews_that_wait_for_the_next_turn_are_held(behind: bytes) -> None:
    serving = several(held_bytes=MAX_BODY * 5 // 2)
    waiting = [Waits(serving)]
    waiting[0].connections[1].data_received(behind)
    assert serving.connections.closed_early == 0
    waiting += [Waits(serving), Waits(serving)]
    assert serving.connections.closed_early == 1
    for waits in waiting:
        for connection in waits.connections:
            connection.connection_lost(None)


async def test_who_holds_too_many_bytes_is_a_stranger_first() -> None:
    serving = several(held_bytes=1000)
    routes = serving.exchange.routes
    routes[PATH] = replace(routes[PATH], trusted=True)
    wires = [Wire() for _ in range(3)]
    connections = [Connection(serving) for _ in wires]
    sizes = ((700, PATH), (200, SLOW), (150, PATH))
    for wire, connection, (size, path) in zip(wires, connections, sizes, strict=True):
        connection.connection_made(wire)
        connection.data_received(post(b" " * size, path)[:-1])
    assert [wire.closed for wire in wires] == [False, True, False]
    for each in connections:
        each.connection_lost(None)


async def test_a_bug_ends_only_the_connection_that_met_it(caplog: pytest.LogCaptureFixture) -> None:
    turn = Turn("first fails b")
    await asyncio.sleep(0)
    assert turn.order == [*FIRST, "read", "read", "judged b", "answered"]
    assert [wire.closed for wire in turn.wires] == [False, True, False]
    assert [record.message for record in caplog.records] == ["no answer"]
    turn.lose_all()


async def test_an_answer_that_cannot_be_written_ends_only_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turn = Turn("first a b")
    turn.wires[1].closed = True  # so that it raises an AssertionError
    await asyncio.sleep(0)
    assert turn.order == [*FIRST, "read", "read", "judged a", "judged b", "answered"]
    assert [wire.lost.is_set() for wire in turn.wires] == [False, True, False]
    assert [record.message for record in caplog.records] == ["no answer"]
    turn.lose_all()


async def test_a_verdict_whose_client_is_gone_at_once_is_cancelled_without_a_trace() -> None:
    """A coroutine that was never awaited would be reported as an unraisable exception, which fails
    the test.
    """
    server = Server()
    delivery = Pieces(server)
    delivery.connection.data_received(post(review("slow"), path=SLOW))
    delivery.lose()
    for _ in range(5):
        await asyncio.sleep(0)
    assert (server.seen.verdicts, server.app.exchange.waiting) == ([], 0)


async def test_an_awaited_answer_that_fails_ends_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(Seen):
        def __call__(self, *_: Any) -> None:
            raise RuntimeError("a bug")

    server = Server(seen=Failing())
    delivery = Pieces(server)
    delivery.connection.data_received(post(review("slow"), path=SLOW))
    server.release.set()
    async with asyncio.timeout(240):
        await delivery.wire.lost.wait()
    assert (delivery.answers(), [record.message for record in caplog.records]) == (0, ["no answer"])
    delivery.lose()


def test_an_awaited_verdict_is_counted_while_it_is_awaited() -> None:
    async def count() -> tuple[int, int]:
        server = Server()
        exchange = server.app.exchange
        answer = exchange.answer(exchange.routes[SLOW], b"", JSON_HEADERS, review("u"))
        assert isinstance(answer, Awaitable)
        task = asyncio.ensure_future(answer)
        await asyncio.sleep(0)
        meanwhile = exchange.waiting
        server.release.set()
        await task
        return meanwhile, exchange.waiting

    assert asyncio.run(count()) == (1, 0)
