"""The open connections of one listener, and which of them is closed if there are too many.

API servers must get their verdicts however many others there are. Connections therefore have a
rank, and those of a lower one are closed first.
"""

import enum
from collections.abc import Iterator
from typing import Protocol


class Rank(enum.IntEnum):
    """Who a connection is, by the most that it has shown."""

    STRANGER = 0
    """It has not sent a complete request for a verdict, or not the certificate that is needed."""
    GUEST = 1
    """It has sent one without a token, as anybody can."""
    CALLER = 2
    """It has sent the head of one over a path with a token, or with a certificate.

    That is an API server.
    """


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


class Holders:
    """Connections, the oldest first, and the bytes that each of them holds."""

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

    Strangers and guests may hold half of these bytes, so that there are always some for callers.
    Incomplete heads may hold a sixteenth of them: who an API server is can be told only after its
    head, which it sends at once. `closed_early` is the number of connections that were closed
    because there were more.
    """

    def __init__(self, most: int, most_held: int) -> None:
        self.closed_early = 0
        self._most = most
        self._most_held = most_held
        self._lines = {rank: Holders() for rank in Rank}
        self._heads = Holders()
        """Those whose head is incomplete, which are in one of the other lines too."""

    def __len__(self) -> int:
        return sum(len(line.sizes) for line in self._lines.values())

    def connections(self) -> list[Open]:
        return [connection for line in self._lines.values() for connection in line.sizes]

    def add(self, connection: Open) -> None:
        """Add a stranger. If there are too many connections, the least useful one is closed."""
        self._lines[Rank.STRANGER].hold(connection, 0)
        if len(self) > self._most:
            self._close(self._least_useful())

    def welcome(self, connection: Open, rank: Rank) -> None:
        """Take note of what `connection` has shown. It keeps a higher rank."""
        former = self._rank_of(connection)
        if former is not None and former < rank:
            self._lines[rank].hold(connection, self._lines[former].remove(connection))

    def hold(self, connection: Open, size: int, *, is_head: bool = False) -> None:
        """Take note of the bytes that `connection` holds now, of an incomplete head or of others.

        If too many are held, those who hold most of the lowest rank are closed. An API server sends
        a request at once and reads its answer, so that it holds few bytes, and for a short time.
        """
        rank = self._rank_of(connection)
        if rank is None:
            return  # it is being closed

        self._lines[rank].hold(connection, size)
        self._heads.remove(connection)
        if is_head:
            self._heads.hold(connection, size)
        while self._heads.held > self._most_held // 16:
            self._close(self._heads.largest())
        while self._are_too_many():
            self._close(self._largest())

    def remove(self, connection: Open) -> None:
        rank = self._rank_of(connection)
        if rank is not None:
            self._lines[rank].remove(connection)
            self._heads.remove(connection)

    def _are_too_many(self) -> bool:
        held = sum(line.held for line in self._lines.values())
        others = held - self._lines[Rank.CALLER].held
        return held > self._most_held or others > self._most_held // 2

    def _rank_of(self, connection: Open) -> Rank | None:
        return next((rank for rank, line in self._lines.items() if connection in line.sizes), None)

    def _close(self, connection: Open) -> None:
        self.remove(connection)
        self.closed_early += 1
        connection.abort()

    def _least_useful(self) -> Open:
        """Return the oldest stranger, else who has been idle for longest, guests before callers.

        The newest connection is a stranger, so that it goes only if all others are busy.
        """
        strangers = self._lines[Rank.STRANGER].sizes
        newest = next(reversed(strangers))
        oldest = next(iter(strangers))
        if oldest is not newest:
            return oldest
        return min(self._idle(), default=(0, 0.0, 0, newest))[3]

    def _idle(self) -> Iterator[tuple[int, float, int, Open]]:
        for rank in (Rank.GUEST, Rank.CALLER):
            for number, connection in enumerate(self._lines[rank].sizes):
                since = connection.idle_since()
                if since is not None:
                    yield rank, since, number, connection

    def _largest(self) -> Open:
        """Return who holds most of the lowest rank that holds anything."""
        return next(line for line in self._lines.values() if line.held).largest()
