"""Define the state and the limits that all connections of a listener share."""

from collections.abc import Callable
from dataclasses import dataclass, field

from app.admission.connections import Connections
from app.admission.exchange import Answer, Exchange
from app.admission.review_queue import ReviewQueue
from app.base.value import Value


class ConnectionLimits(Value):
    """The limits of the connections of a listener."""

    connections: int = 2000
    """The maximum number of connections with a complete handshake.

    Five API servers keep up to 25 connections each for each of the ten webhooks. An idle connection
    takes 20 KiB.
    """
    held_bytes: int = 64 * 2**20
    """The maximum bytes of all incomplete or waiting requests and unread answers together."""

    request_seconds: float = 30.0
    """The maximum time from the first byte of a request to the last byte of its body.

    A connection without a request is idle: Go opens spare connections, and uses them later.
    """
    answer_seconds: float = 30.0
    """The maximum time that a client may take to read an answer."""
    idle_seconds: float = 120.0
    """The maximum time between two requests.

    API servers close idle connections after 90 s. They must close a connection before we do,
    because they don't resend a POST.
    """
    watch_seconds: float = 10.0
    """The time between two checks of the other time limits of a connection."""
    close_seconds: float = 1.0
    """The time limit for closing TLS when the server stops. An idle client may never answer."""


Report = Callable[[str], tuple[str, Answer] | None]
"""A function that returns the content type and answer for a probe path, or None for other paths."""


def no_report(_: str) -> None:
    """Return None, because there are no probe paths."""


@dataclass(eq=False)
class Serving:
    """The state that all connections of a listener share."""

    exchange: Exchange
    report: Report = no_report
    """The function that answers probes."""
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    draining: bool = False
    """Whether the server is stopping, so that each connection is closed after its next answer."""
    queue: ReviewQueue = field(default_factory=ReviewQueue)
    """The queues of reviews that wait for their verdicts."""
    connections: Connections = field(init=False)

    def __post_init__(self) -> None:
        self.connections = Connections(self.limits.connections, self.limits.held_bytes)
