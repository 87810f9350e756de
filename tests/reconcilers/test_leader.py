"""The leader: which loops it has, after which changes they reconcile, and what it reports.

A whole leader runs over a cluster in memory, in virtual time.
"""

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any, cast

import pytest
from jsonpatch import apply_patch

from app.cluster.cluster import Cluster
from app.config.schema import Configuration
from app.facts.grove.podcliqueset import MnnvlAnnotations
from app.facts.kinds import (
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    COMPUTE_DOMAIN,
    KAI_TOPOLOGY,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GANG_MAP,
    POD_GROUP,
    QUEUE,
    QUEUE_NAMES,
    WORKLOAD,
)
from app.kube.api import Object, ObjectRef
from app.kube.client import HttpClient
from app.kube.discovery import Served
from app.objects.resource import LEASE, NODE, POD, Resource
from app.reconcilers.leader import Leader
from app.stores.stores import run_from_empty
from tests import builders
from tests.kube import virtual
from tests.kube.memory.client import EVERYTHING, MemoryClient

NAME = "grove-topology"
LEVEL = {"domain": "rack", "key": "example.com/rack"}
TOPOLOGIES = ("clustertopology", "kai-topology")
LOOPS = {
    *TOPOLOGIES,
    "podgang",
    "podcliqueset-status",
    "level-coverage",
    "mnnvl-resources",
    "mnnvl-claims",
    "queue-names",
    "too-large",
    "workload",
}
RESTLESS = {"mnnvl-claims", "too-large"}
"""The first tries again all the time, because no webhook is called in this cluster. The other one
looks once a minute.
"""

SOON = 60.0
"""Longer than any wait for changes to settle, and shorter than the time to a resync."""


def configuration(*, workloads: bool = True) -> Configuration:
    return Configuration.model_validate(
        {
            "clusterTopology": {"enabled": True, "levels": [LEVEL]},
            "leaderElection": {"enabled": False},
            "workloads": {"enabled": workloads},
        }
    )


def in_ns(obj: Object, uid: str = "u") -> Object:
    return {**obj, "metadata": {**obj["metadata"], "namespace": "ns", "uid": uid}}


def objects() -> list[Object]:
    """Objects that give each loop a key."""
    annotated = {"grove.io/mnnvl-enabled": "true"}
    labels = builders.labels("train", 0, "train-0", grove=True)
    pcs = in_ns(builders.pod_clique_set("train"))
    pcs["metadata"]["annotations"] = annotated
    unclaimed = in_ns(builders.pod_clique("train-0-w", labels), "w")
    unclaimed["metadata"]["annotations"] = {}
    plain = in_ns(builders.pod_clique("train-0-v", labels), "v")
    patch = builders.injection_into(plain, "ns", inherited=MnnvlAnnotations("true")).patch
    claimed: Object = apply_patch(plain, list(patch))
    gang = in_ns(builders.pod_gang("train-0", builders.gang_labels("train"), "train-0-w"), "g")
    workload = {
        "apiVersion": WORKLOAD.api_version(EVERYTHING[WORKLOAD]),
        "kind": "Workload",
        "metadata": {"name": "job", "namespace": "ns", "uid": "j"},
        "spec": {"podGroups": [{"name": "main", "policy": {"gang": {"minCount": 1}}}]},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "job-0", "namespace": "ns", "uid": "p"},
        "spec": {
            "schedulerName": "kai-scheduler",
            "workloadRef": {"name": "job", "podGroup": "main"},
            "containers": [],
        },
    }
    queue = {
        "apiVersion": QUEUE.api_version(),
        "kind": "Queue",
        "metadata": {"name": "team", "uid": "q"},
    }
    node = builders.node("one", **{"example__com_rack": "r1"})
    return [pcs, unclaimed, claimed, gang, workload, pod, queue, node]


class FakeDiscovery:
    """A discovery that tells what a test says, and else never changes."""

    known = True

    def __init__(self) -> None:
        self._subscribers: list[Served] = []

    def subscribe(self, served: Served) -> None:
        self._subscribers.append(served)

    def tell(self, resource: Resource, version: str | None) -> None:
        for served in self._subscribers:
            served(resource, version)

    def trigger(self) -> None:
        pass

    async def until_known(self) -> None:
        pass

    async def changed(self) -> None:
        await asyncio.Event().wait()

    async def redefined(self, resource: Resource) -> None:
        await asyncio.Event().wait()

    async def served_now(self, resources: Collection[Resource]) -> set[Resource]:
        return {resource for resource in resources if self.served_version(resource)}

    def served_version(self, resource: Resource) -> str | None:
        return EVERYTHING.get(resource)


class World:
    """A cluster with a leader, and the steps of its loops since the last look."""

    def __init__(self, settings: Configuration | None = None, *, workloads: bool = True) -> None:
        settings = settings or configuration(workloads=workloads)
        self.client = MemoryClient(objects(), served={**EVERYTHING, QUEUE_NAMES: "v1alpha1"})
        self.discovery = FakeDiscovery()
        self.client.discovery = self.discovery  # type: ignore[attr-defined]
        self.client.read = self._read  # type: ignore[attr-defined]
        self.cluster = Cluster(self.client, settings, cast(Any, self.discovery))
        self._steps: Counter[str] = Counter()
        self.leader = Leader(settings, self.cluster, cast(HttpClient, self.client), self._observe)

    async def _read(self, path: str) -> Object:
        return {"resources": []}

    def _observe(self, name: str, result: str, seconds: float) -> None:
        self._steps[name] += 1

    async def reconciled(self) -> set[str]:
        """The loops that have made a step since the last call, once all of them rest."""
        await asyncio.sleep(SOON)
        seen = set(self._steps)
        self._steps.clear()
        return seen


@contextlib.asynccontextmanager
async def running(*, workloads: bool = True) -> AsyncIterator[World]:
    """A world whose leader has done its first work."""
    world = World(workloads=workloads)
    discovery = cast(Any, world.discovery)
    async with asyncio.TaskGroup() as tasks:
        stores = (world.cluster.stores, world.cluster.hints)
        running = [
            tasks.create_task(run_from_empty(each, world.client, discovery)) for each in stores
        ]
        running.append(tasks.create_task(world.leader.run()))
        await world.reconciled()
        await world.reconciled()
        try:
            yield world
        finally:
            for task in running:
                task.cancel()


def test_every_loop_has_a_key_here() -> None:
    async def first() -> tuple[set[str], set[str]]:
        async with running() as world:
            for loop in world.leader.loops:
                loop.add_all()
            return await world.reconciled(), {loop.reconciler.name for loop in world.leader.loops}

    assert virtual.run(first()) == (LOOPS, LOOPS)


@pytest.mark.parametrize(
    "sign", [CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING, POD_GANG_MAP], ids=str
)
@pytest.mark.parametrize("version", ["v1alpha1", None])
def test_a_change_of_dialect_reconciles_everything(sign: Resource, version: str | None) -> None:
    async def changed() -> set[str]:
        async with running() as world:
            world.discovery.tell(sign, version)
            return await world.reconciled()

    assert virtual.run(changed()) == LOOPS


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        pytest.param(KAI_TOPOLOGY, {*TOPOLOGIES}, id="KAI's Topology"),
        pytest.param(COMPUTE_DOMAIN, {"mnnvl-resources"}, id="ComputeDomains"),
        pytest.param(POD_GROUP, {"workload"}, id="KAI's PodGroups"),
        pytest.param(NODE, set(), id="an API on which no loop depends"),
    ],
)
def test_a_changed_api_reconciles_what_depends_on_it(
    resource: Resource, expected: set[str]
) -> None:
    async def changed() -> set[str]:
        async with running() as world:
            world.discovery.tell(resource, "v1")
            return await world.reconciled()

    # the names of Queues are written as soon as any API is served
    assert virtual.run(changed()) - RESTLESS - {"queue-names"} == expected


Change = Callable[[World], Awaitable[Any]]


def patched(resource: Resource, name: str, namespace: str | None = "ns") -> Change:
    """A change of an object that means nothing to anybody."""

    async def change(world: World) -> None:
        ref = ObjectRef(resource, name, namespace)
        await world.client.patch(ref, {"metadata": {"labels": {"touched": "yes"}}})

    return change


async def levels_by_others(world: World) -> None:
    levels = [{"domain": "zone", "key": "example.com/zone"}]
    ref = ObjectRef(CLUSTER_TOPOLOGY, NAME)
    await world.client.patch(ref, {"spec": {"levels": levels}})


async def kai_topology_deleted(world: World) -> None:
    await world.client.delete(ObjectRef(KAI_TOPOLOGY, NAME))


async def gang_deleted(world: World) -> None:
    await world.client.delete(ObjectRef(POD_GANG, "train-0", "ns"))


async def another_node(world: World) -> None:
    await world.client.create(NODE, builders.node("two"))


async def spec_of_set(world: World) -> None:
    ref = ObjectRef(POD_CLIQUE_SET, "train", "ns")
    await world.client.patch(ref, {"metadata": {"annotations": {"grove.io/mnnvl-scope": "clique"}}})


async def another_queue(world: World) -> None:
    await world.client.create(QUEUE, {"metadata": {"name": "other"}})


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(
            levels_by_others,
            {*TOPOLOGIES, "level-coverage", "podcliqueset-status", "podgang"},
            id="the managed topology",
        ),
        pytest.param(
            kai_topology_deleted, {*TOPOLOGIES, "workload"}, id="the topology of the scheduler"
        ),
        pytest.param(gang_deleted, {"podgang", "mnnvl-resources"}, id="a deleted PodGang"),
        pytest.param(
            spec_of_set,
            {"podcliqueset-status", "podgang", "mnnvl-resources"},
            id="annotations of a PodCliqueSet",
        ),
        pytest.param(another_node, {"level-coverage", *TOPOLOGIES}, id="a new node"),
        pytest.param(another_queue, {"queue-names"}, id="a new Queue"),
        pytest.param(patched(POD, "job-0"), {"workload"}, id="a Pod of a Workload"),
    ],
)
def test_a_change_reconciles_what_depends_on_it(change: Change, expected: set[str]) -> None:
    async def changed() -> set[str]:
        async with running() as world:
            await change(world)
            return await world.reconciled()

    assert virtual.run(changed()) - RESTLESS == expected


def test_without_workloads_no_loop_maps_them() -> None:
    assert {loop.reconciler.name for loop in World(workloads=False).leader.loops} == LOOPS - {
        "workload"
    }


def test_it_reports_whether_it_leads_and_the_queue_of_each_loop() -> None:
    async def both() -> tuple[Any, Any]:
        idle = World()
        before = samples(idle.leader)
        async with running() as world:
            return before, samples(world.leader)

    before, while_leading = virtual.run(both())
    assert (before["leader"], while_leading["leader"]) == (0, 1)
    assert before["mnnvl_claims_missing"] == 0
    depths = {name for name in while_leading if name.startswith("reconcile_queue_depth")}
    assert depths == {f"reconcile_queue_depth {name}" for name in LOOPS}
    rewrites = {name for name in while_leading if name.startswith("rewrites_total")}
    assert len(rewrites) == 8


def samples(leader: Leader) -> dict[str, float]:
    """The metrics of a leader by name, with that of the reconciler."""
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for sample in leader.samples()
    }


def test_notes_say_who_leads() -> None:
    async def notes() -> list[dict[str, str]]:
        idle = World().leader.notes()
        async with running() as world:
            return [idle, world.leader.notes()]

    assert virtual.run(notes()) == [{"leader": "nobody"}, {"leader": "this process"}]


TEXTS = {
    "leader": "1 while this process is the leader.",
    "mnnvl_claims_missing": (
        "PodCliques that request MNNVL but have no claim; 0 unless this is the leader."
    ),
    "events_lost_total": "Events that could not be written.",
    "statuses_lost_total": "Statuses of the ClusterTopology that could not be written.",
    "cache_objects_too_large": "Objects that are too large to be cached in full.",
    "reconcile_queue_depth": "Keys that are queued or being reconciled.",
    "reconcile_failing": "Keys whose last reconciliation failed. A conflict is not a failure.",
    "rewrites_total": "Writes held back because another writer keeps undoing them.",
}


def test_each_metric_of_the_leader_has_its_labels_and_its_value() -> None:
    found = list(World().leader.samples())
    assert {sample.name: sample.text for sample in found} == TEXTS
    labels: dict[str, set[str]] = {}
    for sample in found:
        labels.setdefault(sample.name, set()).update(
            f"{key}={value}" for key, value in sample.labels.items()
        )
    assert {name for name, of_name in labels.items() if not of_name} == {
        "leader",
        "mnnvl_claims_missing",
        "events_lost_total",
        "statuses_lost_total",
    }
    assert labels["cache_objects_too_large"] == {
        f"resource={plural}"
        for plural in (
            "podcliques",
            "pods",
            "podgroups",
            "workloads",
            "priorityclasses",
            "queuenames",
            "clustertopologies",
            "clustertopologybindings",
        )
    }
    assert labels["reconcile_failing"] == {f"reconciler={name}" for name in LOOPS}
    assert {sample.value for sample in found} == {0.0}
    assert {sample.name for sample in found if sample.is_counter} == {
        name for name in TEXTS if name.endswith("_total")
    }


def test_the_lease_has_the_configured_times_and_name() -> None:
    election = {
        "enabled": True,
        "namespace": "grove-system",
        "name": "grove-admission",
        "leaseSeconds": 30,
        "renewSeconds": 20,
        "retrySeconds": 5,
    }
    settings = Configuration.model_validate({"leaderElection": election})
    world = World(settings)
    leader = world.leader

    async def lead() -> Object:
        task = asyncio.create_task(leader.run())
        await asyncio.sleep(1)
        assert (leader.leading, leader.holder) == (True, leader.identity)
        assert leader.notes() == {"leader": "this process"}
        task.cancel()
        return world.client.objects(LEASE)[0]

    lease = virtual.run(lead())
    assert (lease["metadata"]["namespace"], lease["metadata"]["name"]) == (
        "grove-system",
        "grove-admission",
    )
    assert lease["spec"]["leaseDurationSeconds"] == 30
    assert lease["spec"]["holderIdentity"] == leader.identity
    assert leader.identity.startswith(f"{socket.gethostname()}_")
