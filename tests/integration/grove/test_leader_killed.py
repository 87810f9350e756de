"""Webhooks off, Grove's real operator writes, the leader is killed, webhooks on: another server puts
the claims back, no Pod is restarted, and the tools say at each moment what is the case.

Two servers run as processes under the rendered account.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from app.audit.claims import LACKS, OUTSIDE
from app.facts.kinds import POD_CLIQUE_SET
from app.kube.api import ObjectRef
from app.objects.resource import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from app.webhooks.configurations import NAME, UrlTarget, webhook_configurations
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.processes import free_port
from tests.installation.balancer import Balancer
from tests.integration.grove.conftest import CONFIGURATION, LEVELS
from tests.integration.grove.operator import GroveOperator
from tests.integration.grove.test_claims_back import SET, Workload
from tests.integration.grove.test_mnnvl_examples import annotated, example
from tests.integration.processes import ROOT, Servers
from tests.integration.system import Users, eventually

pytestmark = pytest.mark.untraced

BACK_SECONDS = 240.0
SAYS = {
    "lost": {
        "audit": LACKS,
        "doctor": "PodCliques without their MNNVL claim",
        "explain": "requests MNNVL but has no claim",
    },
    "outside": {
        "audit": OUTSIDE,
        "doctor": "Pods that lack the MNNVL claim of their PodClique",
        "explain": "without its claim, outside the NVLink domain",
    },
}
"""What each tool says of PodCliques that lost the claim, and of Pods that were started meanwhile."""


@dataclass
class Tools(Servers):
    """Two servers behind one port, and the tools."""

    port: int = 0

    async def switch_on(self) -> None:
        bundle = (self.folder / "certs" / "ca.crt").read_bytes()
        target = UrlTarget(f"https://127.0.0.1:{self.port}", bundle)
        await self.api.apply(webhook_configurations(target))

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
) -> AsyncIterator[Tools]:
    levels = [] if today else LEVELS
    text = CONFIGURATION.format(enabled=str(not today).lower(), levels=levels, port=free_port())
    (tmp_path / "config.yaml").write_text(text)
    servers = Tools(api, tmp_path, [])
    balancer = Balancer(lambda: servers.running)
    await balancer.start()
    servers.port = balancer.port
    try:
        async with servers.started(2):
            yield servers
    finally:
        await balancer.stop()


def all_say(state: str) -> dict[str, list[str]]:
    return {name: [state] for name in SAYS[state]}


async def test_claims_come_back_although_the_leader_is_killed(
    operator: GroveOperator, servers: Tools, clients: Users, namespace: str
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
