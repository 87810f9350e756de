"""The HTTPS listener: uvicorn, told when to stop instead of catching signals itself."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator

import uvicorn

from app.admission.connection import Connection
from app.admission.http import App

KEEP_ALIVE_SECONDS = 120
"""An API server keeps idle connections for 90 s and doesn't send a POST again: it has to be the one who closes."""

_SHUTDOWN_SECONDS = 10


class Listener(uvicorn.Server):
    """Serves `app` on `sock` over TLS until `stop` is called. `connection` is the class of its connections."""

    def __init__(
        self, app: App, sock: socket.socket, context: ssl.SSLContext, connection: type[Connection] = Connection
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                interface="asgi3",
                loop="uvloop",
                http=connection,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                backlog=2048,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
                ssl_context_factory=lambda _config, _default: context,
            )
        )
        self._sock = sock
        self._listening = asyncio.Event()

    @property
    def port(self) -> int:
        return int(self._sock.getsockname()[1])

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def run_until_stopped(self) -> None:
        """Cancelled, as when another task has died, it ends as after `stop`: no request is cut off."""
        try:
            await self.serve([self._sock])
        except asyncio.CancelledError:
            if self.started:
                await self.shutdown([self._sock])
            raise

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening.set()

    async def wait_started(self) -> None:
        await self._listening.wait()

    def drain(self) -> None:
        """Goes on serving, but with each answer its connection ends, and the client opens one elsewhere. Closing an
        idle connection instead may meet a request that is on its way, which is then lost."""
        self.config.encoded_headers.append((b"connection", b"close"))

    def stop(self) -> None:
        """No new connections; the open ones are finished and closed."""
        self.should_exit = True


def bind(host: str, port: int) -> socket.socket:
    """A listening address; OSError where it can't be had. Port 0 takes a free one."""
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
    """A port on loopback that nobody has at the moment."""
    with bind("127.0.0.1", 0) as sock:
        return int(sock.getsockname()[1])
