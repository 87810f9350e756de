"""One HTTP/1.1 connection.

Admission requests are read and answered here. Every other request is read to its end, and then
handed over with its connection to an ASGI server.

The README of this folder has the states, the limits and their reasons. Requests that come in one
turn of the event loop are judged together (`Serving.ask`). A task is created only for a verdict
that has to wait.
"""

import asyncio
import enum
import logging
import math
from collections.abc import Awaitable

from app.admission.body import Body, Chunked, Sized
from app.admission.crowd import Rank
from app.admission.decide import Route
from app.admission.exchange import MAX_BODY, TOO_LARGE, UNKNOWN_CALLER, Answer, Headers, status
from app.admission.head import END, Head, NotHttp, answer_head, read_head, refused
from app.admission.serving import Serving

log = logging.getLogger(__name__)

MAX_HEAD = 64 * 1024
"""The most bytes of a head, and of those that are kept while a verdict is awaited.

API servers send a few hundred.
"""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class State(enum.Enum):
    IDLE = "waits for a request"
    HEAD = "waits for the rest of a head"
    BODY = "waits for the rest of a body"
    SKIP = "has answered, and drops the rest of the body"
    WAIT = "waits for a verdict"
    END = "is closing, or handed over: nothing more is read"


# globals, because reading an attribute of an enum is slower
_IDLE, _AT_HEAD, _IN_BODY, _SKIPPING, _WAITING, _ENDED = State
_STRANGER, _GUEST, _CALLER = Rank


class Connection(asyncio.Protocol):
    """A connection, which handles one request at a time.

    Bytes that arrive meanwhile are kept. If there are too many, reading is paused.
    """

    # slots are read faster than a dict: without TLS, a verdict takes 2 % less time
    __slots__ = (
        "__weakref__",
        "_body",
        "_exchange",
        "_has_ended",
        "_head",
        "_headers",
        "_holds",
        "_is_known",
        "_is_last",
        "_is_paused",
        "_kept",
        "_limits",
        "_loop",
        "_query",
        "_rank",
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
        "is_trusted",
    )

    _transport: asyncio.Transport
    _body: Body
    _route: Route | None
    _review: bytes
    _review_bytes: int
    _query: bytes
    _headers: Headers
    is_trusted: bool

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._limits = serving.limits
        self._exchange = serving.exchange
        self._loop = asyncio.get_running_loop()
        self._state = State.IDLE
        self._since = self._loop.time()
        """When the request in progress began, or when the last one ended."""
        self._kept = b""
        self._head = b""
        self._is_last = False
        self._is_paused = False
        self._task: asyncio.Task[None] | None = None
        self._rank = _STRANGER
        self._holds = 0
        self._has_ended = False
        self._unread_at: float | None = None

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
        """Return whether the connection stays open, because there are answers to write."""
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
        self._transport.abort()

    @property
    def review_size(self) -> int:
        return len(self._review)

    @property
    def is_caller(self) -> bool:
        """Whether an API server has shown that it is one, so that all it sends is read at once."""
        return self._rank is _CALLER

    def judge(self) -> Answer | Awaitable[Answer] | None:
        review = self._review
        self._review = b""
        if self._state is _ENDED or self._route is None:
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
        """Answer the requests in `data`, and keep the rest if one has to wait or is incomplete."""
        self._kept = b""
        position = -1
        behind = 0
        size = len(data)
        while position < behind < size and self._unread_at is None:
            position = behind
            if self._state is _IDLE or self._state is _AT_HEAD:
                behind = self._read_head(data, position)
            elif self._state is _IN_BODY or self._state is _SKIPPING:
                behind = self._read_body(data, position)

        if behind < size or self._state is _IN_BODY or self._state is _SKIPPING:
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
        """Begin to read a head or a body. The time counts from the first byte of the request."""
        if self._state is _IDLE:
            self._since = self._loop.time()
        self._state = state

    def _hold(self) -> None:
        """Count the bytes that are held for this connection."""
        size = len(self._kept) + self._transport.get_extra_info("undecrypted", 0)
        if self._state is _IN_BODY:
            size += self._body.size
        if self._state is _WAITING:
            size += self._review_bytes
        if self._unread_at is not None:
            size += self._transport.get_write_buffer_size()
        if size != self._holds:
            self._holds = size
            is_head = self._state is _AT_HEAD and self._unread_at is None
            self._serving.crowd.hold(self, size, is_head=is_head)

    def _read_kept(self) -> None:
        """Continue after an answer was written, or after the client has read it."""
        if self._is_paused and self._state is not State.END:
            self._is_paused = False
            self._transport.resume_reading()
        self._read(self._kept)

    def _read_head(self, data: bytes, position: int) -> int:
        """Return the position after the head, or after the request if that is complete.

        `position` if the head is incomplete.
        """
        end = data.find(END, position)
        if end < 0 or end - position > MAX_HEAD:
            self._wait_for_head(len(data) - position)
            return position

        end += len(END)
        try:
            head = read_head(data[position:end])
        except NotHttp as refusal:
            self._reject(refusal)
            return position

        self._take_note_of(head)
        behind = end + head.length
        is_whole = behind <= len(data) and head.length <= MAX_BODY and not head.is_chunked
        if is_whole and self._route is not None and self._is_known:
            self._decide(data[end:behind], behind == len(data))
            return behind

        return self._begin_body(head, data, position, end)

    def _take_note_of(self, head: Head) -> None:
        self._query = head.query
        route = self._exchange.route(head.path) if head.method == b"POST" else None
        self._route = route
        self.is_trusted = self._exchange.only_known or (route is not None and route.trusted)
        self._headers = head.fields
        self._is_last |= not head.keep_alive
        if self.is_trusted and self._rank < _CALLER and self._is_known:
            self._show(_CALLER)

    def _wait_for_head(self, size: int) -> None:
        """Reject the request if the `size` bytes that have come are too many for a head."""
        if size > MAX_HEAD:
            reason = f"The head of a request has at most {MAX_HEAD // 1024} KiB here."
            self._reject(NotHttp(reason))

    def _begin_body(self, head: Head, data: bytes, begin: int, end: int) -> int:
        """Begin to read a request that is incomplete, or that is not for a verdict.

        Returns the position after the bytes that were read.
        """
        self._head = head.handed_over(data[begin:end])
        is_review = self._route is not None
        self._body = Chunked(self._head, is_review) if head.is_chunked else Sized(head.length)
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
        if self._state is State.BODY:
            self._answer_early(body)
        if body.complete:
            self._complete(body, position == len(data))
        return position

    def _answer_early(self, body: Body) -> None:
        """Answer before the body is complete, if that is possible.

        The remaining bytes are read too, so that a client that is still sending isn't reset before
        it has read the answer.
        """
        if self._route is not None and not self._is_known:
            self._write(UNKNOWN_CALLER)
        elif not body.too_large:
            return
        elif self._route is not None:
            content_type = self._headers.get(b"content-type", b"")
            self._write(self._exchange.too_large(self._route, content_type, body.beginning()))
        else:
            self._write(status(413, TOO_LARGE))
        body.drop()
        self._state = State.SKIP

    def _complete(self, body: Body, is_at_end: bool) -> None:
        whole = body.whole()
        body.drop()  # otherwise, it stays in memory up to the next request
        if self._state is State.SKIP:
            self._end_request()
        elif self._route is not None:
            self._decide(whole, is_at_end)
        else:
            self._hand_over(self._head + whole)

    def _decide(self, review: bytes, is_at_end: bool) -> None:
        """Judge a request now, or later, with those of other connections."""
        self._state = _WAITING
        self._review = review
        self._review_bytes = len(review)
        if self._rank < _GUEST:
            self._show(_GUEST)
        self._serving.ask(self, is_at_end)

    def _show(self, rank: Rank) -> None:
        """Take note of what the client has shown by its request."""
        self._rank = rank
        self._serving.crowd.welcome(self, rank)

    async def _answer_later(self, awaited: Awaitable[Answer]) -> None:
        try:
            answer = await awaited
        except Exception:
            self._fail()
            return
        self._task = None
        self.take(answer)

    def _fail(self) -> None:
        """End the connection after a bug.

        `decide` turns every failure of a webhook into a verdict.
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
        """Return whether a request waits for its verdict, or until answers before it are read."""
        return self._state is _WAITING or (self._unread_at is not None and bool(self._kept))

    def _close_if_done(self) -> None:
        """Close the connection after the last answer to a client that sends nothing more."""
        if self._state is not _ENDED and not self._owes_answers():
            self._close()

    def _close(self) -> None:
        self._state = State.END
        self._transport.close()

    def _reject(self, refusal: NotHttp) -> None:
        """Close the connection after bytes that are no valid HTTP, or too many."""
        if self._state is not State.SKIP:  # otherwise, the request is answered already
            self._transport.write(refused(refusal))
        self._close()

    def _hand_over(self, request: bytes) -> None:
        """Hand over the connection.

        Bytes after the request are dropped, because its answer is the last one.
        """
        self._state = State.END
        self._watch.cancel()
        self._serving.hand_over(self._serving, self._transport, request)
        self._serving.closed(self)

    def _has_certificate(self) -> bool:
        """Return whether the caller has a valid certificate, or needs none."""
        return not self._exchange.only_known or bool(self._transport.get_extra_info("peercert"))

    def _look(self) -> None:
        """Close the connection if it has been idle for too long.

        It is also closed if a request or the reading of an answer takes too long. A certificate of
        the caller may have expired.
        """
        self._is_known = self._has_certificate()
        self._watch = self._loop.call_later(self._limits.watch_seconds, self._look)
        now = self._loop.time()
        if self._unread_at is not None:
            if now - self._unread_at > self._limits.answer_seconds:
                self.abort()  # a close would wait for the same client
        elif now - self._since > self._most_seconds():
            self._close()

    def _most_seconds(self) -> float:
        """Return how long the connection may stay in its state."""
        if self._state is _IDLE:
            return self._limits.idle_seconds
        return math.inf if self._state is _WAITING else self._limits.request_seconds
