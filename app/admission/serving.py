"""The state that the connections of one listener share.

It has their limits, the exchange, and the hand-over.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from app.admission.crowd import Crowd, Open
from app.admission.exchange import Answer, Exchange
from app.base.value import Value

TURN_SECONDS = 0.02
"""Of one turn of the event loop for verdicts. The rest waits until others have had theirs.

API servers and strangers have this time each. A verdict takes 0.05 ms, but one on a review of a
stranger may take 400.
"""


class ConnectionLimits(Value):
    """The limits of connections: their number, the bytes that they hold, and times."""

    connections: int = 2000
    """With a complete handshake.

    Five API servers keep up to 25 for each of the seven webhooks. An idle one takes 20 KiB.
    """
    held_bytes: int = 64 * 2**20
    """Of requests that are incomplete or wait for their verdict, and of unread answers."""

    request_seconds: float = 30.0
    """From the first byte of a request to the last byte of its body.

    A connection without a request is idle: Go opens spare connections, and uses them later.
    """
    answer_seconds: float = 30.0
    """For reading an answer."""
    idle_seconds: float = 120.0
    """Between two requests.

    An API server closes idle connections after 90 s. It has to close them first, because it doesn't
    send a POST again.
    """
    handed_over_seconds: float = 120.0
    """From the last byte of a request that is handed over to the end of its connection."""
    watch_seconds: float = 10.0
    """Between two checks of a connection. The first three limits are exact to this time."""
    close_seconds: float = 1.0
    """For the end of TLS when the server stops. An idle client may not read it."""


class Asking(Protocol):
    """A connection with a request that is complete."""

    @property
    def is_trusted(self) -> bool:
        """Whether the request is one of an API server."""

    @property
    def review_size(self) -> int:
        """The bytes of its review."""

    def judge(self) -> Answer | Awaitable[Answer] | None:
        """Return the answer to the request. None if there is nobody to answer to."""

    def take(self, answer: Answer | Awaitable[Answer]) -> None:
        """Write the answer, or wait for it in a task."""


HandOver = Callable[["Serving", asyncio.Transport, bytes], None]
"""Answers a complete request that is not for a verdict, as the last one of its connection."""


Answers = list[tuple[Asking, Answer | Awaitable[Answer] | None]]


@dataclass(eq=False, slots=True)
class Line:
    """Requests that wait for a turn of the event loop, in the order in which they came."""

    waiting: dict[Asking, None] = field(default_factory=dict)
    is_by_size: bool = False
    """Whether short reviews come first in the next turn."""
    is_resting: bool = False
    """Whether none is judged for now."""


@dataclass(eq=False, slots=True)
class Serving:
    """The state that the connections of one listener share."""

    exchange: Exchange
    hand_over: HandOver
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    draining: bool = False
    """If true, each answer has `connection: close` and is the last one of its connection."""
    all_closed: asyncio.Event = field(default_factory=asyncio.Event)
    crowd: Crowd = field(init=False)
    _callers: Line = field(default_factory=Line)
    """What API servers ask."""
    _strangers: Line = field(default_factory=Line)
    """What all others ask."""
    _is_first: bool = True
    """Whether the next request is the first one of this turn, and none is left of the last one."""
    _turn_end: float = 0.0
    """When the time for verdicts in the last turn ends, or has ended."""

    def __post_init__(self) -> None:
        self.crowd = Crowd(self.limits.connections, self.limits.held_bytes)

    @property
    def connections(self) -> list[Open]:
        return self.crowd.connections()

    def opened(self, connection: Open) -> None:
        self.all_closed.clear()
        self.crowd.add(connection)

    def closed(self, connection: Open) -> None:
        self.crowd.remove(connection)
        if not self.crowd:
            self.all_closed.set()

    def ask(self, connection: Asking, is_at_end: bool) -> None:
        """Judge and answer the request of `connection`, now or in the next turn of the event loop.

        All others that come in this turn are judged then too, as far as its time allows. Only the
        first one of a turn is judged at once, so that a single request doesn't wait, and requests
        that don't end the bytes that have arrived, of a client that pipelines, while there is time.

        All of them are judged before the first answer is written. If each was judged and answered
        at once, a verdict would take 1.4 times as long, because TLS and Python would take turns in
        the processor caches (`./scripts/bench verdicts`).
        """
        line = self._callers if connection.is_trusted else self._strangers
        is_free = self._is_first or (not is_at_end and time.perf_counter() < self._turn_end)
        if line.is_resting or not is_free:
            line.waiting[connection] = None
            return

        self._plan_turn()
        begin = time.perf_counter()
        answer = connection.judge()
        seconds = time.perf_counter() - begin
        if seconds > TURN_SECONDS:
            self._rest(line, seconds)
        if answer is not None:
            connection.take(answer)

    def _plan_turn(self) -> None:
        if self._is_first:
            self._is_first = False
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        """Judge what waits, API servers before strangers, and answer it."""
        self._turn_end = time.perf_counter() + TURN_SECONDS
        self._is_first = True
        answers: Answers = []
        for line in (self._callers, self._strangers):
            if line.waiting and not line.is_resting:
                self._judge(line, answers)

        for connection, answer in answers:
            if answer is not None:
                connection.take(answer)

    def _judge(self, line: Line, answers: Answers) -> None:
        """Judge what waits in a line, or as much as takes TURN_SECONDS.

        If some requests are left over, the next turn begins with short reviews, and the one after
        it with those that have waited longest, so that none waits forever. After more than
        TURN_SECONDS, strangers rest for as long as they took: a review of 500 KiB is read in 32
        turns, and each of them could otherwise have a verdict of 400 ms in it.
        """
        begin = time.perf_counter()
        now = begin
        waiting = list(line.waiting)
        if line.is_by_size:
            waiting.sort(key=lambda asking: asking.review_size)
        for connection in waiting:
            del line.waiting[connection]
            answers.append((connection, connection.judge()))
            now = time.perf_counter()
            if now - begin > TURN_SECONDS:
                break

        line.is_by_size = bool(line.waiting) and not line.is_by_size
        if line.waiting:
            self._plan_turn()
        if now - begin > TURN_SECONDS:
            self._rest(line, now - begin)

    def _rest(self, line: Line, seconds: float) -> None:
        """Let strangers rest for the `seconds` that they took."""
        if line is self._strangers:
            line.is_resting = True
            asyncio.get_running_loop().call_later(seconds, self._end_rest)

    def _end_rest(self) -> None:
        self._strangers.is_resting = False
        self._plan_turn()
