"""The leader.

This says when it works, what it reports, and which caches and changes its reconcilers depend on.
"""

import asyncio
import random
import socket
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Protocol
from uuid import uuid4

from app.base.sample import Part, Sample, counter, gauge
from app.cluster.cluster import Cluster
from app.cluster.resources import MnnvlResources
from app.cluster.rows import CLIQUES, LISTED_QUEUES, UNIT_PODS, WorkloadCaches
from app.cluster.units import UnitOwners
from app.cluster.view import DIALECTS
from app.config.schema import Configuration, LeaderElection
from app.facts.kinds import CLUSTER_TOPOLOGY, KAI_TOPOLOGY
from app.facts.table import BINDINGS, GANGS, KAI_TOPOLOGIES, QUEUE_NAMES, SETS, TOPOLOGIES, Row
from app.kube.api import Client
from app.kube.client import HttpClient
from app.kube.events import Recorder
from app.kube.lease import Elector, LeaseTiming
from app.kube.loop import Loop, Observe, Reconciler
from app.kube.owners import Kinds, Owners
from app.kube.rewrites import TOLERATED, WINDOW_SECONDS, Rewrites
from app.objects.resource import Resource
from app.reconcilers import (
    conditions,
    mnnvl_claims,
    mnnvl_resources,
    podgang,
    queue_names,
    workload,
)
from app.reconcilers.cluster_topology import ClusterTopologyReconciler
from app.reconcilers.kai_topology import KaiTopologyReconciler
from app.reconcilers.writing import Writing
from app.rules.topology.levels import desired_levels
from app.rules.workload.kai_podgroup import Conventions, LabelKeys
from app.stores.stores import Stores, run_from_empty

WORKERS = 16
"""Keys of one reconciler that are worked on at once. A step mostly waits for the API server."""

CLAIM_WORKERS = 4
"""PodCliqueSets whose claims are put back at once, each with several PodCliques at once."""

MANY_RESTORES = 20
"""Restores of the same MNNVL resources within two minutes that are tolerated.

More of them fight another writer.
"""


MANY_REPAIRS = 3
REPAIR_SECONDS = 300.0
"""Claims that are put back into one PodClique in this time.

More of them fight another writer.
"""


class Duty(Protocol):
    """Further work of the leader, which another package brings."""

    async def run(self) -> NoReturn:
        """Work until cancelled."""

    def samples(self) -> Iterator[Sample]:
        """Yield its metrics."""


class Leader(Part):
    """The work of the leader.

    The reconcilers run over the caches of `cluster`, and write through `client` while this process
    leads. If leader election is disabled, it leads from the start. `observe` is called after each
    step.

    Each time that this process becomes the leader, the caches that only the leader needs are filled
    from nothing, the managed topology is settled, and then `loops` are run. All of them end before
    another process can lead. It has no checks, because a replica that doesn't lead is ready for
    verdicts too.
    """

    _working = False

    def __init__(
        self, configuration: Configuration, cluster: Cluster, client: HttpClient, observe: Observe
    ) -> None:
        self.identity = f"{socket.gethostname()}_{uuid4()}"
        """The name of this process among all that were ever started, in the Lease."""
        self._elector = _elector(client, configuration.leader_election, self.identity)
        self.duties: list[Duty] = []
        self.events = Recorder(client, self.identity)
        self._rewrites: dict[str, Rewrites] = {}
        self._own = Stores((CLIQUES, UNIT_PODS, LISTED_QUEUES))
        self._only_here = [self._own]
        self._configuration = configuration
        self._client = client
        self._observe = observe
        self._topology = configuration.cluster_topology
        self._stores = cluster.stores
        self._queues = cluster.hints[QUEUE_NAMES]
        self._facts = cluster.facts
        self._mnnvl = MnnvlResources(client, cluster.facts, cluster.stores)
        self._owners = cluster.owners.written_by(client)
        self._managed = self._managed_topology()
        self._kai = KaiTopologyReconciler(
            self._writing("kai-topology"), self._topology.name, dialect=self._facts.dialect
        )
        self.loops = [*self._all_loops()]
        client.discovery.subscribe(self._served_changed)

    @property
    def leading(self) -> bool:
        return self._working if self._elector is None else self._elector.leading

    @property
    def holder(self) -> str:
        """The identity of the leader when the Lease was last read, or "" if nobody leads."""
        return "" if self._elector is None else self._elector.holder

    async def run(self) -> None:
        """Leads whenever it can, until cancelled. An error that ends the work is raised."""
        if self._elector is None:
            await self._work()
        else:
            await self._elector.lead(self._work)

    async def _work(self) -> None:
        self._working = True
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.events.run(), name="events")
                for stores in self._only_here:
                    tasks.create_task(
                        run_from_empty(stores, self._client, self._client.discovery), name="watches"
                    )
                await self._stores.until_synced()
                await self._managed.settle(self._topology.creation_timeout_seconds, random.random)
                for loop in self.loops:
                    tasks.create_task(loop.run(), name=loop.reconciler.name)
                for duty in self.duties:
                    tasks.create_task(duty.run(), name=type(duty).__name__)
        finally:
            self._working = False

    def notes(self) -> dict[str, str]:
        """Return who leads."""
        return {"leader": "this process" if self.leading else self.holder or "nobody"}

    def samples(self) -> Iterator[Sample]:
        """Yield the metrics of the leader and of its loops."""
        yield gauge("leader", "1 while this process does the reconcilers' work.", self.leading)
        missing = self._claims.missing if self.leading else 0
        text = "PodCliques that ask for MNNVL and have no claim, on the leader."
        yield gauge("mnnvl_claims_missing", text, missing)
        yield counter("events_lost_total", "Events that could not be written.", self.events.lost)
        text = "Statuses that the ClusterTopology's CRD didn't take."
        yield counter("statuses_lost_total", text, self._kai.statuses_lost)

        for loop in self.loops:
            name = loop.reconciler.name
            text = "Keys that wait or are worked on."
            yield gauge("reconcile_queue_depth", text, loop.depth, reconciler=name)
            text = "Keys whose last step failed."
            yield gauge("reconcile_failing", text, loop.failing, reconciler=name)

        text = "Writes held back because something writes back."
        for name, rewrites in self._rewrites.items():
            yield counter("rewrites_total", text, rewrites.fights, reconciler=name)
        for duty in self.duties:
            yield from duty.samples()

    # The reconcilers.

    def _all_loops(self) -> Iterator[Loop]:
        yield self._topology_loop(self._managed)
        yield self._topology_loop(self._kai)
        yield self._podgang_loop()
        yield self._status_loop()
        yield self._coverage_loop()
        yield self._mnnvl_resources_loop()
        yield self._mnnvl_claims_loop()
        yield self._queue_names_loop()
        if self._configuration.workloads.enabled:
            yield self._workload_loop()

    def _managed_topology(self) -> ClusterTopologyReconciler:
        levels = None
        if self._topology.enabled:
            levels = desired_levels(self._configuration.levels)
        return ClusterTopologyReconciler(
            self._writing("clustertopology"),
            self._topology.name,
            levels,
            self._stores[TOPOLOGIES],
            self._facts,
        )

    def _topology_loop(self, reconciler: Reconciler) -> Loop:
        """Return a loop with the managed topology as its only key."""
        loop = self._loop(reconciler, workers=1)
        managed = ("", self._topology.name)
        installed = (CLUSTER_TOPOLOGY, KAI_TOPOLOGY)
        self._client.discovery.subscribe(
            lambda resource, version: loop.add(managed) if resource in installed else None
        )
        facts: tuple[Row[Any], ...] = (TOPOLOGIES, BINDINGS, KAI_TOPOLOGIES)
        for fact in facts:
            self._stores[fact].subscribe(
                lambda key, before, after: loop.add(managed) if key == managed else None
            )

        return loop

    def _podgang_loop(self) -> Loop:
        loop = self._loop(
            podgang.PodGangReconciler(
                self._writing("podgang"),
                self._stores[GANGS],
                self._facts,
                self._owners,
                gives_back=lambda: self._resources_loop.depth > 0,
            )
        )
        podgang.subscribe(loop, self._stores, self._topology.name)
        podgang.subscribe_to_resources(loop, self._stores, self._own[CLIQUES])
        return loop

    def _status_loop(self) -> Loop:
        sets = self._stores[SETS]
        loop = self._loop(conditions.ConstraintStatusReconciler(self._client, sets, self._facts))
        conditions.subscribe_status(loop, self._stores, self._topology.name)
        return loop

    def _coverage_loop(self) -> Loop:
        reconciler = conditions.LevelCoverageReconciler(self._client, self._facts, self.events)
        loop = self._loop(reconciler, workers=1)
        conditions.subscribe_coverage(loop, self._stores)
        return loop

    def _mnnvl_resources_loop(self) -> Loop:
        cliques = self._own[CLIQUES]
        reconciler = mnnvl_resources.MnnvlResourcesReconciler(
            self._writing("mnnvl-resources", MANY_RESTORES),
            cliques,
            self._facts,
            self._stores,
            self._mnnvl,
            self._owners,
            pods=self._own[UNIT_PODS],
            units=UnitOwners(self._client),
            collect_after=self._configuration.mnnvl.collect_after_seconds,
        )
        loop = self._resources_loop = self._loop(reconciler, begin=reconciler.begin)
        mnnvl_resources.subscribe(loop, cliques, self._own[UNIT_PODS], self._stores, self._owners)
        mnnvl_resources.subscribe_to_apis(loop, self._client.discovery)

        return loop

    def _mnnvl_claims_loop(self) -> Loop:
        cliques = self._own[CLIQUES]
        writing = self._writing("mnnvl-claims", MANY_REPAIRS, REPAIR_SECONDS)
        self._claims = mnnvl_claims.MnnvlClaimsReconciler(
            writing, cliques, self._facts, mnnvl_claims.PodsWithoutClaim(writing)
        )
        loop = self._loop(self._claims, workers=CLAIM_WORKERS, begin=self._claims.begin)
        mnnvl_claims.subscribe(loop, cliques, self._stores)
        return loop

    def _queue_names_loop(self) -> Loop:
        listed = self._own[LISTED_QUEUES]
        reconciler = queue_names.QueueNamesReconciler(self._client, self._queues, listed)
        loop = self._loop(reconciler, workers=1)
        queue_names.subscribe(loop, (self._queues, listed), self._client.discovery)
        return loop

    def _workload_loop(self) -> Loop:
        settings = self._configuration.workloads
        client = self._client
        caches = WorkloadCaches(settings.scheduler_name, self._stores[KAI_TOPOLOGIES])
        self._only_here.append(caches.stores)
        keys = LabelKeys(**settings.labels.model_dump())
        loop = self._loop(
            workload.WorkloadReconciler(
                client,
                caches,
                Owners(client, Kinds(client.read).find),
                self.events,
                Conventions(keys, self._topology.name, settings.default_queue),
                self._writing("pod-group-name", 2, 600.0).rewrites,
                self._writing("workload").rewrites,
            )
        )
        workload.subscribe(loop, caches, client.discovery)

        return loop

    def _loop(
        self,
        reconciler: Reconciler,
        workers: int = WORKERS,
        begin: Callable[[], None] = lambda: None,
    ) -> Loop:
        return Loop(reconciler, workers=workers, begin=begin, observe=self._observe)

    def _writing(
        self, name: str, tolerated: int = TOLERATED, window: float = WINDOW_SECONDS
    ) -> Writing:
        self._rewrites[name] = Rewrites(tolerated=tolerated, window=window)
        return Writing(self._client, self.events, self._rewrites[name])

    def _served_changed(self, resource: Resource, version: str | None) -> None:
        """Reconciles everything if the dialect may have changed."""
        if resource in {dialect.sign for dialect in DIALECTS}:
            for loop in self.loops:
                loop.add_all()


def _elector(client: Client, settings: LeaderElection, identity: str) -> Elector | None:
    """Return the elector for `settings`.

    None if leader election is disabled, so that this process always leads.
    """
    if not settings.enabled:
        return None
    timing = LeaseTiming(
        lease=settings.lease_seconds, renew=settings.renew_seconds, retry=settings.retry_seconds
    )
    return Elector(client, settings.namespace, settings.name, identity, timing=timing)
