"""One HTTP connection of uvicorn, with the time limits that uvicorn lacks and without what it leaves behind.

Written against uvicorn's `HttpToolsProtocol`. Limits on what is read stand in `http.py`.
"""

import asyncio
from asyncio.events import TimerHandle
from typing import Any, ClassVar

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState


class Connection(HttpToolsProtocol):
    """A request must arrive within time limits; a lost connection leaves nothing behind.

    - From its first byte a request has `header_seconds` for its headers, and from there `body_seconds` for its body.
      The limits are for the whole, not for a pause: a client that sends a byte now and then gains nothing. A request
      that arrives in one piece, as nearly all do, costs no timer.
    - A connection on which nothing was sent yet has the keep-alive time. Go's HTTP client (the API server) dials more
      connections than it needs and puts those into its idle pool unused: closing one early would fail the first call
      on it, and a POST is not sent again.
    - uvicorn cancels the keep-alive timer only when a connection ends in good order; after a reset the timer holds
      the protocol, its last request and the body for the rest of the keep-alive time.
    """

    header_seconds: ClassVar[float] = 10.0
    body_seconds: ClassVar[float] = 30.0

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._awaited = ""  # the part of a request that has begun and is not in: "headers", "body" or nothing
        self._deadline: TimerHandle | None = None
        self._held_up = False  # the deadline came while we didn't read

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._keep_alive()

    def data_received(self, data: bytes) -> None:
        if not self._awaited:
            self._awaited = "headers"
        if self._held_up:
            self._await(self._awaited)
        super().data_received(data)
        if self._awaited:
            self._set_deadline()
        elif self.cycle is not None and self.cycle.response_complete and self.timeout_keep_alive_task is None:
            self._keep_alive()  # the answer went out before the body was in, whose last bytes unset the timer

    def on_message_begin(self) -> None:
        self._await("headers")
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._await("body")
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._await("")
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._await("")
        if self.cycle is not None:
            self.cycle.on_response = _nothing  # a handler that still runs holds the cycle, but no longer all of us
        self.pipeline.clear()
        self.cycle = self.scope = self.headers = None  # type: ignore[assignment]

    def _keep_alive(self) -> None:
        if not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _await(self, part: str) -> None:
        self._awaited, self._held_up = part, False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _set_deadline(self) -> None:
        if self._deadline is None and not self.transport.is_closing():
            seconds = self.header_seconds if self._awaited == "headers" else self.body_seconds
            self._deadline = self.loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        self._deadline = None
        if self.flow.read_paused:  # not the client's fault: its time begins anew with the next bytes, or now
            self._held_up = True
            self._set_deadline()
            return
        self.logger.info("%s - closed: the request's %s did not arrive in time", self.client, self._awaited)
        self.transport.abort()


def _nothing() -> None:
    pass
