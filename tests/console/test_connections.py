"""What anybody on the machine can do with connections to the console's port.

Tests `app/console/connections.py`.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest
import uvloop
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.console.app import _serving
from app.console.connections import MOST_HEAD, STRANGERS
from app.console.guard import Guard
from tests.console.fake import TOKEN

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class NoStreams:
    def close(self) -> None: ...


async def answered(scope: Scope, receive: Receive, send: Send) -> None:
    await Response("a page")(scope, receive, send)


@contextlib.asynccontextmanager
async def port() -> AsyncIterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with (
            asyncio.timeout(240),  # without a limit, it would wait for ever
            _serving(Guard(answered, TOKEN), listener, NoStreams()),  # type: ignore[arg-type]
        ):
            yield listener.getsockname()[1]


def request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode()


async def status(connection: Connection, path: str) -> int:
    """The status of an answer on a connection, whose body is read too."""
    reader, writer = connection
    writer.write(request(path))
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if b"content-length:" in line)
    await reader.readexactly(int(length.split(b":")[1]))
    return int(head.split()[1])


@pytest.mark.parametrize("begin", [b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n", b"GET /"])
def test_a_head_has_an_end(begin: bytes) -> None:
    async def scenario() -> None:
        async with port() as number:
            reader, writer = await asyncio.open_connection("127.0.0.1", number)
            writer.write(begin + b"a: b\r\n" * (MOST_HEAD // 3))
            with contextlib.suppress(ConnectionError):
                assert (await reader.readline()).split()[1] == b"400"
            writer.close()

    uvloop.run(scenario())


def test_connections_without_the_token_are_few_and_close_none_that_has_shown_it() -> None:
    async def scenario() -> None:
        async with port() as number:

            async def opened() -> Connection:
                return await asyncio.open_connection("127.0.0.1", number)

            ours = await opened()
            assert await status(ours, f"/{TOKEN}/workloads") == 200
            foreign = await opened()
            assert await status(foreign, "/workloads") == 404
            silent = [await opened() for _ in range(STRANGERS)]
            with contextlib.suppress(ConnectionError):
                assert await foreign[0].read() == b""  # the oldest one is closed
            assert await status(silent[-1], "/workloads") == 404
            assert await status(ours, f"/{TOKEN}/workloads") == 200
            for _, writer in (ours, foreign, *silent):
                writer.close()

    uvloop.run(scenario())
