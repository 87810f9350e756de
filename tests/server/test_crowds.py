"""A server process over TLS while a crowd of bad clients is there: others are served, and memory
stays bounded.
"""

import asyncio
import ssl
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.reviews import load
from tests.server.crowds import CROWDS, Address, allow_many_files, half_open, idle, silent
from tests.server.test_serving import server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.untraced,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
]

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
}
"""Crowds that are still larger than what the server keeps of them: 2,000, 250 and 1,000."""

MEBIBYTES = {
    "digits": 30,
    "silent": 30,
    "half-open": 30,
    "idle": 40,
    "slow": 30,
    "unread": 100,
    "strange": 30,
    "holding": 140,
    "greedy": 160,
    "laughing": 60,
}
"""By how much a crowd may raise the server's peak memory.

`./scripts/bench limits` prints by how much it does.
"""


PATIENCE = 600.0
"""A crowd takes some seconds; this ends a test that hangs, also on a busy machine."""


def peak(pid: int) -> int:
    """The most resident memory that a process has had, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


@pytest.mark.parametrize("name", CROWDS)
async def test_others_are_served_and_memory_is_bounded(name: str, tmp_path: Path) -> None:
    allow_many_files()
    review = load("podgroup.mixed-case-name")
    file = tmp_path / "config.yaml"
    file.write_text(CONFIGURATION)
    async with (
        asyncio.timeout(PATIENCE),
        server(tmp_path, "--config", str(file)) as served,
        served.client() as client,
    ):
        assert (await client.get("/readyz")).text == "ok\n"
        before = peak(served.process.pid)
        ports = set()
        context = ssl.create_default_context(cafile=tmp_path / "ca.crt")
        crowd = FEWER.get(name, CROWDS[name])
        async with crowd(Address(int(served.url.rpartition(":")[2]), context)):
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
        assert peak(served.process.pid) - before < MEBIBYTES[name] * 2**20
