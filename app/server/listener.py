"""Listen for API servers and probes, over HTTPS."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from functools import partial

from app.admission.connection import Connection
from app.admission.exchange import Exchange
from app.admission.serving import ConnectionLimits, Report, Serving
from app.base.sample import Sample, counter, gauge
from app.certificates.source import ServingCertificate
from app.server.handshakes import Handshakes
from app.server.tls import READ_BYTES, TlsTransport

_BACKLOG = 2048
"""The maximum number of connections that the kernel keeps until they are accepted."""
_FINISH_SECONDS = 10.0
"""The seconds that open requests may take when the server stops."""
_ABORT_SECONDS = 1.0
"""The maximum seconds to wait for aborted connections to end."""


class Listener:
    """A listener on `sock` over TLS, with `exchange` for reviews and `report` for probes."""

    def __init__(
        self,
        exchange: Exchange,
        report: Report,
        sock: socket.socket,
        certificate: ServingCertificate,
        limits: ConnectionLimits,
    ) -> None:
        self.serving = Serving(exchange, report, limits)
        self.handshakes = Handshakes(self.serving.limits.connections)
        self._sock = sock
        self._certificate = certificate
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._listening = asyncio.Event()
        self._stopping = asyncio.Event()

    @property
    def port(self) -> int:
        """The port that the socket is bound to. The kernel chose it if the configured port is 0."""
        return int(self._sock.getsockname()[1])

    @property
    def most_connections(self) -> int:
        """The maximum number of open connections, including unfinished handshakes."""
        return self.serving.limits.connections + self.handshakes.most

    async def run_until_stopped(self) -> None:
        """Accept connections until `stop` is called or this task is cancelled.

        Then finish the open requests.
        """
        server = await asyncio.get_running_loop().create_server(
            self._accepted, sock=self._sock, backlog=_BACKLOG
        )
        self._listening.set()
        try:
            await self._stopping.wait()
        finally:
            server.close()
            await self._finish()

    def samples(self) -> Iterator[Sample]:
        """Yield metrics: open connections by state, and connections that a limit has closed."""
        connections = self.serving.connections
        text = "Open connections by their state."
        yield gauge("connections", text, len(self.handshakes.silent), state="silent")
        yield gauge("connections", text, len(self.handshakes.begun), state="handshake")
        yield gauge("connections", text, len(connections), state="open")

        text = "Connections closed because there were too many or they held too many bytes."
        closed_early = self.handshakes.closed_early + connections.closed_early
        yield counter("connections_closed_total", text, closed_early)

    async def wait_started(self) -> None:
        """Wait until connections are accepted."""
        await self._listening.wait()

    def drain(self) -> None:
        """Continue to serve, but end each connection with its next response.

        The client then connects elsewhere. If idle connections were closed instead, a request that
        has just been sent could be lost.
        """
        self.serving.draining = True

    def renew(self) -> None:
        """End each connection that is open now with its next response.

        Clients may have presented a certificate of a CA that is no longer trusted. `_entered` ends
        connections whose handshake is not complete yet.
        """
        for connection in self.serving.connections:
            connection.retire()

    def stop(self) -> None:
        """Accept no more connections, finish the open requests, and close the connections."""
        self._stopping.set()

    def _accepted(self) -> TlsTransport:
        seconds = self.serving.limits.request_seconds
        context = self._certificate.context
        make = partial(self._entered, context)
        return TlsTransport(context, make, self.handshakes, seconds, self._buffer)

    def _entered(self, context: ssl.SSLContext) -> Connection:
        """Return the protocol for a connection whose handshake began with `context`.

        If the client CAs have changed since then, the connection ends with its first answer.
        """
        connection = Connection(self.serving)
        if context is not self._certificate.context:
            connection.retire()
        return connection

    async def _finish(self) -> None:
        """Close idle connections at once, and the others after their answer or their time limit."""
        self.drain()
        self.handshakes.abort()
        for connection in self.serving.connections:
            connection.finish()
        await self._all_closed(_FINISH_SECONDS)
        for connection in self.serving.connections:
            connection.abort()
        await self._all_closed(_ABORT_SECONDS)

    async def _all_closed(self, seconds: float) -> None:
        """Wait until all connections are closed, for up to `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds if self.serving.connections else 0):
                await self.serving.connections.all_closed.wait()


EVERY_ADDRESS = "::"
"""The host name that means all IPv6 and IPv4 addresses of the machine."""


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to `host` and `port`, or to a free port if `port` is 0.

    With EVERY_ADDRESS, the socket accepts IPv6 and IPv4, or only IPv4 if the machine has no IPv6.
    Raise OSError if the address is not available.
    """
    if host == EVERY_ADDRESS and not socket.has_dualstack_ipv6():
        host = "0.0.0.0"  # noqa: S104 - a Service has to reach it

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, host != EVERY_ADDRESS)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise OSError(f"{authority(host, port)}: {error.strerror or error}") from error

    return sock


def authority(host: str, port: int) -> str:
    """Return `host:port` as in a URL, with brackets around an IPv6 address."""
    bracketed = f"[{host}]" if ":" in host else host
    return f"{bracketed}:{port}"
