"""Stands in for a Service: a TCP port on loopback whose connections go to Pods that are ready, in
turns.

A real API server needs it, because it doesn't accept loopback addresses in EndpointSlices.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Protocol


class Target(Protocol):
    """What a connection can go to."""

    address: str
    port: int


class Balancer:
    """`host` is an address on loopback."""

    def __init__(self, ready: Callable[[], Sequence[Target]], host: str = "127.0.0.1") -> None:
        self._ready = ready
        self._host = host
        self._turns = itertools.count()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, self._host, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection in a task, and close it even if that is cancelled before it begins."""
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(task)

        def close(ended: asyncio.Task[None]) -> None:
            self._connections.discard(ended)
            writer.transport.abort()

        task.add_done_callback(close)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pods = self._ready()
        if pods:
            with contextlib.suppress(OSError):
                await _join(reader, writer, pods[next(self._turns) % len(pods)])


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pod: Target) -> None:
    """Until one side closes.

    The connection to the Pod is closed first, because `stop` may cancel what comes after it.
    """
    pod_reader, pod_writer = await asyncio.open_connection(pod.address, pod.port)
    pumps = [
        asyncio.create_task(_pump(*pair)) for pair in ((reader, pod_writer), (pod_reader, writer))
    ]
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        pod_writer.transport.abort()
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
