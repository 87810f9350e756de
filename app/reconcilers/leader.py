"""Run the reconcilers and other duties of the leader, and report metrics about them.

A table has a row for each loop: the reconciler, and the changes that trigger it.
"""

import asyncio
import random
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Protocol
from uuid import uuid4

from app.base.sample import Part, Sample, counter, gauge
from app.base.turns import Turns
from app.base.value import Value
from app.cluster.cluster import Cluster, too_large
from app.cluster.leader_rows import (
    BINDING_STATUSES,
    CLIQUES,
    LISTED_QUEUES,
    TOPOLOGY_STATUSES,
    UNIT_PODS,
    WorkloadCaches,
)
from app.cluster.pods import ClaimUsers
from app.cluster.resources import MnnvlResources
from app.cluster.units import UnitOwners
from app.cluster.view import DIALECTS
from app.config.schema import Configuration, LeaderElection
from app.facts.kinds import CLUSTER_TOPOLOGY, KAI_TOPOLOGY
from app.facts.rows import BINDINGS, GANGS, KAI_TOPOLOGIES, QUEUE_NAMES, SETS, TOPOLOGIES, Row
from app.kube.api import Client, Key
from app.kube.client import HttpClient
from app.kube.competing_writers import TOLERATED, WINDOW_SECONDS, Rewrites
from app.kube.events import Recorder
from app.kube.lease import Elector, LeaseTiming
from app.kube.loop import Loop, Observe, Reconciler
from app.kube.owners import Kinds, Owners
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
from app.reconcilers.oversized_objects import AnyStore, TooLargeReconciler
from app.reconcilers.writing import Writing
from app.rules.workload.kai_podgroup import Conventions, LabelKeys
from app.stores.stores import Stores, run_from_empty

WORKERS = 16
"""The maximum number of keys that one reconciler reconciles at once.

A step spends most of its time waiting for the API server.
"""

CLAIM_WORKERS = 4
"""The maximum number of PodCliqueSets whose claims are restored at once."""

MANY_RESTORES = 20
"""The maximum number of times that the same MNNVL resources are restored within two minutes.

If they are missing once more, another writer keeps deleting them.
"""


MANY_REPAIRS = 3
"""The maximum number of times that the claim of one PodClique is restored in REPAIR_SECONDS.

If it is missing once more, another writer keeps removing it.
"""

REPAIR_SECONDS = 300.0
"""The length in seconds of the window in which restorations of a PodClique's claim count."""


class Work(Value, kw_only=True):
    """A row of the table of loops."""

    reconciler: Reconciler
    changes: Callable[[Loop], None]
    """Subscribes the loop to the changes of objects that its keys depend on."""
    workers: int = WORKERS
    """The maximum number of keys that are reconciled at once."""
    begin: Callable[[], None] = lambda: None
    """Called at the start of each term as the leader."""


class Duty(Protocol):
    """Work of the leader that another package provides."""

    async def run(self) -> NoReturn:
        """Do the work until cancelled."""

    def samples(self) -> Iterator[Sample]:
        """Yield the samples of the work's metrics."""


class Leader(Part):
    """The part of the server that runs the reconcilers while this process is the leader.

    The reconcilers read the caches of `cluster` and write with `client`. `observe` is called after
    each step. Without leader election, this process always leads.

    When this process becomes the leader, it refills the caches that only the leader needs, and
    reconciles the managed topology. Then it runs `loops` and `duties`. All of them end before
    another process can lead. This part has no readiness checks, because a replica that doesn't lead
    can answer webhooks too.
    """

    _working = False
    """Whether this process is doing the work of the leader now."""

    def __init__(
        self, configuration: Configuration, cluster: Cluster, client: HttpClient, observe: Observe
    ) -> None:
        self.identity = f"{socket.gethostname()}_{uuid4()}"
        """The holder identity of this process in the Lease, different for every process."""
        self._elector = _elector(client, configuration.leader_election, self.identity)
        self.duties: list[Duty] = []
        """Work of the leader that other packages provide. It is added before `run` is called."""
        self.events = Recorder(client, self.identity)
        self._rewrites: dict[str, Rewrites] = {}
        self._own = Stores((CLIQUES, UNIT_PODS, LISTED_QUEUES, TOPOLOGY_STATUSES, BINDING_STATUSES))
        self._only_here = [self._own]
        """All stores that are filled only while this process is the leader."""
        self._configuration = configuration
        self._client = client
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
        claims = self._writing("mnnvl-claims", MANY_REPAIRS, REPAIR_SECONDS)
        self._claims = mnnvl_claims.MnnvlClaimsReconciler(
            claims, self._own[CLIQUES], self._facts, mnnvl_claims.PodsWithoutClaim(claims)
        )
        self.loops: list[Loop] = []
        turns = Turns()
        for work in self._table():
            loop = Loop(
                work.reconciler,
                workers=work.workers,
                begin=work.begin,
                observe=observe,
                turns=turns,
            )
            work.changes(loop)
            self.loops.append(loop)
        client.discovery.subscribe(self._served_changed)

    @property
    def leading(self) -> bool:
        """Whether this process is the leader."""
        return self._working if self._elector is None else self._elector.leading

    @property
    def holder(self) -> str:
        """The identity of the leader in the last known Lease, or "" if there is none."""
        return "" if self._elector is None else self._elector.holder

    async def run(self) -> None:
        """Lead whenever this process has the Lease, until cancelled. Raise errors of the work."""
        if self._elector is None:
            await self._work()
        else:
            await self._elector.lead(self._work)

    async def _work(self) -> None:
        """Do the work of the leader until cancelled.

        If a task fails, cancel the other tasks and raise an exception group.
        """
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
        """Return a readiness note that names the leader."""
        return {"leader": "this process" if self.leading else self.holder or "nobody"}

    def samples(self) -> Iterator[Sample]:
        """Yield the metrics of the leader and of its loops."""
        yield gauge("leader", "1 while this process is the leader.", self.leading)
        missing = self._claims.missing if self.leading else 0
        text = "PodCliques that request MNNVL but have no claim; 0 unless this is the leader."
        yield gauge("mnnvl_claims_missing", text, missing)
        yield counter("events_lost_total", "Events that could not be written.", self.events.lost)
        text = "Statuses of the ClusterTopology that could not be written."
        yield counter("statuses_lost_total", text, self._kai.statuses_lost)

        for resource, number in self._too_large().items():
            yield too_large(resource, number)

        for loop in self.loops:
            name = loop.reconciler.name
            text = "Keys that are queued or being reconciled."
            yield gauge("reconcile_queue_depth", text, loop.depth, reconciler=name)
            text = "Keys whose last reconciliation failed. A conflict is not a failure."
            yield gauge("reconcile_failing", text, loop.failing, reconciler=name)

        text = "Writes held back because another writer keeps undoing them."
        for name, rewrites in self._rewrites.items():
            yield counter("rewrites_total", text, rewrites.fights, reconciler=name)
        for duty in self.duties:
            yield from duty.samples()

    def _too_large(self) -> Counter[str]:
        """Count the objects that are too large for the leader's own caches, by resource.

        Several caches may have the same resource, such as Pods.
        """
        counts: Counter[str] = Counter()
        for stores in self._only_here:
            for row, store in stores:
                counts[row.resource.plural] += len(store.too_large)
        return counts

    def _all_stores(self) -> Iterator[AnyStore]:
        """Yield pairs of a row and its store, for verdicts and for the leader."""
        yield from self._stores
        for stores in self._only_here:
            yield from stores

    # The reconcilers.

    def _table(self) -> list[Work]:
        """Return all loops, in the order in which they are started."""
        stores, name, discovery = self._stores, self._topology.name, self._client.discovery
        cliques, pods = self._own[CLIQUES], self._own[UNIT_PODS]
        listed = self._own[LISTED_QUEUES]
        sets = stores[SETS]
        resources = self._resources_reconciler()

        def gives_back() -> bool:
            """Return whether MNNVL resources may still have to be given to their PodCliqueSets."""
            return any(loop.depth for loop in self.loops if loop.reconciler is resources)

        def gang_changes(loop: Loop) -> None:
            podgang.subscribe(loop, stores, name)
            podgang.subscribe_to_resources(loop, stores, cliques)

        def resource_changes(loop: Loop) -> None:
            mnnvl_resources.subscribe(
                loop=loop, cliques=cliques, pods=pods, stores=stores, owners=self._owners
            )
            mnnvl_resources.subscribe_to_apis(loop, discovery)

        def coverage_changes(loop: Loop) -> None:
            conditions.subscribe_coverage(loop, stores)
            # delayed like changes of nodes, so that many changes cause one step
            for row in (TOPOLOGY_STATUSES, BINDING_STATUSES):
                self._own[row].subscribe(
                    lambda key, before, after: loop.add_after(key, conditions.SETTLE_SECONDS)
                )

        large = TooLargeReconciler(self.events, self._all_stores)
        table = [
            Work(reconciler=self._managed, changes=self._topology_changes),
            Work(reconciler=self._kai, changes=self._topology_changes),
            Work(
                reconciler=podgang.PodGangReconciler(
                    self._writing("podgang"),
                    stores[GANGS],
                    self._facts,
                    self._owners,
                    gives_back=gives_back,
                ),
                changes=gang_changes,
            ),
            Work(
                reconciler=conditions.ConstraintStatusReconciler(self._client, sets, self._facts),
                changes=lambda loop: conditions.subscribe_status(loop, stores, name),
            ),
            Work(
                reconciler=conditions.LevelCoverageReconciler(
                    self._client, self._facts, self.events, self._writing("level-coverage").rewrites
                ),
                changes=coverage_changes,
            ),
            Work(reconciler=resources, changes=resource_changes, begin=resources.begin),
            Work(
                reconciler=self._claims,
                changes=lambda loop: mnnvl_claims.subscribe(loop, cliques, stores),
                workers=CLAIM_WORKERS,
                begin=self._claims.begin,
            ),
            Work(reconciler=large, changes=lambda loop: None, begin=large.begin),
            Work(
                reconciler=queue_names.QueueNamesReconciler(self._client, self._queues, listed),
                changes=lambda loop: queue_names.subscribe(loop, (self._queues, listed), discovery),
            ),
        ]
        if self._configuration.workloads.enabled:
            table.append(self._workloads())
        return table

    def _topology_changes(self, loop: Loop) -> None:
        """Subscribe `loop`, whose only key is the managed topology, to changes of topologies.

        These are changes of the managed topology and its KAI Topology, of the status of any
        ClusterTopology, and of the served versions of ClusterTopology and KAI Topology.
        """
        managed = ("", self._topology.name)

        def installed(resource: Resource, version: str | None) -> None:
            if resource in (CLUSTER_TOPOLOGY, KAI_TOPOLOGY):
                loop.add(managed)

        def changed(key: Key, before: object, after: object) -> None:
            if key == managed:
                loop.add(managed)

        self._client.discovery.subscribe(installed)
        rows: tuple[Row[Any], ...] = (TOPOLOGIES, BINDINGS, KAI_TOPOLOGIES)
        for row in rows:
            self._stores[row].subscribe(changed)
        # every status: a ClusterTopology that was managed under another name is reported too
        self._own[TOPOLOGY_STATUSES].subscribe(lambda key, before, after: loop.add(managed))

    def _managed_topology(self) -> ClusterTopologyReconciler:
        return ClusterTopologyReconciler(
            writing=self._writing("clustertopology"),
            topology_name=self._topology.name,
            configured=self._configuration.levels if self._topology.enabled else None,
            topologies=self._stores[TOPOLOGIES],
            statuses=self._own[TOPOLOGY_STATUSES],
            topology=self._facts,
        )

    def _resources_reconciler(self) -> mnnvl_resources.MnnvlResourcesReconciler:
        return mnnvl_resources.MnnvlResourcesReconciler(
            writing=self._writing("mnnvl-resources", MANY_RESTORES),
            cliques=self._own[CLIQUES],
            facts=self._facts,
            stores=self._stores,
            resources=self._mnnvl,
            owners=self._owners,
            pods=self._own[UNIT_PODS],
            units=UnitOwners(self._client),
            users=ClaimUsers(self._client),
            collect_after=self._configuration.mnnvl.collect_after_seconds,
        )

    def _workloads(self) -> Work:
        """Return the loop that creates KAI PodGroups for Workloads, and create its caches."""
        settings = self._configuration.workloads
        client = self._client
        caches = WorkloadCaches(settings.scheduler_name, self._stores[KAI_TOPOLOGIES])
        self._only_here.append(caches.stores)
        keys = LabelKeys(**settings.labels.model_dump())
        return Work(
            reconciler=workload.WorkloadReconciler(
                client=client,
                caches=caches,
                owners=Owners(client, Kinds(client.read).find),
                events=self.events,
                conventions=Conventions(keys, self._topology.name, settings.default_queue),
                pod_rewrites=self._writing("pod-group-name", 2, 600.0).rewrites,
                group_rewrites=self._writing("workload").rewrites,
            ),
            changes=lambda loop: workload.subscribe(loop, caches, client.discovery),
        )

    def _writing(
        self, name: str, tolerated: int = TOLERATED, window: float = WINDOW_SECONDS
    ) -> Writing:
        """Return the `Writing` of the reconciler `name`, whose skipped writes the metrics count."""
        self._rewrites[name] = Rewrites(tolerated=tolerated, window=window)
        return Writing(self._client, self.events, self._rewrites[name])

    def _served_changed(self, resource: Resource, version: str | None) -> None:
        """Reconcile all keys if the dialect may have changed."""
        if resource in {dialect.sign for dialect in DIALECTS}:
            for loop in self.loops:
                loop.add_all()


def _elector(client: Client, settings: LeaderElection, identity: str) -> Elector | None:
    """Return the elector for `settings`, or None if leader election is disabled."""
    if not settings.enabled:
        return None
    timing = LeaseTiming(
        lease=settings.lease_seconds, renew=settings.renew_seconds, retry=settings.retry_seconds
    )
    return Elector(client, settings.namespace, settings.name, identity, timing=timing)
