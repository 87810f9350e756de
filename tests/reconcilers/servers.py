"""A server of ours over a cluster in memory, in virtual time, and what Grove's operator asks of it.

`test_ownership_faults.py` plays random schedules with them, `test_migration_killed.py` kills a
leader at each of its calls. `tests/proof` plays random schedules with whole servers, in real time.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from app.admission.decide import Handler
from app.admission.review import Request
from app.admission.verdict import Later, Ready, Verdict
from app.cluster.cluster import Cluster
from app.cluster.leader_rows import CLIQUES, UNIT_PODS
from app.cluster.pods import ClaimUsers
from app.cluster.units import UnitOwners
from app.facts.kinds import POD_GANG
from app.facts.rows import GANGS, NODES
from app.kube.api import Object
from app.kube.competing_writers import Rewrites
from app.kube.discovery import Discovery
from app.kube.events import Recorder
from app.kube.loop import Loop
from app.kube.watch import run_store
from app.reconcilers import mnnvl_resources, podgang
from app.reconcilers.mnnvl_resources import MnnvlResourcesReconciler
from app.reconcilers.podgang import PodGangReconciler
from app.reconcilers.writing import Writing
from app.stores.stores import Stores, selection_of
from app.webhooks.podgang import PodGangDeletionWebhook, PodGangWebhook
from tests.cluster.offline import configured
from tests.kube import virtual
from tests.kube.memory.wire import Wire

NAMESPACE = "ns"
TOPOLOGY = "grove-topology"


class Server:
    """Its caches, its webhooks for PodGangs and, if it leads, its loops that own MNNVL resources."""

    def __init__(
        self,
        wire: Wire,
        discovery: Discovery,
        *,
        topology: bool,
        random: Callable[[], float] = lambda: 0.5,
    ) -> None:
        self._wire = wire
        self._random = random
        self.cluster = cluster = Cluster(wire, configured(TOPOLOGY, topology), discovery)
        self._cliques = Stores((CLIQUES, UNIT_PODS))
        self.webhook = PodGangWebhook(cluster.facts, cluster.owners)
        self.deletion = PodGangDeletionWebhook(cluster.owners)
        self._resources = self._resources_loop()
        self._loops = [self._podgang_loop(), self._resources]

    def _writing(self) -> Writing:
        return Writing(self._wire, Recorder(self._wire, "test"), Rewrites(clock=virtual.now))

    def _podgang_loop(self) -> Loop:
        cluster = self.cluster
        reconciler = PodGangReconciler(
            self._writing(),
            cluster.stores[GANGS],
            cluster.facts,
            cluster.owners,
            gives_back=lambda: self._resources.depth > 0,
        )
        loop = Loop(reconciler, workers=4, random=self._random)
        podgang.subscribe(loop, cluster.stores, TOPOLOGY)
        podgang.subscribe_to_resources(loop, cluster.stores, self._cliques[CLIQUES])
        return loop

    def _resources_loop(self) -> Loop:
        cluster = self.cluster
        cliques, pods = self._cliques[CLIQUES], self._cliques[UNIT_PODS]
        reconciler = MnnvlResourcesReconciler(
            self._writing(),
            cliques,
            cluster.facts,
            cluster.stores,
            cluster.resources,
            cluster.owners,
            pods=pods,
            units=UnitOwners(self._wire),
            users=ClaimUsers(self._wire),
            collect_after=300.0,
            clock=virtual.now,
        )
        loop = Loop(reconciler, workers=4, random=self._random)
        mnnvl_resources.subscribe(loop, cliques, pods, cluster.stores, cluster.owners)
        return loop

    def reconcile_everything(self) -> None:
        for loop in self._loops:
            loop.add_all()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """It runs, and is killed at the end of the block."""
        rows = [
            (row, store)
            for stores in (self.cluster.stores, self._cliques)
            for row, store in stores
            if row is not NODES
        ]
        watching = [
            asyncio.create_task(run_store(self._wire, store, selection_of(row)))
            for row, store in rows
        ]
        for _, store in rows:
            await store.until_synced()
        try:
            yield
        finally:
            await _kill(watching)

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """It leads, and is killed at the end of the block: what it did is cut off in the middle."""
        working = [asyncio.create_task(loop.run()) for loop in self._loops]
        try:
            yield
        finally:
            await _kill(working)


async def _kill(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def gang_request(operation: str, obj: Object, old: Object | None = None) -> Request:
    """The request of Grove's operator about a PodGang."""
    return Request(
        uid="1",
        group=POD_GANG.group,
        kind=POD_GANG.kind,
        resource=POD_GANG.plural,
        subresource="",
        operation=operation,
        name=obj["metadata"]["name"],
        namespace=NAMESPACE,
        username="grove",
        object=obj,
        old=old,
        dry_run=False,
        trusted=True,
    )


async def judged(handler: Handler, asked: Request) -> Verdict:
    answer: Verdict | Later | Ready = handler(asked)
    while not isinstance(answer, Verdict):
        answer = await answer.make() if isinstance(answer, Later) else answer.judge()
    return answer
