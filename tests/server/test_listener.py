"""The listener: kept connections, slow and rude clients, new certificates."""

import asyncio
import contextlib
import gc
import json
import socket
import ssl
import time
import weakref
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from app.admission.decide import Route
from app.admission.exchange import Exchange
from app.admission.serving import ConnectionLimits
from app.admission.verdict import ALLOWED, Later, Verdict, not_allowed
from app.certificates.certificate import make_ca, make_leaf
from app.certificates.source import file_source
from app.server.listener import Listener, authority, bind
from tests.admission.ways import healthy
from tests.reviews import Seen, load
from tests.server.test_serving import PATIENCE

LARGE = 64 * 2**20
PIECE = 2**18
PATH = "/validate/podgroup"
SLOW = "/validate/slow"
LONG = "/validate/long"
IMPATIENT = ConnectionLimits(request_seconds=0.1, answer_seconds=0.1, watch_seconds=0.05)
HEAD = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"


class Waiting:
    """A listener in this process.

    The verdicts of SLOW wait for `release`.
    """

    def __init__(
        self, directory: Path, limits: ConnectionLimits | None = None, client_cas: bytes = b""
    ) -> None:
        self.source = file_source(directory, client_cas)
        self.directory = directory
        self.release = asyncio.Event()
        self.cancelled = asyncio.Event()
        handlers = {
            PATH: lambda _: ALLOWED,
            SLOW: lambda _: Later(self.verdict_later),
            LONG: lambda _: not_allowed("x" * PIECE),
        }
        self.seen = Seen()
        exchange = Exchange(
            {path: route(path, handler) for path, handler in handlers.items()},
            self.seen,
            only_known=bool(client_cas),
        )
        self.listener = Listener(
            exchange,
            healthy,
            bind("127.0.0.1", 0),
            self.source.certificate,
            limits or ConnectionLimits(),
        )

    @property
    def connections(self) -> list[Any]:
        return list(self.listener.serving.connections)

    async def verdict_later(self) -> Verdict:
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return ALLOWED

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.create_default_context(cafile=self.directory / "ca.crt")
        return await asyncio.open_connection(
            "localhost", self.listener.port, ssl=context, family=socket.AF_INET
        )

    async def until_closed(self) -> None:
        """Waits until no connection is open."""
        async with asyncio.timeout(PATIENCE):
            await self.listener.serving.connections.all_closed.wait()


def route(path: str, handler: Any) -> Route:
    return Route(
        path, "scheduling.run.ai", "PodGroup", "podgroups", "", frozenset({"CREATE"}), handler
    )


@contextlib.asynccontextmanager
async def listening(server: Waiting) -> AsyncIterator[Waiting]:
    running = asyncio.create_task(server.listener.run_until_stopped())
    await server.listener.wait_started()
    yield server
    server.release.set()
    server.listener.stop()
    await running


@pytest.fixture
async def waiting(tmp_path: Path) -> AsyncIterator[Waiting]:
    async with listening(Waiting(tmp_path)) as server:
        yield server


@pytest.fixture
async def impatient(tmp_path: Path) -> AsyncIterator[Waiting]:
    async with listening(Waiting(tmp_path, IMPATIENT)) as server:
        yield server


async def answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length"))
    return head, await reader.readexactly(int(length.split(b":")[1]))


def request(path: str = "/", body: bytes = b"", headers: bytes = b"") -> bytes:
    start = b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n" % path.encode()
    return b"%b%bcontent-length: %d\r\n\r\n%b" % (start, headers, len(body), body)


def verdict_request(path: str = PATH, uid: str = "u", headers: bytes = b"") -> bytes:
    review = load("podgroup.valid")
    review["request"]["uid"] = uid
    return request(path, json.dumps(review).encode(), headers)


PROBE = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
either = pytest.mark.parametrize("sent", [verdict_request(), PROBE], ids=["a verdict", "a probe"])


def uid_of(body: bytes) -> str:
    uid: str = json.loads(body)["response"]["uid"]
    return uid


async def test_many_requests_on_one_connection(waiting: Waiting) -> None:
    reader, writer = await waiting.open()
    for number in range(5):
        writer.write(verdict_request(uid=f"u{number}"))
        head, body = await answer(reader)
        assert (b"connection" in head, uid_of(body)) == (False, f"u{number}")
    writer.write(b"".join(verdict_request(uid=uid) for uid in "abc"))
    assert [uid_of((await answer(reader))[1]) for _ in range(3)] == ["a", "b", "c"]
    writer.write(verdict_request(headers=b"connection: close\r\n"))
    head, _ = await answer(reader)
    assert b"connection: close" in head
    assert await reader.read() == b""
    writer.close()


async def test_a_probe_after_verdicts_ends_the_connection(waiting: Waiting) -> None:
    reader, writer = await waiting.open()
    writer.write(verdict_request(uid="a") + verdict_request(uid="b") + PROBE * 100)
    assert [uid_of((await answer(reader))[1]) for _ in range(2)] == ["a", "b"]
    head, body = await answer(reader)
    assert (b"connection: close" in head, body) == (True, b"ok\n")
    assert await reader.read() == b""
    writer.close()


async def test_a_client_that_still_sends_reads_why_it_is_refused(waiting: Waiting) -> None:
    reader, writer = await waiting.open()
    writer.write(request("/dry-run", body=b"x" * 3_000_000))
    head, body = await answer(reader)
    assert (head[:12], json.loads(body)["code"]) == (b"HTTP/1.1 404", 404)
    await writer.drain()
    assert await reader.read() == b""
    writer.close()


async def test_what_is_pipelined_behind_a_verdict_that_waits_is_answered_after_it(
    waiting: Waiting,
) -> None:
    reader, writer = await waiting.open()
    writer.write(verdict_request(SLOW, "slow") + verdict_request(uid="next") + PROBE)
    other_reader, other_writer = await waiting.open()
    other_writer.write(verdict_request(uid="other"))
    assert uid_of((await answer(other_reader))[1]) == "other"
    waiting.release.set()
    assert [uid_of((await answer(reader))[1]) for _ in range(2)] == ["slow", "next"]
    assert (await answer(reader))[1] == b"ok\n"
    for connection in (writer, other_writer):
        connection.close()


async def test_a_verdict_is_no_longer_awaited_if_its_client_is_gone(waiting: Waiting) -> None:
    _, writer = await waiting.open()
    writer.write(verdict_request(SLOW))
    async with asyncio.timeout(PATIENCE):
        while not waiting.listener.serving.exchange.waiting:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
        reset(writer)
        await waiting.cancelled.wait()
    await waiting.until_closed()
    assert waiting.listener.serving.exchange.waiting == 0
    assert waiting.seen.verdicts == []


def reset(writer: asyncio.StreamWriter) -> None:
    """Closes a connection so that its other end learns of it at once."""
    linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


@either
async def test_a_server_that_drains_answers_and_ends_each_connection_with_its_answer(
    waiting: Waiting, sent: bytes
) -> None:
    kept, writer = await waiting.open()
    writer.write(verdict_request())
    assert b"connection" not in (await answer(kept))[0]
    waiting.listener.drain()
    new, other = await waiting.open()
    for reader, sender in ((kept, writer), (new, other)):
        sender.write(sent)
        head, body = await answer(reader)
        assert (b"connection: close" in head, body) == (True, (await asked(waiting, sent))[1])
        assert await reader.read() == b""
        sender.close()


@either
async def test_a_listener_that_is_cancelled_finishes_the_request_it_has_begun(
    tmp_path: Path, sent: bytes
) -> None:
    waiting = Waiting(tmp_path)
    running = asyncio.create_task(waiting.listener.run_until_stopped())
    await waiting.listener.wait_started()
    port = waiting.listener.port
    begun = await waiting.open()
    idle = await waiting.open()
    async with asyncio.timeout(PATIENCE):
        for _, writer in (begun, idle):
            writer.write(verdict_request() + (sent[:-5] if writer is begun[1] else b""))
        for reader, _ in (begun, idle):
            await answer(reader)
        running.cancel()
        assert await idle[0].read() == b""
        begun[1].write(sent[-5:])
        assert (await answer(begun[0]))[0].startswith(b"HTTP/1.1 200")
        assert await begun[0].read() == b""
        for _, writer in (begun, idle):
            writer.close()
        with pytest.raises(asyncio.CancelledError):
            await running
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_listener_that_stops_waits_for_the_verdicts_that_were_asked_for(
    tmp_path: Path,
) -> None:
    waiting = Waiting(tmp_path)
    running = asyncio.create_task(waiting.listener.run_until_stopped())
    await waiting.listener.wait_started()
    reader, writer = await waiting.open()
    writer.write(verdict_request() + verdict_request(SLOW, "slow"))
    await answer(reader)
    waiting.listener.stop()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await reader.read(1)
    waiting.release.set()
    head, body = await answer(reader)
    assert (b"connection: close" in head, uid_of(body)) == (True, "slow")
    await running
    writer.close()


async def test_a_peer_that_does_not_read_does_not_hold_the_end_up(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    running = asyncio.create_task(waiting.listener.run_until_stopped())
    await waiting.listener.wait_started()
    _, writer = await waiting.open()
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    waiting.listener.stop()
    async with asyncio.timeout(PATIENCE):
        await running
    writer.transport.abort()
    assert waiting.connections == []


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(HEAD + b"a: b\r\n" * 200_000, id="lines without end"),
        pytest.param(HEAD + b"a: " + b"b" * 1_000_000, id="a line without end"),
        pytest.param(b"POST /" + b"b" * 1_000_000, id="a path without end"),
    ],
)
async def test_a_head_has_an_end(waiting: Waiting, sent: bytes) -> None:
    reader, writer = await waiting.open()
    received = b""
    with contextlib.suppress(ConnectionError):
        writer.write(sent.replace(b"/", PATH.encode(), 1))
        async with asyncio.timeout(PATIENCE):
            received = await reader.read()
    assert received[:12] in (b"HTTP/1.1 400", b"")
    assert waiting.seen.verdicts == []
    writer.close()
    assert (await asked(waiting))[1] == b"ok\n"


async def asked(waiting: Waiting, sent: bytes = PROBE) -> tuple[bytes, bytes]:
    """The answer to a request on a connection of its own."""
    reader, writer = await waiting.open()
    writer.write(sent)
    answered = await answer(reader)
    writer.close()
    return answered


async def test_what_is_pipelined_waits_and_is_answered(waiting: Waiting) -> None:
    reader, writer = await waiting.open()
    writer.write(
        verdict_request(SLOW, "slow")
        + b"".join(verdict_request(uid=f"u{number}") for number in range(500))
    )
    waiting.release.set()
    async with asyncio.timeout(PATIENCE):
        uids = [uid_of((await answer(reader))[1]) for _ in range(501)]
    assert uids == ["slow", *(f"u{number}" for number in range(500))]
    writer.close()


@pytest.mark.parametrize(
    ("limits", "too_many"),
    [(IMPATIENT, 0), (ConnectionLimits(held_bytes=2**16), 1)],
    ids=["for too long", "too many bytes"],
)
async def test_a_client_that_does_not_read_its_answer_is_cut_off(
    tmp_path: Path, limits: ConnectionLimits, too_many: int
) -> None:
    async with listening(Waiting(tmp_path, limits)) as server:
        _, writer = await server.open()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(verdict_request(LONG) * (LARGE // PIECE))
        async with asyncio.timeout(PATIENCE):
            while not server.seen.verdicts:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.02)
        await server.until_closed()
        assert server.listener.serving.connections.closed_early == too_many
        writer.transport.abort()


async def test_what_is_no_http_is_refused(waiting: Waiting) -> None:
    reader, writer = await waiting.open()
    writer.write(b"hello there\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 400")
    writer.close()


@pytest.mark.parametrize(
    "sent", [verdict_request(), verdict_request(SLOW), PROBE], ids=["verdict", "slow", "probe"]
)
async def test_a_reset_connection_leaves_nothing_behind(waiting: Waiting, sent: bytes) -> None:
    protocols: list[weakref.ref[Any]] = []
    for _ in range(5):
        reader, writer = await waiting.open()
        writer.write(verdict_request())
        await answer(reader)
        protocols += [weakref.ref(connection) for connection in waiting.connections]
        writer.write(sent)
        reset(writer)
        await waiting.until_closed()
    del reader, writer
    await asyncio.sleep(0)
    gc.collect()
    assert [protocol() for protocol in protocols if protocol() is not None] == []


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"POST / HT", id="half a head"),
        pytest.param(HEAD + b"content-length: 100\r\n\r\nhalf", id="half a body"),
        pytest.param(
            HEAD + b"content-length: 10000000\r\n\r\n" + b"x" * 5000, id="half of what is refused"
        ),
    ],
)
async def test_a_client_that_does_not_go_on_is_closed(impatient: Waiting, sent: bytes) -> None:
    reader, writer = await impatient.open()
    writer.write(sent.replace(b"/", PATH.encode(), 1))
    expected = b"HTTP/1.1 413" if b"x" * 5000 in sent else b""
    async with asyncio.timeout(PATIENCE):
        assert (await received(reader))[:12] == expected
    writer.close()


async def received(reader: asyncio.StreamReader) -> bytes:
    """Return all that comes, also if the client is reset because it took too long to read that."""
    pieces = []
    with contextlib.suppress(ConnectionResetError):
        while piece := await reader.read(PIECE):
            pieces.append(piece)
    return b"".join(pieces)


@pytest.mark.parametrize("used", [True, False])
async def test_an_idle_connection_is_kept_for_as_long_as_it_should(
    tmp_path: Path, used: bool
) -> None:
    """The time is counted from before the connection is idle: a busy machine only adds to it."""
    assert ConnectionLimits().idle_seconds == 120
    limits = replace(IMPATIENT, idle_seconds=0.6)
    async with listening(Waiting(tmp_path, limits)) as server:
        begun = time.monotonic()
        reader, writer = await server.open()
        if used:
            begun = time.monotonic()
            writer.write(verdict_request())
            await answer(reader)
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        assert time.monotonic() - begun >= limits.idle_seconds
        writer.close()


async def test_a_new_certificate_is_served_to_new_connections(waiting: Waiting) -> None:
    reader, writer = await waiting.open()
    begin = datetime.now(UTC) - timedelta(days=1)
    authority = make_ca("new CA", begin, begin + timedelta(days=9))
    leaf = make_leaf(authority, ["localhost"], begin, begin + timedelta(days=9))
    for name, content in (
        ("ca.crt", authority.cert_pem),
        ("tls.crt", leaf.cert_pem),
        ("tls.key", leaf.key_pem),
    ):
        (waiting.directory / name).write_bytes(content)
    assert waiting.source.poll() is True
    other_reader, other_writer = await waiting.open()
    for incoming, outgoing in ((reader, writer), (other_reader, other_writer)):
        outgoing.write(PROBE)
        assert (await answer(incoming))[0].startswith(b"HTTP/1.1 200")
        outgoing.close()


def test_an_address_that_is_not_ours() -> None:
    with pytest.raises(OSError, match="assign requested address"):
        bind("192.0.2.1", 0)
    bind("::1", 0).close()


def test_all_addresses_are_those_of_both_families() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("needs IPv6 on this machine")
    with bind("::", 0) as listening:
        listening.listen()
        port = listening.getsockname()[1]
        for address in ("127.0.0.1", "::1"):
            socket.create_connection((address, port), timeout=5).close()


def test_without_ipv6_all_addresses_are_those_of_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    with bind("::", 0) as listening:
        assert listening.family == socket.AF_INET


def test_an_address_of_ipv6_is_in_brackets_where_a_port_follows() -> None:
    assert authority("::1", 8443) == "[::1]:8443"
    assert authority("127.0.0.1", 8443) == "127.0.0.1:8443"
