"""The HTTPS listener: the socket, TLS, and the open connections until their end."""

import asyncio
import contextlib
import socket
import ssl

from app.admission.asgi import AdmissionApp
from app.admission.connection import Connection
from app.admission.serving import Limits, Serving
from app.server.handover import ToUvicorn

_BACKLOG = 2048
_FINISH_SECONDS = 10.0
_ABORT_SECONDS = 1.0


class Listener:
    """Serves `app` on `sock` over TLS until `stop` is called.

    Admission requests go directly to the exchange of the app, all others through ASGI.
    """

    def __init__(
        self,
        app: AdmissionApp,
        sock: socket.socket,
        context: ssl.SSLContext,
        limits: Limits | None = None,
    ) -> None:
        self.serving = Serving(app.exchange, ToUvicorn(app), limits or Limits())
        self._sock = sock
        self._context = context
        self._listening = asyncio.Event()
        self._stopping = asyncio.Event()

    @property
    def port(self) -> int:
        return int(self._sock.getsockname()[1])

    async def run_until_stopped(self) -> None:
        """Runs until `stop` is called.

        If it is cancelled, because another task has failed, it ends in the same way: requests are
        finished.
        """
        seconds = self.serving.limits.request_seconds
        server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self.serving),
            sock=self._sock,
            backlog=_BACKLOG,
            ssl=self._context,
            ssl_handshake_timeout=seconds,
            ssl_shutdown_timeout=seconds,
        )
        self._listening.set()
        try:
            await self._stopping.wait()
        finally:
            server.close()
            await self._finish()

    async def wait_started(self) -> None:
        await self._listening.wait()

    def drain(self) -> None:
        """Continues to serve, but ends each connection with its next response, so that the client
        connects elsewhere. If idle connections were closed instead, a request that has just been
        sent could be lost.
        """
        self.serving.draining = True

    def stop(self) -> None:
        """Accepts no more connections, finishes the open requests, and closes the connections."""
        self._stopping.set()

    async def _finish(self) -> None:
        self.drain()
        for connection in list(self.serving.connections):
            connection.finish()
        await self._all_closed(_FINISH_SECONDS)
        for connection in list(self.serving.connections):
            connection.abort()
        await self._all_closed(_ABORT_SECONDS)

    async def _all_closed(self, seconds: float) -> None:
        """Waits until all connections are closed, up to `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds if self.serving.connections else 0):
                await self.serving.all_closed.wait()


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; with port 0, a free port.

    Raises OSError if the address is not available.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.set_inheritable(True)
    except OSError as error:
        sock.close()
        raise OSError(f"{host}:{port}: {error.strerror or error}") from error
    return sock


def free_port() -> int:
    """A TCP port on loopback that is free now."""
    with bind("127.0.0.1", 0) as sock:
        return int(sock.getsockname()[1])
