"""TLS of the listener: handshakes without an end, too many connections, and clients that have
nothing more to say.

Tests `app/certificates/groups.py` and `app/server/handshakes.py`.
"""

import asyncio
import contextlib
import os
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.admission.serving import ConnectionLimits
from app.certificates.source import ensure_development_certificate
from app.server.handshakes import HELLO_SECONDS, Handshakes
from app.server.listener import Listener
from app.server.tls import READ_BYTES, TlsTransport
from tests.admission.test_connection import Wire
from tests.server.crowds import hello
from tests.server.records import Records, open_records
from tests.server.test_listener import (
    PATH,
    PROBE,
    SLOW,
    Waiting,
    answer,
    asked,
    listening,
    uid_of,
    verdict_request,
)
from tests.server.test_serving import PATIENCE, ROOT


class Client:
    """A TLS client over a plain stream, which sees and says each step itself."""

    def __init__(self, server: Waiting, context: ssl.SSLContext | None = None) -> None:
        context = context or ssl.create_default_context(cafile=server.directory / "ca.crt")
        self._port = server.listener.port
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    async def connect(self) -> None:
        await self.begin()
        await self.shake_hands()

    async def begin(self) -> None:
        """Send the first bytes of a handshake, and wait until they have been answered."""
        self._reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        self._send()
        self._incoming.write(await self._reader.read(65536))

    async def shake_hands(self) -> None:
        await self._until(self._tls.do_handshake)

    def write(self, data: bytes, *, last: bool = False) -> None:
        """Send `data`; if it is the `last`, with the end of TLS in the same segment."""
        self._tls.write(data)
        if last:
            with contextlib.suppress(ssl.SSLWantReadError):
                self._tls.unwrap()
        self._send()

    async def read(self) -> bytes:
        """Return what the server sends before it ends TLS."""
        received = b""
        with contextlib.suppress(ssl.SSLZeroReturnError):
            while data := await self._until(lambda: self._tls.read(65536)):
                received += data
        return received

    async def _until(self, step: Any) -> Any:
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                self._send()
                data = await self._reader.read(65536)
                self._incoming.write(data) if data else self._incoming.write_eof()
            else:
                self._send()
                return result

    def _send(self) -> None:
        if self._outgoing.pending:
            self.writer.write(self._outgoing.read())


@pytest.fixture
async def waiting(tmp_path: Path) -> AsyncIterator[Waiting]:
    async with listening(Waiting(tmp_path, ConnectionLimits(connections=64))) as server:
        yield server


@pytest.mark.parametrize("how", ["end of TLS", "end of the stream", "both"])
@pytest.mark.parametrize("path", [PATH, SLOW])
async def test_a_client_that_ends_its_stream_is_gone(waiting: Waiting, path: str, how: str) -> None:
    client = Client(waiting)
    async with asyncio.timeout(PATIENCE):
        await client.connect()
        client.write(verdict_request(path), last=how != "end of the stream")
        if how != "end of TLS":
            client.writer.write_eof()
        received = await client.read()
        await waiting.until_closed()
        while waiting.listener.serving.exchange.waiting:  # noqa: ASYNC110 - no event for it
            await asyncio.sleep(0)
    assert received.count(b"HTTP/1.1 200") == (path == PATH), "only what waits for nothing"
    client.writer.close()


async def flood(server: Waiting, count: int, begin: bytes = b"") -> list[socket.socket]:
    """Connections that send `begin`, and nothing more, as soon as the server has accepted all."""
    sockets = []
    for _ in range(count):
        sock = socket.create_connection(("127.0.0.1", server.listener.port))
        sockets.append(sock)
        sock.setblocking(False)
        sock.send(begin) if begin else None
        await asyncio.sleep(0)
    return sockets


def is_closed(sock: socket.socket) -> bool:
    """Whether the server has closed a connection; what it has sent before is dropped."""
    try:
        while sock.recv(65536):
            continue
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True


def states(listener: Listener) -> dict[str, float]:
    return {
        "".join(sample.labels.values()) or sample.name: sample.value
        for sample in listener.samples()
    }


@pytest.mark.parametrize(
    ("begin", "state", "most"),
    [
        pytest.param(b"", "silent", 128, id="nothing is sent"),
        pytest.param(hello(), "handshake", 16, id="TLS is begun"),
    ],
)
async def test_of_too_many_unfinished_handshakes_the_oldest_are_closed(
    waiting: Waiting, begin: bytes, state: str, most: int
) -> None:
    reader, writer = await waiting.open()
    sockets = await flood(waiting, most + 40, begin)
    async with asyncio.timeout(PATIENCE):
        while states(waiting.listener)["connections_closed_total"] < 40:  # noqa: ASYNC110 - no event for it
            await asyncio.sleep(0.01)
        writer.write(verdict_request())
        assert uid_of((await answer(reader))[1]) == "u"
        assert (await asked(waiting))[1] == b"ok\n"
    assert states(waiting.listener)[state] == most - 1  # the last one that came has entered
    assert [is_closed(sock) for sock in sockets] == [True] * 41 + [False] * (most - 1)
    for sock in sockets:
        sock.close()
    writer.close()


async def test_a_caller_stays_however_many_others_connect(waiting: Waiting) -> None:
    reader, writer = await waiting.open()
    writer.write(verdict_request(uid="first"))
    assert uid_of((await answer(reader))[1]) == "first"
    others = [await waiting.open() for _ in range(100)]
    async with asyncio.timeout(PATIENCE):
        assert await others[0][0].read() == b""
        writer.write(verdict_request(uid="still there"))
        assert uid_of((await answer(reader))[1]) == "still there"
        others[-1][1].write(verdict_request(uid="new"))
        assert uid_of((await answer(others[-1][0]))[1]) == "new"
    assert states(waiting.listener) == {
        "silent": 0,
        "handshake": 0,
        "open": 64,
        "connections_closed_total": 37,
    }
    for _, other in [*others, (reader, writer)]:
        other.transport.abort()
    await waiting.until_closed()


async def test_callers_that_are_many_do_not_keep_a_new_one_out(waiting: Waiting) -> None:
    callers = [await waiting.open() for _ in range(70)]
    for number, (reader, writer) in enumerate(callers[6:]):
        writer.write(verdict_request(uid=f"u{number}"))
        assert uid_of((await answer(reader))[1]) == f"u{number}"
    assert uid_of((await asked(waiting, verdict_request(uid="new")))[1]) == "new"
    for _, writer in callers:
        writer.transport.abort()
    await waiting.until_closed()


@pytest.mark.parametrize(
    ("sent", "reply"),
    [
        (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"\x15\x03"),
        (b"\x16\x03\x01\x00\x05hello", b"\x15\x03"),
        (b"\x00" * 600, b"\x15\x03"),
        (b"\x16\x03\x01\x3e\x80\x01\x00\x40\x01" + bytes(600), b""),
        (b"\x16\x03\x01\x00\x01\x01\x16\x03\x01" + bytes(600), b""),
    ],
    ids=["HTTP", "half of TLS", "zeros", "a ClientHello that is too long", "no length"],
)
async def test_what_is_no_tls_gets_an_alert_and_the_end(
    waiting: Waiting, sent: bytes, reply: bytes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", waiting.listener.port)
    writer.write(sent)
    async with asyncio.timeout(PATIENCE):
        with contextlib.suppress(ConnectionError):
            assert (await reader.read())[:2] in (reply, b"")
    assert states(waiting.listener)["handshake"] == 0
    writer.close()


async def test_a_handshake_that_is_not_ended_in_time_is_closed(tmp_path: Path) -> None:
    async with listening(Waiting(tmp_path, ConnectionLimits(request_seconds=0.1))) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.listener.port)
        writer.write(hello())
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                await reader.read()
        assert states(server.listener)["handshake"] == 0
        writer.close()


async def test_a_listener_that_stops_closes_unfinished_handshakes(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), listening(Waiting(tmp_path)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.listener.port)
        while not states(server.listener)["silent"]:  # noqa: ASYNC110 - no event for it
            await asyncio.sleep(0.01)
    async with asyncio.timeout(PATIENCE):
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
    writer.close()


async def test_a_client_that_sends_very_much_takes_turns_with_others(waiting: Waiting) -> None:
    greedy = Client(waiting)
    other = Client(waiting)
    await greedy.connect()
    await other.connect()
    uids = [f"u{number}" for number in range(300)]
    greedy.write(b"".join(verdict_request(uid=uid) for uid in uids) + PROBE)
    other.write(verdict_request(uid="other") + PROBE)
    async with asyncio.timeout(PATIENCE):
        received, beside = await asyncio.gather(greedy.read(), other.read())
    order = [uid for _, uid, _ in waiting.seen.verdicts]
    assert order.index("other") < 100
    assert [uid for uid in order if uid != "other"] == uids
    assert (received.count(b"HTTP/1.1 200"), beside.count(b"HTTP/1.1 200")) == (301, 2)
    for client in (greedy, other):
        client.writer.close()
    await waiting.until_closed()


class Above(asyncio.Protocol):
    """A protocol that notes how much data comes at once."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def data_received(self, data: bytes) -> None:
        self.sizes.append(len(data))


def receive(transport: TlsTransport, data: bytes) -> None:
    """Pass `data` on to a transport as an event loop does that has all of it."""
    while data:
        buffer = transport.get_buffer(-1)
        piece, data = data[: len(buffer)], data[len(buffer) :]
        buffer[: len(piece)] = piece
        transport.buffer_updated(len(piece))


async def opened(folder: Path, above: Above) -> tuple[TlsTransport, Wire, Callable[[bytes], bytes]]:
    """A transport below `above` after its handshake, its socket, and what its client encrypts."""
    ensure_development_certificate(folder, ["localhost"], datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context(cafile=folder / "ca.crt").wrap_bio(
        incoming, outgoing, server_hostname="localhost"
    )
    raw = Wire()
    buffer = memoryview(bytearray(READ_BYTES))
    transport = TlsTransport(context, lambda: above, Handshakes(10), PATIENCE, buffer)
    transport.connection_made(raw)
    for _ in range(2):
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        receive(transport, outgoing.read())
        await asyncio.sleep(0)
        incoming.write(bytes(raw.written))
        raw.written.clear()

    def encrypt(data: bytes) -> bytes:
        client.write(data)
        return outgoing.read()

    return transport, raw, encrypt


async def test_records_that_are_received_at_once_are_passed_on_at_once(tmp_path: Path) -> None:
    above = Above()
    transport, _, encrypt = await opened(tmp_path, above)
    receive(transport, b"".join(encrypt(b"x" * 100) for _ in range(200)))
    receive(transport, encrypt(b"x" * 200_000))
    assert (above.sizes[0], sum(above.sizes)) == (20_000, 220_000)
    assert max(above.sizes) <= READ_BYTES
    transport.connection_lost(None)


async def test_the_protocol_above_pauses_reading(tmp_path: Path) -> None:
    transport, raw, _ = await opened(tmp_path, Above())
    paused = []
    for step in (transport.pause_reading, transport.resume_reading):
        for _ in range(2):
            step()
            paused.append(raw.paused)
    assert paused == [True, True, False, False]
    transport.connection_lost(None)


async def test_a_client_that_still_sends_is_read_after_a_close(tmp_path: Path) -> None:
    """Otherwise, it would wait with the rest of its request, and never read the answer."""
    above = Above()
    transport, raw, encrypt = await opened(tmp_path, above)
    rest = encrypt(b"x" * 1000)
    transport.pause_reading()
    transport.close()
    assert not raw.paused
    receive(transport, rest)
    assert above.sizes == []
    transport.connection_lost(None)


LITTLE_DATA: dict[str, Callable[[Records], bytes]] = {
    "KeyUpdates": lambda records: records.update_keys(),
    "empty records": lambda records: records.encrypt(b""),
    "records of a byte": lambda records: records.encrypt(b"P"),
    "KeyUpdates between data": lambda records: records.update_keys() + records.encrypt(b"P" * 20),
}


@pytest.mark.parametrize("name", LITTLE_DATA)
async def test_a_connection_with_much_ciphertext_and_little_data_is_ended(
    waiting: Waiting, tmp_path: Path, name: str
) -> None:
    make = LITTLE_DATA[name]
    context = ssl.create_default_context(cafile=waiting.directory / "ca.crt")
    (reader, writer), records, _ = await open_records(
        waiting.listener.port, context, tmp_path / "log"
    )
    async with asyncio.timeout(PATIENCE):
        writer.write(b"".join(make(records) for _ in range(2000)))
        with contextlib.suppress(ConnectionError):
            await reader.read()
        await waiting.until_closed()
    writer.close()


async def test_data_in_small_records_and_with_new_keys_is_read(
    waiting: Waiting, tmp_path: Path
) -> None:
    context = ssl.create_default_context(cafile=waiting.directory / "ca.crt")
    (reader, writer), records, theirs = await open_records(
        waiting.listener.port, context, tmp_path / "log"
    )
    sent = verdict_request() * 20 + PROBE
    async with asyncio.timeout(PATIENCE):
        for at in range(0, len(sent), 100):
            update = b"" if at % 5000 else records.update_keys()
            writer.write(update + records.encrypt(sent[at : at + 100]))
        received = await reader.read()
        await waiting.until_closed()
    assert len(sent) > 5000
    assert theirs.decrypt(received).count(b"HTTP/1.1 200") == 21
    writer.close()


PROGRAM = """
import sys
from app.certificates.groups import configure_openssl
if sys.argv[2] == "configured":
    configure_openssl()
import ssl
import sys
from pathlib import Path
from app.certificates.source import file_source

def is_accepted(group):
    server = file_source(Path(sys.argv[1]), b"").certificate.context
    client = ssl.create_default_context(cafile=f"{sys.argv[1]}/ca.crt")
    client.set_ecdh_curve(group)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
    return ends[1].cipher() is not None

print(*[group for group in sys.argv[3:] if is_accepted(group)])
"""
GROUPS = ("X25519", "prime256v1", "secp384r1", "ffdhe2048", "ffdhe3072", "ffdhe8192")


@pytest.mark.parametrize(
    ("how", "accepted"),
    [("configured", "X25519 prime256v1"), ("as it is", "prime256v1")],
)
async def test_a_handshake_has_no_group_that_costs_much(
    tmp_path: Path, how: str, accepted: str
) -> None:
    """In a process of its own, because OpenSSL reads its configuration once."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, str(tmp_path), how, *GROUPS),
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "OPENSSL_CONF"},
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    assert said.decode().strip() == accepted


async def test_hellos_are_answered_while_a_part_of_a_turn_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    answered: list[int] = []

    class Hello:
        def __init__(self, number: int) -> None:
            self.number = number

        def shake_hands(self) -> None:
            nonlocal now
            now += HELLO_SECONDS * 0.4
            answered.append(self.number)

        def abort(self) -> None:
            answered.append(-self.number)

    handshakes = Handshakes(24)
    for number in range(1, 19):
        handshakes.said_hello(Hello(number))
    assert answered == [-1, -2], "the oldest go if there are too many"
    turns = []
    for _ in range(8):
        answered.clear()
        await asyncio.sleep(0)
        turns.append([*answered])
    numbers = iter(range(1, 19))
    assert turns == [[next(numbers) for _ in range(3)] for _ in range(6)] + [[], []]
