"""One HTTP/1.1 connection: uvicorn's, with what it lacks for a server that thousands of requests a second depend on.

- A reset connection is forgotten at once; uvicorn's keep-alive timer would hold on to it for two minutes.
- Headers and body must come in time, and answers be read: a slow or silent client doesn't keep a connection for ever.
- A head, and what is pipelined, has an end: one client can't fill the memory.
- A verdict from cached facts is given without a task, in the turn of the loop that read the request.
- A server that drains says `connection: close` with each answer, so that clients go elsewhere before it stops.
- A response goes out in one write (one TLS record), and its headers, which we made ourselves, are not searched again.
"""

import asyncio
import types
from collections.abc import Coroutine, Generator
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from app.admission.http import KNOWN_CALLER, WHOLE_RESPONSE

_EXTENSIONS: Any = {WHOLE_RESPONSE: {}}
MAX_HEAD = 64 * 1024
"""Bytes without a whole head, or a piece of a body; an API server's head has some hundred."""

MAX_PIPELINED = 8
"""Requests that wait on one connection. API servers send the next one after the answer."""

_WHOLE_HEAD = b"%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


class Cycle(RequestResponseCycle):
    """One request and its response. Responses come from our own apps: whole, with their content-length."""

    _head: bytes = b""
    _received: bool = False

    async def receive(self) -> Any:
        """The body at once where it is whole, which it nearly always is; else uvicorn's own way."""
        if self.more_body or self._received or self.disconnected or self.waiting_for_100_continue:
            return await super().receive()
        self._received = True
        self.message_event.clear()
        self.flow.resume_reading()
        return {"type": "http.request", "body": bytes(self.body), "more_body": False}

    async def send(self, message: Any) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if message["type"] == WHOLE_RESPONSE:
            self.response_started = True
            self._head = _WHOLE_HEAD % (STATUS_LINE[message["status"]], len(message["body"]))
            self._finish(message["body"])
        elif message["type"] == "http.response.start" and not self.response_started:
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
        if self.chunked_encoding is None:
            self.chunked_encoding = True
            parts.append(b"transfer-encoding: chunked\r\n")
        parts.append(b"\r\n")
        self._head = b"".join(parts)

    def _finish(self, body: bytes) -> None:
        """The whole body at once, which is what every admission answer is."""
        if self.chunked_encoding:
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
        head = self._closing_head()
        self.transport.write(head if self.scope["method"] == "HEAD" else head + body)
        self._head = b""
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    def _closing_head(self) -> bytes:
        """The head, with word that the connection ends where it does."""
        return self._head if self.keep_alive else self._head[:-2] + b"connection: close\r\n\r\n"

    async def _send_rest(self, message: Any) -> None:
        """A body in several parts: uvicorn's own way, once the head is out."""
        if self._head:
            self.transport.write(self._closing_head())
            self._head = b""
        await super().send(message)


async def _carry_on(running: Coroutine[Any, Any, None], waited: Any) -> None:
    await _driven(running, waited)


@types.coroutine
def _driven(running: Coroutine[Any, Any, None], waited: Any) -> Generator[Any, Any, None]:
    """The rest of a coroutine that waits for `waited`."""
    while True:
        try:
            try:
                sent = yield waited
            except BaseException as thrown:
                waited = running.throw(thrown)
            else:
                waited = running.send(sent)
        except StopIteration:
            return


@lru_cache(maxsize=64)
def _read_url(url: bytes) -> tuple[bytes, str, bytes]:
    """(raw path, path, query). API servers ask for the same six again and again."""
    found = httptools.parse_url(url)
    path = found.path.decode("ascii")
    return found.path, unquote(path) if "%" in path else path, found.query or b""


class TooMuch(Exception):
    """What this client sends goes beyond a limit. Raised in a callback of the parser, it ends the connection."""


class Connection(HttpToolsProtocol):
    """A connection with one watch over it, which ends with it, in place of a timer for every request.

    Requests to the `eager_paths` of the app are run as soon as they are whole, without a task: see `_run_now`.
    """

    request_seconds = 30.0
    """From the first byte of a request to the last one of its body, and for as long may an answer wait to be read. A
    connection that has sent nothing yet is idle: Go keeps such spare ones, and sends on them later."""

    watch_seconds = 10.0
    """How often a connection is looked at; limits hold to this precision."""

    close_seconds = 1.0
    """When the server stops: for so long a peer may take to answer the end of TLS, which an idle one may not read."""

    _deferred: bool = False
    _watch: asyncio.TimerHandle | None = None
    _asked_at: float | None = None
    _idle_at: float | None = None
    _unread_at: float | None = None
    _unfinished: int = 0
    _went_on: bool = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._eager_paths: frozenset[str] = getattr(self.config.app, "eager_paths", frozenset())
        self._is_known = getattr(self.config.app, "only_known", False) and bool(transport.get_extra_info("peercert"))
        self._idle_at = self.loop.time()
        self._watch = self.loop.call_later(self.watch_seconds, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        super().connection_lost(exc)
        self.pipeline.clear()

    def data_received(self, data: bytes) -> None:
        """uvicorn's, without its timer and its upgrades, and with an end to heads. Whoever asks for an upgrade is
        answered as if it had not."""
        self._went_on = False
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self._refuse("Invalid HTTP request received.")
        except httptools.HttpParserUpgrade:
            return
        if self._went_on:
            self._unfinished = 0
            return
        self._unfinished += len(data)
        if self._unfinished > MAX_HEAD:
            self._refuse(f"The head of a request has at most {MAX_HEAD // 1024} KiB here.")

    def _refuse(self, why: str) -> None:
        if not self.transport.is_closing():
            self.send_400_response(why)
            self.loop.call_later(self.close_seconds, self._give_up_closing)

    def pause_writing(self) -> None:
        self._unread_at = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._unread_at = None
        super().resume_writing()

    def on_message_begin(self) -> None:
        self._asked_at, self._idle_at = self.loop.time(), None
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """uvicorn's, for a server without websockets, root path and concurrency limit, with our own Cycle."""
        self._went_on = True
        if len(self.pipeline) >= MAX_PIPELINED:
            raise TooMuch
        scope, parser = self.scope, self.parser
        scope["method"] = parser.get_method().decode("ascii")
        scope["http_version"] = version = parser.get_http_version()
        scope["raw_path"], scope["path"], scope["query_string"] = _read_url(self.url)
        if self._is_known:
            scope[KNOWN_CALLER] = True  # type: ignore[literal-required]
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
            keep_alive=version != "1.0" and parser.should_keep_alive() and not self._is_draining(),
            on_response=self.on_response_complete,
        )
        if before is not None and not before.response_complete:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))
        elif scope["path"] in self._eager_paths and not self.expect_100_continue:
            self._deferred = True
            scope["extensions"] = _EXTENSIONS
        else:
            self._start_asgi_task(self.cycle, self.app)

    def on_body(self, body: bytes) -> None:
        self._went_on = True
        super().on_body(body)
        if self._deferred and len(self.cycle.body) > HIGH_WATER_LIMIT:
            self._deferred = False
            self._start_asgi_task(self.cycle, self.app)

    def on_message_complete(self) -> None:
        self._went_on = True
        self._asked_at = None
        super().on_message_complete()
        if self._deferred:
            self._deferred = False
            self._run_now(self.cycle)

    def _run_now(self, cycle: RequestResponseCycle) -> None:
        """Runs the app in this very turn of the loop. Only one that has to wait becomes a task, which takes over where
        it waits: the app may ask for its current task only after that."""
        running = cycle.run_asgi(self.app)
        try:
            waited = running.send(None)
        except StopIteration:
            return
        task = self.loop.create_task(_carry_on(running, waited))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._idle_at = self.loop.time()

    def _is_draining(self) -> bool:
        """Whether each answer is to be the last one of its connection: the server is asked to add this header, and
        adds no other."""
        return bool(self.config.encoded_headers)

    def shutdown(self) -> None:
        super().shutdown()
        self.loop.call_later(self.close_seconds, self._give_up_closing)

    def _give_up_closing(self) -> None:
        if self.transport.is_closing():
            self.transport.abort()

    def _look(self) -> None:
        """Closes a connection that has been idle, in the middle of a request, or not read from, for too long."""
        now = self.loop.time()
        if self._unread_at is not None and now - self._unread_at > self.request_seconds:
            self.transport.abort()  # a close would wait for the same peer
            return
        slow = self._asked_at is not None and now - self._asked_at > self.request_seconds
        idle = self._idle_at is not None and now - self._idle_at > self.timeout_keep_alive
        if not self.transport.is_closing():
            self._watch = self.loop.call_later(self.watch_seconds, self._look)
            if slow or idle:
                self.transport.close()
