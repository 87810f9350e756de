"""One request on both ways to an answer: over ASGI, and over a connection of our own, without TLS.

Both ship: `uvicorn app.asgi:app` has the first, `grove-admission serve` the second.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx

from app.admission.connection import Connection
from app.admission.exchange import Answer
from app.admission.serving import Serving
from tests.reviews import OverAsgi


class Lingering(Connection):
    """A connection that reads on after its end, as over TLS, so that its client is never reset."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.close = transport.write_eof  # type: ignore[method-assign]
        super().connection_made(transport)


@contextlib.asynccontextmanager
async def connecting(app: OverAsgi) -> AsyncIterator[int]:
    """The port of a server whose connections are ours; those that are open at the end are closed."""
    serving = Serving(app.exchange, healthy)
    server = await asyncio.get_running_loop().create_server(
        lambda: Lingering(serving), "127.0.0.1", 0
    )
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for connection in list(serving.connections):
            connection.abort()
        if serving.connections:
            await serving.connections.all_closed.wait()


async def ask_both(app: OverAsgi, method: str, path: str, **options: Any) -> httpx.Response:
    """The answer, which is the same on both ways."""
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://server"
    ) as client:
        over_asgi = await client.request(method, path, **options)
    async with (
        connecting(app) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", verify=False) as client,
    ):
        answer = await client.request(method, path, **options)
    assert (answer.status_code, answer.content) == (over_asgi.status_code, over_asgi.content)
    headers = {
        name: value
        for name, value in answer.headers.items()
        if name not in {"connection", "transfer-encoding"}
    }
    assert headers == dict(over_asgi.headers)
    return answer


def healthy(path: str) -> tuple[str, Answer] | None:
    """What a connection answers to probes of these tests."""
    return ("text/plain", (200, b"ok\n")) if path == "/healthz" else None
