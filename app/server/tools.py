"""The tools port for people and monitoring: uvicorn's protocol with the FastAPI application.

It shares the event loop with the port for API servers, and must not delay that. So few connections
are open at a time, each for one request, and costly requests are answered one at a time. uvicorn
has no limit for the number of connections and of unfinished handshakes. So connections are accepted
here, and only uvicorn's protocol is used on them.
"""

import asyncio
import re
import socket
import time
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from app.admission.asgi import KNOWN_CALLER, App, Message, Receive, Scope, Send
from app.certificates.source import ServingCertificate
from app.server.door import Handshakes, Line
from app.server.tls import TlsTransport

CONNECTIONS = 64
"""The most connections with a complete handshake. If there are more, the oldest one is closed."""

CONNECTION_SECONDS = 120.0
"""The longest life of a connection after its handshake. Each connection is for one request."""

UNREAD = 4
"""The most connections whose client hasn't read the whole answer, which may have 8 MiB."""

POSTS = 4
"""The most requests with a body in progress. Further ones get 503."""

MOST_PARAMETERS = 16
"""The most parameters of a query. Splitting 31,000 of them (63 KB) takes 48 ms."""

SENDING_SECONDS = 5.0
"""The time after which a request whose body is incomplete gives way to another one."""

_HEAD = 64 * 1024
"""The most bytes of a head. The query of a dry run may contain a document."""

MOST_LINES = 100
"""Of a head. One of 64 KiB with 15,000 lines takes 30 ms."""

READ_SECONDS = 0.005
"""Of one turn of the event loop, for what clients send: h11 takes 12 ms for 16 KiB of small chunks.
"""

REST = 2.0
"""The pause after such a time, in terms of it."""

_PIECE = 4096
"""The most bytes that h11 reads at once."""

_END = re.compile(rb"\n\r?\n")
_ABORT = "abort"

_FREE = frozenset({"/healthz", "/readyz", "/version"})
"""The paths that never wait for other requests."""


class InTurns:
    """An ASGI app that answers one request at a time, and limits requests with a body."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._turn = asyncio.Lock()
        self._posting = 0
        self._sending: dict[object, tuple[float, Callable[[], None]]] = {}
        """Since when each request with an incomplete body is read, and what ends its connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["query_string"].count(b"&") >= MOST_PARAMETERS:
            problem = f"too many parameters: use at most {MOST_PARAMETERS} in a query"
            await JSONResponse({"error": problem}, 400)(scope, receive, send)
        elif scope["path"] in _FREE:
            await self._app(scope, receive, send)
        elif scope["method"] != "POST":
            async with self._turn:
                await asyncio.sleep(0)  # so that each turn of the event loop has at most one
                await self._app(scope, receive, send)
        elif self._posting >= POSTS and not self._end_slow():
            busy = {"error": "too many requests at once: try again in a second"}
            await JSONResponse(busy, 503, {"retry-after": "1"})(scope, receive, send)
        else:
            await self._take_post(scope, receive, send)

    async def _take_post(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = object()

        async def received() -> Message:
            message = await receive()
            if not message.get("more_body", False):
                self._sending.pop(key, None)
            return message

        self._posting += 1
        self._sending[key] = (time.monotonic(), scope["state"][_ABORT])
        try:
            await self._app(scope, received, send)
        finally:
            self._posting -= 1
            self._sending.pop(key, None)

    def _end_slow(self) -> bool:
        """End the connection of the oldest incomplete request. Return False if none is slow."""
        if not self._sending:
            return False
        oldest, (since, abort) = next(iter(self._sending.items()))
        is_slow = time.monotonic() - since > SENDING_SECONDS
        if is_slow:
            del self._sending[oldest]
            abort()
        return is_slow


class ToolsDoor:
    """The listener of the tools port, which serves `app` on `sock` over TLS."""

    def __init__(self, app: App, sock: socket.socket, certificate: ServingCertificate) -> None:
        config = uvicorn.Config(
            InTurns(app),
            interface="asgi3",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=_HEAD,
        )
        config.load()
        state = ServerState()
        state.default_headers = [(b"connection", b"close")]
        self._make = lambda: _Connection(self, config=config, server_state=state, app_state={})
        self._sock = sock
        self._certificate = certificate
        self.handshakes = Handshakes(4 * CONNECTIONS)
        self.open = Line(CONNECTIONS)
        self.unread = Line(UNREAD)
        self._reading: dict[_Connection, None] = {}
        """Connections that have received something, in the order of their turns."""
        self._is_planned = False

    @property
    def port(self) -> int:
        return int(self._sock.getsockname()[1])

    @property
    def most_connections(self) -> int:
        """The most connections that are open at a time, including unfinished handshakes."""
        return CONNECTIONS + self.handshakes.most

    async def run(self) -> None:
        """Serve until cancelled."""
        server = await asyncio.get_running_loop().create_server(self._accepted, sock=self._sock)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            server.close()
            self.handshakes.end()
            self.open.abort()

    def _accepted(self) -> TlsTransport:
        context = self._certificate.context
        return TlsTransport(context, self._make, self.handshakes, CONNECTION_SECONDS)

    def read_later(self, connection: "_Connection") -> None:
        """Let `connection` read what it has received as soon as there is time."""
        self._reading[connection] = None
        if not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._read)

    def _read(self) -> None:
        """Let connections read in turns, a piece each, while there is time."""
        begin = time.perf_counter()
        spent = 0.0
        while self._reading:
            connection = next(iter(self._reading))
            del self._reading[connection]
            if connection.read():
                self._reading[connection] = None
            spent = time.perf_counter() - begin
            if spent > READ_SECONDS:
                break
        self._is_planned = bool(self._reading)
        if self._is_planned:
            asyncio.get_running_loop().call_later(REST * spent, self._read)


class _Connection(H11Protocol):
    """A uvicorn connection within the limits of the tools port."""

    def __init__(self, door: ToolsDoor, **options: Any) -> None:
        super().__init__(**options)
        self._door = door
        self._head: bytes | None = b""
        """What was read of the head; None once that is complete."""
        self._unread = b""
        self._has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, TlsTransport)
        self._accepted = transport
        self._end = self.loop.call_later(CONNECTION_SECONDS, transport.abort)
        self._door.open.add(transport)
        self.app_state[KNOWN_CALLER] = bool(transport.get_extra_info("peercert"))
        self.app_state[_ABORT] = transport.abort
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end.cancel()
        self._door.open.remove(self._accepted)
        self._door.unread.remove(self._accepted)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        self._wait()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection open for the answer, which ends it."""
        self._has_ended = True
        self._wait()
        return True

    def _wait(self) -> None:
        self._accepted.pause_reading()
        self._door.read_later(self)

    def read(self) -> bool:
        """Read a piece of what has arrived. Return whether there is more."""
        piece, self._unread = self._unread[:_PIECE], self._unread[_PIECE:]
        if self._accepted.is_closing():
            return False
        if self._is_long_head(piece):
            self.send_400_response(f"The head of a request has at most {MOST_LINES} lines here.")
            return False
        if piece:
            super().data_received(piece)
        if self._unread:
            return True
        if self._has_ended and self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._accepted.close()  # there is no request to answer
        elif not self.flow.read_paused:
            self._accepted.resume_reading()
        return False

    def _is_long_head(self, data: bytes) -> bool:
        if self._head is None:
            return False
        self._head += data
        end = _END.search(self._head)
        lines = self._head.count(b"\n", 0, end.start() if end else None)
        if end:
            self._head = None
        return lines > MOST_LINES

    def pause_writing(self) -> None:
        self._door.unread.add(self._accepted)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._door.unread.remove(self._accepted)
        super().resume_writing()
