"""Servers that run as processes of their own, so that they can be killed."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.processes import free_port

ROOT = Path(__file__).parents[2]
LEADS = "leader this process"


@dataclass
class Server:
    """One process."""

    port: int
    tools_port: int
    process: asyncio.subprocess.Process
    address: str = "127.0.0.1"

    async def status(self) -> str:
        """What it says of itself, "" if it doesn't answer."""
        with contextlib.suppress(httpx.TransportError):
            async with httpx.AsyncClient(verify=False) as client:
                answer = await client.get(
                    f"https://{self.address}:{self.tools_port}/readyz?verbose"
                )
            return answer.text
        return ""

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()


async def command(folder: Path, *arguments: str) -> asyncio.subprocess.Process:
    with (folder / "log").open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app", *arguments),
            cwd=ROOT,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


@dataclass
class Servers:
    """Servers of one API server, with the configuration `config.yaml` of a folder."""

    api: ApiServer
    folder: Path
    running: list[Server]

    @contextlib.asynccontextmanager
    async def started(self, count: int) -> AsyncIterator[None]:
        certificates = ("certs", "make", "--name", "127.0.0.1", str(self.folder / "certs"))
        assert await (await command(self.folder, *certificates)).wait() == 0
        try:
            for _ in range(count):
                await self.start()
            yield
        finally:
            for server in self.running:
                await server.kill()

    async def start(self) -> None:
        port, tools_port = free_port(), free_port()
        options = {
            "--config": str(self.folder / "config.yaml"),
            "--kubeconfig": str(self.api.kubeconfig),
            "--context": "operator",
            "--host": "127.0.0.1",
            "--port": str(port),
            "--tools-port": str(tools_port),
            "--certs": str(self.folder / "certs"),
        }
        arguments = [word for option in options.items() for word in option]
        process = await command(self.folder, "serve", *arguments)
        self.running.append(Server(port, tools_port, process))

    async def leader(self) -> Server | None:
        """The server that leads, once all answer."""
        statuses = [await server.status() for server in self.running]
        leading = [
            server for server, text in zip(self.running, statuses, strict=True) if LEADS in text
        ]
        return leading[0] if all(statuses) and leading else None

    async def kill_leader(self) -> None:
        """End it as the kernel does, without a chance to write anything more."""
        leader = await self.leader()
        assert leader is not None
        self.running.remove(leader)
        await leader.kill()
