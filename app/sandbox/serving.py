"""uvicorn in this event loop, on a socket that is bound before it starts."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp


class _Quiet(uvicorn.Server):
    """A uvicorn server that does not handle signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class LoopbackServer:
    """One ASGI app over TLS on 127.0.0.1. It listens at once: connections wait until it is started."""

    def __init__(self, app: ASGIApp, port: int, certificate: Path, key: Path) -> None:
        # asyncio sets TCP_NODELAY only if the protocol is given. Without it, each response waits 40 ms for an ACK.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        self._socket.listen(1024)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            app,
            ssl_certfile=certificate,
            ssl_keyfile=key,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            timeout_keep_alive=60,
            timeout_graceful_shutdown=2,
        )
        self._server = _Quiet(config)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))

    async def stop(self, before: Callable[[], None]) -> None:
        """Accepts no more connections, calls `before`, which ends open streams, and waits for open requests."""
        self._server.should_exit = True
        before()
        if self._task is not None:
            await self._task
        self._socket.close()
