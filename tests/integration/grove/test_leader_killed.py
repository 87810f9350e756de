"""Webhooks off, Grove's real operator writes, the leader is killed, webhooks on: another server puts
the claims back, no Pod is restarted, and the tools say at each moment what is the case.

Two servers run as processes under the rendered account.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from app.commands.beside import ApiServer
from app.facts.kinds import POD_CLIQUE_SET
from app.kube.api import ObjectRef
from app.objects.resource import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from app.sandbox.processes import free_port
from app.webhooks.configurations import NAME, UrlTarget, webhook_configurations
from tests.installation.balancer import Balancer
from tests.integration.grove.conftest import CONFIGURATION, LEVELS
from tests.integration.grove.operator import GroveOperator
from tests.integration.grove.test_claims_back import SET, Workload
from tests.integration.grove.test_mnnvl_examples import annotated, example
from tests.integration.system import Users, eventually

pytestmark = pytest.mark.untraced

ROOT = Path(__file__).parents[3]
LEADS = "leader this process"
BACK_SECONDS = 60.0
SAYS = {
    "lost": {
        "audit": "must have an MNNVL claim and has none",
        "doctor": "PodCliques must have an MNNVL claim and have none",
        "explain": "asks for MNNVL and has no claim",
    },
    "outside": {
        "audit": "run without its claim, outside of their NVLink domain",
        "doctor": "Pods run without the MNNVL claim that their PodClique has",
        "explain": "without its claim, outside of the NVLink domain",
    },
}
"""What each tool says of PodCliques that lost the claim, and of Pods that were started meanwhile."""


@dataclass
class Server:
    """One process."""

    port: int
    process: asyncio.subprocess.Process
    address: str = "127.0.0.1"

    async def status(self) -> str:
        """What it says of itself, "" if it doesn't answer."""
        with contextlib.suppress(httpx.TransportError):
            async with httpx.AsyncClient(verify=False) as client:
                answer = await client.get(f"https://{self.address}:{self.port}/readyz?verbose")
            return answer.text
        return ""

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()


async def command(folder: Path, *arguments: str) -> asyncio.subprocess.Process:
    with (folder / "log").open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app", *arguments),
            cwd=ROOT,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


@dataclass
class Servers:
    """Two servers behind one port, and the tools."""

    api: ApiServer
    folder: Path
    running: list[Server]
    port: int = 0

    async def start(self) -> None:
        certificates = ("certs", "make", "--name", "127.0.0.1", str(self.folder / "certs"))
        assert await (await command(self.folder, *certificates)).wait() == 0
        for _ in range(2):
            port = free_port()
            options = {
                "--config": str(self.folder / "config.yaml"),
                "--kubeconfig": str(self.api.kubeconfig),
                "--context": "operator",
                "--host": "127.0.0.1",
                "--port": str(port),
                "--certs": str(self.folder / "certs"),
            }
            arguments = [word for option in options.items() for word in option]
            process = await command(self.folder, "serve", *arguments)
            self.running.append(Server(port, process))

    async def leader(self) -> Server | None:
        """The server that leads, once both answer."""
        statuses = [await server.status() for server in self.running]
        leading = [
            server for server, text in zip(self.running, statuses, strict=True) if LEADS in text
        ]
        return leading[0] if all(statuses) and leading else None

    async def switch_on(self) -> None:
        bundle = (self.folder / "certs" / "ca.crt").read_bytes()
        target = UrlTarget(f"https://127.0.0.1:{self.port}", bundle)
        await self.api.apply(webhook_configurations(target))

    async def kill_leader(self) -> None:
        leader = await self.leader()
        assert leader is not None
        self.running.remove(leader)
        await leader.kill()

    async def told(self, namespace: str) -> dict[str, list[str]]:
        """Which states of `SAYS` each tool tells of."""
        commands = {
            "audit": ("audit", "--namespace", namespace),
            "doctor": ("doctor",),
            "explain": ("explain", SET, "--namespace", namespace),
        }
        outputs = {name: await self._output(*words) for name, words in commands.items()}
        return {
            name: [state for state, texts in SAYS.items() if texts[name] in output]
            for name, output in outputs.items()
        }

    async def _output(self, *words: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app", *words),
            *("--kubeconfig", str(self.api.kubeconfig), "--context", "admin"),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
        return " ".join(output.decode().split())


@pytest_asyncio.fixture(loop_scope="module")
async def servers(
    api: ApiServer, operator: GroveOperator, today: bool, tmp_path: Path
) -> AsyncIterator[Servers]:
    levels = [] if today else LEVELS
    text = CONFIGURATION.format(enabled=str(not today).lower(), levels=levels, port=free_port())
    (tmp_path / "config.yaml").write_text(text)
    servers = Servers(api, tmp_path, [])
    balancer = Balancer(lambda: servers.running)
    await balancer.start()
    servers.port = balancer.port
    try:
        await servers.start()
        yield servers
    finally:
        for server in servers.running:
            await server.kill()
        await balancer.stop()


def all_say(state: str) -> dict[str, list[str]]:
    return {name: [state] for name in SAYS[state]}


async def test_claims_come_back_although_the_leader_is_killed(
    operator: GroveOperator, servers: Servers, clients: Users, namespace: str
) -> None:
    await eventually(servers.leader)
    await servers.switch_on()
    train = Workload(clients, namespace)
    pcs = annotated(example("replica"), "replica", "the PodCliqueSet")
    await clients.user.create(POD_CLIQUE_SET, pcs, namespace)
    before = await train.until_running(12)
    assert await train.without_claim() == []
    assert await servers.told(namespace) == {name: [] for name in SAYS["lost"]}

    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        await clients.admin.delete(ObjectRef(resource, NAME))
    await asyncio.sleep(2)
    await train.scale(3)
    await eventually(train.claimed, lambda claimed: list(claimed.values()) == 6 * [False])
    during = await train.until_running(18)
    assert await servers.told(namespace) == all_say("lost")

    await servers.kill_leader()
    await servers.switch_on()
    await eventually(train.claimed, lambda claimed: all(claimed.values()), BACK_SECONDS)
    assert await train.running() == during
    assert before.items() <= during.items()
    assert await servers.told(namespace) == all_say("outside")

    for name in await train.without_claim():
        await train.end(name)
    await eventually(train.without_claim, lambda names: names == [])
    await train.until_running(18)
    assert await servers.told(namespace) == {name: [] for name in SAYS["lost"]}
    assert operator.is_running
