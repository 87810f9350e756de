"""The first door: the HTTPS listener for API servers and probes."""

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
from app.server.door import Handshakes
from app.server.tls import TlsTransport

_BACKLOG = 2048
_FINISH_SECONDS = 10.0
_ABORT_SECONDS = 1.0


class Listener:
    """A listener on `sock` over TLS, until `stop` is called.

    Reviews are answered by `exchange`, and probes by `report`.
    """

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
        self._listening = asyncio.Event()
        self._stopping = asyncio.Event()

    @property
    def port(self) -> int:
        return int(self._sock.getsockname()[1])

    @property
    def most_connections(self) -> int:
        """The most connections that are open at a time, with unfinished handshakes."""
        return self.serving.limits.connections + self.handshakes.most

    async def run_until_stopped(self) -> None:
        """Run until `stop` is called.

        If it is cancelled, because another task has failed, it ends in the same way: requests are
        finished.
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
        crowd = self.serving.crowd
        text = "Open connections by their state."
        yield gauge("connections", text, len(self.handshakes.silent), state="silent")
        handshakes = len(self.handshakes.asking) + len(self.handshakes.begun)
        yield gauge("connections", text, handshakes, state="handshake")
        yield gauge("connections", text, len(crowd), state="open")

        text = "Connections that were closed because there were too many, or held too many bytes."
        closed_early = self.handshakes.closed_early + crowd.closed_early
        yield counter("connections_closed_total", text, closed_early)

    async def wait_started(self) -> None:
        await self._listening.wait()

    def drain(self) -> None:
        """Continue to serve, but end each connection with its next response.

        The client then connects elsewhere. If idle connections were closed instead, a request that
        has just been sent could be lost.
        """
        self.serving.draining = True

    def renew(self) -> None:
        """End each connection that is open now with its next response.

        Its client may have shown a certificate of a CA that is no longer trusted. Connections
        whose handshake has begun and is not complete end in the same way, see `_entered`.
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
        return TlsTransport(context, make, self.handshakes, seconds)

    def _entered(self, context: ssl.SSLContext) -> Connection:
        """Return the connection of a handshake that began with `context`, and is complete now."""
        connection = Connection(self.serving)
        if context is not self._certificate.context:
            connection.retire()
        return connection

    async def _finish(self) -> None:
        self.drain()
        self.handshakes.end()
        for connection in self.serving.connections:
            connection.finish()
        await self._all_closed(_FINISH_SECONDS)
        for connection in self.serving.connections:
            connection.abort()
        await self._all_closed(_ABORT_SECONDS)

    async def _all_closed(self, seconds: float) -> None:
        """Wait until all connections are closed, up to `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds if self.serving.connections else 0):
                await self.serving.all_closed.wait()


EVERY_ADDRESS = "::"


def bind(host: str, port: int) -> socket.socket:
    """Return a bound socket; with port 0, at a free port.

    With EVERY_ADDRESS it takes connections of IPv6 and of IPv4, or only of IPv4 if the machine has
    no IPv6. Raise OSError if the address is not available.
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
    """Return `host:port`, as it is written in a URL."""
    bracketed = f"[{host}]" if ":" in host else host
    return f"{bracketed}:{port}"
