"""Decide in which order complete requests get their verdicts.

Requests of API servers are small, and there are few of them at a time. But a tenant can make an API
server send reviews of several MiB, which take 20 to 400 ms each to judge. Where paths have no
tokens, any client can send such reviews itself. Therefore, heavy reviews wait in a separate queue.
"""

from collections.abc import Awaitable, Iterable
from typing import Protocol

from app.admission.exchange import Answer
from app.base.turns import TurnQueue

TURN_SECONDS = 0.02
"""The time, in seconds, after which a turn of the event loop judges no further light review.

Heavy reviews have the same limit.
"""

HEAVY = 64 * 1024
"""The size in bytes from which a review is heavy. Most reviews have 2 to 20 KiB."""

REST = 2.0
"""The pause of heavy reviews after their turn, as a multiple of the time that the turn took."""


class Asking(Protocol):
    """A connection with a complete request, which waits for its verdict."""

    @property
    def review_size(self) -> int:
        """The number of bytes of the review."""

    def judge(self) -> Answer | Awaitable[Answer] | None:
        """Return the answer to the request, or None if the client is gone."""

    def take(self, answer: Answer | Awaitable[Answer]) -> None:
        """Write `answer`, or wait for it in a task."""


class ReviewQueue:
    """The queues of light and heavy reviews."""

    def __init__(self) -> None:
        self._light = TurnQueue(self._judge, TURN_SECONDS, end_turn=self._answer)
        self._heavy = TurnQueue(
            self._judge, TURN_SECONDS, rest=REST, pick=self._pick, end_turn=self._answer
        )
        self._is_by_size = False
        """Whether the next heavy review is the smallest one instead of the oldest one."""
        self._answers: list[tuple[Asking, Answer | Awaitable[Answer]]] = []
        """The answers that are written at the end of the turn."""

    def ask(self, connection: Asking) -> None:
        """Judge and answer the request of `connection`, now or in a later turn of the event loop.

        The first light request of a turn is judged at once, so that a single request doesn't wait.
        The other light requests are judged together in the next turn, before any of their answers
        is written. If each were judged and answered at once, a verdict would take 1.4 times as
        long, because TLS and Python would take turns in the processor caches
        (`./scripts/bench verdicts`).
        """
        if connection.review_size >= HEAVY:
            self._heavy.add(connection)
        elif self._light.is_planned:
            self._light.add(connection)
        else:
            self._light.plan()
            self._judge(connection)
            self._answer()

    def _judge(self, connection: Asking) -> None:
        answer = connection.judge()
        if answer is not None:
            self._answers.append((connection, answer))

    def _answer(self) -> None:
        answers, self._answers = self._answers, []
        for connection, answer in answers:
            connection.take(answer)

    def _pick(self, waiting: Iterable[Asking]) -> Asking:
        """Return the oldest and the smallest heavy review in turns.

        So neither an old nor a small review waits for many reviews that take long.
        """
        self._is_by_size = not self._is_by_size
        if self._is_by_size:
            return next(iter(waiting))
        return min(waiting, key=lambda asking: asking.review_size)
