"""Count failed calls while replicas are restarted one after the other under load.

Two servers are behind a balancer that works like a Service: a new connection goes to a ready
endpoint, and an endpoint that is no longer ready is removed a second late. The client is as strict
as an API server. It keeps connections and sends each POST once. A call fails if its connection
breaks after the first byte was written.
"""

import argparse
import asyncio
import contextlib
import itertools
import signal
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from benches import common as bench_common
from benches.common import ENVIRONMENT, ROOT, Connection
from scripts.apiserver.processes import free_port

LATE_SECONDS = 1.0
CONFIGURATION = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
server: {drainSeconds: 4}
"""


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument("--rate", type=float, default=200.0, help="calls per second")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "config.yaml").write_text(CONFIGURATION)
        balancer = Balancer()
        replicas = [await Replica.start(directory, balancer) for _ in range(2)]
        async with balancer.listening() as port:
            load = Load(port, ssl.create_default_context(cafile=directory / "certs" / "ca.crt"))
            async with load.calling(arguments.rate):
                await asyncio.sleep(1)
                for _ in range(arguments.restarts):
                    replicas.append(await Replica.start(directory, balancer))
                    await replicas.pop(0).stop()
        for replica in replicas:
            await replica.stop()

    print(f"{arguments.restarts} restarts: {load.calls} calls, {load.failed} failed", end="")
    print(
        f", {load.connections} connections, p50 {load.percentile(50):.1f} ms, p99 {load.percentile(99):.1f} ms"
    )

    return 1 if load.failed else 0


class Replica:
    """A server process that is an endpoint of a balancer."""

    def __init__(
        self, process: asyncio.subprocess.Process, port: int, balancer: "Balancer"
    ) -> None:
        self._process = process
        self._port = port
        self._balancer = balancer

    @classmethod
    async def start(cls, directory: Path, balancer: "Balancer") -> "Replica":
        port = free_port()
        options = [
            "--config",
            str(directory / "config.yaml"),
            "--objects",
            str(ROOT / "manifests/examples/facts"),
        ]
        options += ["--host", "127.0.0.1", "--port", str(port), "--certs", str(directory / "certs")]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "app", "serve", "--log-level", "warning", *options),
            cwd=ROOT,
            env=ENVIRONMENT,
            stdout=asyncio.subprocess.DEVNULL,
        )
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            await asyncio.sleep(0.05)

        balancer.endpoints.append(port)

        return cls(process, port, balancer)

    async def stop(self) -> None:
        """Send SIGTERM. Remove the endpoint after LATE_SECONDS, then wait until the process ends."""
        self._process.send_signal(signal.SIGTERM)
        await asyncio.sleep(LATE_SECONDS)
        self._balancer.endpoints.remove(self._port)
        await self._process.wait()


class Balancer:
    """A TCP proxy that connects each new connection to the next endpoint."""

    def __init__(self) -> None:
        self.endpoints: list[int] = []
        self._turns = itertools.count()

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        async with server:
            yield server.sockets[0].getsockname()[1]

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = self.endpoints[next(self._turns) % len(self.endpoints)]
        try:
            back_reader, back_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(_copy(reader, back_writer), _copy(back_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


@dataclass
class Load(bench_common.Load):
    """A load of calls on idle or new connections."""

    context: ssl.SSLContext
    _idle: list[Connection] = field(default_factory=list)

    async def ask(self, number: int) -> None:
        connection = await self._connection()
        if b"connection: close" in await bench_common.verdict(connection):
            connection[1].close()
        else:
            self._idle.append(connection)

    def close(self) -> None:
        while self._idle:
            self._idle.pop()[1].close()

    async def _connection(self) -> Connection:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        self.connections += 1
        return await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.context, server_hostname="localhost"
        )


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
