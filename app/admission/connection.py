"""One HTTP/1.1 connection of the port for API servers.

It accepts POST of AdmissionReviews, and GET of the few paths of probes. All other requests get 404,
and their connection is closed.

The README of this folder has the states, the limits and their reasons. Requests that arrive in one
turn of the event loop are judged together (`Serving.ask`). A task is created only for a verdict
that has to wait.
"""

import asyncio
import enum
import logging
import math
from collections.abc import Awaitable

from app.admission.body import Body, Chunked, Sized
from app.admission.decide import Route
from app.admission.exchange import MAX_BODY, Answer, Headers, status
from app.admission.head import END, Head, NotHttp, answer_head, read_head, refused
from app.admission.serving import Serving

log = logging.getLogger(__name__)

MAX_HEAD = 16 * 1024
"""The most bytes of a head, and of the data that is buffered while a verdict is awaited.

API servers send a few hundred.
"""

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

    Data that arrives meanwhile is buffered. If there is too much, reading is paused.
    """

    # slots are read faster than a dict: without TLS, a verdict takes 2 % less time
    __slots__ = (
        "__weakref__",
        "_body",
        "_exchange",
        "_has_certificate",
        "_has_ended",
        "_headers",
        "_holds",
        "_is_last",
        "_is_paused",
        "_kept",
        "_limits",
        "_loop",
        "_query",
        "_review",
        "_review_bytes",
        "_route",
        "_serving",
        "_since",
        "_state",
        "_task",
        "_transport",
        "_unread_at",
        "_watch",
        "is_caller",
    )

    _transport: asyncio.Transport
    _body: Body
    _route: Route
    _review: bytes
    _review_bytes: int
    _query: bytes
    _headers: Headers

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._limits = serving.limits
        self._exchange = serving.exchange
        self._loop = asyncio.get_running_loop()
        self._state = State.IDLE
        self._since = self._loop.time()
        """The time at which the current request began or the last one ended."""
        self._kept = b""
        self._is_last = False
        self._is_paused = False
        self._task: asyncio.Task[None] | None = None
        self._holds = 0
        self._has_ended = False
        self._unread_at: float | None = None
        self.is_caller = False
        """Whether the client may be an API server, judging by its requests."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._look()
        self._serving.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._state = State.END
        self._kept = b""
        self._review = b""
        self._watch.cancel()
        if self._task is not None:
            # after its first step, so that each of its coroutines has started
            self._loop.call_soon(self._task.cancel)
        self._serving.closed(self)

    def data_received(self, data: bytes) -> None:
        self._read(self._kept + data if self._kept else data)

    def eof_received(self) -> bool:
        """Return whether the connection must stay open, because there are answers to write."""
        self._has_ended = True
        return self._owes_answers()

    def pause_writing(self) -> None:
        self._unread_at = self._loop.time()
        self._hold()

    def resume_writing(self) -> None:
        self._unread_at = None
        self._hold()
        self._read_kept()
        if self._has_ended:
            self._close_if_done()

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

    @property
    def review_size(self) -> int:
        return len(self._review)

    def judge(self) -> Answer | Awaitable[Answer] | None:
        review = self._review
        self._review = b""
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
            if self._kept:
                self._read_kept()
            if self._has_ended:
                # later, because `_read` may have further requests
                self._loop.call_soon(self._close_if_done)
        except Exception:  # the other requests of this turn need their answers
            self._fail()

    def _read(self, data: bytes) -> None:
        """Answer the requests in `data`, and buffer the rest if one must wait or is incomplete."""
        self._kept = b""
        position = -1
        behind = 0
        size = len(data)
        while position < behind < size and self._unread_at is None:
            position = behind
            if self._state is _IDLE or self._state is _AT_HEAD:
                behind = self._read_head(data, position)
            elif self._state is _IN_BODY:
                behind = self._read_body(data, position)

        if behind < size or self._state is _IN_BODY:
            self._keep(data[behind:])

    def _keep(self, rest: bytes) -> None:
        if self._state is _ENDED:
            return

        self._kept = rest
        if self._state is _IDLE:
            self._begin(State.HEAD)
        if len(rest) > MAX_HEAD and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        if rest or self._state is _IN_BODY:
            self._hold()

    def _begin(self, state: State) -> None:
        """Begin to read a head or a body. Its time limit starts with the request's first byte."""
        if self._state is _IDLE:
            self._since = self._loop.time()
        self._state = state

    def _hold(self) -> None:
        """Report the number of bytes that this connection holds."""
        size = len(self._kept) + self._transport.get_extra_info("undecrypted", 0)
        if self._state is _IN_BODY:
            size += self._body.size
        if self._state is _WAITING:
            size += self._review_bytes
        if self._unread_at is not None:
            size += self._transport.get_write_buffer_size()
        if size != self._holds:
            self._holds = size
            self._serving.crowd.hold(self, size)

    def _read_kept(self) -> None:
        """Continue with buffered data after an answer was written or read by the client."""
        if self._is_paused and self._state is not State.END:
            self._is_paused = False
            self._transport.resume_reading()
        self._read(self._kept)

    def _read_head(self, data: bytes, position: int) -> int:
        """Read a head, and answer the request if it is complete.

        Return the position after the data that was read, or `position` if the head is incomplete.
        """
        end = data.find(END, position)
        if end < 0 or end - position > MAX_HEAD:
            if len(data) - position > MAX_HEAD:
                reason = f"The head of the request has more than {MAX_HEAD // 1024} KiB."
                self._reject(NotHttp(reason))
            return position

        end += len(END)
        try:
            head = read_head(data[position:end])
        except NotHttp as refusal:
            self._reject(refusal)
            return position

        self._is_last |= not head.keep_alive
        route = self._exchange.route(head.path) if head.method == b"POST" else None
        if route is None:
            self._answer_other(head)
            return end

        unknown = self._exchange.refusal(route, has_certificate=self._has_certificate)
        if unknown is not None:
            self._answer_last(unknown)
            return end

        if not self.is_caller and (route.trusted or self._exchange.only_known):
            self._welcome()
        self._route = route
        self._query = head.query
        self._headers = head.headers
        behind = end + head.length
        if behind <= len(data) and head.length <= MAX_BODY and not head.is_chunked:
            self._decide(data[end:behind], behind == len(data))
            return behind

        return self._begin_body(head, data, end)

    def _answer_other(self, head: Head) -> None:
        """Answer a request that needs no verdict, as the last one of its connection."""
        content_type, (code, body) = "application/json", ELSEWHERE
        if head.method in (b"GET", b"HEAD") and not head.query:
            report = self._serving.report(head.path)
            if report is not None:
                content_type, (code, body) = report
        head_bytes = answer_head(code, len(body), True, content_type)
        self._transport.write(head_bytes if head.method == b"HEAD" else head_bytes + body)
        self._close()

    def _answer_last(self, answer: Answer) -> None:
        """Answer a request whose body is not read, as the last one of its connection.

        The transport drops the rest of the body, so that the client can read the answer.
        """
        self._is_last = True
        self._write(answer)
        self._close()

    def _begin_body(self, head: Head, data: bytes, end: int) -> int:
        """Begin to read an incomplete or chunked body, and return the position after it."""
        self._body = Chunked() if head.is_chunked else Sized(head.length)
        self._is_last |= head.is_chunked
        self._begin(State.BODY)
        if head.expects_continue:
            self._transport.write(_CONTINUE)
        return self._read_body(data, end)

    def _read_body(self, data: bytes, position: int) -> int:
        body = self._body
        try:
            position = body.read(data, position)
        except NotHttp as refusal:
            self._reject(refusal)
            return position

        if body.too_large:
            content_type = self._headers.get(b"content-type", b"")
            self._answer_last(self._exchange.too_large(self._route, content_type, body.whole()))
        elif body.complete:
            whole = body.whole()
            del self._body, body  # otherwise, the review is in memory twice
            self._decide(whole, position == len(data))
        return position

    def _decide(self, review: bytes, is_at_end: bool) -> None:
        """Judge a complete request, now or later together with those of other connections."""
        self._state = _WAITING
        self._review = review
        self._review_bytes = len(review)
        if not self.is_caller:
            self._welcome()
        self._serving.ask(self, is_at_end)

    def _welcome(self) -> None:
        """Take the client for an API server from now on."""
        self.is_caller = True
        self._serving.crowd.welcome(self)

    async def _answer_later(self, awaited: Awaitable[Answer]) -> None:
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

    def _write(self, answer: Answer) -> None:
        code, body = answer
        self._is_last |= self._serving.draining
        self._transport.write(answer_head(code, len(body), self._is_last) + body)

    def _end_request(self) -> None:
        self._state = _IDLE
        self._since = self._loop.time()
        if self._holds:
            self._hold()
        if self._is_last:
            self._close()

    def _owes_answers(self) -> bool:
        """Return whether a request waits for its verdict, or for the client to read answers."""
        return self._state is _WAITING or (self._unread_at is not None and bool(self._kept))

    def _close_if_done(self) -> None:
        """Close the connection after the last answer if the client has half-closed it."""
        if self._state is not _ENDED and not self._owes_answers():
            self._close()

    def _close(self) -> None:
        if self._state is _IN_BODY:
            del self._body
        self._state = State.END
        if self._holds:
            self._hold()
        self._transport.close()

    def _reject(self, refusal: NotHttp) -> None:
        """Answer an invalid or too long request, and close the connection."""
        self._transport.write(refused(refusal))
        self._close()

    def _look(self) -> None:
        """Close the connection if it is idle, or a request or reading an answer takes, too long.

        The client's certificate is checked again too, because it may have expired.
        """
        self._has_certificate = bool(self._transport.get_extra_info("peercert"))
        self._watch = self._loop.call_later(self._limits.watch_seconds, self._look)
        now = self._loop.time()
        if self._unread_at is not None:
            if now - self._unread_at > self._limits.answer_seconds:
                self.abort()  # close() would wait for the same client
        elif now - self._since > self._most_seconds():
            self._close()

    def _most_seconds(self) -> float:
        """Return the longest time in seconds for the current state."""
        if self._state is _IDLE:
            return self._limits.idle_seconds
        return math.inf if self._state is _WAITING else self._limits.request_seconds
