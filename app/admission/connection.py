"""One HTTP/1.1 connection: uvicorn's, with what it lacks for a server that thousands of requests a second depend on.

- A reset connection is forgotten at once; uvicorn's keep-alive timer would hold on to it for two minutes.
- Headers and body must come in time: a slow or silent client doesn't keep a connection for ever.
- A response goes out in one write (one TLS record), and its headers, which we made ourselves, are not searched again.
"""

import asyncio
from typing import Any
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

REQUEST_SECONDS = 30.0
"""From the first byte of a request to the last one of its body. A connection that has sent nothing yet is idle: Go
keeps such spare ones, and sends on them later."""

WATCH_SECONDS = 10.0
"""How often a connection is looked at; limits hold to this precision."""


class Cycle(RequestResponseCycle):
    """One request and its response. Responses come from our own apps: whole, with their content-length."""

    _head: bytes = b""

    async def send(self, message: Any) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if message["type"] == "http.response.start" and not self.response_started:
            self._start(message)
        elif self._head and not message.get("more_body", False):
            self._finish(message.get("body", b""))
        else:
            await self._send_rest(message)

    def _start(self, message: Any) -> None:
        self.response_started = True
        self.waiting_for_100_continue = False
        parts = [STATUS_LINE[message["status"]]]
        for name, value in message["headers"]:
            if name == b"content-length":
                self.expected_content_length, self.chunked_encoding = int(value), False
            parts += (name, b": ", value, b"\r\n")
        if not self.keep_alive:
            parts.append(b"connection: close\r\n")
        if self.chunked_encoding is None:
            self.chunked_encoding = True
            parts.append(b"transfer-encoding: chunked\r\n")
        parts.append(b"\r\n")
        self._head = b"".join(parts)

    def _finish(self, body: bytes) -> None:
        """The whole body at once, which is what every admission answer is."""
        if self.chunked_encoding:
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
        self.transport.write(self._head if self.scope["method"] == "HEAD" else self._head + body)
        self._head = b""
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    async def _send_rest(self, message: Any) -> None:
        """A body in several parts: uvicorn's own way, once the head is out."""
        if self._head:
            self.transport.write(self._head)
            self._head = b""
        await super().send(message)


class Connection(HttpToolsProtocol):
    """A connection with one watch over it, which ends with it, in place of a timer for every request."""

    _watch: asyncio.TimerHandle | None = None
    _asked_at: float | None = None
    _idle_at: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._idle_at = self.loop.time()
        self._watch = self.loop.call_later(WATCH_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        super().connection_lost(exc)
        self.pipeline.clear()

    def on_message_begin(self) -> None:
        self._asked_at, self._idle_at = self.loop.time(), None
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """uvicorn's, for a server without websockets, root path and concurrency limit, with our own Cycle."""
        scope, parser = self.scope, self.parser
        scope["method"] = parser.get_method().decode("ascii")
        scope["http_version"] = version = parser.get_http_version()
        url = httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        scope["raw_path"] = url.path
        scope["path"] = unquote(path) if "%" in path else path
        scope["query_string"] = url.query or b""
        before = self.cycle
        self.cycle = Cycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=[],
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def on_message_complete(self) -> None:
        self._asked_at = None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._idle_at = self.loop.time()

    def _look(self) -> None:
        """Closes a connection that has been idle, or in the middle of a request, for too long."""
        now = self.loop.time()
        slow = self._asked_at is not None and now - self._asked_at > REQUEST_SECONDS
        idle = self._idle_at is not None and now - self._idle_at > self.timeout_keep_alive
        if not self.transport.is_closing():
            self._watch = self.loop.call_later(WATCH_SECONDS, self._look)
            if slow or idle:
                self.transport.close()
