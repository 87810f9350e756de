"""What attacks on a server do to others, each on a server of its own: verdicts and /healthz of a
client beside it, which is a process of its own too, and the memory of the server.

Wall time says little on a machine with other work, so what the server did while the client waited
is printed too: the CPU time of its event loop.

`--probe PORT CA PID` is that client: it asks until its standard input ends, and prints milliseconds.
"""

import asyncio
import contextlib
import os
import resource
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx
import msgspec

from app.certificates.source import ensure_development_certificate
from benches import known
from benches import memory as bench_memory
from benches import verdicts as bench_verdicts
from benches.common import BODY, ROOT, Connection, answer, memory, process, server_options, until
from scripts.apiserver.processes import free_port
from tests.server.crowds import (
    CROWDS,
    Address,
    Crowd,
    allow_many_files,
    asking,
    deletion,
    set_of_many_replicas,
    tenants,
    to_sets,
)

SIZES = (2, 50, 200, 500)
"""KiB of the reviews, which come over a path with a token, as those of an API server."""
PATIENCE = 5.0
"""Seconds after which an API server gives up."""
BESIDE_SECONDS = 10.0
"""For which the client asks beside an attack, once all clients of that are there."""
AFTER_SECONDS = 15.0
"""After which memory is read again: the server gives it back at most every 10 s."""


@dataclass(frozen=True)
class Effect:
    """Milliseconds of the client's verdicts and of /healthz, and bytes of resident memory.

    Verdicts are on PodGroups of SIZES, and on the deletion of a PodGang.

    `busy` is the most CPU time, in milliseconds, that the server has used while the client waited
    for one of them. `failed` are the names of what was not answered.
    """

    verdicts: list[float]
    healthz: list[float]
    busy: float
    failed: list[str]
    before: int
    peak: int
    after: int

    def row(self, name: str) -> str:
        p99 = statistics.quantiles(self.verdicts, n=100)[98]
        mebibytes = [f"{size / 2**20:9.0f}" for size in (self.before, self.peak, self.after)]
        numbers = f"{max(self.verdicts):10.1f} {p99:8.1f} {max(self.healthz):8.1f} {self.busy:8.1f}"
        numbers += f" {len(self.failed):6} {len(self.verdicts):8}"
        return f"{name:12} {numbers} {' '.join(mebibytes)}"


@contextlib.asynccontextmanager
async def nobody(_: Address) -> AsyncIterator[None]:
    yield


ATTACKS: dict[str, Crowd] = {
    "nobody": nobody,
    **CROWDS,
    "tenants": tenants,
    "replicas": partial(asking, clients=4, request=to_sets(set_of_many_replicas(), b"/token")),
}
BESIDE_API = {"deletions"}
"""Attacks on a server that asks an API server, the sandbox. The others have facts from a file."""

GIVING_BACK = "mnnvl: {owner: PodCliqueSet}\n"
"""So that each deletion of a PodGang needs calls, as beside later releases of Grove."""


async def report(tree: Path, names: list[str], memory_limit: int | None) -> None:
    """Print a row for each attack on the server of a checkout.

    `memory_limit` are the MiB of data that the server may have.
    """
    allow_many_files()
    print(f"\n{'attack':12} {'longest ms':>10} {'p99 ms':>8} {'healthz':>8}", end="")
    print(f" {'CPU ms':>8} {'failed':>6} {'verdicts':>8}", end="")
    print(f" {'MiB':>9} {'peak':>9} {'later':>9}")
    for name in names or ATTACKS:
        with started(tree, beside_api=name in BESIDE_API) as (pid, address, ca_file):
            if memory_limit is not None:
                most = memory_limit * 2**20
                resource.prlimit(pid, resource.RLIMIT_DATA, (most, most))
            effect = await attacked(ATTACKS[name], pid, address, ca_file)
        print(effect.row(name), flush=True)


async def attacked(attack: Crowd, pid: int, address: Address, ca_file: Path) -> Effect:
    with probe(address.port, ca_file, pid) as probing:
        await asyncio.sleep(0.5)
        before = peak_from_here(pid)
        # a server of another checkout may answer otherwise, or not at all
        with contextlib.suppress(OSError, EOFError, AssertionError):
            async with attack(address):
                await asyncio.sleep(BESIDE_SECONDS)
        peak = memory(pid, "VmHWM")
        taken, _ = await asyncio.to_thread(probing.communicate, b"\n")

    await asyncio.sleep(AFTER_SECONDS)

    verdicts, healthz, busy, failed = msgspec.json.decode(taken)
    return Effect(verdicts, healthz, busy, failed, before, peak, memory(pid, "VmRSS"))


def peak_from_here(pid: int) -> int:
    """The resident memory of a process, in bytes, from which its peak is counted now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return memory(pid, "VmRSS")


@contextlib.contextmanager
def started(tree: Path, *, beside_api: bool = False) -> Iterator[tuple[int, Address, Path]]:
    """A server of the checkout: its process, its address, and the file of its CA."""
    port, tools_port = free_port(), free_port()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        ensure_development_certificate(directory, ["127.0.0.1", "localhost"], datetime.now(UTC))
        (directory / "facts").mkdir()
        (directory / "facts" / "facts.json").write_bytes(bench_verdicts.facts())
        (directory / "config.yaml").write_text(bench_verdicts.CONFIGURATION)
        log = stack.enter_context((directory / "log").open("wb"))
        options = bench_verdicts.arguments("ours", port, directory, "")[3:]
        if beside_api:
            beside = stack.enter_context(api())
            options = [*server_options(beside, port)[2:], "--certs", str(directory)]
        server = subprocess.Popen(
            [sys.executable, known.__file__, *options],
            cwd=tree,
            env={
                **os.environ,
                "PYTHONPATH": str(tree),
                "GROVE_ADMISSION_TOOLS_PORT": str(tools_port),
            },
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        stack.callback(bench_verdicts.stop, server)
        bench_verdicts.wait_for(port, server, directory / "log")
        ca_file = directory / "ca.crt"
        context = ssl.create_default_context(cafile=ca_file)
        if beside_api:
            with httpx.Client(base_url=f"https://localhost:{port}", verify=context) as client:
                until(lambda: client.get("/readyz").status_code == 200)
        if not (tree / "app" / "server" / "tools.py").exists():
            tools_port = port  # up to 0.9.0
        yield server.pid, Address(port, tools_port, context), ca_file


@contextlib.contextmanager
def api() -> Iterator[Path]:
    """An empty API server. The folder has its kubeconfig, and a configuration for a server."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        configuration = bench_verdicts.CONFIGURATION + bench_memory.FOLLOWING + GIVING_BACK
        (directory / "config.yaml").write_text(configuration)
        with process([sys.executable, bench_memory.__file__, "--api", name, "--scale", "0"]):
            until((directory / "loaded").exists)
            yield directory


@contextlib.contextmanager
def probe(port: int, ca_file: Path, pid: int) -> Iterator["subprocess.Popen[bytes]"]:
    """The client, when it has its first verdict."""
    command = [sys.executable, __file__, "--probe", str(port), str(ca_file), str(pid)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'scripts'}"}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as probing:
        try:
            assert probing.stdout is not None
            until(probing.stdout.readline)
            yield probing
        finally:
            probing.kill()


def request(size: int) -> bytes:
    """A review of so many KiB."""
    head = b"POST %b?timeout=5s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    body = BODY.ljust(size * 1024)
    return b"%bcontent-length: %d\r\n\r\n%b" % (head % known.TOKEN_PATH.encode(), len(body), body)


HEALTHZ = "/healthz"
REQUESTS = {
    HEALTHZ: b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n",
    **{f"{size} KiB": request(size) for size in SIZES},
    "deletion": deletion("gone", known.TOKEN_GANG_PATH),
}


def cpu_milliseconds(pid: int) -> float:
    """Of the first thread of a process, which has its event loop."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


async def ask(port: int, ca_file: str, pid: int) -> None:
    """Ask for a verdict every 5 ms on one connection, and for /healthz after each of all sizes."""
    context = ssl.create_default_context(cafile=ca_file)

    async def opened() -> Connection:
        return await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="localhost"
        )

    print("ready", flush=True)
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.buffer.readline))
    taken: dict[str, list[float]] = {name: [] for name in REQUESTS}
    busy = [0.0]
    failed = []
    connection: Connection | None = None
    while not ended.done():
        for name, sent in REQUESTS.items():
            begin = time.perf_counter()
            begin_busy = cpu_milliseconds(pid)
            try:
                async with asyncio.timeout(PATIENCE):
                    connection = connection or await opened()
                    head, body = await answer(connection, sent)
                    assert b" 200 " in head.splitlines()[0]
                    assert name == HEALTHZ or b'"allowed":true' in body
            except (OSError, EOFError, TimeoutError, AssertionError):
                failed.append(name)
                connection = None
            if name == HEALTHZ:
                connection = None
            taken[name].append((time.perf_counter() - begin) * 1000)
            busy.append(cpu_milliseconds(pid) - begin_busy)
            await asyncio.sleep(0.005)

    healthz = taken.pop(HEALTHZ)
    verdicts = [milliseconds for each in taken.values() for milliseconds in each]
    sys.stdout.buffer.write(msgspec.json.encode([verdicts, healthz, max(busy), failed]))


if __name__ == "__main__":
    _, _, port_number, file, server_pid = sys.argv
    asyncio.run(ask(int(port_number), file, int(server_pid)))
