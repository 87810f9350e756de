"""What only one replica does: the managed ClusterTopology is put in place, then the reconcilers run.

Everything here begins anew whenever this process becomes the leader, and has ended before another one can.
"""

import asyncio
import functools
import random
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from uuid import uuid4

from app.cluster.cluster import Cluster
from app.cluster.dialects import DIALECTS
from app.cluster.mnnvl import ClusterMnnvl
from app.cluster.stores import Stores
from app.cluster.table import (
    BINDINGS,
    CLAIMS,
    CLIQUES,
    DOMAINS,
    FOR_MNNVL,
    GANGS,
    KAI_TOPOLOGIES,
    NODES,
    SETS,
    TOPOLOGIES,
)
from app.cluster.watched import run_from_empty
from app.cluster.workload_caches import WorkloadCaches
from app.config.schema import Configuration, LeaderElection
from app.kube.api import Client, Key, Store
from app.kube.client import HttpClient
from app.kube.discovery import Discovery
from app.kube.events import Recorder
from app.kube.gauge import Gauge
from app.kube.lease import Elector, LeaseTiming
from app.kube.loop import Loop, Observe
from app.kube.owners import Kinds, Owners
from app.kube.rewrites import Rewrites
from app.kube.store import WatchStore
from app.objects.resource import Resource
from app.reconcilers import constraint_status, level_coverage, mnnvl_resources, podgang, workload
from app.reconcilers.cluster_topology import ClusterTopologyReconciler
from app.reconcilers.kai_topology import KaiTopologyReconciler
from app.rules.kinds import CLUSTER_TOPOLOGY, KAI_TOPOLOGY
from app.rules.mnnvl.demand import Demand
from app.rules.workload.kai_podgroup import Conventions, LabelKeys

WORKERS = 16
"""Keys of one kind that are worked on at once: a step mostly waits for the API server."""

MANY_RESTORES = 20
"""Restores of the same MNNVL resources within two minutes. Whatever deletes them that often will go on."""

_TOPOLOGIES = (CLUSTER_TOPOLOGY, KAI_TOPOLOGY)

Watch = Callable[[], Awaitable[object]]
"""Keeps something in step until cancelled: caches that only the leader needs."""


class Leader:
    """The leader's work, and whether it is ours.

    `prepare` is done first, each time; `watches` and `loops` run until the lead is lost. Without `elector` this process
    leads from the start.
    """

    def __init__(
        self,
        elector: Elector | None,
        recorder: Recorder,
        prepare: Callable[[], Awaitable[None]],
        watches: Sequence[Watch],
        loops: Sequence[Loop],
        rewrites: Mapping[str, Rewrites] | None = None,
        statuses_lost: Callable[[], int] = int,
    ) -> None:
        self.recorder = recorder
        self.loops = tuple(loops)
        self._rewrites, self._statuses_lost = dict(rewrites or {}), statuses_lost
        self._elector, self._prepare, self._watches = elector, prepare, tuple(watches)
        self._working = False

    @property
    def leading(self) -> bool:
        return self._working if self._elector is None else self._elector.leading

    @property
    def holder(self) -> str:
        """Who leads, as we last saw it; "" for nobody."""
        return "" if self._elector is None else self._elector.holder

    async def run(self) -> None:
        """Leads whenever it can, until cancelled. What ends the work otherwise is raised."""
        if self._elector is None:
            await self._work()
        else:
            await self._elector.lead(self._work)

    async def _work(self) -> None:
        self._working = True
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.recorder.run(), name="events")
                for number, watch in enumerate(self._watches):
                    tasks.create_task(_until_cancelled(watch), name=f"leader's watch {number}")
                await self._prepare()
                for loop in self.loops:
                    tasks.create_task(loop.run(), name=loop.reconciler.name)
        finally:
            self._working = False

    def checks(self) -> dict[str, str | None]:
        """None: a replica that doesn't lead gives verdicts all the same."""
        return {}

    def notes(self) -> dict[str, str]:
        """Who leads."""
        return {"leader": "this process" if self.leading else self.holder or "nobody"}

    def gauges(self) -> Iterator[Gauge]:
        """For metrics: who leads, what waits, and what was lost."""
        yield "leader", "1 while this process does the reconcilers' work.", {}, float(self.leading)
        yield "events_lost_total", "Events that could not be written.", {}, self.recorder.lost
        text = "Statuses that the ClusterTopology's CRD didn't take."
        yield "statuses_lost_total", text, {}, self._statuses_lost()
        for loop in self.loops:
            labels = {"reconciler": loop.reconciler.name}
            yield "reconcile_queue_depth", "Keys that wait or are worked on.", labels, loop.depth
        for name, rewrites in self._rewrites.items():
            text = "Writes held back because something writes back."
            yield "rewrites_total", text, {"reconciler": name}, rewrites.fights
        for loop in self.loops:
            labels = {"reconciler": loop.reconciler.name}
            yield "reconcile_failing", "Keys whose last step failed.", labels, loop.failing


async def _until_cancelled(watch: Watch) -> None:
    await watch()


def build_leader(configuration: Configuration, cluster: Cluster, client: HttpClient, observe: Observe) -> Leader:
    """Our candidate: the reconcilers over the caches of `cluster`, writing through `client`."""
    identity = f"{socket.gethostname()}_{uuid4()}"
    recorder = Recorder(client, identity)
    settings = configuration.cluster_topology
    rewrites = {name: Rewrites() for name in ("clustertopology", "kai-topology", "podgang")}
    rewrites["mnnvl-resources"] = Rewrites(tolerated=MANY_RESTORES)
    topologies = cluster.stores[TOPOLOGIES]
    managed = ClusterTopologyReconciler(
        client,
        settings.name,
        configuration.levels if settings.enabled else None,
        topologies,
        recorder,
        rewrites["clustertopology"],
        topology=cluster.facts,
    )
    synced = KaiTopologyReconciler(
        client, settings.name, recorder, rewrites["kai-topology"], dialect=cluster.facts.dialect
    )
    topology, kai = Loop(managed, observe=observe), Loop(synced, observe=observe)
    for loop in (topology, kai):
        _look_again_when_installed(loop, client.discovery, ("", settings.name))
        for store in (topologies, cluster.stores[BINDINGS], cluster.stores[KAI_TOPOLOGIES]):
            _look_again_when_changed(loop, store, ("", settings.name))

    async def prepare() -> None:
        await cluster.stores.until_synced()
        await managed.settle(settings.creation_timeout_seconds, random.random)

    cliques = Stores(FOR_MNNVL)
    only_here = [cliques]
    loops = [
        topology,
        kai,
        podgang_loop(cluster, client, recorder, rewrites["podgang"], observe),
        status_loop(cluster, client, observe),
        coverage_loop(cluster, client, recorder, observe),
        mnnvl_loop(configuration, cluster, client, cliques[CLIQUES], recorder, rewrites["mnnvl-resources"], observe),
    ]
    if configuration.workloads.enabled:
        caches = WorkloadCaches(configuration.workloads.scheduler_name)
        rewrites |= {"pod-group-name": Rewrites(tolerated=2, window=600.0), "workload": Rewrites()}
        only_here.append(caches.stores)
        counted = (rewrites["pod-group-name"], rewrites["workload"])
        loops.append(workload_loop(configuration, client, caches, recorder, counted, observe))
    _look_again_when_dialects_change(loops, client.discovery)
    return Leader(
        elector(client, configuration.leader_election, identity),
        recorder,
        prepare=prepare,
        watches=[functools.partial(run_from_empty, stores, client, client.discovery) for stores in only_here],
        loops=loops,
        rewrites=rewrites,
        statuses_lost=lambda: synced.statuses_lost,
    )


def podgang_loop(cluster: Cluster, client: Client, recorder: Recorder, rewrites: Rewrites, observe: Observe) -> Loop:
    stores = cluster.stores
    sets, gangs, resources = stores[SETS], stores[GANGS], (stores[DOMAINS], stores[CLAIMS])
    mnnvl = ClusterMnnvl(client, cluster.facts, stores)
    reconciler = podgang.PodGangReconciler(client, gangs, cluster.facts, cluster.facts, mnnvl, recorder, rewrites)
    loop = Loop(reconciler, workers=WORKERS, observe=observe)
    topologies = stores[TOPOLOGIES]
    podgang.subscribe(loop, gangs, sets, topologies, cluster.topology_name, resources)
    return loop


def mnnvl_loop(
    configuration: Configuration,
    cluster: Cluster,
    client: Client,
    cliques: WatchStore[Demand],
    recorder: Recorder,
    rewrites: Rewrites,
    observe: Observe,
) -> Loop:
    stores = cluster.stores
    made = (stores[DOMAINS], stores[CLAIMS])
    reconciler = mnnvl_resources.MnnvlResourcesReconciler(
        client,
        cliques,
        cluster.facts,
        made,
        ClusterMnnvl(client, cluster.facts, stores),
        recorder,
        rewrites,
        collect_after=configuration.mnnvl.collect_after_seconds,
    )
    loop = Loop(reconciler, workers=WORKERS, observe=observe)
    mnnvl_resources.subscribe(loop, cliques, stores[SETS], made)
    return loop


def workload_loop(
    configuration: Configuration,
    client: HttpClient,
    caches: WorkloadCaches,
    recorder: Recorder,
    rewrites: tuple[Rewrites, Rewrites],
    observe: Observe,
) -> Loop:
    """`rewrites` count what is written to Pods and to KAI PodGroups."""
    settings = configuration.workloads
    keys, topology = LabelKeys(**settings.labels.model_dump()), configuration.cluster_topology.name
    conventions = Conventions(keys, topology, settings.default_queue)
    owners = Owners(client, Kinds(client.read).find)
    reconciler = workload.WorkloadReconciler(client, caches, owners, recorder, conventions, *rewrites)
    loop = Loop(reconciler, workers=WORKERS, observe=observe)
    workload.subscribe(loop, caches, client.discovery)
    return loop


def status_loop(cluster: Cluster, client: Client, observe: Observe) -> Loop:
    reconciler = constraint_status.ConstraintStatusReconciler(client, cluster.stores[SETS], cluster.facts)
    loop = Loop(reconciler, workers=WORKERS, observe=observe)
    topologies = cluster.stores[TOPOLOGIES]
    constraint_status.subscribe(loop, cluster.stores[SETS], topologies, cluster.topology_name)
    return loop


def coverage_loop(cluster: Cluster, client: Client, recorder: Recorder, observe: Observe) -> Loop:
    loop = Loop(level_coverage.LevelCoverageReconciler(client, cluster.facts, recorder), observe=observe)
    stores = cluster.stores
    level_coverage.subscribe(loop, stores[NODES], (stores[TOPOLOGIES], stores[BINDINGS]))
    return loop


def _look_again_when_installed(loop: Loop, discovery: Discovery, key: Key) -> None:
    discovery.subscribe(lambda resource, version: loop.add(key) if resource in _TOPOLOGIES else None)


def _look_again_when_dialects_change(loops: Sequence[Loop], discovery: Discovery) -> None:
    """Another dialect may ask for something else of every object."""
    resources = {dialect.resource for dialect in DIALECTS}

    def changed(resource: Resource, version: str | None) -> None:
        if resource in resources:
            for loop in loops:
                loop.add_all()

    discovery.subscribe(changed)


def _look_again_when_changed(loop: Loop, topologies: Store[object], topology: Key) -> None:
    topologies.subscribe(lambda key, before, after: loop.add(key) if key == topology else None)


def elector(client: Client, settings: LeaderElection, identity: str) -> Elector | None:
    """The candidate that `settings` ask for; None for a process that leads without asking. `identity` is unique among
    all processes ever started, and begins with the name of the Pod."""
    if not settings.enabled:
        return None
    timing = LeaseTiming(lease=settings.lease_seconds, renew=settings.renew_seconds, retry=settings.retry_seconds)
    return Elector(client, settings.namespace, settings.name, identity, timing=timing)
