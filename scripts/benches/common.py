"""Code that benchmarks share: processes, metrics of a server, and calls at a fixed rate."""

import asyncio
import contextlib
import itertools
import os
import re
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import msgspec

from scripts.apiserver.processes import free_port

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": f"{ROOT}:{ROOT / 'scripts'}",
    "GROVE_ADMISSION_TOOLS_PORT": "0",
}
"""The environment of the processes of a benchmark. Servers use any free port as tools port."""

BODY = msgspec.json.encode(
    msgspec.json.decode(
        (ROOT / "tests" / "testdata" / "reviews" / "podgroup.valid.json").read_bytes()
    )
)
REQUEST = (
    b"POST /validate/podgroup?timeout=5s HTTP/1.1\r\nhost: grove-admission\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(BODY), BODY)
)

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.contextmanager
def process(
    command: list[str], environment: Mapping[str, str] = ENVIRONMENT
) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as running:
        try:
            yield running
        finally:
            running.kill()


def server_options(directory: Path, port: int) -> list[str]:
    """Return Python's arguments for a server that uses the API server of `directory`.

    The folder has a kubeconfig and the configuration.
    """
    options = [
        "-m",
        "app",
        "serve",
        "--config",
        str(directory / "config.yaml"),
        "--host",
        "127.0.0.1",
    ]
    return [
        *options,
        "--port",
        str(port),
        "--kubeconfig",
        str(directory / "kubeconfig"),
        "--context",
        "operator",
    ]


@dataclass(frozen=True)
class ServerInPod:
    """A running server with the credentials of a service account, as in a Pod.

    `begin` is its start in monotonic seconds, and `client` calls its tools port.
    """

    pid: int
    begin: float
    port: int
    context: ssl.SSLContext
    client: httpx.Client

    def is_ready(self) -> bool:
        try:
            return self.client.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False


@contextlib.contextmanager
def server_in_pod(
    program: str, directory: Path, configuration: str, environment: Mapping[str, str]
) -> Iterator[ServerInPod]:
    """Run `serve` with `program`, whose first argument is the folder with the account's files.

    `environment` has the variables that Kubernetes sets in a Pod.
    """
    port, tools_port = free_port(), free_port()
    (directory / "config.yaml").write_text(configuration)
    options = ["--config", str(directory / "config.yaml"), "--certs", str(directory / "webhook")]
    options += ["--host", "127.0.0.1", "--port", str(port), "--log-level", "warning"]
    options += ["--tools-port", str(tools_port)]
    command = [sys.executable, "-c", program, str(directory), "serve", *options]
    authority = directory / "webhook" / "ca.crt"
    begin = time.monotonic()
    with process(command, {**ENVIRONMENT, **environment}) as server:
        until(authority.exists)
        context = ssl.create_default_context(cafile=authority)
        with httpx.Client(base_url=f"https://localhost:{tools_port}", verify=context) as client:
            yield ServerInPod(server.pid, begin, port, context, client)


def environment_of_pod(host: str, port: str) -> dict[str, str]:
    """Return the variables that Kubernetes sets in a Pod, for an API server at `host` and `port`."""
    return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}


def until(true: Callable[[], object], patience: float = PATIENCE) -> None:
    end = time.monotonic() + patience
    while not true():
        if time.monotonic() > end:
            raise SystemExit(f"nothing happened for {patience:g} s")
        time.sleep(0.02)


async def until_async(true: Callable[[], Awaitable[bool]], every: float = 0.05) -> None:
    end = time.monotonic() + PATIENCE
    while not await true():
        if time.monotonic() > end:
            raise SystemExit(f"nothing happened for {PATIENCE:g} s")
        await asyncio.sleep(every)


def memory(pid: int, name: str) -> int:
    """Return `VmRSS` (resident) or `VmHWM` (peak resident) of a process, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]


def cached_objects(metrics: str) -> int:
    return sum(
        int(float(count)) for count in re.findall(r"cache_objects\{[^}]*\} ([\d.e+]+)", metrics)
    )


def api_calls(metrics: str) -> dict[tuple[str, str], int]:
    """Return the numbers of calls to the API server by (verb, resource), from a server's metrics."""
    calls: dict[tuple[str, str], int] = {}
    for labels, count in re.findall(r"api_requests_total\{([^}]*)\} ([\d.e+]+)", metrics):
        call = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        key = (call["verb"], call["resource"])
        calls[key] = calls.get(key, 0) + int(float(count))
    return calls


async def answer(connection: Connection, request: bytes) -> tuple[bytes, bytes]:
    """Send `request`, and return the head of the answer in lower case, and its body."""
    reader, writer = connection
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = re.search(rb"content-length: (\d+)", head)
    return head, await reader.readexactly(int(length[1]) if length else 0)


async def verdict(connection: Connection) -> bytes:
    """Send REQUEST, and return the head of the answer. Raise ConnectionError if it is a rejection."""
    head, body = await answer(connection, REQUEST)
    if msgspec.json.decode(body)["response"]["allowed"] is not True:
        raise ConnectionError("not allowed")
    return head


@dataclass
class Load:
    """A load of calls at a fixed rate, with counts and times. Subclasses define the calls."""

    port: int
    calls: int = field(default=0, kw_only=True)
    failed: int = field(default=0, kw_only=True)
    connections: int = field(default=0, kw_only=True)
    milliseconds: list[float] = field(default_factory=list, kw_only=True)
    _running: set[asyncio.Task[None]] = field(default_factory=set, kw_only=True)

    async def ask(self, number: int) -> None:
        """Make the call `number`, from 0. OSError and IncompleteReadError count as failures."""
        raise NotImplementedError

    def close(self) -> None:
        """Close all connections, after the last call."""
        raise NotImplementedError

    def percentile(self, number: int) -> float:
        """Return a percentile of the times of all calls, in milliseconds."""
        return statistics.quantiles(self.milliseconds, n=100)[number - 1]

    async def call(self, number: int = 0) -> None:
        self.calls += 1
        begin = asyncio.get_running_loop().time()
        try:
            await self.ask(number)
        except (OSError, asyncio.IncompleteReadError) as error:
            self.failed += 1
            print(f"failed: {error!r}", flush=True)
        self.milliseconds.append((asyncio.get_running_loop().time() - begin) * 1000)

    async def keep_calling(self, rate: float) -> None:
        clock = asyncio.get_running_loop().time
        next_at = asyncio.get_running_loop().time()
        for number in itertools.count():
            task = asyncio.create_task(self.call(number))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
            next_at += 1 / rate
            await asyncio.sleep(max(0.0, next_at - clock()))

    async def finish(self) -> None:
        if self._running:
            await asyncio.wait(self._running)
        self.close()

    @contextlib.asynccontextmanager
    async def calling(self, rate: float) -> AsyncIterator[None]:
        """Make `rate` calls per second while the block runs, then wait for the last ones."""
        task = asyncio.create_task(self.keep_calling(rate))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})
            await self.finish()
