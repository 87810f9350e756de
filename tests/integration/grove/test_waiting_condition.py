"""Nobody fights over the condition PlacementBlocked, beside Grove's real operator: it stays while
the operator writes the status, and Grove's own conditions stay while we write ours.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from app.config.read import read_configuration
from app.config.schema import Configuration
from app.facts.kinds import POD_CLIQUE_SET
from app.kube.api import Object, ObjectRef, Selection
from app.objects.resource import EVENT, POD
from app.server.serve import Running
from app.waiting.reporter import PLACEMENT_BLOCKED
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.processes import free_port
from tests.integration.grove import cluster
from tests.integration.grove.conftest import LEVELS
from tests.integration.grove.operator import GroveOperator
from tests.integration.grove.test_mnnvl_examples import example
from tests.integration.system import Users, eventually
from tests.rendered import with_components

pytestmark = pytest.mark.untraced

QUIET_SECONDS = 20
PATIENCE = 90.0
SET = "distributed-training"
CONFIGURATION = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
clusterTopology: {{enabled: {enabled}, levels: {levels}}}
server: {{host: 127.0.0.1, port: {port}, toolsPort: 0, drainSeconds: 0}}
waiting: {{enabled: true, afterSeconds: 0.5}}
"""


@pytest.fixture(scope="module")
def configuration(today: bool) -> Configuration:
    """Grove before ClusterTopologyBindings creates no PodGangs without a ClusterTopology."""
    levels = [] if today else LEVELS
    text = CONFIGURATION.format(enabled=str(not today).lower(), levels=levels, port=free_port())
    return read_configuration(text, "test")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(
    program: Path,
    api: ApiServer,
    clients: Users,
    today: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[GroveOperator]:
    """Grove's operator without a scheduler beside it, so that pods wait; and our extra roles."""
    text = with_components("self-managed", tmp_path_factory.mktemp("rules"), ["waiting"])
    roles = [obj for obj in yaml.safe_load_all(text) if "-waiting" in obj["metadata"]["name"]]
    await api.apply(roles)
    folder = tmp_path_factory.mktemp("operator") / "work"
    operator = GroveOperator(program, api, clients.admin, folder, today=today, levels=LEVELS)
    await operator.prepare()
    await operator.start()
    yield operator
    await operator.stop()


class Set:
    """The PodCliqueSet that waits, and what has been written about it."""

    def __init__(self, clients: Users, namespace: str, served: Running) -> None:
        self._clients = clients
        self._served = served
        self.namespace = namespace
        self.ref = ObjectRef(POD_CLIQUE_SET, SET, namespace)

    async def stored(self) -> Object:
        return await self._clients.admin.get(self.ref)

    async def conditions(self) -> dict[str, str]:
        status = (await self.stored()).get("status") or {}
        return {item["type"]: item["reason"] for item in status.get("conditions") or ()}

    def writes(self) -> float:
        assert self._served.leader is not None
        samples = self._served.leader.samples()
        return next(sample.value for sample in samples if sample.name == "waiting_writes_total")

    async def change(self, patch: Object) -> None:
        path = f"/apis/grove.io/v1alpha1/namespaces/{self.namespace}/podcliquesets/{SET}"
        await self._clients.answer("user", "PATCH", path, patch)

    async def pods(self) -> list[str]:
        items = (await self._clients.admin.list(Selection(POD, self.namespace), limit=0)).items
        return [item["metadata"]["name"] for item in items]

    async def events(self) -> list[str]:
        items = (await self._clients.admin.list(Selection(EVENT, self.namespace), limit=0)).items
        return [item["reason"] for item in items if item["reason"].startswith("Placement")]


@contextlib.asynccontextmanager
async def without_scheduler(clients: Users) -> AsyncIterator[asyncio.Event]:
    """What a cluster has beside Grove; pods are only placed once the event is set."""
    schedules = asyncio.Event()
    beside = asyncio.create_task(cluster.run(clients, schedules.is_set))
    try:
        yield schedules
    finally:
        beside.cancel()
        await asyncio.wait({beside})


async def test_nobody_fights_over_the_condition(
    operator: GroveOperator, served: Running, clients: Users, namespace: str
) -> None:
    waiting = Set(clients, namespace, served)
    created = example("replica")
    created["metadata"]["namespace"] = namespace
    async with without_scheduler(clients) as schedules:
        await clients.user.create(POD_CLIQUE_SET, created, namespace)
        await soon(waiting.pods, lambda pods: len(pods) == 12)
        first = await soon(waiting.conditions, lambda conditions: PLACEMENT_BLOCKED in conditions)
        versions = await stays_while_grove_writes(waiting)
        await nobody_writes(waiting)

        # It is placed: ours goes, Grove's stay.
        schedules.set()
        last = await soon(
            waiting.conditions, lambda conditions: PLACEMENT_BLOCKED not in conditions
        )
        assert {kind for kind in first if kind != PLACEMENT_BLOCKED} <= last.keys()
        events = await soon(waiting.events, lambda events: "PlacementUnblocked" in events)
    print(f"\n{waiting.writes():g} writes, {versions} versions, first {first}, events {events}")


soon = functools.partial(eventually, patience=PATIENCE)


async def stays_while_grove_writes(waiting: Set) -> int:
    """How many versions of the set there were while it was scaled up and down.

    Each had our condition, and we wrote at most when a reason changed.
    """
    versions = {(await waiting.stored())["metadata"]["resourceVersion"]}
    for replicas in (3, 2, 3, 2):
        await waiting.change({"spec": {"replicas": replicas}})
        await soon(waiting.pods, functools.partial(are_so_many, 6 * replicas))
        for _ in range(20):
            assert PLACEMENT_BLOCKED in await waiting.conditions()
            versions.add((await waiting.stored())["metadata"]["resourceVersion"])
            await asyncio.sleep(0.1)
    assert len(versions) > 4
    assert waiting.writes() <= 6
    return len(versions)


def are_so_many(count: int, pods: list[str]) -> bool:
    return len(pods) == count


async def nobody_writes(waiting: Set) -> None:
    """Nobody changes the set while nothing happens."""
    await asyncio.sleep(QUIET_SECONDS)
    settled = waiting.writes()
    version = (await waiting.stored())["metadata"]["resourceVersion"]
    await asyncio.sleep(QUIET_SECONDS)
    assert waiting.writes() == settled
    assert (await waiting.stored())["metadata"]["resourceVersion"] == version
