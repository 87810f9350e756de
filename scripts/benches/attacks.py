"""What attacks on a server do to others, each on a server of its own: the longest verdict of a
client beside it, which is a process of its own too, and the memory of the server.

`--probe PORT CA` is that client: it asks until its standard input ends, and prints milliseconds.
"""

import asyncio
import contextlib
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from app.certificates.files import ensure_development_certificate
from app.sandbox.processes import free_port
from benches import verdicts as bench_verdicts
from benches.common import ROOT, memory, until, verdict
from tests.server.crowds import CROWDS, Address, Crowd, allow_many_files

BESIDE_SECONDS = 3.0
"""For which the client asks beside an attack, at least."""
AFTER_SECONDS = 15.0
"""After which memory is read again: the server gives it back at most every 10 s."""


@dataclass(frozen=True)
class Effect:
    """Milliseconds of the client's verdicts, and bytes of resident memory."""

    verdicts: list[float]
    before: int
    peak: int
    after: int

    def row(self, name: str) -> str:
        p99 = statistics.quantiles(self.verdicts, n=100)[98]
        mebibytes = [f"{size / 2**20:9.0f}" for size in (self.before, self.peak, self.after)]
        numbers = f"{max(self.verdicts):10.1f} {p99:8.1f} {len(self.verdicts):9}"
        return f"{name:12} {numbers} {' '.join(mebibytes)}"


@contextlib.asynccontextmanager
async def nobody(_: Address) -> AsyncIterator[None]:
    yield


ATTACKS: dict[str, Crowd] = {"nobody": nobody, **CROWDS}


async def report(tree: Path, names: list[str]) -> None:
    """Print a row for each attack on the server of a checkout."""
    allow_many_files()
    print(f"\n{'attack':12} {'longest ms':>10} {'p99 ms':>8} {'verdicts':>9}", end="")
    print(f" {'MiB':>9} {'peak':>9} {'later':>9}")
    for name in names or ATTACKS:
        with started(tree) as (pid, address, ca_file):
            effect = await attacked(ATTACKS[name], pid, address, ca_file)
        print(effect.row(name), flush=True)


async def attacked(attack: Crowd, pid: int, address: Address, ca_file: Path) -> Effect:
    with probe(address.port, ca_file) as probing:
        await asyncio.sleep(0.5)
        before = peak_from_here(pid)
        begin = time.monotonic()
        # a server of another checkout may answer otherwise, or not at all
        with contextlib.suppress(OSError, EOFError, AssertionError):
            async with attack(address):
                await asyncio.sleep(max(0.0, BESIDE_SECONDS - (time.monotonic() - begin)))
        peak = memory(pid, "VmHWM")
        taken, _ = await asyncio.to_thread(probing.communicate, b"\n")

    await asyncio.sleep(AFTER_SECONDS)

    return Effect(msgspec.json.decode(taken), before, peak, memory(pid, "VmRSS"))


def peak_from_here(pid: int) -> int:
    """The resident memory of a process, in bytes, from which its peak is counted now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return memory(pid, "VmRSS")


@contextlib.contextmanager
def started(tree: Path) -> Iterator[tuple[int, Address, Path]]:
    """A server of the checkout: its process, its address, and the file of its CA."""
    port = free_port()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        ensure_development_certificate(directory, ["127.0.0.1", "localhost"], datetime.now(UTC))
        (directory / "facts").mkdir()
        (directory / "facts" / "facts.json").write_bytes(bench_verdicts.facts())
        (directory / "config.yaml").write_text(bench_verdicts.CONFIGURATION)
        log = stack.enter_context((directory / "log").open("wb"))
        server = subprocess.Popen(
            bench_verdicts.arguments("ours", port, directory, ""),
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        stack.callback(bench_verdicts.stop, server)
        bench_verdicts.wait_for(port, server, directory / "log")
        ca_file = directory / "ca.crt"
        context = ssl.create_default_context(cafile=ca_file)
        yield server.pid, Address(port, context), ca_file


@contextlib.contextmanager
def probe(port: int, ca_file: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """The client, when it has its first verdict."""
    command = [sys.executable, __file__, "--probe", str(port), str(ca_file)]
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


async def ask(port: int, ca_file: str) -> None:
    """Ask for a verdict every 5 ms on one connection; an answer that does not come ends it."""
    context = ssl.create_default_context(cafile=ca_file)
    opened = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost"
    )
    await verdict(opened)
    print("ready", flush=True)
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.buffer.readline))
    milliseconds = []
    while not ended.done():
        begin = time.perf_counter()
        await verdict(opened)
        milliseconds.append((time.perf_counter() - begin) * 1000)
        await asyncio.sleep(0.005)

    sys.stdout.buffer.write(msgspec.json.encode(milliseconds))
    opened[1].close()


if __name__ == "__main__":
    _, _, port_number, file = sys.argv
    asyncio.run(ask(int(port_number), file))
