"""The connections whose TLS handshake is not complete.

Any client that reaches the port can begin handshakes and never complete them. So these connections
stand in queues with limits. If a queue is too long, its oldest connection is closed: a handshake
takes milliseconds, so the oldest one is the least likely to be completed. Each ClientHello takes
0.4 ms, and clients choose their number, so they get only a part of each turn of the event loop.
"""

import asyncio
import time

from app.base.memory import give_back
from app.server.process import MemoryReturn
from app.server.tls import TlsTransport

HELLO_SECONDS = 0.01
"""The time in one turn of the event loop for answers to ClientHellos."""


class Line:
    """A queue of at most `most` connections, oldest first.

    `closed_early` counts the connections that were closed because the queue was too long.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.closed_early = 0
        self._waiting: dict[TlsTransport, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def pop(self) -> TlsTransport:
        """Remove and return the oldest connection."""
        oldest = next(iter(self._waiting))
        del self._waiting[oldest]
        return oldest

    def add(self, transport: TlsTransport) -> None:
        self._waiting[transport] = None
        if len(self._waiting) > self.most:
            oldest = next(iter(self._waiting))
            self.remove(oldest)
            self.closed_early += 1
            oldest.abort()

    def remove(self, transport: TlsTransport) -> None:
        self._waiting.pop(transport, None)

    def abort(self) -> None:
        for transport in list(self._waiting):
            transport.abort()


class Handshakes:
    """The `Door` of a listener that serves at most `connections`.

    A client that has sent nothing takes 2 KiB, and one in its handshake 47 KiB.
    """

    def __init__(self, connections: int) -> None:
        self.silent = Line(2 * connections)
        """Connections whose client has sent nothing yet."""
        self.asking = Line(max(connections // 4, 16))
        """Connections whose ClientHello has not been answered yet."""
        self.begun = Line(self.asking.most)
        """Connections whose handshake has begun."""
        self._is_planned = False
        self._memory = MemoryReturn(time.monotonic, give_back)

    @property
    def closed_early(self) -> int:
        return sum(line.closed_early for line in (self.silent, self.asking, self.begun))

    @property
    def most(self) -> int:
        return self.silent.most + self.asking.most + self.begun.most

    def came(self, transport: TlsTransport) -> None:
        self.silent.add(transport)

    def asked(self, transport: TlsTransport) -> None:
        self.silent.remove(transport)
        self.asking.add(transport)
        if not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._answer)

    def _answer(self) -> None:
        """Answer ClientHellos, the oldest first, for HELLO_SECONDS."""
        end = time.perf_counter() + HELLO_SECONDS
        while len(self.asking) and time.perf_counter() < end:
            self.asking.pop().shake_hands()
        self._is_planned = len(self.asking) > 0
        if self._is_planned:
            asyncio.get_running_loop().call_soon(self._answer)

    def began(self, transport: TlsTransport) -> None:
        self.begun.add(transport)

    def entered(self, transport: TlsTransport) -> None:
        self.begun.remove(transport)

    def left(self, transport: TlsTransport) -> None:
        for line in (self.silent, self.asking, self.begun):
            line.remove(transport)
        self._memory.freed_some()

    def end(self) -> None:
        """Close all connections, because the server stops."""
        for line in (self.silent, self.asking, self.begun):
            line.abort()
