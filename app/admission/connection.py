"""Handle one HTTP/1.1 connection on the port for API servers.

The port accepts POSTs of AdmissionReviews, and GET and HEAD of the probe paths. Other paths and
methods get 404. A connection stays open only after the answer to a complete review.

The README of this folder has the states, the limits and their reasons. A task is created only for a
verdict that has to wait.
"""

import asyncio
import enum
import logging
import math
from collections.abc import Awaitable

from app.admission.body import Body
from app.admission.decide import Route
from app.admission.exchange import MAX_BODY, Answer, Headers, status
from app.admission.head import END, Head, NotHttp, answer_head, read_head, refused
from app.admission.review import namespace_in
from app.admission.serving import Serving

log = logging.getLogger(__name__)

MAX_HEAD = 16 * 1024
"""The maximum size of a head, in bytes. API servers send a few hundred."""

ELSEWHERE = status(
    404,
    "not found: this port accepts POST of AdmissionReviews, and GET of /healthz, /readyz and"
    " /version without a query. Dry runs, metrics and docs are on the tools port"
    " (server.toolsPort)",
)

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class State(enum.Enum):
    """The state of a connection."""

    IDLE = "waits for a request"
    HEAD = "waits for the rest of a head"
    BODY = "waits for the rest of a body"
    WAIT = "waits for a verdict"
    END = "is closing, and drops all received data"


# globals, because reading an enum's attribute is slower
_IDLE, _AT_HEAD, _IN_BODY, _WAITING, _ENDED = State


class Connection(asyncio.Protocol):
    """A connection, which handles one request at a time.

    While a request waits for its verdict, or the client doesn't read its answers, received data is
    buffered, and reading is paused.
    """

    # slots are read faster than a dict: without TLS, a verdict takes 2 % less time
    __slots__ = (
        "__weakref__",
        "_body",
        "_exchange",
        "_has_certificate",
        "_headers",
        "_holds",
        "_is_last",
        "_kept",
        "_limits",
        "_loop",
        "_query",
        "_review",
        "_route",
        "_serving",
        "_since",
        "_state",
        "_task",
        "_transport",
        "_unread_at",
        "_watch",
        "is_caller",
        "review_size",
    )

    _transport: asyncio.Transport
    _body: Body
    _route: Route
    _review: bytes
    _query: bytes
    _headers: Headers

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._limits = serving.limits
        self._exchange = serving.exchange
        self._loop = asyncio.get_running_loop()
        self._state = State.IDLE
        self._since = self._loop.time()
        """The event loop's time at which the request began, or the connection became idle."""
        self._kept = b""
        """Received data that is not handled yet."""
        self._is_last = False
        """Whether the connection is closed after its next answer."""
        self._task: asyncio.Task[None] | None = None
        """The task that waits for a verdict, or None."""
        self._holds = 0
        """The number of bytes that `connections.hold` was last called with."""
        self._unread_at: float | None = None
        """The time since which the client doesn't read its answers, or None."""
        self.is_caller = False
        self.review_size = 0

    # methods that the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._check()
        self._serving.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._state = State.END
        self._kept = self._review = b""
        self._watch.cancel()
        if self._task is not None:
            # after its first step, so that each of its coroutines has started
            self._loop.call_soon(self._task.cancel)
        self._serving.connections.remove(self)

    def data_received(self, data: bytes) -> None:
        if self._state is _ENDED:
            return  # so that the client can read the last answer

        self._kept += data
        if self._state is _WAITING or self._unread_at is not None:
            self._transport.pause_reading()
            self._hold()
        else:
            self._read()

    def pause_writing(self) -> None:
        self._unread_at = self._loop.time()
        self._hold()

    def resume_writing(self) -> None:
        self._unread_at = None
        self._continue()

    # methods that the listener calls

    def idle_since(self) -> float | None:
        return self._since if self._state is State.IDLE and self._unread_at is None else None

    def finish(self) -> None:
        if self._state is State.IDLE:
            self._close()
            self._loop.call_later(self._limits.close_seconds, self.abort)

    def retire(self) -> None:
        self._is_last = True

    def abort(self) -> None:
        self._kept = b""
        self._transport.abort()

    # methods that the queue of reviews calls

    @property
    def review_namespace(self) -> str:
        return namespace_in(self._review)

    def judge(self) -> Answer | Awaitable[Answer] | None:
        review, self._review = self._review, b""
        if self._state is _ENDED:
            return None

        try:
            return self._exchange.answer(self._route, self._query, self._headers, review)
        except Exception:
            self._fail()
            return None

    def take(self, answer: Answer | Awaitable[Answer]) -> None:
        if not isinstance(answer, tuple):
            self._task = self._loop.create_task(self._answer_later(answer))
            self._hold()
            return

        try:
            self._write(answer)
            self._end_request()
        except Exception:  # the other requests of this turn need their answers
            self._fail()

    def _read(self) -> None:
        """Handle buffered data until a request must wait for its verdict, or is incomplete."""
        while self._kept and self._unread_at is None:
            if self._state is _IN_BODY:
                is_complete = self._read_body()
            elif self._state is _WAITING or self._state is _ENDED:
                break
            else:
                is_complete = self._read_head()
            if not is_complete:
                break
        if self._kept or self._state is _IN_BODY:
            self._hold()

    def _read_head(self) -> bool:
        """Read a head, and the whole body if it has arrived.

        Return False if the head is incomplete, or if the connection is now closing.
        """
        data = self._kept
        end = data.find(END)
        if end < 0 or end > MAX_HEAD:
            if len(data) > MAX_HEAD:
                reason = f"The head of the request has more than {MAX_HEAD // 1024} KiB."
                self._end_with(refused(NotHttp(reason)))
            elif self._state is _IDLE:
                self._begin(State.HEAD)
            return False

        end += len(END)
        try:
            head = read_head(data[:end])
        except NotHttp as refusal:
            self._end_with(refused(refusal))
            return False

        self._is_last |= not head.keep_alive
        exchange = self._exchange
        route = exchange.route(head.path) if head.method == b"POST" else None
        if route is None:
            self._answer_other(head)
            return False

        unknown = exchange.refusal(route, has_certificate=self._has_certificate)
        if unknown is not None:
            self._answer_last(unknown)
            return False

        self.is_caller |= route.trusted or exchange.only_known
        self._route = route
        self._query = head.query
        self._headers = head.headers
        behind = end + head.length
        if behind <= len(data) and head.length <= MAX_BODY:
            self._kept = data[behind:]
            self._decide(data[end:behind])
            return True

        self._kept = data[end:]
        self._body = Body(head.length)
        self._begin(State.BODY)
        if head.expects_continue:
            self._transport.write(_CONTINUE)
        return True

    def _read_body(self) -> bool:
        """Read the received part of a body. Return False if it is incomplete or too large."""
        body = self._body
        self._kept = body.read(self._kept)
        if body.too_large:
            content_type = self._headers.get(b"content-type", b"")
            self._answer_last(self._exchange.too_large(self._route, content_type, body.whole()))
        if body.missing or self._state is _ENDED:
            return False

        whole = body.whole()
        del self._body, body  # otherwise, the review is in memory twice
        self._decide(whole)
        return True

    def _begin(self, state: State) -> None:
        """Wait for the rest of a head or a body.

        The time limit starts with the first byte of the request.
        """
        if self._state is _IDLE:
            self._since = self._loop.time()
        self._state = state

    def _decide(self, review: bytes) -> None:
        """Judge a complete request now, or later in a batch with requests of other connections."""
        self._state = _WAITING
        self._review = review
        self.review_size = len(review)
        self.is_caller = True
        self._serving.queue.ask(self)

    async def _answer_later(self, awaited: Awaitable[Answer]) -> None:
        """Wait for an answer, and write it."""
        try:
            answer = await awaited
        except Exception:
            self._fail()
            return
        self._task = None
        self.take(answer)

    def _fail(self) -> None:
        """Abort the connection after a bug in this program.

        Failures of webhooks don't get here, because `decide` turns them into verdicts.
        """
        log.exception("no answer")
        self.abort()

    def _answer_other(self, head: Head) -> None:
        """Answer a request that needs no verdict, then close the connection."""
        content_type, (code, body) = "application/json", ELSEWHERE
        if head.method in (b"GET", b"HEAD") and not head.query:
            report = self._serving.report(head.path)
            if report is not None:
                content_type, (code, body) = report
        head_bytes = answer_head(code, len(body), True, content_type)
        self._end_with(head_bytes if head.method == b"HEAD" else head_bytes + body)

    def _answer_last(self, answer: Answer) -> None:
        """Answer a request without reading the rest of its body, then close the connection."""
        self._is_last = True
        self._write(answer)
        self._close()

    def _write(self, answer: Answer) -> None:
        """Write an answer. While the server drains, it is the last answer of the connection."""
        code, body = answer
        self._is_last |= self._serving.draining
        self._transport.write(answer_head(code, len(body), self._is_last) + body)

    def _end_request(self) -> None:
        """Close the connection after its last answer, or else handle the next request."""
        self._state = _IDLE
        self._since = self._loop.time()
        self.review_size = 0
        if self._is_last:
            self._close()
        elif self._holds or self._kept:
            self._continue()

    def _continue(self) -> None:
        """Handle buffered data after an answer was written, or after the client has read it."""
        if self._state is not State.END:
            self._transport.resume_reading()
            self._read()
        self._hold()

    def _end_with(self, data: bytes) -> None:
        """Write the bytes of the last answer, and close the connection."""
        self._transport.write(data)
        self._close()

    def _close(self) -> None:
        """Close the connection.

        The transport drops the rest of the request, so that the client can read the answer.
        """
        if self._state is _IN_BODY:
            del self._body
        self._state = State.END
        self._kept = b""
        self._hold()
        self._transport.close()

    def _hold(self) -> None:
        """Report the number of bytes that this connection holds."""
        size = len(self._kept) + self.review_size
        if self._state is _IN_BODY:
            size += self._body.size
        if self._unread_at is not None:
            size += self._transport.get_write_buffer_size()
        if size != self._holds:
            self._holds = size
            self._serving.connections.hold(self, size)

    def _check(self) -> None:
        """Close the connection if it is idle for too long, or its request or answer takes too long.

        Also check whether the client's certificate has expired. Repeat both every `watch_seconds`.
        """
        self._has_certificate = bool(self._transport.get_extra_info("peercert"))
        self._watch = self._loop.call_later(self._limits.watch_seconds, self._check)
        now = self._loop.time()
        if self._unread_at is not None:
            if now - self._unread_at > self._limits.answer_seconds:
                self.abort()  # close() would wait for the same client
        elif now - self._since > self._most_seconds():
            self._close()

    def _most_seconds(self) -> float:
        """Return the time limit of the current state, in seconds, or infinity for WAIT."""
        if self._state is _IDLE:
            return self._limits.idle_seconds
        return math.inf if self._state is _WAITING else self._limits.request_seconds
