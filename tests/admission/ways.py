"""One request on both ways to an answer: over ASGI, and over a connection of our own, without TLS."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx

from app.admission.asgi import AdmissionApp
from app.admission.connection import Connection
from app.admission.serving import Serving
from app.server.handover import ToUvicorn


@contextlib.asynccontextmanager
async def connecting(app: AdmissionApp) -> AsyncIterator[int]:
    """The port of a server whose connections are ours; those that are open at the end are closed."""
    serving = Serving(app.exchange, ToUvicorn(app))
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(serving), "127.0.0.1", 0
    )
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for connection in list(serving.connections):
            connection.abort()
        if serving.connections:
            await serving.all_closed.wait()


async def ask_both(app: AdmissionApp, method: str, path: str, **options: Any) -> httpx.Response:
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


async def body_size(receive: Callable[[], Awaitable[dict[str, Any]]]) -> int:
    """Receives the body of an ASGI request to its end, and gives its bytes."""
    size = 0
    more = True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    return size
