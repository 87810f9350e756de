"""20 units of each kind of workload, of 2 to 18 Pods, through all that happens to them.

UNIT_SEED chooses other sizes, orders and changes. It stands apart from `tests/proof`, because
here the workloads' own controllers act, which are late by themselves: each step has to settle
before the next one.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from random import Random

import pytest
import pytest_asyncio

from app.kube.api import Object, ObjectRef
from app.stores.offline import resource_of
from scripts.apiserver.admission_server import ApiServer
from tests.integration.system import Users, eventually, users
from tests.integration.units.controllers import FOLDER, KUBERNETES, NVIDIA, ROWS, Controller
from tests.integration.units.kinds import KINDS, GroupedSet, WholeJobSet, Workload, some
from tests.integration.units.live import PATIENCE, Live
from tests.integration.units.machines import Machines

BEFORE = "a-webhooks-of-workloads"
AFTER = "lws-mutating-webhook-configuration"
"""Names of webhook configurations: the API server calls webhooks in the order of these names."""


pytestmark = pytest.mark.untraced


@pytest_asyncio.fixture(loop_scope="module")
async def machines(clients: Users, namespace: str) -> AsyncIterator[Machines]:
    machines = Machines(clients, namespace)
    task = asyncio.create_task(machines.run())
    yield machines
    task.cancel()
    await asyncio.wait({task})


class Schedule:
    """What happens to `workloads`, one after the other. After each step everything is as it should
    be, and `times` has how many seconds that took.
    """

    def __init__(
        self, live: Live, machines: Machines, nvidia: Controller, workloads: list[Workload]
    ) -> None:
        self.times: dict[str, float] = {}
        self._live = live
        self._machines = machines
        self._nvidia = nvidia
        self._workloads = workloads

    async def create(self) -> None:
        at_once, before_templates, before_domains, leader_first = (
            self._workloads[first::4] for first in range(4)
        )
        await self._live.begin()
        async with self._step("created"):
            await self._live.create(at_once)

        async with self._step("before templates"):
            self._nvidia.pause()
            await self._live.create(before_templates)
            await self._live.all_made()
            self._nvidia.resume()

        async with self._step("before domains"), self._live.without_domains():
            await self._live.create(before_domains)
            await self._live.all_made()

        async with self._step("leaders first"):
            self._machines.schedule = False
            for workload in leader_first:
                if isinstance(workload, GroupedSet):
                    workload.first_ready = True
            await self._live.create(leader_first)
            await self._live.all_domains()
            self._machines.schedule = True

    async def restart(self, rng: Random) -> None:
        """Some Pods of each unit end or are deleted. Its ComputeDomain stays."""
        before = await self._live.domains()
        async with self._step("restarted"):
            for workload in self._workloads:
                pods = [pod["metadata"]["name"] for pod in await self._live.pods(workload)]
                chosen = rng.sample(pods, rng.randint(1, min(len(pods), workload.restarts)))
                if isinstance(workload, WholeJobSet) and rng.random() < 0.5:
                    self._machines.fail |= set(chosen)
                else:
                    await self._live.delete_pods(chosen)
        assert await self._live.domains() == before

    async def heal(self) -> None:
        """ComputeDomains are deleted and made again, and then their Pods are replaced, which keep
        the claims of the former ones. A Job would wait too long after so many.
        """
        chosen = [each for each in self._workloads if each.restarts > 1][::3]
        before = await self._live.domains()
        async with self._step("healed"):
            for workload in chosen:
                names = [f"{unit}-cd" for unit in workload.units()]
                await self._live.delete_domains(names)
                await self._live.delete_pods(
                    pod["metadata"]["name"] for pod in await self._live.pods(workload)
                )
        after = await self._live.domains()
        healed = {name for name in before if before[name] != after[name]}
        assert healed == {f"{unit}-cd" for workload in chosen for unit in workload.units()}

    async def scale(self, rng: Random) -> None:
        scaled = [workload for workload in self._workloads if workload.scales]
        async with self._step("scaled"):
            for workload in scaled:
                workload.scale(rng)
                await self._live.write(workload)

        async with self._step("scaled twice"):
            for workload in scaled * 2:
                workload.scale(rng)
                await self._live.write(workload)

    async def replace(self, rng: Random) -> None:
        """Each is deleted and recreated, with other sizes where they may be changed.

        The controller of LeaderWorkerSets gives a StatefulSet of the former one to the new one, if
        that comes before the garbage collector. Its Pods stay, and a user has to delete them.
        """
        for policy in ("Background", "Foreground"):
            async with self._step(f"replaced, {policy}"):
                former = await self._live.uids()
                for workload in self._workloads:
                    await self._live.delete(workload, policy)
                    if workload.scales:
                        workload.scale(rng)
                    await self._live.create([workload])
                await self._live.settled(former)

                kept = [
                    pod["metadata"]["name"]
                    for pod in await self._live.pods()
                    if pod["metadata"]["uid"] in former
                ]
                assert not kept or isinstance(self._workloads[0], GroupedSet), kept
                self.times[f"kept Pods, {policy}"] = len(kept)
                await self._live.delete_pods(kept)

    async def end(self) -> None:
        for workload in self._workloads:
            await self._live.delete(workload, "Background")
        await eventually(self._live.left, lambda left: not left, patience=PATIENCE)

    @contextlib.asynccontextmanager
    async def _step(self, name: str) -> AsyncIterator[None]:
        began = time.monotonic()
        yield
        await self._live.settled()
        self.times[name] = round(time.monotonic() - began, 1)


@contextlib.asynccontextmanager
async def running(
    controllers: list[Controller], webhooks: str, api: ApiServer
) -> AsyncIterator[None]:
    """While these run, with webhooks of that name."""
    configurations: list[Object] = []
    try:
        for controller in controllers:
            await controller.start()
            if controller.name in ROWS:
                configurations += controller.webhooks(webhooks)
        await api.apply(configurations)
        yield
    finally:
        async with users(api) as clients:
            for obj in configurations:
                resource = resource_of(obj)
                assert resource is not None
                await clients.admin.delete(ObjectRef(resource, webhooks))
        for controller in controllers:
            await controller.stop()


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize(
    ("kind", "webhooks"), [("LeaderWorkerSet", BEFORE), *((kind, AFTER) for kind in KINDS)]
)
async def test_units_through_everything(
    kind: str,
    webhooks: str,
    api: ApiServer,
    controllers: dict[str, Controller],
    clients: Users,
    namespace: str,
    machines: Machines,
) -> None:
    rng = Random(f"{os.environ.get('UNIT_SEED', '1')} {kind} {webhooks}")
    workloads = some(kind, rng)
    needs = workloads[0].needs
    missing = [name for name in needs if name not in controllers]
    if missing:
        pytest.skip(f"needs the program {', '.join(missing)} in {FOLDER}")

    chosen = [controllers[name] for name in needs]
    live = Live(clients, namespace, [controllers[NVIDIA], controllers[KUBERNETES], *chosen])
    async with running(chosen, webhooks, api):
        played = Schedule(live, machines, controllers[NVIDIA], workloads)
        await played.create()
        await played.restart(rng)
        await played.heal()
        await played.scale(rng)
        await played.replace(rng)
        await played.end()
    print(f"\n{kind}, {webhooks}: {len(live.seen)} Pods; seconds: {played.times}")
