"""Measure a server under attacks, at a fixed rate, with bursts, and while it fills its caches.

The answer to a body of 200 MiB and the time of a verdict on a large PodCliqueSet are measured too.
`floor` is an ASGI app on stock uvicorn that answers constant bytes: see `peers.py`.
"""

import argparse
import asyncio
import contextlib
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec

from app.admission.decide import decide
from app.admission.review import parse
from app.cluster.filled import cluster_of
from app.config.read import configuration_or_defaults
from app.webhooks.registry import routes_over
from benches import attacks as bench_attacks
from benches import memory as bench_memory
from benches import verdicts as bench_verdicts
from benches.common import (
    ROOT,
    Connection,
    answer,
    cached_objects,
    memory,
    process,
    server_options,
    until,
    verdict,
)
from benches.restarts import Load
from scripts.apiserver.processes import free_port

SERVERS = ("ours", "floor")
TURNS = 5
BURSTS = 20
CALLS = 25
GAP_SECONDS = 6.0
HUGE = 200 * 2**20
LISTED = 100_000


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="duration of the fixed rate")
    parser.add_argument(
        "--rate", type=float, default=1000.0, help="calls per second at the fixed rate"
    )
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="factor for the gaps between bursts and for the size of the cluster (default: 1)",
    )
    parser.add_argument(
        "--attacks",
        nargs="*",
        metavar="NAME",
        help="measure only these attacks (all if none is named)",
    )
    parser.add_argument("--tree", type=Path, default=ROOT, help="checkout whose server is attacked")
    parser.add_argument(
        "--memory", type=int, metavar="MIB", help="limit of the data of an attacked server"
    )
    arguments = parser.parse_args()
    await bench_attacks.report(arguments.tree, arguments.attacks or [], arguments.memory)
    if arguments.attacks is not None:
        return 0

    with (
        tempfile.TemporaryDirectory() as name,
        bench_verdicts.servers(Path(name), set(SERVERS)) as started,
    ):
        ports = {server: started[server].port for server in SERVERS}
        context = ssl.create_default_context(cafile=Path(name) / "ca.crt")
        await steady({server: Load(ports[server], context) for server in SERVERS}, arguments)
        counted = await asyncio.gather(
            *(bursts(ports[server], context, arguments.scale) for server in SERVERS)
        )
        both = ", ".join(
            f"{server} {count}" for server, count in zip(SERVERS, counted, strict=True)
        )
        print(
            f"new connections in {BURSTS} bursts of {CALLS} calls, {GAP_SECONDS * arguments.scale:g} s apart: {both}"
        )
        print(f"a body of 200 MiB: {await huge(ports['ours'], context)}")

    print(
        f"a verdict on a PodCliqueSet of 1,000 replicas takes {large_set():.2f} times as long as on one of 1 replica"
    )
    print(await stall(arguments.scale))

    return 0


async def steady(loads: dict[str, Load], arguments: argparse.Namespace) -> None:
    """Call the servers alternately at a fixed rate, and print the latencies of each."""
    for _ in range(TURNS):
        for load in loads.values():
            async with load.calling(arguments.rate):
                await asyncio.sleep(arguments.seconds / TURNS)
    for server, load in loads.items():
        print(
            f"{server} at {arguments.rate:g} calls/s: {load.calls} calls, {load.failed} failed, ",
            end="",
        )
        print(f"p50 {load.percentile(50):.2f} ms, p99 {load.percentile(99):.2f} ms")


async def bursts(port: int, context: ssl.SSLContext, scale: float) -> int:
    """Return the number of connections that BURSTS of CALLS concurrent calls opened.

    Calls use idle connections where there are any.
    """
    load = Load(port, context)
    for _ in range(BURSTS):
        await asyncio.gather(*(load.call() for _ in range(CALLS)))
        await asyncio.sleep(GAP_SECONDS * scale)
    await load.finish()
    return load.connections


async def huge(port: int, context: ssl.SSLContext) -> str:
    """Return a text about the answer to a body of 200 MiB, and the growth of the peak memory."""
    pid = listening_on(port)
    before = memory(pid, "VmHWM")
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost"
    )
    writer.write(
        b"POST /validate/podgroup HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n" % HUGE
    )
    answering = asyncio.create_task(reader.read(65536))
    piece = b"x" * 2**20
    start = b'{"request":{"uid":"the-uid","object":"'
    with contextlib.suppress(OSError):
        for data in (start, *[piece] * (HUGE // len(piece))):
            writer.write(data)
            await writer.drain()

    answered = await answering
    writer.close()
    head, _, body = answered.partition(b"\r\n\r\n")
    code = (
        msgspec.json.decode(body)["response"]["status"]["code"]
        if b" 200 " in head.splitlines()[0]
        else "no review"
    )

    return f"a review with code {code}, peak memory {(memory(pid, 'VmHWM') - before) / 2**20:.1f} MiB more"


def listening_on(port: int) -> int:
    """Return the pid of the process with `--port` PORT."""
    option = f"--port\0{port}\0".encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if option in path.read_bytes():
                return int(path.parent.name)
    raise SystemExit(f"no process has --port {port}")


def large_set() -> float:
    """Return the time of a verdict for 1,000 replicas, divided by that for 1 replica."""
    configuration = configuration_or_defaults(None)
    cluster = cluster_of(configuration, msgspec.json.decode(bench_verdicts.facts())["items"])
    route = routes_over(configuration, cluster)["/validate/podcliqueset"]
    review = bench_verdicts.review("podcliqueset.topology-three-levels")
    times = {}
    for replicas in ("0001", "1000"):
        loaded = msgspec.json.decode(review)
        loaded["request"]["object"]["spec"]["replicas"] = int(replicas)
        loaded["request"]["object"]["metadata"]["annotations"] = {
            "digits": "x" * (4 - len(str(int(replicas))))
        }
        body = msgspec.json.encode(loaded)
        times[replicas] = min(
            timed(lambda body=body: decide(route, parse(body), 9.0)) for _ in range(20)
        )

    return times["1000"] / times["0001"]


def timed(run: object, times: int = 2000) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        run()  # type: ignore[operator]
    return time.perf_counter() - begin


async def stall(scale: float) -> str:
    """Return a text about the longest answer of a server while it lists a large cluster."""
    objects = LISTED * scale
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        size = objects / bench_memory.CACHED_BY_A_FOLLOWER
        api = [sys.executable, bench_memory.__file__, "--api", name, "--scale", str(size)]
        with process(api):
            await asyncio.to_thread(until, (directory / "loaded").exists)
            (directory / "config.yaml").write_text(
                bench_memory.CONFIGURATION + bench_memory.FOLLOWING
            )
            with starting(directory) as (port, tools_port):
                took, cached = await probed(port, tools_port, directory)

    worst = max(took)
    ninety_nine = statistics.quantiles(took, n=100)[98]

    return f"while {cached:,} objects are listed: longest answer {worst:.1f} ms, p99 {ninety_nine:.1f} ms of {len(took)}"


@contextlib.contextmanager
def starting(directory: Path) -> Iterator[tuple[int, int]]:
    """Run a server, and yield its port and its tools port."""
    port, tools_port = free_port(), free_port()
    options = ["--certs", str(directory / "webhook"), "--log-level", "error"]
    options += ["--tools-port", str(tools_port)]
    with process([sys.executable, *server_options(directory, port), *options]):
        until((directory / "webhook" / "ca.crt").exists)
        yield port, tools_port


async def probed(port: int, tools_port: int, directory: Path) -> tuple[list[float], int]:
    """Request at least 100 verdicts one after the other, until the server is ready.

    Return the time of each verdict in milliseconds, and the number of cached objects.
    """
    context = ssl.create_default_context(cafile=directory / "webhook" / "ca.crt")
    async with connection(port, context) as opened:
        took: list[float] = []
        while len(took) < 100 or not (await got(port, context, b"/readyz"))[0].startswith(
            b"http/1.1 200"
        ):
            for _ in range(CALLS):
                begin = time.perf_counter()
                await verdict(opened)
                took.append((time.perf_counter() - begin) * 1000)
                await asyncio.sleep(0.001)

    _, metrics = await got(tools_port, context, b"/metrics")

    return took, cached_objects(metrics.decode())


@contextlib.asynccontextmanager
async def connection(port: int, context: ssl.SSLContext) -> AsyncIterator[Connection]:
    while True:
        with contextlib.suppress(OSError):
            opened = await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, server_hostname="localhost"
            )
            break
        await asyncio.sleep(0.01)
    try:
        yield opened
    finally:
        opened[1].close()


async def got(port: int, context: ssl.SSLContext, path: bytes) -> tuple[bytes, bytes]:
    async with connection(port, context) as opened:
        return await answer(opened, b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % path)


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
