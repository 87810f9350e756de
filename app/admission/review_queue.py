"""Decide in which order complete requests get their verdicts.

Requests of API servers are small, and there are few of them at a time. But a tenant can make an API
server send reviews of several MiB, which take 20 to 400 ms each to judge. Where paths have no
tokens, any client can send such reviews itself. Therefore, heavy reviews wait in a separate queue.

A tenant can also make API servers send hundreds of reviews at the same time, and a light review may
take 100 ms too. So while more than FEW light reviews wait, the namespace is next whose reviews have
taken the least time. For heavy reviews, this is always so.
"""

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from app.admission.exchange import Answer
from app.base.fair_queue import TimedQueue
from app.base.turns import TurnQueue

TURN_SECONDS = 0.02
"""The time, in seconds, after which a turn of the event loop judges no further light review.

Heavy reviews have the same limit.
"""

HEAVY = 64 * 1024
"""The size in bytes from which a review is heavy. Most reviews have 2 to 20 KiB."""

REST = 2.0
"""The pause of heavy reviews after their turn, as a multiple of the time that the turn took."""


FEW = 16
"""The number of light reviews that wait in the order of their arrival.

Namespaces share the time only if more are waiting, because that takes 2 to 14 % more CPU time for a
verdict (`./scripts/bench verdicts`, with 16 connections).
"""


class Asking(Protocol):
    """A connection with a complete request, which waits for its verdict."""

    @property
    def review_size(self) -> int:
        """The number of bytes of the review."""

    @property
    def review_namespace(self) -> str:
        """The namespace of the review, or "" for none."""

    def judge(self) -> Answer | Awaitable[Answer] | None:
        """Return the answer to the request, or None if the client is gone."""

    def take(self, answer: Answer | Awaitable[Answer]) -> None:
        """Write `answer`, or wait for it in a task."""


class _LightQueue:
    """The queue of light reviews."""

    def __init__(self, judge: Callable[[Asking], None], end_turn: Callable[[], None]) -> None:
        self._judge = judge
        self.turns: TurnQueue[Asking] = TurnQueue(self._judge_next, TURN_SECONDS, end_turn=end_turn)
        """The reviews that are judged next."""
        self._waiting: TimedQueue[Asking] = TimedQueue()
        """The other reviews."""
        self._namespaces: dict[Asking, str] = {}
        """The namespaces of the reviews in `turns` that were in `_waiting`."""

    def add(self, connection: Asking) -> None:
        """Append the review of `connection`."""
        if len(self.turns) < FEW and not self._waiting.is_in_use:
            self.turns.add(connection)
        else:
            self._waiting.put(connection.review_namespace, connection)

    def _judge_next(self, connection: Asking) -> None:
        if not self._waiting.is_in_use:
            self._judge(connection)
            return

        namespace = self._namespaces.pop(connection, None)
        begin = time.perf_counter()
        try:
            self._judge(connection)
        finally:
            if namespace is not None:
                self._waiting.spend(namespace, time.perf_counter() - begin)
            if self._waiting:
                namespace, following = self._waiting.take()
                self._namespaces[following] = namespace
                self.turns.add(following)


class _HeavyQueue:
    """The queue of heavy reviews.

    Every second review is the smallest one. So a small review does not wait for many reviews that
    take long, even if these are from unknown clients, which can name any number of namespaces.
    """

    def __init__(self, judge: Callable[[Asking], None], end_turn: Callable[[], None]) -> None:
        self._judge = judge
        self.turns: TurnQueue[Asking] = TurnQueue(
            self._judge_timed, TURN_SECONDS, rest=REST, pick=self._pick, end_turn=end_turn
        )
        self._waiting: TimedQueue[Asking] = TimedQueue()
        self._namespace = ""
        """The namespace of the review that was picked last."""
        self._is_smallest = True
        """Whether the last review was the smallest one."""

    def add(self, connection: Asking) -> None:
        """Append the review of `connection`."""
        self._waiting.put(connection.review_namespace, connection)
        self.turns.add(connection)

    def _pick(self, connections: Iterable[Asking]) -> Asking:
        """Return the connection with the next review."""
        self._is_smallest = not self._is_smallest
        if self._is_smallest:
            connection = min(connections, key=lambda asking: asking.review_size)
            self._namespace = self._waiting.remove(connection)
        else:
            self._namespace, connection = self._waiting.take()
        return connection

    def _judge_timed(self, connection: Asking) -> None:
        begin = time.perf_counter()
        try:
            self._judge(connection)
        finally:
            self._waiting.spend(self._namespace, time.perf_counter() - begin)


class ReviewQueue:
    """The queues of light and heavy reviews."""

    def __init__(self) -> None:
        self._light = _LightQueue(self._judge, self._answer)
        self._heavy = _HeavyQueue(self._judge, self._answer)
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
        elif self._light.turns.is_planned:
            self._light.add(connection)
        else:
            self._light.turns.plan()
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
