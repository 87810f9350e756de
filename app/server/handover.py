"""Hands a connection over to uvicorn, for a complete request that is not an admission request.

Only constructor arguments and public attributes of uvicorn are used. The response ends the
connection, so that the begin of a next request need not be found. This is acceptable because probes
and scrapes are rare.
"""

import asyncio
from collections.abc import Callable

import uvicorn
from uvicorn.server import ServerState

from app.admission.asgi import KNOWN_CALLER, App
from app.admission.serving import Serving


class ToUvicorn:
    """The way of a connection to uvicorn, which runs `app`."""

    def __init__(self, app: App) -> None:
        self._config = uvicorn.Config(
            app,
            interface="asgi3",
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
        )
        self._config.load()
        self._make: Callable[..., asyncio.Protocol] = self._config.http_protocol_class
        self._state = ServerState()
        self._state.default_headers = [(b"connection", b"close")]

    def __call__(self, serving: Serving, transport: asyncio.Transport, request: bytes) -> None:
        known = bool(transport.get_extra_info("peercert"))
        protocol = self._make(
            config=self._config, server_state=self._state, app_state={KNOWN_CALLER: known}
        )
        guarded = Guarded(serving, protocol)
        transport.set_protocol(guarded)
        guarded.connection_made(transport)
        serving.crowd.hold(guarded, len(request))
        protocol.data_received(request)


class Guarded(asyncio.Protocol):
    """A connection that the `protocol` of uvicorn serves, within the limits.

    Data after the request are ignored.
    """

    def __init__(self, serving: Serving, protocol: asyncio.Protocol) -> None:
        self._serving = serving
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._end = self._loop.call_later(self._serving.limits.handed_over_seconds, self.abort)
        self._serving.opened(self)
        self._protocol.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end.cancel()
        self._stop_unread()
        self._protocol.connection_lost(exc)
        self._serving.closed(self)

    def data_received(self, data: bytes) -> None:
        pass

    def eof_received(self) -> bool:
        """Keep the connection open, because the answer to its request ends it."""
        return True

    def idle_since(self) -> None:
        """Return None, because a request is in progress until the connection is closed."""

    def pause_writing(self) -> None:
        self._unread = self._loop.call_later(self._serving.limits.answer_seconds, self.abort)
        self._serving.crowd.hold(self, self._transport.get_write_buffer_size())
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._stop_unread()
        self._serving.crowd.hold(self, 0)
        self._protocol.resume_writing()

    def finish(self) -> None:
        """Does nothing, because the current response is the last one."""

    def retire(self) -> None:
        """Does nothing, because the current response is the last one."""

    def abort(self) -> None:
        self._transport.abort()

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
