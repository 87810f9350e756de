"""Serve the FastAPI application on the tools port, for people and monitoring.

This port shares the event loop with the port for API servers, and must not delay that port. That
is why only a few connections are open at a time, each for one request, and only a few requests are
answered at a time. uvicorn limits neither connections nor unfinished handshakes, so this module
accepts the connections, and uses only uvicorn's protocol on them.
"""

import asyncio
import socket
from typing import Any

import uvicorn
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from app.admission.asgi import KNOWN_CALLER, App, Message, Receive, Scope, Send
from app.base.turns import TurnQueue
from app.certificates.source import ServingCertificate
from app.server.handshakes import Backlog, Handshakes
from app.server.tls import TlsTransport

CONNECTIONS = 64
"""The maximum number of connections with a complete handshake.

If there are more, the oldest one is closed.
"""

CONNECTION_SECONDS = 120.0
"""The maximum life of a connection after its handshake, in seconds.

Each connection is for one request.
"""

UNREAD = 4
"""The maximum number of connections with an unread answer. An answer may have 8 MiB."""

POSTS = 4
"""The maximum number of POSTs in progress. Further ones get 503."""

BODY_SECONDS = 10.0
"""The time limit for a body, in seconds.

Without it, POSTS clients that never send their bodies would keep out all others.
"""

MOST_PARAMETERS = 16
"""The maximum number of query parameters. Splitting 31,000 of them (63 KB) takes 48 ms."""

READ_SECONDS = 0.005
"""The time, in seconds, after which a turn of the event loop reads from no further connection.

h11 takes 12 ms for 16 KiB of small chunks, and 30 ms for a head of 64 KiB with 15,000 lines.
"""

REST = 2.0
"""The pause of reading after its turn, as a multiple of the time that the turn took."""

_PIECE = 4096
"""The maximum number of bytes that are read from a connection at once."""

_HEAD = 64 * 1024
"""The maximum size of a head, in bytes. The query of a dry run may contain a document."""

_FREE = frozenset({"/healthz", "/readyz", "/version"})
"""The paths that never wait for other requests."""


class RequestLimits:
    """An ASGI app that limits how many requests `app` answers at the same time.

    `app` answers at most POSTS requests with the method POST, and one other request. Paths in _FREE
    don't count. A query of more than MOST_PARAMETERS parameters gets 400.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._turn = asyncio.Lock()
        self._posting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["query_string"].count(b"&") >= MOST_PARAMETERS:
            problem = f"too many parameters: use at most {MOST_PARAMETERS} in a query"
            await JSONResponse({"error": problem}, 400)(scope, receive, send)
        elif scope["path"] in _FREE:
            await self._app(scope, receive, send)
        elif scope["method"] != "POST":
            async with self._turn:
                await asyncio.sleep(0)  # so that each turn of the event loop answers at most one
                await self._app(scope, receive, send)
        elif self._posting >= POSTS:
            busy = {"error": "too many requests at once: try again in a second"}
            await JSONResponse(busy, 503, {"retry-after": "1"})(scope, receive, send)
        else:
            self._posting += 1
            try:
                await self._app(scope, _in_time(receive), send)
            finally:
                self._posting -= 1


def _in_time(receive: Receive) -> Receive:
    """Return a `receive` that reports a disconnect after BODY_SECONDS."""
    end = asyncio.get_running_loop().time() + BODY_SECONDS

    async def received() -> Message:
        try:
            async with asyncio.timeout_at(end):
                return await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}

    return received


class ToolsListener:
    """A listener that serves `app` on `sock` over TLS."""

    def __init__(self, app: App, sock: socket.socket, certificate: ServingCertificate) -> None:
        config = uvicorn.Config(
            RequestLimits(app),
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
        self._buffer = memoryview(bytearray(_PIECE))
        self.handshakes = Handshakes(4 * CONNECTIONS)
        self.open = Backlog(CONNECTIONS)
        """The connections with a complete handshake."""
        self.unread = Backlog(UNREAD)
        """The connections whose client hasn't read the whole answer."""
        self.reading = TurnQueue[_Connection](lambda each: each.read(), READ_SECONDS, rest=REST)
        """The connections whose received data has not been parsed yet."""

    @property
    def port(self) -> int:
        """The port that the socket is bound to. The kernel chose it if the configured port is 0."""
        return int(self._sock.getsockname()[1])

    @property
    def most_connections(self) -> int:
        """The maximum number of open connections, including unfinished handshakes."""
        return CONNECTIONS + self.handshakes.most

    async def run(self) -> None:
        """Serve until cancelled."""
        server = await asyncio.get_running_loop().create_server(self._accepted, sock=self._sock)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            server.close()
            self.handshakes.abort()
            self.open.abort()

    def _accepted(self) -> TlsTransport:
        context = self._certificate.context
        return TlsTransport(context, self._make, self.handshakes, CONNECTION_SECONDS, self._buffer)


class _Connection(H11Protocol):
    """A uvicorn connection within the limits of the tools port."""

    def __init__(self, listener: ToolsListener, **options: Any) -> None:
        super().__init__(**options)
        self._listener = listener
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, TlsTransport)
        self._accepted = transport
        self._end = self.loop.call_later(CONNECTION_SECONDS, transport.abort)
        self._listener.open.add(transport)
        self.app_state[KNOWN_CALLER] = bool(transport.get_extra_info("peercert"))
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end.cancel()
        self._listener.open.remove(self._accepted)
        self._listener.unread.remove(self._accepted)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        self._accepted.pause_reading()
        self._listener.reading.add(self)

    def read(self) -> None:
        """Pass the received data to uvicorn, unless the connection is closing."""
        data, self._unread = self._unread, b""
        if self._accepted.is_closing():
            return
        super().data_received(data)
        if not self.flow.read_paused:
            self._accepted.resume_reading()

    def pause_writing(self) -> None:
        self._listener.unread.add(self._accepted)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._listener.unread.remove(self._accepted)
        super().resume_writing()
