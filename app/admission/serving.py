"""The state that the connections of one listener share: their limits, and the order of verdicts."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from app.admission.crowd import Crowd, Open
from app.admission.exchange import Answer, Exchange
from app.base.value import Value

TURN_SECONDS = 0.02
"""The longest time for verdicts in one turn of the event loop, because others must wait for it."""

HEAVY = 64 * 1024
"""The size in bytes from which a review is heavy. Most reviews have 2 to 20 KiB.

A tenant can make an API server send reviews of 3 MiB, whose verdicts take 20 to 400 ms each.
"""

REST = 2.0
"""The pause of heavy reviews after their turn, as a multiple of the time that the turn took."""


class ConnectionLimits(Value):
    """The limits of connections."""

    connections: int = 2000
    """The most connections with a complete handshake.

    Five API servers keep up to 25 for each of the ten webhooks. An idle one takes 20 KiB.
    """
    held_bytes: int = 64 * 2**20
    """The most bytes of incomplete and waiting requests and of unread answers, all together."""

    request_seconds: float = 30.0
    """The longest time from the first byte of a request to the last byte of its body.

    A connection without a request is idle: Go opens spare connections, and uses them later.
    """
    answer_seconds: float = 30.0
    """The longest time for reading an answer."""
    idle_seconds: float = 120.0
    """The longest time between two requests.

    An API server closes idle connections after 90 s. It must close them first, because it doesn't
    send a POST again.
    """
    watch_seconds: float = 10.0
    """The interval of the checks of a connection, and the precision of the three limits above."""
    close_seconds: float = 1.0
    """The time for the end of TLS when the server stops, because an idle client may not read it."""


class Asking(Protocol):
    """A connection with a complete request."""

    @property
    def review_size(self) -> int:
        """The number of bytes of the review."""

    def judge(self) -> Answer | Awaitable[Answer] | None:
        """Return the answer to the request, or None if the client is gone."""

    def take(self, answer: Answer | Awaitable[Answer]) -> None:
        """Write `answer`, or wait for it in a task."""


Report = Callable[[str], tuple[str, Answer] | None]
"""Returns the content type and the answer for a path of probes, or None for other paths."""

Line = dict[Asking, None]
"""Requests that wait for their turn, in the order of arrival."""


def no_report(_: str) -> None:
    """Return None, because there is no path for probes."""


@dataclass(eq=False)
class Serving:
    """The state that the connections of one listener share."""

    exchange: Exchange
    """Answers reviews."""
    report: Report = no_report
    """Answers probes."""
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    """The limits of all connections."""
    draining: bool = False
    """Whether each answer has `connection: close` and is the last one of its connection."""
    all_closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Is set while no connection is open."""
    crowd: Crowd = field(init=False)
    """The open connections."""
    _light: Line = field(default_factory=dict)
    """The light reviews that wait."""
    _heavy: Line = field(default_factory=dict)
    """The heavy reviews that wait."""
    _are_heavy_resting: bool = False
    """Whether heavy reviews pause."""
    _is_by_size: bool = False
    """Whether the next heavy review is the smallest one instead of the oldest one."""
    _is_first: bool = True
    """Whether the next request is the first one of this turn, and none is left of the last turn."""
    _turn_end: float = 0.0
    """The time at which the time for verdicts in the last turn ends or ended."""

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

        The first request of a turn is judged at once, so that a single request doesn't wait. So are
        requests of a client that pipelines (`is_at_end` is false) while there is time. All other
        requests of this turn are judged together in the next turn, as far as its time allows.

        They are all judged before the first answer is written. If each was judged and answered at
        once, a verdict would take 1.4 times as long, because TLS and Python would take turns in the
        processor caches (`./scripts/bench verdicts`).
        """
        if connection.review_size >= HEAVY:
            self._heavy[connection] = None
            self._plan_turn()
            return

        is_free = self._is_first or (not is_at_end and time.perf_counter() < self._turn_end)
        self._plan_turn()
        if not is_free:
            self._light[connection] = None
            return

        answer = connection.judge()
        if answer is not None:
            connection.take(answer)

    def _plan_turn(self) -> None:
        if self._is_first:
            self._is_first = False
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        """Judge and answer waiting reviews: light ones, then heavy ones, unless these pause.

        Heavy turns alternate between the smallest first and the oldest first, so that neither a
        small nor an old review waits behind many that take long.
        """
        self._is_first = True
        self._turn_end = time.perf_counter() + TURN_SECONDS
        _answer(_judged(self._light, list(self._light)))

        if self._heavy and not self._are_heavy_resting:
            begin = time.perf_counter()
            waiting = list(self._heavy)
            if self._is_by_size:
                waiting.sort(key=lambda asking: asking.review_size)
            self._is_by_size = not self._is_by_size
            answers = _judged(self._heavy, waiting)
            self._rest((time.perf_counter() - begin) * REST)
            _answer(answers)

        if self._light or (self._heavy and not self._are_heavy_resting):
            self._plan_turn()

    def _rest(self, seconds: float) -> None:
        """Pause heavy reviews for `seconds`, so that light ones get most of the time."""
        self._are_heavy_resting = True
        asyncio.get_running_loop().call_later(seconds, self._end_rest)

    def _end_rest(self) -> None:
        self._are_heavy_resting = False
        if self._heavy:
            self._plan_turn()


def _judged(
    line: Line, waiting: list[Asking]
) -> list[tuple[Asking, Answer | Awaitable[Answer] | None]]:
    """Judge the `waiting` reviews for at most TURN_SECONDS, and remove them from `line`."""
    answers = []
    end = time.perf_counter() + TURN_SECONDS
    for connection in waiting:
        del line[connection]
        answers.append((connection, connection.judge()))
        if time.perf_counter() > end:
            break
    return answers


def _answer(answers: list[tuple[Asking, Answer | Awaitable[Answer] | None]]) -> None:
    for connection, answer in answers:
        if answer is not None:
            connection.take(answer)
