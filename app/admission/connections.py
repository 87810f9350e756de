"""Count the open connections of a listener, and close some if there are too many.

API servers must get their verdicts even if there are many other connections. Therefore, connections
that have not shown that they may belong to an API server are closed first.
"""

import asyncio
from collections.abc import Iterator
from typing import Protocol


class Open(Protocol):
    """A connection of a listener."""

    is_caller: bool
    """Whether the client may be an API server.

    It may be one if it has sent the head of a request that only an API server can send, with a
    token or a certificate. If neither is required, it must have sent a complete review.
    """

    def finish(self) -> None:
        """Close the connection if it is idle, because the server stops.

        A connection that is not idle ends with its next answer, because the server drains.
        """

    def retire(self) -> None:
        """Close the connection after its next answer."""

    def abort(self) -> None:
        """Close the connection at once."""

    def idle_since(self) -> float | None:
        """Return the event loop's time at which the connection became idle, or None if it isn't."""


class Connections:
    """At most `most` connections, which hold at most `most_held` bytes together.

    A connection for which `is_caller` is False is called a stranger.
    """

    def __init__(self, most: int, most_held: int) -> None:
        self.closed_early = 0
        """The number of connections closed because there were too many, or they held too much."""
        self.all_closed = asyncio.Event()
        """An event that is set when the last connection is closed, and cleared by the next one."""
        self._most = most
        self._most_held = most_held
        self._held = 0
        self._sizes: dict[Open, int] = {}
        """The bytes that each connection holds, oldest connection first."""

    def __len__(self) -> int:
        return len(self._sizes)

    def __iter__(self) -> Iterator[Open]:
        return iter(list(self._sizes))

    def add(self, connection: Open) -> None:
        """Add a connection. If there are too many, close the least useful one."""
        self.all_closed.clear()
        self._sizes[connection] = 0
        if len(self._sizes) > self._most:
            self._close(self._least_useful(connection))

    def hold(self, connection: Open, size: int) -> None:
        """Record the number of bytes that `connection` holds now.

        If all connections together hold too many bytes, close the connections that hold the most:
        strangers first, then callers. An API server sends its requests quickly and reads the
        answers, so its connections hold few bytes, and only for a short time.
        """
        if connection not in self._sizes:
            return  # closed early
        self._held += size - self._sizes[connection]
        self._sizes[connection] = size
        while self._held > self._most_held:
            self._close(max(self._sizes, key=self._eviction_rank))

    def remove(self, connection: Open) -> None:
        """Remove a closed connection, unless it has already been removed."""
        self._held -= self._sizes.pop(connection, 0)
        if not self._sizes:
            self.all_closed.set()

    def _close(self, connection: Open) -> None:
        self.remove(connection)
        self.closed_early += 1
        connection.abort()

    def _eviction_rank(self, connection: Open) -> tuple[bool, int]:
        """Return the rank of a connection: (is it a stranger that holds bytes, number of bytes).

        The connection with the highest rank is closed first.
        """
        size = self._sizes[connection]
        return size > 0 and not connection.is_caller, size

    def _least_useful(self, newest: Open) -> Open:
        """Return the oldest stranger, or else the caller that has been idle for the longest time.

        The newest connection is always a stranger. It is closed only if all others are callers that
        are not idle.
        """
        oldest = next(each for each in self._sizes if not each.is_caller)
        if oldest is not newest:
            return oldest
        idle = {
            caller: since
            for caller in self._sizes
            if caller is not newest and (since := caller.idle_since()) is not None
        }
        return min(idle, key=idle.__getitem__, default=newest)
