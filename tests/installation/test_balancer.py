"""The stand-in of a Service closes what it has opened, whenever it is stopped."""

import asyncio
import gc
import socket
from dataclasses import dataclass

import pytest

from tests.installation.balancer import Balancer

pytestmark = pytest.mark.untraced


@dataclass
class Listening:
    address: str
    port: int


@pytest.mark.parametrize("turns", range(12))
async def test_a_connection_that_ends_while_it_is_stopped_is_closed(turns: int) -> None:
    """The Pod ends some turns of the event loop before the stop.

    What is left open is a ResourceWarning, and warnings are errors.
    """
    begun = asyncio.Event()
    ended = asyncio.Event()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.set()
        await ended.wait()
        writer.transport.abort()

    pod = await asyncio.start_server(serve, "127.0.0.1", 0)
    target = Listening("127.0.0.1", pod.sockets[0].getsockname()[1])
    balancer = Balancer(lambda: [target])
    await balancer.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", balancer.port)
    await begun.wait()

    ended.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    await balancer.stop()
    assert await reader.read() == b""
    writer.transport.abort()
    pod.close()
    gc.collect(1)  # what is left open is young


@pytest.mark.parametrize("turns", range(12))
@pytest.mark.parametrize("has_pod", [True, False])
async def test_a_connection_that_comes_while_it_is_stopped_is_closed(
    turns: int, has_pod: bool
) -> None:
    """What is left open is a ResourceWarning here too."""
    ended = asyncio.Event()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.transport.abort()

    pod = await asyncio.start_server(serve, "127.0.0.1", 0)
    targets = [Listening("127.0.0.1", pod.sockets[0].getsockname()[1])] if has_pod else []
    balancer = Balancer(lambda: targets)
    await balancer.start()
    with socket.create_connection(("127.0.0.1", balancer.port)) as client:
        for _ in range(turns):
            await asyncio.sleep(0)
        await balancer.stop()
        assert _is_closed(client)
    ended.set()
    pod.close()
    gc.collect(1)  # what is left open is young


def _is_closed(client: socket.socket) -> bool:
    client.settimeout(5)
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True
