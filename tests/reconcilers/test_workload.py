"""Workload groups over a cluster in memory, with live caches, in virtual time: what is written, when, how often."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from app.cluster.api import Object
from app.cluster.owners import Owners
from app.cluster.workloads import WorkloadCaches
from app.domain.kinds import EVENT, POD, POD_GROUP, WORKLOAD, Resource
from app.domain.workload import LabelKeys
from app.reconcilers.events import Recorder
from app.reconcilers.loop import Loop
from app.reconcilers.rewrites import Rewrites
from app.reconcilers.workload import WorkloadReconciler, subscribe
from tests.cluster import virtual
from tests.cluster.watched import WatchedMemory

JOB = Resource("batch", "jobs", "Job", True, ("v1",))
SOON = 5.0


def stored(kind: Resource, name: str, uid: str = "", **fields: Any) -> Object:
    metadata = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", **fields.pop("metadata", {})}
    return {"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata, **fields}


def policy(count: int | None) -> Object:
    return {"gang": {"minCount": count}} if count else {"basic": {}}


def workload(name: str, groups: dict[str, int | None], **metadata: Any) -> Object:
    """`groups`: minCount by name, None for the basic policy."""
    listed = [{"name": group, "policy": policy(count)} for group, count in groups.items()]
    return stored(WORKLOAD, name, metadata=metadata, spec={"podGroups": listed})


def pod(name: str, workload: str, group: str, key: str = "", uid: str = "", **metadata: Any) -> Object:
    reference = {"name": workload, "podGroup": group} | ({"podGroupReplicaKey": key} if key else {})
    spec = {"schedulerName": "kai-scheduler", "workloadRef": reference}
    return stored(POD, name, uid, metadata=metadata, spec=spec)


class World:
    """A cluster in memory and the reconciler of a process that may lead, more than once."""

    def __init__(self, *objects: Object) -> None:
        self.client = WatchedMemory(objects)
        self.caches = WorkloadCaches(self.client, self.client.discovery, "kai-scheduler")
        self.events = Recorder(self.client, "test")
        owners = Owners(self.client, self._kind, clock=virtual.now)
        rewrites = Rewrites(tolerated=2, window=600.0, clock=virtual.now)
        self.reconciler = WorkloadReconciler(
            self.client, self.caches, owners, self.events, LabelKeys(), "grove-topology", rewrites
        )
        self.loop = Loop(self.reconciler, workers=16)
        subscribe(self.loop, self.caches)

    @staticmethod
    async def _kind(api_version: str, kind: str) -> Resource | None:
        return JOB if kind == "Job" else None

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """One term of a leader, with time enough for what there is to do at first."""
        work = (self.client.discovery.run(), self.events.run(), self.caches.run(), self.loop.run())
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(one) for one in work]
            await asyncio.sleep(SOON)
            yield
            for task in running:
                task.cancel()

    def told(self) -> dict[str, str | None]:
        """By Pod, the PodGroup it was told."""
        pods = self.client.objects(POD)
        return {one["metadata"]["name"]: one["metadata"].get("annotations", {}).get("pod-group-name") for one in pods}

    def pod_groups(self) -> dict[str, int]:
        return {one["metadata"]["name"]: one["spec"]["minMember"] for one in self.client.objects(POD_GROUP)}

    def happened(self) -> list[tuple[str, str]]:
        return sorted((one["regarding"]["name"], one["reason"]) for one in self.client.objects(EVENT))

    def count(self, verb: str, resource: Resource) -> int:
        return sum((call.verb, call.resource) == (verb, resource) for call in self.client.calls)

    async def replace_pod(self, name: str, again: Object) -> None:
        await self.client.delete(POD, name, "ns")
        await asyncio.sleep(1)
        self.client.load([again])
        await asyncio.sleep(SOON)


def slow_lists(client: WatchedMemory, resource: Resource, seconds: float) -> Callable[..., Any]:
    """The client's `list`, but that of `resource` takes so long."""
    at_once = client.list

    async def listed(wanted: Resource, *arguments: Any, **options: Any) -> Any:
        if wanted == resource:
            await asyncio.sleep(seconds)
        return await at_once(wanted, *arguments, **options)

    return listed


def test_who_leads_again_begins_with_what_is_there_now_and_undoes_nothing() -> None:
    async def story() -> None:
        world = World(workload("w", {"g": 2}), pod("p", "w", "g"))
        async with world.leading():
            assert world.pod_groups() == {"w-g": 2}
        groups = [{"name": "g", "policy": {"gang": {"minCount": 4}}}]
        await world.client.patch(WORKLOAD, "w", {"spec": {"podGroups": groups}}, "ns")
        await world.client.patch(POD_GROUP, "w-g", {"spec": {"minMember": 4}}, "ns")
        before = len(world.client.writes())
        world.client.list = slow_lists(world.client, WORKLOAD, 2.0)  # type: ignore[method-assign]
        async with world.leading():
            assert world.client.writes()[before:] == []

    virtual.run(story())


def test_pods_that_come_back_under_their_name_are_no_fight() -> None:
    async def story() -> None:
        world = World(workload("w", {"g": 2}), pod("p", "w", "g"))
        async with world.leading():
            for number in range(4):
                await world.replace_pod("p", pod("p", "w", "g", uid=f"uid-{number}"))
                assert world.told() == {"p": "w-g"}
            assert world.happened() == []

    virtual.run(story())
