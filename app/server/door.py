"""The connections whose TLS handshake is not complete.

Whoever reaches the port can begin handshakes and never end them. There are therefore two lines with
limits, and the oldest of a line goes if it is too long: a handshake takes milliseconds, so that the
oldest is the least likely one to be completed.
"""

import time

from app.base.memory import give_back
from app.server.process import MemoryReturn
from app.server.tls import TlsTransport


class Line:
    """Connections by age, at most `most`. `closed_early` counts those that were closed for that."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.closed_early = 0
        self._waiting: dict[TlsTransport, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

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

    A client that has said nothing takes 2 KiB, and one in its handshake 47 KiB.
    """

    def __init__(self, connections: int) -> None:
        self.silent = Line(2 * connections)
        self.begun = Line(max(connections // 4, 16))
        self._memory = MemoryReturn(time.monotonic, give_back)

    @property
    def closed_early(self) -> int:
        return self.silent.closed_early + self.begun.closed_early

    @property
    def most(self) -> int:
        return self.silent.most + self.begun.most

    def came(self, transport: TlsTransport) -> None:
        self.silent.add(transport)

    def began(self, transport: TlsTransport) -> None:
        self.silent.remove(transport)
        self.begun.add(transport)

    def entered(self, transport: TlsTransport) -> None:
        self.begun.remove(transport)

    def left(self, transport: TlsTransport) -> None:
        self.silent.remove(transport)
        self.begun.remove(transport)
        self._memory.freed_some()

    def end(self) -> None:
        """Close all of them, because the server stops."""
        self.silent.abort()
        self.begun.abort()
