"""`grove-admission serve` as a process, and its listener: kept connections, slow and rude clients, new certificates."""

import asyncio
import contextlib
import gc
import json
import signal
import socket
import ssl
import sys
import weakref
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from app.admission.connection import Connection
from app.certificates.issue import make_ca, make_leaf
from app.certificates.source import file_source
from app.server.listener import KEEP_ALIVE_SECONDS, Listener, bind
from tests.reviews import load

ROOT = Path(__file__).parent.parent.parent
CONFIGURED = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
server: {{clientCaFile: "{}"}}
"""
LARGE, PIECE = 64 * 2**20, 2**18
HEAD = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"


class Process:
    """A server with the facts of the examples, on a free port."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, certificates: Path) -> None:
        self.process, self.certificates = process, certificates
        self.url = f"https://localhost:{port}"

    def client(self) -> httpx.AsyncClient:
        context = ssl.create_default_context(cafile=self.certificates / "ca.crt")
        return httpx.AsyncClient(base_url=self.url, verify=context)


@contextlib.asynccontextmanager
async def server(directory: Path, *arguments: str) -> AsyncIterator[Process]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--host", "127.0.0.1", "--port", str(port), "--certs", str(directory)]
    options += ["--objects", str(ROOT / "manifests" / "examples" / "facts"), *arguments]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "app",
        "serve",
        *options,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(20):
            while line := await process.stderr.readline():
                if "serving on" in json.loads(line)["message"]:
                    break
        yield Process(process, port, directory)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_a_server_from_start_to_end(tmp_path: Path) -> None:
    async with server(tmp_path) as served, served.client() as client:
        review = load("podgroup.mixed-case-name")
        answer = await client.post("/validate/podgroup?timeout=5s", json=review)
        assert answer.json()["response"]["status"]["code"] == 422
        assert (await client.get("/readyz")).text == "ok\n"
        metrics = (await client.get("/metrics")).text
        assert "grove_admission_certificate_expiry_timestamp_seconds" in metrics
        assert 'grove_admission_cache_objects{resource="nodes"} 1.0' in metrics
        served.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(5):
            ready = await client.get("/readyz?verbose")
            while ready.status_code == 200:
                ready = await client.get("/readyz?verbose")
        assert "[-] draining is shutting down" in ready.text
        again = await client.post("/validate/podgroup?timeout=5s", json=review)
        assert again.json()["response"]["uid"] == review["request"]["uid"]
        served.process.send_signal(signal.SIGTERM)
        assert served.process.stdout is not None
        lines = [json.loads(line) for line in (await served.process.stdout.read()).splitlines()]
        assert [(line["uid"], line["code"]) for line in lines] == [(review["request"]["uid"], 422)] * 2
        assert await served.process.wait() == 0


async def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    async with server(tmp_path) as served:
        port = served.url.rpartition(":")[2]
        options = ["--port", port, "--host", "127.0.0.1", "--certs", str(tmp_path)]
        options += ["--objects", str(ROOT / "manifests" / "examples" / "facts")]
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "app", "serve", *options, cwd=ROOT, stderr=asyncio.subprocess.PIPE
        )
        _, said = await other.communicate()
        assert other.returncode == 1
        assert b": Address already in use" in said


def client_certificate(directory: Path, name: str) -> tuple[Path, ssl.SSLContext]:
    """A CA of that name, and a client that trusts our server and shows a certificate of that CA."""
    now = datetime.now(UTC)
    ca = make_ca(name, now - timedelta(days=1), now + timedelta(days=1))
    issuer, key = x509.load_pem_x509_certificate(ca.cert_pem), ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "apiserver")])
    builder = (
        x509.CertificateBuilder(issuer.subject, subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    )
    signed = builder.sign(load_pem_private_key(ca.key_pem, None), hashes.SHA256())  # type: ignore[arg-type]
    plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    ca_file, pair = directory / f"{name}.crt", directory / f"{name}.pem"
    ca_file.write_bytes(ca.cert_pem)
    pair.write_bytes(signed.public_bytes(Encoding.PEM) + plain)
    context = ssl.create_default_context()
    context.load_cert_chain(pair)
    return ca_file, context


async def test_with_a_client_ca_verdicts_are_for_those_who_show_a_certificate_of_it(tmp_path: Path) -> None:
    ca_file, known = client_certificate(tmp_path, "ours")
    _, stranger = client_certificate(tmp_path, "another")
    (tmp_path / "config.yaml").write_text(CONFIGURED.format(ca_file))
    review = load("podgroup.mixed-case-name")
    async with server(tmp_path, "--config", str(tmp_path / "config.yaml")) as served:
        async with served.client() as client:
            refused = await client.post("/validate/podgroup?timeout=5s", json=review)
            assert (refused.status_code, "server.clientCaFile" in refused.json()["message"]) == (401, True)
            assert (await client.get("/readyz")).text == "ok\n"
        known.load_verify_locations(served.certificates / "ca.crt")
        async with httpx.AsyncClient(base_url=served.url, verify=known) as client:
            for _ in range(2):
                answer = await client.post("/validate/podgroup?timeout=5s", json=review)
                assert answer.json()["response"]["status"]["code"] == 422
        stranger.load_verify_locations(served.certificates / "ca.crt")
        with pytest.raises(httpx.TransportError):
            async with httpx.AsyncClient(base_url=served.url, verify=stranger) as client:
                await client.post("/validate/podgroup?timeout=5s", json=review)


async def test_a_client_ca_that_can_not_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "ca.crt.txt").write_text("no PEM")
    (tmp_path / "config.yaml").write_text(CONFIGURED.format(tmp_path / "ca.crt.txt"))
    facts = str(ROOT / "manifests" / "examples" / "facts")
    options = ["--config", str(tmp_path / "config.yaml"), "--objects", facts, "--certs", str(tmp_path)]
    ended = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "app", "serve", *options, cwd=ROOT, stderr=asyncio.subprocess.PIPE
    )
    _, said = await ended.communicate()
    assert (ended.returncode, b"ca.crt.txt: it is not PEM" in said) == (1, True)


class Held:
    """A listener in this process, whose app answers once it is let."""

    def __init__(self, directory: Path, connection: type[Connection] = Connection) -> None:
        self.source = file_source(directory)
        self.directory = directory
        self.bodies: list[int] = []
        self.listener = Listener(self.app, bind("127.0.0.1", 0), self.source.certificate.context, connection)

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message.get("body", b"")), message.get("more_body", False)
        self.bodies.append(size)
        if scope["path"] == "/large":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(LARGE // PIECE):
                await send({"type": "http.response.body", "body": bytes(PIECE), "more_body": True})
            return
        if scope["path"] == "/stream":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"one", "more_body": True})
            await send({"type": "http.response.body", "body": b"two"})
            return
        body = json.dumps([scope["path"], scope["query_string"].decode(), size]).encode()
        headers = [] if scope["path"] == "/chunked" else [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.create_default_context(cafile=self.directory / "ca.crt")
        return await asyncio.open_connection("localhost", self.listener.port, ssl=context, family=socket.AF_INET)


class Impatient(Connection):
    request_seconds = 0.1
    watch_seconds = 0.05


@contextlib.asynccontextmanager
async def listening(found: Held) -> AsyncIterator[Held]:
    running = asyncio.create_task(found.listener.run_until_stopped())
    await found.listener.wait_started()
    yield found
    found.listener.stop()
    await running


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[Held]:
    async with listening(Held(tmp_path)) as found:
        yield found


@pytest.fixture
async def impatient(tmp_path: Path) -> AsyncIterator[Held]:
    async with listening(Held(tmp_path, Impatient)) as found:
        yield found


async def answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length"))
    return head, await reader.readexactly(int(length.split(b":")[1]))


def request(path: str = "/", body: bytes = b"", headers: bytes = b"") -> bytes:
    return b"POST %s HTTP/1.1\r\nhost: x\r\n%scontent-length: %d\r\n\r\n%s" % (path.encode(), headers, len(body), body)


async def test_many_requests_on_one_connection(held: Held) -> None:
    reader, writer = await held.open()
    for number in range(5):
        writer.write(request(f"/a%20b?n={number}", b"x" * number))
        assert json.loads((await answer(reader))[1]) == ["/a b", f"n={number}", number]
    writer.write(request("/1") + request("/2") + request("/3"))
    assert [json.loads((await answer(reader))[1])[0] for _ in range(3)] == ["/1", "/2", "/3"]
    writer.write(request(headers=b"connection: close\r\n"))
    head, _ = await answer(reader)
    assert b"connection: close" in head
    assert await reader.read() == b""
    writer.close()


async def test_a_server_that_drains_answers_and_ends_each_connection_with_its_answer(held: Held) -> None:
    kept, writer = await held.open()
    writer.write(request("/before"))
    assert b"connection" not in (await answer(kept))[0]
    held.listener.drain()
    new, other = await held.open()
    for reader, sender in ((kept, writer), (new, other)):
        sender.write(request("/after"))
        head, body = await answer(reader)
        assert (b"connection: close" in head, json.loads(body)[0]) == (True, "/after")
        assert await reader.read() == b""
        sender.close()


async def test_a_listener_that_is_cancelled_finishes_the_request_it_has_begun(tmp_path: Path) -> None:
    held = Held(tmp_path)
    running = asyncio.create_task(held.listener.run_until_stopped())
    await held.listener.wait_started()
    port = held.listener.port
    reader, writer = await held.open()
    whole = request("/begun", b"x" * 10)
    writer.write(whole[:-5])
    async with asyncio.timeout(20):
        while not held.listener.server_state.tasks:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
        running.cancel()
        writer.write(whole[-5:])
        assert json.loads((await answer(reader))[1]) == ["/begun", "", 10]
        assert await reader.read() == b""
        writer.close()
        with pytest.raises(asyncio.CancelledError):
            await running
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_peer_that_does_not_read_does_not_hold_the_end_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(Held(tmp_path)) as held:
        _, writer = await held.open()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.transport.abort()
    assert "graceful shutdown exceeded" not in caplog.text


async def test_answers_without_a_length_are_chunked(held: Held) -> None:
    async with httpx.AsyncClient(verify=ssl.create_default_context(cafile=held.directory / "ca.crt")) as client:
        url = f"https://localhost:{held.listener.port}"
        assert (await client.post(f"{url}/chunked", content=b"xyz")).json() == ["/chunked", "", 3]
        assert (await client.get(f"{url}/stream")).text == "onetwo"
        assert (await client.head(f"{url}/stream")).text == ""
        assert (await client.head(f"{url}/")).text == ""


async def test_a_body_larger_than_a_buffer_arrives_whole(held: Held) -> None:
    reader, writer = await held.open()
    writer.write(request(body=b"x" * 3_000_000, headers=b"expect: 100-continue\r\n"))
    assert b"100 Continue" in await reader.readuntil(b"\r\n\r\n")
    assert json.loads((await answer(reader))[1])[2] == 3_000_000
    writer.close()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(HEAD + b"a: b\r\n" * 200_000, id="lines without end"),
        pytest.param(HEAD + b"a: " + b"b" * 1_000_000, id="a line without end"),
        pytest.param(b"POST /" + b"b" * 1_000_000, id="a path without end"),
        pytest.param(
            HEAD + b"transfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n" + b"a: b\r\n" * 200_000,
            id="trailers without end",
        ),
    ],
)
async def test_a_head_has_an_end(held: Held, sent: bytes) -> None:
    reader, writer = await held.open()
    received = b""
    with contextlib.suppress(ConnectionError):
        writer.write(sent)
        async with asyncio.timeout(10):
            received = await reader.read()
    assert received[:12] in (b"HTTP/1.1 400", b"")
    assert held.bodies == []
    writer.close()
    assert json.loads((await asked(held))[1])[0] == "/"


async def asked(held: Held) -> tuple[bytes, bytes]:
    """The answer to an ordinary request on a connection of its own."""
    reader, writer = await held.open()
    writer.write(request())
    found = await answer(reader)
    writer.close()
    return found


async def test_what_is_pipelined_has_an_end(held: Held) -> None:
    reader, writer = await held.open()
    writer.write(request() * 100)
    async with asyncio.timeout(10):
        assert b"HTTP/1.1 400" in await reader.read()
    writer.close()
    assert len(held.bodies) <= 10


async def test_a_client_that_does_not_read_its_answer_is_cut_off(impatient: Held) -> None:
    _, writer = await impatient.open()
    writer.write(request("/large"))
    async with asyncio.timeout(10):
        while not impatient.bodies or impatient.listener.server_state.connections:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.02)
    writer.transport.abort()


async def test_what_is_no_http_is_refused(held: Held) -> None:
    reader, writer = await held.open()
    writer.write(b"hello there\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 400")
    writer.close()


async def test_a_reset_connection_leaves_nothing_behind(held: Held) -> None:
    protocols: list[weakref.ref[Any]] = []
    for _ in range(5):
        reader, writer = await held.open()
        writer.write(request())
        await answer(reader)
        protocols += [weakref.ref(one) for one in held.listener.server_state.connections]
        linger = writer.get_extra_info("socket")
        linger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        writer.transport.abort()
        async with asyncio.timeout(5):
            while held.listener.server_state.connections:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
    del reader, writer, linger
    gc.collect()
    assert [one() for one in protocols if one() is not None] == []


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"POST / HT", id="half a head"),
        pytest.param(HEAD + b"content-length: 100\r\n\r\nhalf", id="half a body"),
    ],
)
async def test_a_client_that_does_not_go_on_is_closed(impatient: Held, sent: bytes) -> None:
    reader, writer = await impatient.open()
    writer.write(sent)
    async with asyncio.timeout(5):
        assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize("used", [True, False])
async def test_an_idle_connection_is_kept_for_as_long_as_it_should(impatient: Held, used: bool) -> None:
    reader, writer = await impatient.open()
    if used:
        writer.write(request())
        await answer(reader)
    async with asyncio.timeout(5):
        while not impatient.listener.server_state.connections:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
    (one,) = impatient.listener.server_state.connections
    assert isinstance(one, Connection)
    assert one.timeout_keep_alive == KEEP_ALIVE_SECONDS == 120
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await reader.read(1)
    one.timeout_keep_alive = 0
    async with asyncio.timeout(5):
        assert await reader.read() == b""
    writer.close()


async def test_a_new_certificate_is_served_to_new_connections(held: Held) -> None:
    reader, writer = await held.open()
    begin = datetime.now(UTC) - timedelta(days=1)
    authority = make_ca("new CA", begin, begin + timedelta(days=9))
    leaf = make_leaf(authority, ["localhost"], [], begin, begin + timedelta(days=9))
    for name, content in (("ca.crt", authority.cert_pem), ("tls.crt", leaf.cert_pem), ("tls.key", leaf.key_pem)):
        (held.directory / name).write_bytes(content)
    assert held.source.poll() is True
    other_reader, other_writer = await held.open()
    for one, other in ((reader, writer), (other_reader, other_writer)):
        other.write(request())
        assert (await answer(one))[0].startswith(b"HTTP/1.1 200")
        other.close()


def test_an_address_that_is_not_ours() -> None:
    with pytest.raises(OSError, match="assign requested address"):
        bind("192.0.2.1", 0)
    bind("::1", 0).close()
