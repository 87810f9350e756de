"""A server process over TLS while a crowd of bad clients is there: others are served, and memory
stays bounded.
"""

import asyncio
import ssl
import sys
from pathlib import Path

import pytest

from tests.reviews import load
from tests.server.crowds import CROWDS, Address, allow_many_files
from tests.server.test_serving import server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.untraced,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
]

MEBIBYTES = {
    "digits": 30,
    "silent": 30,
    "half-open": 50,
    "idle": 80,
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
    async with asyncio.timeout(PATIENCE), server(tmp_path) as served, served.client() as client:
        assert (await client.get("/readyz")).text == "ok\n"
        before = peak(served.process.pid)
        ports = set()
        context = ssl.create_default_context(cafile=tmp_path / "ca.crt")
        async with CROWDS[name](Address(int(served.url.rpartition(":")[2]), context)):
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
