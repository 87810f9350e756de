"""The HTTPS listener: the socket, TLS, the open connections, and how they end."""

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
    """Serves `app` on `sock` over TLS until `stop` is called. Admission requests take the short way through its
    exchange, all others the one through ASGI."""

    def __init__(
        self, app: AdmissionApp, sock: socket.socket, context: ssl.SSLContext, limits: Limits | None = None
    ) -> None:
        self.serving = Serving(app.exchange, ToUvicorn(app), limits or Limits())
        self._sock, self._context = sock, context
        self._listening, self._stopping = asyncio.Event(), asyncio.Event()

    @property
    def port(self) -> int:
        return int(self._sock.getsockname()[1])

    async def run_until_stopped(self) -> None:
        """If it is cancelled, because another task has failed, it ends as after `stop`: no request is cut off."""
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
        """Goes on serving, but with each answer its connection ends, and the client opens one elsewhere. Closing an
        idle connection instead may meet a request that is on its way, which is then lost."""
        self.serving.draining = True

    def stop(self) -> None:
        """No new connections; the open ones are finished and closed."""
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
        """Waits until no connection is open, but not longer than `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds if self.serving.connections else 0):
                await self.serving.all_closed.wait()


def bind(host: str, port: int) -> socket.socket:
    """A listening address; OSError if it can't be had. Port 0 takes a free one."""
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
    """A port on loopback that no process has at the moment."""
    with bind("127.0.0.1", 0) as sock:
        return int(sock.getsockname()[1])
