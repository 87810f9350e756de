"""The state that the connections of one listener share: limits, turns, and what they answer."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from app.admission.crowd import Crowd, Open
from app.admission.exchange import Answer, Exchange
from app.base.value import Value

TURN_SECONDS = 0.02
"""The time for verdicts in one turn of the event loop, in which others have to wait."""

HEAVY = 64 * 1024
"""The bytes from which a review is heavy. Most reviews have 2 to 20 KiB.

A tenant can make an API server send reviews of 3 MiB, whose verdicts take 20 to 400 ms each.
"""

REST = 2.0
"""How long heavy reviews wait after one was judged, as a multiple of the time that it took."""


class ConnectionLimits(Value):
    """The limits of connections: their number, the bytes that they hold, and times."""

    connections: int = 2000
    """With a complete handshake.

    Five API servers keep up to 25 for each of the ten webhooks. An idle one takes 20 KiB.
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
    watch_seconds: float = 10.0
    """Between two checks of a connection. The first three limits are exact to this time."""
    close_seconds: float = 1.0
    """For the end of TLS when the server stops. An idle client may not read it."""


class Asking(Protocol):
    """A connection with a request that is complete."""

    @property
    def review_size(self) -> int:
        """The bytes of its review."""

    def judge(self) -> Answer | Awaitable[Answer] | None:
        """Return the answer to the request. None if there is nobody to answer to."""

    def take(self, answer: Answer | Awaitable[Answer]) -> None:
        """Write the answer, or wait for it in a task."""


Report = Callable[[str], tuple[str, Answer] | None]
"""Returns the content type and the answer for a path that probes use; None for other paths."""

Line = dict[Asking, None]
"""Requests that wait for a turn, in the order in which they arrived."""


def no_report(_: str) -> None:
    """Return None: there is no path for probes."""


@dataclass(eq=False)
class Serving:
    """What the connections of one listener share.

    `report` answers probes.
    """

    exchange: Exchange
    report: Report = no_report
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    draining: bool = False
    """If true, each answer has `connection: close` and is the last one of its connection."""
    all_closed: asyncio.Event = field(default_factory=asyncio.Event)
    crowd: Crowd = field(init=False)
    _light: Line = field(default_factory=dict)
    _heavy: Line = field(default_factory=dict)
    _are_heavy_resting: bool = False
    """Whether no heavy review is judged for now."""
    _is_by_size: bool = False
    """Whether the smallest heavy review is the next one, or the one that has waited longest."""
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

        All others that arrive in this turn are judged then too, as far as its time allows. Only the
        first one of a turn is judged at once, so that a single request doesn't wait, and requests
        that don't end the bytes that have arrived, of a client that pipelines, while there is time.

        All of them are judged before the first answer is written. If each was judged and answered
        at once, a verdict would take 1.4 times as long, because TLS and Python would take turns in
        the processor caches (`./scripts/bench verdicts`).
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
        """Judge and answer reviews that wait: light ones, then heavy ones, unless they rest.

        Of heavy ones, the smallest and the oldest come in turns, so that neither waits behind many
        that take long.
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
        """Let heavy reviews wait, so that they never take two turns of three."""
        self._are_heavy_resting = True
        asyncio.get_running_loop().call_later(seconds, self._end_rest)

    def _end_rest(self) -> None:
        self._are_heavy_resting = False
        if self._heavy:
            self._plan_turn()


def _judged(
    line: Line, waiting: list[Asking]
) -> list[tuple[Asking, Answer | Awaitable[Answer] | None]]:
    """Judge what is `waiting` in a line, or as much as takes TURN_SECONDS, and remove it there."""
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
