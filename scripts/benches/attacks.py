"""Measure the effect of attacks on a server: the time of another client's verdicts, and the memory.

Each attack has its own server. The client is a separate process. It requests verdicts and /healthz.
Because its times depend on other work of the machine, the CPU time that the server's event loop
used while the client waited is printed too.

`--probe PORT CA PID` runs the client, which ends with its standard input and then prints its times.
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
"""The sizes of the client's reviews in KiB. The client uses a path with a token, as API servers do."""
PATIENCE = 5.0
"""The seconds after which the client gives up, as an API server would."""
BESIDE_SECONDS = 10.0
"""The seconds for which the client continues once all attackers are there."""
AFTER_SECONDS = 15.0
"""The seconds after which memory is read again. The server frees it at most every 10 s."""


@dataclass(frozen=True)
class Effect:
    """The effect of an attack on the client and on the server."""

    verdicts: list[float]
    """The time of each verdict, in milliseconds."""
    healthz: list[float]
    """The time of each answer to /healthz, in milliseconds."""
    busy: float
    """The most CPU milliseconds that the event loop used while the client waited for an answer."""
    failed: list[str]
    """The names of the requests without the expected answer."""
    before: int
    """The server's resident memory before the attack, in bytes."""
    peak: int
    """The server's peak memory during the attack, in bytes."""
    after: int
    """The server's resident memory after AFTER_SECONDS, in bytes."""

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
"""The attacks on a server with an API server. All other servers have facts from a file."""

GIVING_BACK = "mnnvl: {owner: PodCliqueSet}\n"
"""The setting with which each deletion of a PodGang needs calls to the API server."""


async def report(tree: Path, names: list[str], memory_limit: int | None) -> None:
    """Print a row for each attack on the server of a checkout.

    `memory_limit` is the MiB of data that the server may have.
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
    """Reset the peak of a process's resident memory. Return the current resident memory in bytes."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return memory(pid, "VmRSS")


@contextlib.contextmanager
def started(tree: Path, *, beside_api: bool = False) -> Iterator[tuple[int, Address, Path]]:
    """Yield the pid, the address and the CA file of a running server of the checkout."""
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
            tools_port = port  # versions up to 0.9.0 have one port
        yield server.pid, Address(port, tools_port, context), ca_file


@contextlib.contextmanager
def api() -> Iterator[Path]:
    """Run an empty API server.

    Yield the folder with its kubeconfig and with a configuration for a server.
    """
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        configuration = bench_verdicts.CONFIGURATION + bench_memory.FOLLOWING + GIVING_BACK
        (directory / "config.yaml").write_text(configuration)
        with process([sys.executable, bench_memory.__file__, "--api", name, "--scale", "0"]):
            until((directory / "loaded").exists)
            yield directory


@contextlib.contextmanager
def probe(port: int, ca_file: Path, pid: int) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the client, and yield its process once it is ready."""
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
    """Return a request for a verdict with a body of `size` KiB."""
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
    """Return the CPU time of a process's first thread, which has the event loop."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


async def ask(port: int, ca_file: str, pid: int) -> None:
    """Send all requests in turns, 5 ms apart, until standard input ends. Then print the times."""
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
