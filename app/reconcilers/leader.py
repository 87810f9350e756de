"""Builds the leader: its reconcilers, with the caches and the changes that they depend on."""

import functools
import random
import socket
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from app.cluster.cluster import Cluster
from app.cluster.dialects import DIALECTS
from app.cluster.mnnvl import MnnvlResources
from app.cluster.table import BINDINGS, CLIQUES, GANGS, KAI_TOPOLOGIES, SETS, TOPOLOGIES, Fact, Stores
from app.cluster.watched import run_from_empty
from app.cluster.workload_caches import WorkloadCaches
from app.config.schema import Configuration, LeaderElection
from app.kube.api import Client
from app.kube.client import HttpClient
from app.kube.discovery import Discovery
from app.kube.events import Recorder
from app.kube.lease import Elector, LeaseTiming
from app.kube.loop import Loop, Observe, Reconciler
from app.kube.owners import Kinds, Owners
from app.kube.rewrites import TOLERATED, WINDOW_SECONDS, Rewrites
from app.objects.resource import Resource
from app.reconcilers import constraint_status, level_coverage, mnnvl_resources, podgang, workload
from app.reconcilers.cluster_topology import ClusterTopologyReconciler
from app.reconcilers.kai_topology import KaiTopologyReconciler
from app.reconcilers.term import Leader
from app.rules.kinds import CLUSTER_TOPOLOGY, KAI_TOPOLOGY
from app.rules.workload.kai_podgroup import Conventions, LabelKeys

WORKERS = 16
"""Keys of one reconciler that are worked on at once. A step mostly waits for the API server."""

MANY_RESTORES = 20
"""Restores of the same MNNVL resources within two minutes that are tolerated. More of them fight another writer."""


def build_leader(configuration: Configuration, cluster: Cluster, client: HttpClient, observe: Observe) -> Leader:
    """Returns the leader's work: the reconcilers over the caches of `cluster`, which
    write through `client`. `observe` is called after each step of a reconciler."""
    wiring = _Wiring(configuration, cluster, client, observe)
    settings, managed, kai = configuration.cluster_topology, wiring.managed_topology(), wiring.kai_topology()
    loops = [
        wiring.topology_loop(managed),
        wiring.topology_loop(kai),
        wiring.podgang_loop(),
        wiring.status_loop(),
        wiring.coverage_loop(),
        wiring.mnnvl_loop(),
    ]
    if configuration.workloads.enabled:
        loops.append(wiring.workload_loop())
    _reconcile_all_if_the_dialect_changes(loops, client.discovery)

    async def prepare() -> None:
        await cluster.stores.until_synced()
        await managed.settle(settings.creation_timeout_seconds, random.random)

    return Leader(
        elector(client, configuration.leader_election, wiring.identity),
        wiring.recorder,
        prepare=prepare,
        watches=[functools.partial(run_from_empty, stores, client, client.discovery) for stores in wiring.only_here],
        loops=loops,
        rewrites=wiring.rewrites,
        statuses_lost=lambda: kai.statuses_lost,
    )


class _Wiring:
    """Builds the loops of the leader. `identity` is unique among all processes ever started, and begins with the name
    of the Pod. `rewrites` are by the name for metrics, and `only_here` are stores that only the leader needs."""

    def __init__(self, configuration: Configuration, cluster: Cluster, client: HttpClient, observe: Observe) -> None:
        self.identity = f"{socket.gethostname()}_{uuid4()}"
        self.recorder = Recorder(client, self.identity)
        self.rewrites: dict[str, Rewrites] = {}
        self.only_here: list[Stores] = []
        self._configuration, self._client, self._observe = configuration, client, observe
        self._topology, self._stores, self._facts = configuration.cluster_topology, cluster.stores, cluster.facts
        self._mnnvl = MnnvlResources(client, cluster.facts, cluster.stores)

    def managed_topology(self) -> ClusterTopologyReconciler:
        levels = self._configuration.levels if self._topology.enabled else None
        rewrites, name = self._count("clustertopology"), self._topology.name
        topologies = self._stores[TOPOLOGIES]
        return ClusterTopologyReconciler(
            self._client, name, levels, topologies, self.recorder, rewrites, topology=self._facts
        )

    def kai_topology(self) -> KaiTopologyReconciler:
        rewrites, name = self._count("kai-topology"), self._topology.name
        return KaiTopologyReconciler(self._client, name, self.recorder, rewrites, dialect=self._facts.dialect)

    def topology_loop(self, reconciler: Reconciler) -> Loop:
        """A loop with the managed topology as its only key."""
        loop, managed = self._loop(reconciler, workers=1), ("", self._topology.name)
        installed = (CLUSTER_TOPOLOGY, KAI_TOPOLOGY)
        self._client.discovery.subscribe(lambda resource, version: loop.add(managed) if resource in installed else None)
        facts: tuple[Fact[Any], ...] = (TOPOLOGIES, BINDINGS, KAI_TOPOLOGIES)
        for fact in facts:
            self._stores[fact].subscribe(lambda key, before, after: loop.add(managed) if key == managed else None)
        return loop

    def podgang_loop(self) -> Loop:
        gangs, rewrites = self._stores[GANGS], self._count("podgang")
        loop = self._loop(
            podgang.PodGangReconciler(self._client, gangs, self._facts, self._mnnvl, self.recorder, rewrites)
        )
        podgang.subscribe(loop, self._stores, self._topology.name)
        return loop

    def status_loop(self) -> Loop:
        sets = self._stores[SETS]
        loop = self._loop(constraint_status.ConstraintStatusReconciler(self._client, sets, self._facts))
        constraint_status.subscribe(loop, self._stores, self._topology.name)
        return loop

    def coverage_loop(self) -> Loop:
        reconciler = level_coverage.LevelCoverageReconciler(self._client, self._facts, self.recorder)
        loop = self._loop(reconciler, workers=1)
        level_coverage.subscribe(loop, self._stores)
        return loop

    def mnnvl_loop(self) -> Loop:
        only_here = Stores((CLIQUES,))
        self.only_here.append(only_here)
        reconciler = mnnvl_resources.MnnvlResourcesReconciler(
            self._client,
            only_here[CLIQUES],
            self._facts,
            self._stores,
            self._mnnvl,
            self.recorder,
            self._count("mnnvl-resources", MANY_RESTORES),
            collect_after=self._configuration.mnnvl.collect_after_seconds,
        )
        loop = self._loop(reconciler, begin=reconciler.begin)
        mnnvl_resources.subscribe(loop, only_here[CLIQUES], self._stores)
        return loop

    def workload_loop(self) -> Loop:
        settings, client = self._configuration.workloads, self._client
        caches = WorkloadCaches(settings.scheduler_name)
        self.only_here.append(caches.stores)
        keys = LabelKeys(**settings.labels.model_dump())
        loop = self._loop(
            workload.WorkloadReconciler(
                client,
                caches,
                Owners(client, Kinds(client.read).find),
                self.recorder,
                Conventions(keys, self._topology.name, settings.default_queue),
                self._count("pod-group-name", 2, 600.0),
                self._count("workload"),
            )
        )
        workload.subscribe(loop, caches, client.discovery)
        return loop

    def _loop(self, reconciler: Reconciler, workers: int = WORKERS, begin: Callable[[], None] = lambda: None) -> Loop:
        return Loop(reconciler, workers=workers, begin=begin, observe=self._observe)

    def _count(self, name: str, tolerated: int = TOLERATED, window: float = WINDOW_SECONDS) -> Rewrites:
        self.rewrites[name] = Rewrites(tolerated=tolerated, window=window)
        return self.rewrites[name]


def _reconcile_all_if_the_dialect_changes(loops: Sequence[Loop], discovery: Discovery) -> None:
    resources = {dialect.resource for dialect in DIALECTS}

    def changed(resource: Resource, version: str | None) -> None:
        if resource in resources:
            for loop in loops:
                loop.add_all()

    discovery.subscribe(changed)


def elector(client: Client, settings: LeaderElection, identity: str) -> Elector | None:
    """Returns the elector for `settings`, or None if leader election is disabled, so that this process always leads."""
    if not settings.enabled:
        return None
    timing = LeaseTiming(lease=settings.lease_seconds, renew=settings.renew_seconds, retry=settings.retry_seconds)
    return Elector(client, settings.namespace, settings.name, identity, timing=timing)
