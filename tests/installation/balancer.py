"""Stands in for a Service: a TCP port on loopback whose connections go to Pods that are ready, in
turns.

A real API server needs it, because it doesn't accept loopback addresses in EndpointSlices.
"""

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Callable, Sequence
from typing import Protocol


class Target(Protocol):
    """What a connection can go to."""

    address: str
    port: int


class Balancer:
    """`host` is an address on loopback. If `port` is 0, a free one is taken.

    Sockets are accepted here and not by an asyncio.Server: one that is closed forgets, and leaves
    open, what it has just accepted.
    """

    def __init__(
        self, ready: Callable[[], Sequence[Target]], host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self._ready = ready
        self._host = host
        self._turns = itertools.count()
        self._listening: socket.socket | None = None
        self._connections: dict[asyncio.Task[None], socket.socket] = {}
        self.port = port

    async def start(self) -> None:
        listening = socket.create_server((self._host, self.port), family=_family(self._host))
        listening.setblocking(False)
        self.port = listening.getsockname()[1]
        self._listening = listening
        asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    async def stop(self) -> None:
        assert self._listening is not None
        asyncio.get_running_loop().remove_reader(self._listening)
        self._listening.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        # Python 3.14 doesn't wait for the callbacks of tasks that have ended before.
        for client in self._connections.values():
            client.close()

    def _accept(self, listening: socket.socket) -> None:
        """Serve a connection in a task, and close it even if that is cancelled before it begins."""
        try:
            client, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        client.setblocking(False)
        task = asyncio.create_task(self._serve(client))
        self._connections[task] = client

        def close(ended: asyncio.Task[None]) -> None:
            self._connections.pop(ended).close()

        task.add_done_callback(close)

    async def _serve(self, client: socket.socket) -> None:
        pods = self._ready()
        if pods:
            with contextlib.suppress(OSError):
                await _join(client, pods[next(self._turns) % len(pods)])


async def _join(client: socket.socket, pod: Target) -> None:
    """Until one side closes."""
    with socket.socket(_family(pod.address)) as server:
        server.setblocking(False)
        await asyncio.get_running_loop().sock_connect(server, (pod.address, pod.port))
        pumps = [asyncio.create_task(_pump(*pair)) for pair in ((client, server), (server, client))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(source: socket.socket, sink: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(source, 65536):
        await loop.sock_sendall(sink, data)


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
