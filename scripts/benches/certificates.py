"""Count failed calls while the CA and the certificates are rotated under load.

Two servers with self-managed certificates that are valid for seconds use the sandbox. They are
behind a balancer. The client verifies certificates by the caBundle of the webhook configuration,
which it gets half a second late, as an API server may. A quarter of the calls use connections that
are kept over all rotations. Another quarter open a connection each. The others use idle
connections, which are dropped when the caBundle changes.
"""

import argparse
import asyncio
import base64
import contextlib
import hashlib
import re
import signal
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from app.facts.kinds import ALL
from app.kube.api import Selection
from app.kube.client import HttpClient
from app.kube.credentials import from_kubeconfig
from app.kube.store import WatchStore
from app.kube.transport import CallLimits
from app.kube.watch import run_store
from app.objects.resource import VALIDATING_WEBHOOKS
from app.webhooks.configurations import ServiceTarget, webhook_configurations
from benches import common as bench_common
from benches.common import ENVIRONMENT, ROOT, Connection, verdict
from benches.restarts import Balancer
from scripts.apiserver.processes import free_port
from scripts.apiserver.sandbox import Sandbox

NAME = "grove-admission.grove-system.svc"
LATE_SECONDS = 0.5
KEPT = 4
PATIENCE = 5.0
CONFIGURATION = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
server: {{drainSeconds: 0}}
certificates: {{mode: self-managed, validityHours: {leaf}, caValidityHours: {ca}, settleSeconds: {settle}}}
"""
LEAF_SECONDS = 8
CA_SECONDS = 24
SETTLE_SECONDS = 1


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rotations",
        type=int,
        default=20,
        help="number of rotations of the CA; the certificate rotates more often",
    )
    parser.add_argument("--rate", type=float, default=200.0, help="calls per second")
    arguments = parser.parse_args()
    async with system() as (balancer, kubeconfig, ports), balancer.listening() as port:
        load = Load(port)
        async with watched_bundle(kubeconfig, load), load.calling(arguments.rate):
            while (done := await rotations(ports))["ca"] < arguments.rotations:  # noqa: ASYNC110 - another process
                await asyncio.sleep(1)
            await asyncio.sleep(2 * SETTLE_SECONDS + 2)  # until the last rotation is complete

    print(f"{done['ca']} rotations of the CA, {done['leaf']} of the certificate: ", end="")
    print(f"{load.calls} calls, {load.failed} failed, {load.connections} connections", end="")
    print(f", {len(load.certificates)} certificates and {load.bundles} bundles seen", end="")
    print(f", p50 {load.percentile(50):.1f} ms, p99 {load.percentile(99):.1f} ms")

    return 1 if load.failed else 0


@contextlib.asynccontextmanager
async def system() -> AsyncIterator[tuple[Balancer, Path, list[int]]]:
    """Yield the balancer, the kubeconfig and the tools ports of two servers of an API server.

    The webhook configurations are stored as they are installed, without a caBundle, but their
    paths are not managed, so that calls need no token.
    """
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        balancer = Balancer()
        hours = {"leaf": LEAF_SECONDS / 3600, "ca": CA_SECONDS / 3600, "settle": SETTLE_SECONDS}
        (directory / "config.yaml").write_text(CONFIGURATION.format(**hours))
        sandbox = Sandbox(state_dir=directory)
        await sandbox.start()
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "grove-system"}}
        configurations = webhook_configurations(ServiceTarget())
        for configuration in configurations:
            del configuration["metadata"]["annotations"]
        await sandbox.apply([namespace, *configurations])
        async with replica(directory) as first, replica(directory) as second:
            balancer.endpoints += [first[0], second[0]]
            yield balancer, sandbox.kubeconfig, [first[1], second[1]]
        await sandbox.stop()


@contextlib.asynccontextmanager
async def replica(directory: Path) -> AsyncIterator[tuple[int, int]]:
    """Run a server. Yield its port and its tools port once it is ready."""
    port, tools_port = free_port(), free_port()
    options = ["--tools-port", str(tools_port), "--log-level", "warning"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *bench_common.server_options(directory, port), *options),
        cwd=ROOT,
        env=ENVIRONMENT,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        while not (await seen(port, "/readyz")).startswith("ok"):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)
        yield port, tools_port
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


async def seen(port: int, path: str) -> str:
    """Return the body at `path`, or the error as text. Any certificate is trusted."""
    try:
        async with httpx.AsyncClient(verify=False) as client:
            return (await client.get(f"https://127.0.0.1:{port}{path}")).text
    except httpx.TransportError as error:
        return repr(error)


async def rotations(ports: list[int]) -> dict[str, int]:
    """Return the number of rotations by reason, of all servers together."""
    done = {"ca": 0, "leaf": 0}
    for port in ports:
        text = await seen(port, "/metrics")
        for reason, count in re.findall(
            r'certificate_rotations_total\{reason="(\w+)"\} (\d+)', text
        ):
            done[reason] = done.get(reason, 0) + int(count)
    return done


@dataclass
class Load(bench_common.Load):
    """A load of calls on connections that are kept, on new ones, and on idle ones."""

    trusted: ssl.SSLContext | None = None
    bundles: int = 0
    certificates: set[str] = field(default_factory=set)
    _kept: asyncio.Queue[Connection] = field(default_factory=asyncio.Queue)
    _idle: list[Connection] = field(default_factory=list)

    def trust(self, bundle: bytes) -> None:
        """Verify certificates by `bundle` (PEM) from now on, and close idle connections."""
        self.bundles += 1
        self.trusted = ssl.create_default_context(cadata=bundle.decode())
        while self._idle:
            self._idle.pop()[1].close()

    async def keep_calling(self, rate: float) -> None:
        for _ in range(KEPT):
            self._kept.put_nowait(await self._connect())
        await super().keep_calling(rate)

    async def ask(self, number: int) -> None:
        async with asyncio.timeout(PATIENCE):
            await (self._on_kept, self._on_new, self._on_idle, self._on_idle)[number % 4]()

    def close(self) -> None:
        while not self._kept.empty():
            self._idle.append(self._kept.get_nowait())
        for _, writer in self._idle:
            writer.close()

    async def _on_kept(self) -> None:
        connection = await self._kept.get()
        await verdict(connection)
        self._kept.put_nowait(connection)

    async def _on_new(self) -> None:
        connection = await self._connect()
        await verdict(connection)
        connection[1].close()

    async def _on_idle(self) -> None:
        context = self.trusted
        connection = self._idle.pop() if self._idle else await self._connect()
        await verdict(connection)
        if context is self.trusted:
            self._idle.append(connection)
        else:
            connection[1].close()

    async def _connect(self) -> Connection:
        self.connections += 1
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.trusted, server_hostname=NAME
        )
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        self.certificates.add(hashlib.sha256(shown).hexdigest())
        return reader, writer


@contextlib.asynccontextmanager
async def watched_bundle(kubeconfig: Path, load: Load) -> AsyncIterator[None]:
    """Watch the caBundle, and pass each new one to `load` after LATE_SECONDS."""
    loop = asyncio.get_running_loop()
    first = asyncio.Event()

    def changed(_key: object, _before: str | None, after: str | None) -> None:
        if after:
            loop.call_later(LATE_SECONDS, load.trust, base64.b64decode(after))
            loop.call_later(LATE_SECONDS, first.set)

    store = WatchStore(ca_bundle)
    store.subscribe(changed)
    credentials = await from_kubeconfig(kubeconfig, "admin")
    async with HttpClient(credentials, ALL, CallLimits()) as client:
        watching = asyncio.create_task(run_store(client, store, Selection(VALIDATING_WEBHOOKS)))
        try:
            await first.wait()
            yield
        finally:
            watching.cancel()
            await asyncio.wait({watching})


def ca_bundle(configuration: dict[str, Any]) -> str:
    """Return the caBundle of the first webhook. The server writes the same one to all."""
    bundle: str = configuration["webhooks"][0]["clientConfig"].get("caBundle", "")
    return bundle


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
