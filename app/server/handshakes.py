"""Limit the connections whose TLS handshake is not complete.

Any client that reaches the port can begin handshakes and never complete them. So these connections
are in backlogs with limits. If a backlog is full, its oldest connection is closed: a handshake
takes milliseconds, so the oldest one is the least likely to be completed. Answering a ClientHello
takes 0.4 ms, so only a part of each turn of the event loop is used for it.
"""

import time
from typing import Protocol

from app.base.memory import give_back
from app.base.turns import TurnQueue
from app.server.process import MemoryReturn

HELLO_SECONDS = 0.01
"""The maximum time, in seconds, for answers to ClientHellos in one turn of the event loop."""


class Abortable(Protocol):
    """A connection that can be closed at once."""

    def abort(self) -> None:
        """Close the connection."""


class Unfinished(Abortable, Protocol):
    """A connection whose handshake is not complete."""

    def shake_hands(self) -> None:
        """Answer the ClientHello. Do nothing if it is incomplete or the connection is closed."""


class Backlog:
    """A queue of at most `most` connections. If there are more, the oldest one is closed."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.closed_early = 0
        """The number of connections that were closed because there were too many."""
        self._waiting: dict[Abortable, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, connection: Abortable) -> None:
        """Add a connection, and close the oldest one if there are now too many."""
        self._waiting[connection] = None
        if len(self._waiting) > self.most:
            oldest = next(iter(self._waiting))
            self.remove(oldest)
            self.closed_early += 1
            oldest.abort()

    def remove(self, connection: Abortable) -> None:
        """Remove a connection without closing it, if it is in this backlog."""
        self._waiting.pop(connection, None)

    def abort(self) -> None:
        """Close all connections."""
        for connection in list(self._waiting):
            connection.abort()


class Handshakes:
    """The unfinished handshakes of a listener with at most `connections` open connections.

    The connection of a silent client takes 2 KiB, and a connection in its handshake 47 KiB.
    """

    def __init__(self, connections: int) -> None:
        self.silent = Backlog(2 * connections)
        """The connections whose client has sent nothing yet, or only a few bytes."""
        self.begun = Backlog(max(connections // 4, 16))
        """The connections whose client has begun the handshake."""
        self._hellos = TurnQueue[Unfinished](lambda each: each.shake_hands(), HELLO_SECONDS)
        self._memory = MemoryReturn(time.monotonic, give_back)

    @property
    def closed_early(self) -> int:
        """The number of connections that were closed because a backlog was full."""
        return self.silent.closed_early + self.begun.closed_early

    @property
    def most(self) -> int:
        """The maximum number of connections in both backlogs."""
        return self.silent.most + self.begun.most

    def accepted(self, connection: Unfinished) -> None:
        """Add a connection whose client has sent nothing yet."""
        self.silent.add(connection)

    def said_hello(self, connection: Unfinished) -> None:
        """Note that a ClientHello arrives, and plan a turn for `connection` to answer it."""
        self.silent.remove(connection)
        self.begun.add(connection)
        self._hellos.add(connection)

    def completed(self, connection: Unfinished) -> None:
        """Note that the handshake of `connection` is complete."""
        self.begun.remove(connection)

    def closed(self, connection: Unfinished) -> None:
        """Note that `connection` is closed, whether or not its handshake was complete."""
        self.silent.remove(connection)
        self.begun.remove(connection)
        self._memory.freed_some()

    def abort(self) -> None:
        """Close all connections, because the server stops."""
        self.silent.abort()
        self.begun.abort()
