import asyncio
import gc
import socket
import ssl
import struct
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import uvloop
from uvicorn.config import Config
from uvicorn.server import ServerState

from app.admission.connection import Connection
from app.tls.issue import make_ca, make_leaf
from app.tls.reload import ServingCertificate

NOW = datetime.now(UTC)
CA = make_ca("test CA", NOW - timedelta(days=1), NOW + timedelta(days=1))
LEAF = make_leaf(CA, ["localhost"], [], NOW - timedelta(days=1), NOW + timedelta(days=1))

KEEP_ALIVE = 120
LIMIT = 0.03
"""What the tests set the limit under test to; the other one stands at a minute."""

HEAD = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\n"
REQUEST = HEAD + b"body"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

Scenario = Callable[[], Awaitable[None]]
Run = Callable[[Scenario], None]


class Watched(Connection):
    """A Connection that tells when it begins and ends."""

    header_seconds = body_seconds = 60.0
    alive: weakref.WeakSet["Watched"]
    made: asyncio.Queue[None]
    lost: asyncio.Queue[Exception | None]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.alive.add(self)
        self.made.put_nowait(None)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.lost.put_nowait(exc)


class SlowHeaders(Watched):
    header_seconds = LIMIT


class SlowBody(Watched):
    body_seconds = LIMIT


class LongLimits(Watched):
    header_seconds, body_seconds = 20, 40


async def answer_whole(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await answer(send)


async def answer_early(scope: Any, receive: Any, send: Any) -> None:
    """As for a body that is too large: without waiting for it."""
    await answer(send)


async def answer(send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Server:
    """A Connection class on loopback, over TLS."""

    def __init__(self, port: int, state: ServerState, protocol: type[Watched]) -> None:
        self.port, self.state, self.protocol = port, state, protocol

    async def connect(self) -> Client:
        context = ssl.create_default_context(cadata=CA.cert_pem.decode())
        client = await asyncio.open_connection("127.0.0.1", self.port, ssl=context, server_hostname="localhost")
        await asyncio.wait_for(self.protocol.made.get(), 5)
        return client

    @property
    def connection(self) -> Watched:
        """The only one."""
        (connection,) = self.protocol.alive
        return connection

    async def ended(self) -> Exception | None:
        return await asyncio.wait_for(self.protocol.lost.get(), 5)


@asynccontextmanager
async def serving(protocol: type[Watched], app: Any = answer_whole) -> AsyncIterator[Server]:
    protocol.alive, protocol.made, protocol.lost = weakref.WeakSet(), asyncio.Queue(), asyncio.Queue()
    certificate = ServingCertificate()
    certificate.load(LEAF)
    config = Config(app, ws="none", lifespan="off", log_config=None, proxy_headers=False, timeout_keep_alive=KEEP_ALIVE)
    config.load()
    loop, state = asyncio.get_running_loop(), ServerState()
    listener = await loop.create_server(
        lambda: protocol(config, state, {}, loop), "127.0.0.1", 0, ssl=certificate.context
    )
    try:
        yield Server(listener.sockets[0].getsockname()[1], state, protocol)
    finally:
        listener.close()
        for connection in list(protocol.alive):
            connection.transport.abort()


async def exchange(client: Client, request: bytes = REQUEST) -> None:
    reader, writer = client
    writer.write(request)
    assert await reader.readexactly(len(ANSWER)) == ANSWER


def reset(client: Client) -> None:
    """Ends with a RST, like a client that crashed."""
    writer = client[1]
    sock = writer.get_extra_info("socket")
    option = (socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.setsockopt(*option)
    writer.transport.abort()


async def until(condition: Callable[[], bool]) -> None:
    """Lets the loop turn until the server has seen what was sent."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - what is waited for is in uvicorn, which sets no event
            await asyncio.sleep(0)


def seconds_left(timer: asyncio.TimerHandle | None) -> float:
    assert timer is not None
    return timer.when() - asyncio.get_running_loop().time()


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    def run(scenario: Scenario) -> None:
        async def main() -> None:
            await scenario()

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(main())

    return run


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([], id="before a request"),
        pytest.param([HEAD[:20]], id="in its headers"),
        pytest.param([HEAD, b"bo"], id="in its body"),
    ],
)
@pytest.mark.parametrize("earlier", [0, 2], ids=["the first request", "after two requests"])
def test_a_reset_connection_leaves_nothing_alive(run: Run, sent: list[bytes], earlier: int) -> None:
    async def scenario() -> None:
        async with serving(Watched) as server:
            clients = [await server.connect() for _ in range(3)]
            for client in clients:
                for _ in range(earlier):
                    await exchange(client)
                client[1].writelines(sent)
                reset(client)
            for _ in clients:
                await server.ended()
            await until(lambda: not server.state.tasks)
            gc.collect()
            assert (len(server.protocol.alive), len(server.state.connections)) == (0, 0)

    run(scenario)


def test_a_handler_that_still_runs_does_not_hold_a_reset_connection(run: Run) -> None:
    async def scenario() -> None:
        started, finish = asyncio.Event(), asyncio.Event()

        async def slow(scope: Any, receive: Any, send: Any) -> None:
            started.set()
            await finish.wait()
            await answer(send)

        async with serving(Watched, slow) as server:
            client = await server.connect()
            client[1].write(REQUEST)
            await started.wait()
            reset(client)
            await server.ended()
            gc.collect()
            assert len(server.protocol.alive) == 0
            (task,) = server.state.tasks
            finish.set()
            await task

    run(scenario)


@pytest.mark.parametrize(
    ("protocol", "sent"),
    [
        pytest.param(SlowHeaders, b"P", id="one byte"),
        pytest.param(SlowHeaders, HEAD[:-1], id="headers without their last byte"),
        pytest.param(SlowHeaders, b"\r\n", id="a blank line that no request follows"),
        pytest.param(SlowHeaders, REQUEST + HEAD[:10], id="a second request's headers, begun behind the first"),
        pytest.param(SlowBody, HEAD, id="no body"),
        pytest.param(SlowBody, HEAD + b"bod", id="a body without its last byte"),
        pytest.param(
            SlowBody, HEAD.replace(b"content-length: 4", b"expect: 100-continue\r\ncontent-length: 4"), id="expect"
        ),
        pytest.param(
            SlowBody,
            HEAD.replace(b"content-length: 4", b"transfer-encoding: chunked") + b"2\r\nbo\r\n",
            id="chunks without an end",
        ),
    ],
)
@pytest.mark.parametrize("earlier", [0, 1], ids=["the first request", "after a request"])
def test_a_request_that_does_not_arrive_is_closed(run: Run, protocol: type[Watched], sent: bytes, earlier: int) -> None:
    async def scenario() -> None:
        async with serving(protocol) as server:
            client = await server.connect()
            for _ in range(earlier):
                await exchange(client)
            client[1].write(sent)
            await server.ended()
            client[1].transport.abort()

    run(scenario)


def test_a_client_that_sends_a_byte_now_and_then_gains_nothing(run: Run) -> None:
    async def scenario() -> None:
        async with serving(SlowHeaders) as server:
            client = await server.connect()
            begin = asyncio.get_running_loop().time()
            for byte in HEAD[:50]:
                client[1].write(bytes([byte]))
                await asyncio.sleep(LIMIT / 10)
                if not server.protocol.lost.empty():
                    break
            assert LIMIT <= asyncio.get_running_loop().time() - begin < 5 * LIMIT
            client[1].transport.abort()

    run(scenario)


def test_limits_by_default() -> None:
    assert (Connection.header_seconds, Connection.body_seconds) == (10, 30)


def test_the_body_has_its_own_time(run: Run) -> None:
    async def scenario() -> None:
        async with serving(LongLimits) as server:
            client = await server.connect()
            client[1].write(HEAD[:10])
            await until(lambda: server.connection._awaited == "headers")
            assert seconds_left(server.connection._deadline) == pytest.approx(20, abs=1)
            client[1].write(HEAD[10:])
            await until(lambda: server.connection._awaited == "body")
            assert seconds_left(server.connection._deadline) == pytest.approx(40, abs=1)
            await exchange(client, b"body")
            assert server.connection._deadline is None
            reset(client)
            await server.ended()

    run(scenario)


def test_a_handler_that_does_not_read_is_not_the_clients_fault(run: Run) -> None:
    async def scenario() -> None:
        read = asyncio.Event()

        async def late(scope: Any, receive: Any, send: Any) -> None:
            await read.wait()
            await answer_whole(scope, receive, send)

        size = 256 << 10
        async with serving(SlowBody, late) as server:
            client = await server.connect()
            client[1].write(HEAD.replace(b"length: 4", b"length: %d" % size) + bytes(size))
            await asyncio.sleep(3 * LIMIT)
            read.set()
            await exchange(client, b"")
            reset(client)
            await server.ended()

    run(scenario)


@pytest.mark.parametrize("requests", [0, 1, 3], ids=["unused", "after a request", "after three"])
def test_an_idle_connection_is_kept_for_the_keep_alive_time(run: Run, requests: int) -> None:
    async def scenario() -> None:
        async with serving(SlowHeaders) as server:
            client = await server.connect()
            for _ in range(requests):
                await exchange(client)
            assert seconds_left(server.connection.timeout_keep_alive_task) == pytest.approx(KEEP_ALIVE, abs=1)
            await asyncio.sleep(2 * LIMIT)
            await exchange(client)
            reset(client)
            await server.ended()

    run(scenario)


def test_a_body_that_ends_after_its_answer_leaves_the_connection_on_the_keep_alive_timer(run: Run) -> None:
    async def scenario() -> None:
        async with serving(Watched, answer_early) as server:
            client = await server.connect()
            await exchange(client, HEAD)
            client[1].write(b"body")
            await until(lambda: not server.connection._awaited)
            assert seconds_left(server.connection.timeout_keep_alive_task) == pytest.approx(KEEP_ALIVE, abs=1)
            await exchange(client, HEAD)
            reset(client)
            await server.ended()

    run(scenario)


def test_pipelined_requests_are_answered_in_order(run: Run) -> None:
    async def scenario() -> None:
        async with serving(Watched) as server:
            client = await server.connect()
            await exchange(client, REQUEST * 3)
            await exchange(client, b"")
            await exchange(client, b"")
            reset(client)
            await server.ended()

    run(scenario)


def test_garbage_is_answered_with_400_and_closed(run: Run) -> None:
    async def scenario() -> None:
        async with serving(Watched) as server:
            client = await server.connect()
            client[1].write(b"\x16\x03\x01\r\n\r\n")
            assert (await client[0].read(12)) == b"HTTP/1.1 400"
            await client[0].read()
            client[1].close()
            await server.ended()

    run(scenario)
