"""The open connections of one listener, and the choice which one is closed if there are too many.

API servers must get their verdicts even if there are many other connections. Therefore, connections
that have not shown that they may belong to an API server are closed first.
"""

from typing import Protocol


class Open(Protocol):
    """A connection of a listener."""

    def finish(self) -> None:
        """Close the connection if it is idle.

        Otherwise it ends with its next answer, because the server drains.
        """

    def retire(self) -> None:
        """End the connection with its next answer."""

    def abort(self) -> None:
        """Close the connection at once."""

    def idle_since(self) -> float | None:
        """Return the event loop's time of the last request, or None if one is in progress."""


class Holders:
    """Connections, oldest first, with the bytes that each of them holds."""

    def __init__(self) -> None:
        self.sizes: dict[Open, int] = {}
        self.held = 0

    def hold(self, connection: Open, size: int) -> None:
        self.held += size - self.sizes.get(connection, 0)
        self.sizes[connection] = size

    def remove(self, connection: Open) -> int:
        size = self.sizes.pop(connection, 0)
        self.held -= size
        return size

    def largest(self) -> Open:
        return max(self.sizes, key=self.sizes.__getitem__)


class Crowd:
    """At most `most` connections, which hold at most `most_held` bytes together.

    A connection belongs to a stranger until it has sent the head of a request that only an API
    server can send, or a complete review if any client may send one. Strangers may hold half of the
    bytes, so that the other half is always left for callers. `closed_early` counts the connections
    that were closed because there were too many or they held too many bytes.
    """

    def __init__(self, most: int, most_held: int) -> None:
        self.closed_early = 0
        self._most = most
        self._most_held = most_held
        self._strangers = Holders()
        self._callers = Holders()

    def __len__(self) -> int:
        return len(self._strangers.sizes) + len(self._callers.sizes)

    def connections(self) -> list[Open]:
        return [*self._strangers.sizes, *self._callers.sizes]

    def add(self, connection: Open) -> None:
        """Add a stranger. If there are too many connections, the least useful one is closed."""
        self._strangers.hold(connection, 0)
        if len(self) > self._most:
            self._close(self._least_useful())

    def welcome(self, connection: Open) -> None:
        """Take `connection` for one of an API server from now on."""
        if connection in self._strangers.sizes:
            self._callers.hold(connection, self._strangers.remove(connection))

    def hold(self, connection: Open, size: int) -> None:
        """Record the number of bytes that `connection` holds now.

        If too many bytes are held, close the connections that hold the most, strangers first. An
        API server sends its request quickly and reads its answer, so it holds few bytes for a short
        time.
        """
        for line in (self._strangers, self._callers):
            if connection in line.sizes:
                line.hold(connection, size)

        while self._strangers.held > self._most_held // 2:
            self._close(self._strangers.largest())
        while self._strangers.held + self._callers.held > self._most_held:
            line = self._strangers if self._strangers.held else self._callers
            self._close(line.largest())

    def remove(self, connection: Open) -> None:
        self._strangers.remove(connection)
        self._callers.remove(connection)

    def _close(self, connection: Open) -> None:
        self.remove(connection)
        self.closed_early += 1
        connection.abort()

    def _least_useful(self) -> Open:
        """Return the oldest stranger, otherwise the caller that has been idle for the longest time.

        The newest connection is always a stranger. It is closed only if all others are busy.
        """
        oldest, *others = self._strangers.sizes
        if others:
            return oldest
        idle = {
            caller: since
            for caller in self._callers.sizes
            if (since := caller.idle_since()) is not None
        }
        return min(idle, key=idle.__getitem__, default=oldest)
