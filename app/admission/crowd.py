"""The open connections of one listener, and which of them is closed if there are too many.

API servers must get their verdicts however many others there are. A connection is therefore a
stranger until it has sent one complete request for a verdict, with a certificate if one is needed.
Strangers are closed first.
"""

from collections.abc import Iterator
from typing import Protocol


class Open(Protocol):
    """A connection of a listener."""

    def finish(self) -> None:
        """Close the connection if it is idle.

        Otherwise, it ends with the next answer, because the server drains.
        """

    def retire(self) -> None:
        """End the connection with its next answer."""

    def abort(self) -> None:
        """Close the connection at once."""

    def idle_since(self) -> float | None:
        """Return the time of the event loop of the last request. None if one is in progress."""


class Crowd:
    """At most `most` connections, which hold at most `most_held` bytes together.

    `closed_early` is the number of connections that were closed because there were more.
    """

    def __init__(self, most: int, most_held: int) -> None:
        self.closed_early = 0
        self._most = most
        self._most_held = most_held
        self._strangers: dict[Open, int] = {}
        """The bytes that each connection holds. The oldest connection is the first one."""
        self._callers: dict[Open, int] = {}
        self._held = 0

    def __len__(self) -> int:
        return len(self._strangers) + len(self._callers)

    def connections(self) -> list[Open]:
        return [*self._strangers, *self._callers]

    def add(self, connection: Open) -> None:
        """Add a stranger. If there are too many connections, the least useful one is closed."""
        self._strangers[connection] = 0
        if len(self) > self._most:
            self._close(self._least_useful())

    def welcome(self, connection: Open) -> None:
        """Take note that `connection` has sent a complete request for a verdict."""
        held = self._strangers.pop(connection, None)
        if held is not None:
            self._callers[connection] = held

    def hold(self, connection: Open, size: int) -> None:
        """Take note of the bytes that `connection` holds now.

        If all connections hold too many, those that hold most are closed. An API server sends a
        request at once and reads its answer, so that it holds few bytes, and for a short time.
        """
        line = self._strangers if connection in self._strangers else self._callers
        if connection not in line:
            return  # it is being closed

        self._held += size - line[connection]
        line[connection] = size
        while self._held > self._most_held:
            self._close(self._largest())

    def remove(self, connection: Open) -> None:
        self._held -= self._strangers.pop(connection, 0) + self._callers.pop(connection, 0)

    def _close(self, connection: Open) -> None:
        self.remove(connection)
        self.closed_early += 1
        connection.abort()

    def _least_useful(self) -> Open:
        """Return the oldest stranger, else the caller that has been idle for longest.

        The newest connection is a stranger, so that it goes only if all others are busy callers.
        """
        newest = next(reversed(self._strangers))
        oldest = next(iter(self._strangers))
        if oldest is not newest:
            return oldest
        return min(self._idle(), default=(0.0, 0, newest))[2]

    def _idle(self) -> Iterator[tuple[float, int, Open]]:
        for number, connection in enumerate(self._callers):
            since = connection.idle_since()
            if since is not None:
                yield since, number, connection

    def _largest(self) -> Open:
        line = self._strangers | self._callers
        return max(line, key=line.__getitem__)
