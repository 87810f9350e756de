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
    """It has sent one over a path with a token, or with a certificate: it is an API server."""


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

    Strangers and guests may hold half of these bytes, so that there are always some for callers.
    `closed_early` is the number of connections that were closed because there were more.
    """

    def __init__(self, most: int, most_held: int) -> None:
        self.closed_early = 0
        self._most = most
        self._most_held = most_held
        self._lines: dict[Rank, dict[Open, int]] = {rank: {} for rank in Rank}
        """The bytes that each connection holds. The oldest connection is the first of its line."""
        self._held = dict.fromkeys(Rank, 0)

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def connections(self) -> list[Open]:
        return [connection for line in self._lines.values() for connection in line]

    def add(self, connection: Open) -> None:
        """Add a stranger. If there are too many connections, the least useful one is closed."""
        self._lines[Rank.STRANGER][connection] = 0
        if len(self) > self._most:
            self._close(self._least_useful())

    def welcome(self, connection: Open, rank: Rank) -> None:
        """Take note of what `connection` has shown. It keeps a higher rank."""
        former = self._rank_of(connection)
        if former is not None and former < rank:
            held = self._remove(connection, former)
            self._lines[rank][connection] = held
            self._held[rank] += held

    def hold(self, connection: Open, size: int) -> None:
        """Take note of the bytes that `connection` holds now.

        If too many are held, those who hold most of the lowest rank are closed. An API server sends
        a request at once and reads its answer, so that it holds few bytes, and for a short time.
        """
        rank = self._rank_of(connection)
        if rank is None:
            return  # it is being closed

        self._held[rank] += size - self._lines[rank][connection]
        self._lines[rank][connection] = size
        while self._are_too_many():
            self._close(self._largest())

    def remove(self, connection: Open) -> None:
        rank = self._rank_of(connection)
        if rank is not None:
            self._remove(connection, rank)

    def _are_too_many(self) -> bool:
        held = sum(self._held.values())
        return held > self._most_held or held - self._held[Rank.CALLER] > self._most_held // 2

    def _rank_of(self, connection: Open) -> Rank | None:
        return next((rank for rank, line in self._lines.items() if connection in line), None)

    def _remove(self, connection: Open, rank: Rank) -> int:
        held = self._lines[rank].pop(connection)
        self._held[rank] -= held
        return held

    def _close(self, connection: Open) -> None:
        self.remove(connection)
        self.closed_early += 1
        connection.abort()

    def _least_useful(self) -> Open:
        """Return the oldest stranger, else who has been idle for longest, guests before callers.

        The newest connection is a stranger, so that it goes only if all others are busy.
        """
        strangers = self._lines[Rank.STRANGER]
        newest = next(reversed(strangers))
        oldest = next(iter(strangers))
        if oldest is not newest:
            return oldest
        return min(self._idle(), default=(0, 0.0, 0, newest))[3]

    def _idle(self) -> Iterator[tuple[int, float, int, Open]]:
        for rank in (Rank.GUEST, Rank.CALLER):
            for number, connection in enumerate(self._lines[rank]):
                since = connection.idle_since()
                if since is not None:
                    yield rank, since, number, connection

    def _largest(self) -> Open:
        """Return who holds most of the lowest rank that holds anything."""
        rank = next(rank for rank, held in self._held.items() if held)
        line = self._lines[rank]
        return max(line, key=line.__getitem__)
