"""Measure a server and `explain` in clusters of 1,000, 15,000 and 65,000 nodes.

For each node, there are 4 pods, 4/3 PodCliques, 2/15 PodCliqueSets, and 2/3 PodGangs, each with a
ComputeDomain and a ResourceClaim. `fleet.py` serves the cluster in a separate process, and streams
lists unless `--pages` is given. Each server and command is another process. Servers have the
credentials of a service account, as in a Pod.

All times except "ready after" are CPU times, on which other programs have little effect.
"""

import argparse
import asyncio
import itertools
import os
import ssl
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benches import verdicts as bench_verdicts
from benches.common import (
    ENVIRONMENT,
    ROOT,
    Connection,
    answer,
    cached_objects,
    environment_of_pod,
    memory,
    process,
    server_in_pod,
    until,
)
from benches.fleet import CONFIGURATION, Fleet, namespace_of, set_name

SIZES = (0, 1_000, 15_000, 65_000)
VERDICTS = 500
ROUNDS = 8
SETTLE_SECONDS = 5.0
WATCHED = """
import sys, time
from pathlib import Path
import uvloop
from app.cli import main
from app.kube.credentials import in_cluster

directory = Path(sys.argv.pop(1))
in_cluster.__defaults__ = (directory,)
longest = 0.0

def watched():
    loop = uvloop.new_event_loop()
    def look(before):
        global longest
        took = time.thread_time() - before
        if took > longest:
            longest = took
            (directory / "longest").write_text(str(took))
        loop.call_soon(lambda: loop.call_later(0.001, look, time.thread_time()))
    loop.call_soon(look, time.thread_time())
    return loop

uvloop.run.__kwdefaults__["loop_factory"] = watched
sys.exit(main())
"""
"""A program that runs a server, and writes the longest turn of its event loop so far to a file.

The file has the CPU seconds of this turn.
"""


@dataclass(frozen=True)
class Served:
    """The result of a server.

    `seconds`, `cpu`, `longest` and `peak` are measured until it is ready: wall seconds, CPU
    seconds, CPU seconds of the longest turn of the event loop, and peak bytes. `resident` is in
    bytes, `objects` is the number of objects in its caches, and `verdicts` has the CPU seconds of a
    verdict by path.
    """

    seconds: float
    cpu: float
    longest: float
    peak: int
    resident: int
    objects: int
    verdicts: dict[str, float]


@dataclass(frozen=True)
class Ran:
    """The CPU seconds and the peak resident bytes of a command."""

    cpu: float
    peak: int


@dataclass(frozen=True)
class Column:
    """The results for a cluster of one size."""

    fleet: Fleet
    served: Served
    explain: Ran
    read: Ran


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "nodes",
        nargs="*",
        type=int,
        default=list(SIZES),
        help="numbers of nodes (default: 0 1000 15000 65000)",
    )
    parser.add_argument(
        "--pages", action="store_true", help="let the API server refuse to stream lists"
    )
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        asyncio.run(read(arguments.read))
        return 0

    columns = [column(nodes, pages=arguments.pages) for nodes in arguments.nodes]
    print("\n".join(table(columns)))
    print(f"\nLoad of the machine at the end: {os.getloadavg()[0]:.1f}.")
    return 0


def column(nodes: int, *, pages: bool) -> Column:
    fleet = Fleet(nodes)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        api = [sys.executable, str(ROOT / "scripts" / "benches" / "fleet.py"), name, str(nodes)]
        api += ["--pages"] if pages else []
        with process(api):
            until((directory / "kubeconfig").exists)
            kubeconfig = ["--kubeconfig", str(directory / "kubeconfig")]
            explain = ["-m", "app", "explain", fleet.last_set, "-n", fleet.last_namespace]
            return Column(
                fleet,
                served(directory),
                ran([*explain, *kubeconfig]),
                ran([__file__, "--read", name]),
            )


# A server.


def served(directory: Path) -> Served:
    environment = environment_of_pod("127.0.0.1", (directory / "port").read_text())
    with server_in_pod(WATCHED, directory, CONFIGURATION, environment) as server:
        until(server.is_ready, 600.0)
        seconds = time.monotonic() - server.begin
        cpu = cpu_seconds(server.pid)
        longest = float((directory / "longest").read_text())
        objects = cached_objects(server.client.get("/metrics").text)
        peak = memory(server.pid, "VmHWM")
        time.sleep(SETTLE_SECONDS)
        resident = memory(server.pid, "VmRSS")
        verdicts = asyncio.run(costs(server.pid, server.port, server.context))

    return Served(seconds, cpu, longest, peak, resident, objects, verdicts)


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of all threads of a process."""
    times = [path.read_text().split()[0] for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(map(int, times)) / 1e9


async def costs(pid: int, port: int, context: ssl.SSLContext) -> dict[str, float]:
    """Return the lowest CPU seconds of a verdict in several rounds, by path."""
    opened = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost"
    )
    rounds: dict[str, list[float]] = {path: [] for path in reviews()}
    for _ in range(ROUNDS):
        for path, body in reviews().items():
            rounds[path].append(await cost(pid, opened, path, body))
    opened[1].close()
    return {path: min(taken) for path, taken in rounds.items()}


async def cost(pid: int, opened: Connection, path: str, body: bytes) -> float:
    head = f"POST {path}?timeout=10s HTTP/1.1\r\nhost: localhost\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    before = cpu_seconds(pid)
    for _ in range(VERDICTS):
        _, said = await answer(opened, head.encode() + body)
    taken = (cpu_seconds(pid) - before) / VERDICTS
    if not msgspec.json.decode(said)["response"]["allowed"]:
        raise SystemExit(f"{path}: {said.decode()}")
    return taken


def reviews() -> dict[str, bytes]:
    """Return the requests by path.

    The cliques of the PodCliqueSet request GPUs, so capacity is checked. The PodClique belongs to a
    set of the cluster, so its MNNVL resources exist.
    """
    pcs = msgspec.json.decode(bench_verdicts.review("podcliqueset.topology-three-levels"))
    for clique in pcs["request"]["object"]["spec"]["template"]["cliques"]:
        (container,) = clique["spec"]["podSpec"]["containers"]
        container["resources"] = {"limits": {"nvidia.com/gpu": 8}}
    return {
        "/validate/podgroup": bench_verdicts.review("podgroup.valid"),
        "/validate/podcliqueset": msgspec.json.encode(pcs),
        "/mutate/podclique": bench_verdicts.review("podclique.replica-scope-0-worker")
        .replace(b"distributed-training", set_name(0).encode())
        .replace(b'"namespace":"default"', b'"namespace":"%b"' % namespace_of(0).encode()),
    }


# Commands.


def ran(arguments: list[str]) -> Ran:
    with tempfile.TemporaryFile() as out:
        pid = subprocess.Popen(
            [sys.executable, *arguments], cwd=ROOT, env=ENVIRONMENT, stdout=out
        ).pid
        _, status, usage = os.wait4(pid, 0)
        out.seek(0)
        if os.waitstatus_to_exitcode(status) > 2:
            raise SystemExit(f"{' '.join(arguments)}:\n{out.read().decode()}")
    return Ran(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


async def read(directory: Path) -> None:
    """Read everything once, as the console does."""
    from app.cluster.command_clients import reading_client
    from app.explain.state.index import Index
    from app.explain.state.read import read_all
    from app.explain.state.snapshot import RESOURCES

    async with reading_client(RESOURCES, directory / "kubeconfig", None) as client:
        facts = await read_all(client, now=time.time())
    Index(facts)


# The table.


def table(columns: list[Column]) -> list[str]:
    """Return the lines of the table in `tests/MEASUREMENTS.md`."""
    rows = [
        ("nodes", [f"{each.fleet.nodes:,}" for each in columns]),
        ("objects in the cluster", [f"{each.fleet.count:,}" for each in columns]),
        ("objects in caches of a server", [f"{each.served.objects:,}" for each in columns]),
        ("peak memory until it is ready, MiB", [mebibytes(each.served.peak) for each in columns]),
        ("resident memory, MiB", [mebibytes(each.served.resident) for each in columns]),
        ("bytes for each object more", ["", *growth(columns)]),
        ("ready after, s", [f"{each.served.seconds:.1f}" for each in columns]),
        ("CPU until then, s", [f"{each.served.cpu:.2f}" for each in columns]),
        ("longest turn while listing, ms", [milliseconds(each) for each in columns]),
    ]
    for path in reviews():
        taken = [f"{each.served.verdicts[path] * 1e6:.0f}" for each in columns]
        rows.append((f"`{path}`, us", taken))
    rows += [
        ("`explain` of a set of 30 pods, CPU s", [f"{each.explain.cpu:.1f}" for each in columns]),
        ("its peak memory, MiB", [mebibytes(each.explain.peak) for each in columns]),
        ("everything read once, CPU s", [f"{each.read.cpu:.1f}" for each in columns]),
        ("its peak memory, MiB", [mebibytes(each.read.peak) for each in columns]),
    ]
    lines = [f"| {title} | {' | '.join(cells)} |" for title, cells in rows]
    return [lines[0], f"|---{'|---' * len(columns)}|", *lines[1:]]


def mebibytes(size: int) -> str:
    return f"{size / 2**20:.0f}"


def milliseconds(column: Column) -> str:
    return f"{column.served.longest * 1000:.1f}"


def growth(columns: list[Column]) -> list[str]:
    """Return the additional bytes for each additional object, compared with the previous cluster."""
    grown = []
    for smaller, larger in itertools.pairwise(columns):
        objects = larger.served.objects - smaller.served.objects
        grown.append(f"{(larger.served.resident - smaller.served.resident) / max(1, objects):,.0f}")
    return grown


if __name__ == "__main__":
    raise SystemExit(main())
