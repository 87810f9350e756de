"""A server process over TLS while a crowd of bad clients is there: others are served, and memory
stays bounded.
"""

import asyncio
import os
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from scripts.apiserver.processes import free_port
from tests.forks import Forks
from tests.integration.system import eventually
from tests.reviews import load
from tests.server.crowds import (
    CROWDS,
    Address,
    allow_many_files,
    deletions,
    half_open,
    heads,
    idle,
    scrapes,
    silent,
    tools,
    whole_heads,
    wrong,
)

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow,
    pytest.mark.untraced,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
]

FACTS = Path(__file__).parents[2] / "manifests" / "examples" / "facts"
CONFIGURATION = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
server: {maxConnections: 1000}
"""
"""Half of the usual number: TLS handshakes are most of what these tests take."""

FEWER = {
    "silent": partial(silent, clients=3000),
    "half-open": partial(half_open, clients=3000),
    "idle": partial(idle, clients=1250),
    "heads": partial(heads, clients=980),
    "deletions": partial(deletions, clients=100),
    "wrong": partial(wrong, parts=1000),
    "wrong-40": partial(wrong, clients=40, parts=1000),
    "scrapes": partial(scrapes, clients=300),
    "tools": partial(tools, clients=100),
    "whole-heads": partial(whole_heads, clients=800),
}
"""Crowds that are still larger than what the server keeps of them.

That is 2,000, 250 and 1,000 connections, and 4 MiB. Each wrong set takes a tenth of the time.
"""

MEBIBYTES = {
    "digits": 30,
    "silent": 30,
    "half-open": 30,
    "idle": 40,
    "slow": 30,
    "unread": 140,
    "strange": 30,
    "holding": 140,
    "greedy": 160,
    "laughing": 60,
    "key-updates": 30,
    "zeros": 100,
    "heads": 130,
    "deletions": 30,
    "wrong": 60,
    "wrong-40": 110,
    "large": 110,
    "equal": 30,
    "chunks": 40,
    "groups": 30,
    "queries": 60,
    "scrapes": 60,
    "tools": 120,
    "pieces": 60,
    "whole-heads": 100,
    "encoded": 40,
}
"""By how much a crowd may raise the server's peak memory.

`./scripts/bench limits` prints by how much it does.
"""


PATIENCE = 600.0
"""A crowd takes some seconds; this ends a test that hangs, also on a busy machine."""


@dataclass(frozen=True)
class Server:
    """A server process, and what its clients trust."""

    pid: int
    port: int
    tools_port: int
    context: ssl.SSLContext

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=f"https://localhost:{self.port}", verify=self.context)


def peak(pid: int) -> int:
    """The most resident memory that a process has had, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def forks() -> AsyncIterator[Forks]:
    allow_many_files()
    forks = Forks()
    yield forks
    await forks.end()


@pytest_asyncio.fixture(loop_scope="module")
async def served(forks: Forks, tmp_path: Path) -> AsyncIterator[Server]:
    """A server with the facts of the examples, on a free port."""
    configuration = tmp_path / "config.yaml"
    configuration.write_text(CONFIGURATION)
    log = tmp_path / "log"
    port, tools_port = free_port(), free_port()
    options = ["--host", "127.0.0.1", "--port", str(port), "--certs", str(tmp_path)]
    options += ["--tools-port", str(tools_port)]
    options += ["--objects", str(FACTS), "--config", str(configuration)]

    async def is_serving() -> bool:
        return log.exists() and "serving on" in log.read_text()

    process = await forks.start(["serve", *options], os.environ, log)
    try:
        await eventually(is_serving, patience=PATIENCE)
        context = ssl.create_default_context(cafile=tmp_path / "ca.crt")
        yield Server(process.pid, port, tools_port, context)
    finally:
        process.send(signal.SIGKILL)
        await process.wait()


@pytest.mark.parametrize("name", CROWDS)
async def test_others_are_served_and_memory_is_bounded(name: str, served: Server) -> None:
    review = load("podgroup.mixed-case-name")

    async def is_ready() -> bool:
        try:
            return (await client.get("/readyz")).text == "ok\n"
        except httpx.ConnectError:
            return False  # a machine with several such tests at once may lack free ports

    async with asyncio.timeout(PATIENCE), served.client() as client:
        await eventually(is_ready, patience=PATIENCE)
        before = peak(served.pid)
        ports = set()
        crowd = FEWER.get(name, CROWDS[name])
        async with crowd(Address(served.port, served.tools_port, served.context)):
            for number in range(20):
                review["request"]["uid"] = f"u{number}"
                response = await client.post(
                    "/validate/podgroup?timeout=10s", json=review, timeout=PATIENCE
                )
                stream = response.extensions["network_stream"]
                ports.add(stream.get_extra_info("client_addr")[1])
                answer = response.json()
                assert (answer["response"]["uid"], answer["response"]["status"]["code"]) == (
                    f"u{number}",
                    422,
                )
            async with served.client() as new:
                assert (await new.get("/readyz", timeout=PATIENCE)).text == "ok\n"
        assert len(ports) == 1, "a connection that got its verdicts was closed"
        assert peak(served.pid) - before < MEBIBYTES[name] * 2**20
