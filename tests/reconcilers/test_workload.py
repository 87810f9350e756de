"""Workload groups over a cluster in memory, with live caches, in virtual time: what is written,
when, how often.

Tests `app/reconcilers/workload_groups.py` and `app/reconcilers/workload_writes.py`.
"""

import asyncio
import contextlib
import copy
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.cluster.leader_rows import WorkloadCaches
from app.facts.kinds import K8S_POD_GROUP, KAI_TOPOLOGY, POD_GROUP, PRIORITY_CLASS, WORKLOAD
from app.facts.labels import POD_GROUP_NAME
from app.facts.rows import KAI_TOPOLOGIES
from app.kube.api import Conflict, NotServed, Object, ObjectRef, Rejected
from app.kube.competing_writers import TOLERATED, Rewrites
from app.kube.events import Recorder
from app.kube.loop import Loop
from app.kube.owners import FRESH_SECONDS, Owners
from app.kube.transport import TokenBucket
from app.objects.resource import EVENT, JOB, POD, Resource
from app.reconcilers.workload import (
    EMPTY_SECONDS,
    OWNERS_SECONDS,
    TAKEN_SECONDS,
    UNKNOWN_SECONDS,
    WorkloadReconciler,
    subscribe,
)
from app.rules.workload.kai_podgroup import Conventions
from app.stores.stores import Stores, fill, run_from_empty
from tests.cluster.watched import SlowMemory
from tests.kube import virtual

SOON = 5.0


def stored(
    kind: Resource, name: str, uid: str = "", version: str | None = None, **fields: Any
) -> Object:
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": uid or f"uid-{name}",
        **fields.pop("metadata", {}),
    }
    return {
        "apiVersion": kind.api_version(version),
        "kind": kind.kind,
        "metadata": metadata,
        **fields,
    }


def policy(count: int | None) -> Object:
    return {"gang": {"minCount": count}} if count else {"basic": {}}


def workload(name: str, groups: dict[str, int | None], **metadata: Any) -> Object:
    """`groups`: minCount by name, None for the basic policy."""
    listed = [{"name": group, "policy": policy(count)} for group, count in groups.items()]
    return stored(WORKLOAD, name, version="v1alpha1", metadata=metadata, spec={"podGroups": listed})


def pod(
    name: str, workload: str, group: str, key: str = "", uid: str = "", **metadata: Any
) -> Object:
    reference = {"name": workload, "podGroup": group} | ({"podGroupReplicaKey": key} if key else {})
    spec = {"schedulerName": "kai-scheduler", "workloadRef": reference}
    return stored(POD, name, uid, metadata=metadata, spec=spec)


def bound(pod: Object) -> Object:
    return {**pod, "spec": {**pod["spec"], "nodeName": "node-1"}}


def job(name: str, **metadata: Any) -> Object:
    return stored(JOB, name, metadata=metadata)


def controlled(name: str) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": name,
        "uid": f"uid-{name}",
        "controller": True,
    }


def instance(name: str, workload: str, template: str, priority_class: str) -> Object:
    """A PodGroup of Kubernetes 1.36 with the basic policy."""
    reference = {"workload": {"workloadName": workload, "podGroupTemplateName": template}}
    spec = {
        "podGroupTemplateRef": reference,
        "schedulingPolicy": policy(None),
        "priorityClassName": priority_class,
    }
    return stored(K8S_POD_GROUP, name, version="v1alpha2", spec=spec)


def priority_class(name: str) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": PRIORITY_CLASS.kind,
        "metadata": {"name": name},
    }


def of_1_37(name: str, workload: str, template: str, count: int, **spec: Any) -> Object:
    """A PodGroup of Kubernetes 1.37 with the gang policy."""
    reference = {"workloadName": workload, "templateName": template}
    return stored(
        K8S_POD_GROUP,
        name,
        spec={"workloadRef": reference, "schedulingPolicy": policy(count), **spec},
    )


def pod_of(name: str, instance: str) -> Object:
    """A Pod of Kubernetes 1.36."""
    spec = {"schedulerName": "kai-scheduler", "schedulingGroup": {"podGroupName": instance}}
    return stored(POD, name, spec=spec)


class Cluster(SlowMemory):
    """With the PodGroup CRD of KAI before 0.17, if `elastic` is False, or before 0.18, if `semi`
    is False, with a webhook that refuses changes of specs if `fixed`, and without PodGroups if
    `refusing`. Writes wait for `turns`.
    """

    elastic = True
    semi = True
    fixed = False
    refusing = False
    turns: TokenBucket

    async def create(
        self, resource: Resource, obj: Object, *arguments: Any, **options: Any
    ) -> Object:
        if resource == POD_GROUP and self.refusing:
            raise Rejected("a webhook says no", code=403)
        self._check(resource, obj)
        await self.turns.take()
        return await super().create(resource, obj, *arguments, **options)

    async def patch(self, ref: ObjectRef, patch: Any, **options: Any) -> Object:
        self._check(ref.resource, patch)
        await self.turns.take()
        return await super().patch(ref, patch, **options)

    def _check(self, resource: Resource, written: Object) -> None:
        if (
            resource == POD_GROUP
            and not self.elastic
            and written.get("spec", {}).get("minMember") == 0
        ):
            raise Rejected(
                "spec.minMember: should be greater than or equal to 1", code=422, reason="Invalid"
            )
        if resource == POD_GROUP and self.fixed and "spec" in written:
            raise Rejected("spec.minMember: must not be raised", code=422, reason="Invalid")
        preemptibility = written.get("spec", {}).get("preemptibility")
        if resource == POD_GROUP and not self.semi and preemptibility == "semi-preemptible":
            raise Rejected("spec.preemptibility: Unsupported value", code=422, reason="Invalid")


class World:
    """A cluster in memory and the reconciler of a process that may lead, more than once."""

    def __init__(self, *objects: Object) -> None:
        self.client = Cluster(WORKLOAD)
        self.client.turns = TokenBucket(math.inf, 1)
        self.client.served[JOB] = "v1"
        self.client.load([obj for obj in objects if obj["kind"] != KAI_TOPOLOGY.kind])
        self.topologies = Stores((KAI_TOPOLOGIES,))[KAI_TOPOLOGIES]
        fill(self.topologies, [obj for obj in objects if obj["kind"] == KAI_TOPOLOGY.kind])
        self.caches = WorkloadCaches("kai-scheduler", self.topologies)
        self.events = Recorder(self.client, "test")
        owners = Owners(self.client, self._kind, clock=virtual.now)
        rewrites = (
            Rewrites(tolerated=2, window=600.0, clock=virtual.now),
            Rewrites(clock=virtual.now),
        )
        self.reconciler = WorkloadReconciler(
            self.client,
            self.caches,
            owners,
            self.events,
            Conventions(),
            *rewrites,
            clock=virtual.now,
        )
        self.loop = Loop(self.reconciler, workers=16)
        subscribe(self.loop, self.caches, self.client.discovery)

    @staticmethod
    async def _kind(api_version: str, kind: str) -> Resource | None:
        return JOB if kind == "Job" else None

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """One term of a leader, with time enough for what there is to do at first."""
        discovery = self.client.discovery
        watches = run_from_empty(self.caches.stores, self.client, discovery)
        work = (discovery.run(), self.events.run(), watches, self.loop.run())
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(coroutine) for coroutine in work]
            await asyncio.sleep(SOON)
            yield
            for task in running:
                task.cancel()

    def told(self) -> dict[str, str | None]:
        """By Pod, the PodGroup it was told."""
        pods = self.client.objects(POD)
        return {
            obj["metadata"]["name"]: obj["metadata"].get("annotations", {}).get("pod-group-name")
            for obj in pods
        }

    def marked(self) -> dict[str, str | None]:
        """By Pod, whether KAI's own grouper is to leave it alone."""
        pods = self.client.objects(POD)
        key = "kai.scheduler/skip-podgrouper"
        return {
            pod["metadata"]["name"]: pod["metadata"].get("annotations", {}).get(key) for pod in pods
        }

    def specs(self, field: str) -> list[Any]:
        return [stored["spec"].get(field) for stored in self.client.objects(POD_GROUP)]

    def pod_groups(self) -> dict[str, int]:
        return {
            group["metadata"]["name"]: group["spec"]["minMember"]
            for group in self.client.objects(POD_GROUP)
        }

    def queues(self) -> list[str]:
        return [group["spec"]["queue"] for group in self.client.objects(POD_GROUP)]

    def owners(self) -> list[list[str]]:
        groups = self.client.objects(POD_GROUP)
        return [
            [owner["name"] for owner in group["metadata"]["ownerReferences"]] for group in groups
        ]

    def happened(self) -> list[tuple[str, str]]:
        return sorted(
            (event["regarding"]["name"], event["reason"]) for event in self.client.objects(EVENT)
        )

    def count(self, verb: str, resource: Resource) -> int:
        return sum((call.verb, call.resource) == (verb, resource) for call in self.client.calls)

    async def replace_pod(self, name: str, again: Object) -> None:
        await self.client.delete(ObjectRef(POD, name, "ns"))
        await asyncio.sleep(1)
        self.client.load([again])
        await asyncio.sleep(SOON)


def test_who_leads_again_begins_with_what_is_there_now_and_undoes_nothing() -> None:
    async def story() -> None:
        world = World(workload("w", {"g": 2}), pod("p", "w", "g"))
        async with world.leading():
            assert world.pod_groups() == {"w-g": 2}
        groups = [{"name": "g", "policy": {"gang": {"minCount": 4}}}]
        await world.client.patch(ObjectRef(WORKLOAD, "w", "ns"), {"spec": {"podGroups": groups}})
        await world.client.patch(ObjectRef(POD_GROUP, "w-g", "ns"), {"spec": {"minMember": 4}})
        before = len(world.client.writes())
        world.client.answering.clear()
        async with world.leading():
            world.client.answering.set()
            await asyncio.sleep(SOON)
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


def test_replicas_of_a_basic_group_share_one_podgroup_however_their_pods_differ() -> None:
    async def story() -> None:
        pods = [
            pod(f"p{n}", "w", "g", str(n), labels={"kai.scheduler/queue": f"q{n}"})
            for n in range(40)
        ]
        world = World(workload("w", {"g": None}), *pods)
        async with world.leading():
            assert world.told() == {f"p{n}": "w-g" for n in range(40)}
            assert (world.pod_groups(), world.queues()) == ({"w-g": 1}, ["q0"])
            counts = (
                world.count("create", POD_GROUP),
                world.count("patch", POD_GROUP),
                world.count("patch", POD),
            )
            assert counts == (1, 0, 40)

    virtual.run(story())


def test_a_workload_that_comes_late_settles_replicas_that_were_told_apart_while_it_was_missing() -> (
    None
):
    async def story() -> None:
        world = World(pod("p0", "w", "g", "0"), pod("p1", "w", "g", "1"))
        async with world.leading():
            assert world.happened() == [("p0", "WorkloadNotFound"), ("p1", "WorkloadNotFound")]
            world.client.load([workload("w", {"g": None})])
            await asyncio.sleep(SOON)
            assert (world.told(), world.pod_groups()) == ({"p0": "w-g", "p1": "w-g"}, {"w-g": 1})

    virtual.run(story())


def test_kai_that_is_installed_later_gets_its_podgroups_then() -> None:
    async def story() -> None:
        world = World(workload("w", {"g": 2}), pod("p", "w", "g"))
        version = world.client.served.pop(POD_GROUP)
        async with world.leading():
            assert (world.told(), world.happened(), world.client.writes()) == ({"p": None}, [], [])
            world.client.served[POD_GROUP] = version
            await world.client.discovery.refresh()
            await asyncio.sleep(SOON)
            assert (world.told(), world.pod_groups()) == ({"p": "w-g"}, {"w-g": 2})

    virtual.run(story())


def test_a_name_that_becomes_free_is_taken_soon() -> None:
    async def story() -> None:
        world = World(
            workload("w", {"g": 2}),
            pod("p", "w", "g"),
            stored(POD_GROUP, "w-g", spec={"minMember": 9}),
        )
        async with world.leading():
            assert (world.pod_groups(), world.happened()) == (
                {"w-g": 9},
                [("p", "PodGroupNameTaken")],
            )
            await world.client.delete(ObjectRef(POD_GROUP, "w-g", "ns"))
            await asyncio.sleep(TAKEN_SECONDS + SOON)
            assert (world.told(), world.pod_groups()) == ({"p": "w-g"}, {"w-g": 2})

    virtual.run(story())


def test_a_podgroup_that_was_made_anew_by_somebody_else_is_not_patched() -> None:
    """Our cache shows our own for a moment longer."""

    async def story() -> None:
        world = World(workload("w", {"g": 2}), pod("p", "w", "g"))
        async with world.leading():
            ours = world.caches.pod_groups.get("ns", "w-g")
            assert ours is not None
            before = {**ours.view(), "metadata": {**ours.view()["metadata"], "uid": "of before"}}
            world.caches.pod_groups.note(
                {**before, "metadata": {**before["metadata"], "resourceVersion": "999"}}
            )
            groups = [{"name": "g", "policy": {"gang": {"minCount": 4}}}]
            await world.client.patch(
                ObjectRef(WORKLOAD, "w", "ns"), {"spec": {"podGroups": groups}}
            )
            await asyncio.sleep(SOON)
            assert world.pod_groups() == {"w-g": 2}

    virtual.run(story())


async def test_a_podgroup_that_changed_behind_the_cache_is_not_patched() -> None:
    """The minimum of the Workload was changed while an administrator replaced it by minSubGroup.

    KAI allows only one of the two.
    """
    world = World(workload("w", {"g": 2}), pod("p", "w", "g"))
    for fact, store in world.caches.stores:
        fill(store, world.client.objects(fact.resource) if fact.resource in (POD, WORKLOAD) else ())
    key = ("ns", "w/w/g/")
    await world.reconciler.reconcile(key)
    await world.client.patch(
        ObjectRef(POD_GROUP, "w-g", "ns"), {"spec": {"minMember": None, "minSubGroup": 1}}
    )
    fill(world.caches.workloads, [workload("w", {"g": 3})])
    with pytest.raises(Conflict):
        await world.reconciler.reconcile(key)
    assert [stored["spec"].get("minMember") for stored in world.client.objects(POD_GROUP)] == [None]


def test_every_pod_that_waits_hears_of_it_up_to_ten_of_a_group_and_each_once() -> None:
    async def story() -> None:
        world = World(pod("p00", "w", "g"))
        async with world.leading():
            for number in range(1, 12):
                world.client.load([pod(f"p{number:02}", "w", "g")])
                await asyncio.sleep(SOON)
            assert world.happened() == [
                (f"p{number:02}", "WorkloadNotFound") for number in range(10)
            ]
            assert world.count("patch", EVENT) == 0

    virtual.run(story())


def test_a_workload_that_goes_takes_nothing_from_pods_that_have_their_podgroup() -> None:
    async def story() -> None:
        world = World(
            job("a"), workload("w", {"g": 2}), pod("p", "w", "g", ownerReferences=[controlled("a")])
        )
        async with world.leading():
            await world.client.delete(ObjectRef(WORKLOAD, "w", "ns"))
            await asyncio.sleep(SOON)
            assert (world.pod_groups(), world.happened()) == ({"w-g": 2}, [])
            world.client.load([pod("q", "w", "g", ownerReferences=[controlled("a")])])
            await asyncio.sleep(SOON)
            assert (world.told(), world.happened()) == (
                {"p": "w-g", "q": None},
                [("q", "WorkloadNotFound")],
            )

    virtual.run(story())


def test_a_podgroup_of_pods_of_several_owners_outlives_the_first_of_them() -> None:
    async def story() -> None:
        first = pod("p", "w", "g", ownerReferences=[controlled("a")])
        world = World(job("a"), job("b"), workload("w", {"g": None}), first)
        async with world.leading():
            assert world.owners() == [["a"]]
            world.client.load([pod("q", "w", "g", ownerReferences=[controlled("b")])])
            await asyncio.sleep(SOON)
            assert (world.owners(), world.told()) == ([[]], {"p": "w-g", "q": "w-g"})
            await world.client.delete(ObjectRef(POD, "p", "ns"))
            await asyncio.sleep(SOON)
            assert (world.owners(), world.pod_groups()) == ([[]], {"w-g": 1})

    virtual.run(story())


def test_pods_that_come_at_once_from_several_owners_have_a_podgroup_without_an_owner() -> None:
    async def story() -> None:
        pods = [
            pod(f"p-{name}", "w", "g", ownerReferences=[controlled(name)]) for name in ("a", "b")
        ]
        world = World(job("a"), job("b"), workload("w", {"g": 2}), *pods)
        async with world.leading():
            assert world.owners() == [[]]

    virtual.run(story())


def test_a_label_that_the_workload_lost_goes_and_those_of_others_stay() -> None:
    async def story() -> None:
        world = World(workload("w", {"g": 2}, labels={"team": "a"}), pod("p", "w", "g"))
        async with world.leading():
            await world.client.patch(
                ObjectRef(POD_GROUP, "w-g", "ns"), {"metadata": {"labels": {"theirs": "1"}}}
            )
            await world.client.patch(ObjectRef(WORKLOAD, "w", "ns"), {"metadata": {"labels": None}})
            await asyncio.sleep(SOON)
            (group,) = world.client.objects(POD_GROUP)
            assert group["metadata"]["labels"] == {
                "theirs": "1",
                "app.kubernetes.io/managed-by": "grove-admission",
            }

    virtual.run(story())


def test_a_podgroup_that_somebody_keeps_changing_is_said_and_not_fought() -> None:
    async def story() -> None:
        world = World(workload("w", {"g": 2}), pod("p", "w", "g"))
        async with world.leading():
            for _ in range(100):
                await world.client.patch(
                    ObjectRef(POD_GROUP, "w-g", "ns"), {"spec": {"minMember": 7}}
                )
                await asyncio.sleep(0.5)
            assert world.count("patch", POD_GROUP) - 100 == TOLERATED
            assert world.happened() == [("w-g", "PodGroupContested")]
            assert world.count("patch", EVENT) == 0

    virtual.run(story())


def test_what_is_wanted_may_change_as_often_as_it_likes() -> None:
    async def story() -> None:
        world = World(workload("w", {"g": 2}), pod("p", "w", "g"))
        async with world.leading():
            for number in range(20):
                labels = {"team": f"t{number}"}
                await world.client.patch(
                    ObjectRef(WORKLOAD, "w", "ns"), {"metadata": {"labels": labels}}
                )
                await asyncio.sleep(0.5)
            (group,) = world.client.objects(POD_GROUP)
            assert (group["metadata"]["labels"]["team"], world.happened()) == ("t19", [])

    virtual.run(story())


@pytest.mark.parametrize("is_large", [False, True], ids=["many groups", "large groups"])
def test_another_tenant_does_not_wait_for_what_one_has_changed(is_large: bool) -> None:
    """At 50 calls per second, 1,500 groups whose Workload gets another label take 30 s, and the
    Pods of 16 groups that lose their annotations take as long.
    """

    async def story() -> None:
        pods = [pod(f"p{n}", "w", "g", str(n % 16 if is_large else n)) for n in range(1500)]
        world = World(workload("w", {"g": 1}), *pods)
        async with world.leading():
            label = {"metadata": {"labels": {"team": "t"}}}
            await world.client.patch(ObjectRef(WORKLOAD, "w", "ns"), label)
            if is_large:
                lost = {"metadata": {"annotations": {POD_GROUP_NAME: None}}}
                refs = (ObjectRef(POD, each["metadata"]["name"], "ns") for each in pods)
                await asyncio.gather(*(world.client.patch(ref, lost) for ref in refs))
            world.client.turns = TokenBucket(50.0, 1)
            await asyncio.sleep(0.5)
            others = copy.deepcopy([workload("other", {"g": 1}), pod("quick", "other", "g")])
            for obj in others:
                obj["metadata"]["namespace"] = "elsewhere"
            world.client.load(others)
            await asyncio.sleep(3)
            assert world.told()["quick"] == "other-g"

    virtual.run(story())


def test_a_look_at_a_settled_group_reads_one_owner_at_most_however_many_there_are() -> None:
    async def story() -> None:
        pods = [
            bound(pod(f"p{n:02}", "w", "g", ownerReferences=[controlled(f"job-{n:02}")]))
            for n in range(50)
        ]
        world = World(*(job(f"job-{n:02}") for n in range(50)), workload("w", {"g": None}), *pods)
        async with world.leading():
            await asyncio.sleep(FRESH_SECONDS)
            before = len(world.client.calls)
            assert await world.reconciler.reconcile(("ns", "b/w/g")) is None
            assert [(call.verb, call.name) for call in world.client.calls[before:]] == [
                ("get", "job-00")
            ]

    virtual.run(story())


def test_podgroups_of_1_36_with_one_basic_template_share_one_that_the_first_of_them_defines() -> (
    None
):
    async def story() -> None:
        world = World(
            workload("w", {"g": None}), *(priority_class(f"class-{number}") for number in range(3))
        )
        async with world.leading():
            for number in (2, 0, 1):
                world.client.load([instance(f"i{number}", "w", "g", f"class-{number}")])
                world.client.load([pod_of(f"p{number}", f"i{number}")])
                await asyncio.sleep(SOON)
            assert world.told() == {"p0": "w-g", "p1": "w-g", "p2": "w-g"}
            assert [
                group["spec"]["priorityClassName"] for group in world.client.objects(POD_GROUP)
            ] == ["class-0"]

    virtual.run(story())


def test_a_pod_that_waits_is_marked_if_the_webhook_was_not_called() -> None:
    async def story() -> None:
        world = World(pod("p", "w", "g"))
        async with world.leading():
            assert (world.marked(), world.told()) == ({"p": "true"}, {"p": None})
            assert world.count("patch", POD) == 1
            world.client.load([workload("w", {"g": 2})])
            await asyncio.sleep(SOON)
            assert (world.marked(), world.told()) == ({"p": "true"}, {"p": "w-g"})
            assert world.happened() == [("p", "WorkloadNotFound")]

    virtual.run(story())


def test_a_pod_that_was_marked_when_it_was_created_is_told_its_podgroup_and_nothing_else() -> None:
    async def story() -> None:
        marked = {"kai.scheduler/skip-podgrouper": "true"}
        world = World(pod("p", "w", "g", annotations=marked))
        async with world.leading():
            assert world.count("patch", POD) == 0
            world.client.load([workload("w", {"g": 2})])
            await asyncio.sleep(SOON)
            assert (world.told(), world.count("patch", POD)) == ({"p": "w-g"}, 1)

    virtual.run(story())


@pytest.mark.statement("W.45")
def test_a_pod_is_marked_whatever_keeps_its_podgroup_from_being_made() -> None:
    async def story() -> None:
        taken = stored(POD_GROUP, "v-g", spec={"minMember": 9})
        world = World(
            workload("w", {"g": 2}),
            workload("v", {"g": 2}),
            taken,
            pod("p", "w", "g"),
            pod("q", "v", "g"),
        )
        world.client.refusing = True
        async with world.leading():
            assert (world.marked(), world.told()) == (
                {"p": "true", "q": "true"},
                {"p": None, "q": None},
            )
            assert world.happened() == [("p", "PodGroupNotWritten"), ("q", "PodGroupNotWritten")]
            (note, _) = {event["note"] for event in world.client.objects(EVENT)}
            assert note.endswith("can't be written: a webhook says no")
            world.client.refusing = False
            await asyncio.sleep(60)
            assert world.told() == {"p": "w-g", "q": None}

    virtual.run(story())


@pytest.mark.statement("W.29")
def test_a_group_that_the_workload_does_not_have_makes_the_pod_wait() -> None:
    async def story() -> None:
        world = World(workload("w", {"other": 2}), pod("p", "w", "missing"))
        async with world.leading():
            assert (world.told(), world.pod_groups(), world.marked()) == (
                {"p": None},
                {},
                {"p": "true"},
            )
            assert world.happened() == [("p", "WorkloadNotFound")]
            (event,) = world.client.objects(EVENT)
            # podGroups and workloadRef are immutable, so nobody can add the group
            assert event["note"] == (
                'Workload "w" has no group "missing" (its groups: other), so the Pod stays pending.'
                " Groups are immutable: recreate the Workload with this group, or the Pod with one"
                " of the Workload's groups in spec.workloadRef.podGroup"
            )

            groups = workload("w", {"other": 2, "missing": 1})["spec"]
            await world.client.patch(ObjectRef(WORKLOAD, "w", "ns"), {"spec": groups})
            await asyncio.sleep(1)
            assert world.told() == {"p": "w-missing"}

    virtual.run(story())


OPT_OUT = {"kai.scheduler/ignore-workload-api": "true"}
MARK = {"kai.scheduler/skip-podgrouper": "true"}
OPT_OUT_PATCH = {"metadata": {"annotations": OPT_OUT}}
NOTE_OF_JOB = (
    'Job a has the annotation kai.scheduler/ignore-workload-api: "true", so KAI groups the Pod by'
    " its top owner instead of its Workload"
)


def of_job(name: str, workload: str = "w", **annotations: str) -> Object:
    return pod(name, workload, "g", ownerReferences=[controlled("a")], annotations=annotations)


@pytest.mark.statement("W.33")
def test_a_pod_whose_owner_opted_out_is_left_to_kai_although_it_was_marked_when_it_was_created() -> (
    None
):
    async def story() -> None:
        foreign = stored(POD_GROUP, "theirs", metadata={"labels": {}}, spec={"minMember": 1})
        world = World(
            job("a", annotations=OPT_OUT),
            workload("w", {"g": 2}),
            foreign,
            of_job("in-a-group-of-others", **MARK, **{"pod-group-name": "theirs"}),
            of_job("in-a-group-that-is-gone", **MARK, **{"pod-group-name": "gone"}),
            of_job("marked", **MARK),
            of_job("waiting", "missing", **MARK),
        )
        async with world.leading():
            assert world.marked() == {
                "in-a-group-of-others": "true",
                "in-a-group-that-is-gone": None,
                "marked": None,
                "waiting": None,
            }
            assert world.told() == {
                "in-a-group-of-others": "theirs",
                "in-a-group-that-is-gone": None,
                "marked": None,
                "waiting": None,
            }
            assert world.pod_groups() == {"theirs": 1}
            assert world.happened() == [
                ("in-a-group-that-is-gone", "WorkloadIgnored"),
                ("marked", "WorkloadIgnored"),
                ("waiting", "WorkloadIgnored"),
            ]
            assert {event["note"] for event in world.client.objects(EVENT)} == {NOTE_OF_JOB}

    virtual.run(story())


@pytest.mark.parametrize("group", ["w", "missing"])
@pytest.mark.statement("W.31")
def test_a_pending_pod_that_opts_out_is_given_back_to_kai(group: str) -> None:
    async def story() -> None:
        world = World(workload("w", {"g": 1}), pod("p", group, "g"))
        async with world.leading():
            assert world.marked() == {"p": "true"}
            await world.client.patch(ObjectRef(POD, "p", "ns"), OPT_OUT_PATCH)
            await asyncio.sleep(SOON)
            assert (world.marked(), world.told()) == ({"p": None}, {"p": None})
            assert world.pod_groups() == {}
            assert ("p", "WorkloadIgnored") in world.happened()

    virtual.run(story())


@pytest.mark.parametrize("annotations", [{}, {"pod-group-name": "w-g"}])
@pytest.mark.statement("W.32")
def test_a_new_pod_that_opts_out_and_has_the_mark_of_the_pod_it_was_copied_from_loses_it(
    annotations: dict[str, str],
) -> None:
    async def story() -> None:
        copied = {**MARK, **OPT_OUT, **annotations}
        world = World(
            workload("w", {"g": 1}), pod("other", "w", "g"), pod("p", "w", "g", annotations=copied)
        )
        async with world.leading():
            assert world.marked() == {"other": "true", "p": None}
            assert world.told() == {"other": "w-g", "p": None}
            assert world.pod_groups() == {"w-g": 1}
            assert world.happened() == [("p", "WorkloadIgnored")]

    virtual.run(story())


@pytest.mark.statement("W.31")
def test_a_bound_pod_that_opts_out_keeps_its_podgroup() -> None:
    async def story() -> None:
        world = World(workload("w", {"g": 1}), bound(pod("p", "w", "g")))
        async with world.leading():
            await world.client.patch(ObjectRef(POD, "p", "ns"), OPT_OUT_PATCH)
            await asyncio.sleep(SOON + EMPTY_SECONDS)
            assert (world.marked(), world.told()) == ({"p": "true"}, {"p": "w-g"})
            assert (world.pod_groups(), world.happened()) == ({"w-g": 1}, [])

    virtual.run(story())


@pytest.mark.statement("W.34")
def test_a_pod_that_is_created_after_its_top_owner_opted_out_is_never_grouped() -> None:
    async def story() -> None:
        world = World(job("a"), workload("w", {"g": 1}), workload("v", {"g": 1}), of_job("first"))
        async with world.leading():
            assert world.told() == {"first": "w-g"}
            await world.client.patch(ObjectRef(JOB, "a", "ns"), OPT_OUT_PATCH)
            world.client.load([of_job("second", "v", **MARK)])
            await asyncio.sleep(SOON)
            assert (world.marked()["second"], world.told()["second"]) == (None, None)
            assert "v-g" not in world.pod_groups()
            await asyncio.sleep(2 * OWNERS_SECONDS)
            assert (world.told()["first"], world.pod_groups()) == (None, {})

    virtual.run(story())


@pytest.mark.statement("W.35")
def test_pending_pods_are_released_if_their_top_owner_opts_out_and_grouped_if_it_opts_in() -> None:
    async def story() -> None:
        world = World(
            job("a"), workload("w", {"g": 2}), of_job("pending"), bound(of_job("running"))
        )
        async with world.leading():
            assert world.told() == {"pending": "w-g", "running": "w-g"}

            await world.client.patch(ObjectRef(JOB, "a", "ns"), OPT_OUT_PATCH)
            await asyncio.sleep(2 * OWNERS_SECONDS)
            assert world.told() == {"pending": None, "running": "w-g"}
            assert world.marked() == {"pending": None, "running": "true"}
            assert (world.pod_groups(), world.happened()) == (
                {"w-g": 2},
                [("pending", "WorkloadIgnored")],
            )
            await world.client.delete(ObjectRef(POD_GROUP, "w-g", "ns"))
            await asyncio.sleep(SOON)
            assert world.pod_groups() == {"w-g": 2}

            opt_in = {"metadata": {"annotations": {"kai.scheduler/ignore-workload-api": None}}}
            await world.client.patch(ObjectRef(JOB, "a", "ns"), opt_in)
            await asyncio.sleep(2 * OWNERS_SECONDS)
            assert world.told() == {"pending": "w-g", "running": "w-g"}

    virtual.run(story())


def test_top_owners_of_bound_pods_are_not_read_again() -> None:
    async def story() -> None:
        world = World(job("a"), workload("w", {"g": 1}), bound(of_job("running")))
        async with world.leading():
            reads = world.count("get", JOB)
            await asyncio.sleep(10 * OWNERS_SECONDS)
            assert world.count("get", JOB) == reads

    virtual.run(story())


def test_a_mark_that_somebody_keeps_removing_is_reported_and_not_fought() -> None:
    async def story() -> None:
        world = World(pod("p", "w", "g"))
        async with world.leading():
            for _ in range(10):
                removed = {"metadata": {"annotations": {"kai.scheduler/skip-podgrouper": None}}}
                await world.client.patch(ObjectRef(POD, "p", "ns"), removed)
                await asyncio.sleep(SOON)
            assert world.count("patch", POD) - 10 == 2
            assert world.happened() == [("p", "PodGroupNameContested"), ("p", "WorkloadNotFound")]

    virtual.run(story())


def test_a_mark_that_is_removed_once_more_is_reported_once_more() -> None:
    async def story() -> None:
        world = World(pod("p", "w", "g"))
        async with world.leading():
            for _ in range(2):
                for _ in range(10):
                    removed = {"metadata": {"annotations": {"kai.scheduler/skip-podgrouper": None}}}
                    await world.client.patch(ObjectRef(POD, "p", "ns"), removed)
                    await asyncio.sleep(SOON)
                await asyncio.sleep(1000)
                assert world.marked() == {"p": "true"}
            reports = [
                event["series"]["count"]
                for event in world.client.objects(EVENT)
                if event["reason"] == "PodGroupNameContested"
            ]
            assert reports == [2]

    virtual.run(story())


def test_the_queue_is_written_once_and_a_label_that_differs_is_reported() -> None:
    async def story() -> None:
        world = World(
            workload("w", {"g": 2}, labels={"kai.scheduler/queue": "a"}), pod("p", "w", "g")
        )
        async with world.leading():
            assert (world.queues(), world.happened()) == (["a"], [])
            await world.client.patch(
                ObjectRef(WORKLOAD, "w", "ns"),
                {"metadata": {"labels": {"kai.scheduler/queue": "b"}}},
            )
            await asyncio.sleep(SOON)
            assert (world.queues(), world.happened()) == (["a"], [("w-g", "QueueDiffers")])
            await world.client.patch(ObjectRef(POD_GROUP, "w-g", "ns"), {"spec": {"queue": "b"}})
            await asyncio.sleep(SOON)
            await world.client.patch(
                ObjectRef(POD_GROUP, "w-g", "ns"), {"spec": {"queue": "administrator"}}
            )
            await asyncio.sleep(SOON)
            assert world.queues() == ["administrator"]
        async with world.leading():
            assert world.queues() == ["administrator"]

    virtual.run(story())


def test_the_podgroup_follows_the_priority_classes_that_exist() -> None:
    async def story() -> None:
        world = World(
            workload("w", {"g": 2}, labels={"priorityClassName": "high"}), pod("p", "w", "g")
        )
        async with world.leading():
            assert world.specs("priorityClassName") == [None]
            world.client.load([priority_class("train")])
            await asyncio.sleep(SOON)
            assert world.specs("priorityClassName") == ["train"]
            world.client.load([priority_class("high")])
            await asyncio.sleep(SOON)
            assert world.specs("priorityClassName") == ["high"]
            await world.client.delete(ObjectRef(PRIORITY_CLASS, "high"))
            await asyncio.sleep(SOON)
            assert world.specs("priorityClassName") == ["train"]

    virtual.run(story())


@pytest.mark.parametrize("owners", [[], ["a"]], ids=["bare Pods", "Pods of a Job"])
def test_the_podgroup_goes_with_the_last_pod_and_not_before(owners: list[str]) -> None:
    async def story() -> None:
        references = [controlled(name) for name in owners]
        pods = [pod(name, "w", "g", ownerReferences=references) for name in ("p", "q")]
        world = World(job("a"), workload("w", {"g": 2}), *pods)
        async with world.leading():
            await world.client.delete(ObjectRef(WORKLOAD, "w", "ns"))
            await asyncio.sleep(SOON)
            await world.client.delete(ObjectRef(POD, "p", "ns"))
            await asyncio.sleep(SOON)
            assert (world.owners(), world.pod_groups()) == ([owners], {"w-g": 2})
            finished = {"status": {"phase": "Succeeded"}}
            await world.client.patch(ObjectRef(POD, "q", "ns"), finished, subresource="status")
            await asyncio.sleep(SOON)
            assert world.pod_groups() == {"w-g": 2}
            await world.client.delete(ObjectRef(POD, "q", "ns"))
            await asyncio.sleep(SOON)
            assert world.pod_groups() == {}
            assert world.count("delete", POD_GROUP) == 1

    virtual.run(story())


@pytest.mark.parametrize(
    "ended",
    [
        {"status": {"phase": "Succeeded"}},
        {"status": {"phase": "Failed"}},
        {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/kept"]},
    ],
    ids=["succeeded", "failed", "being deleted"],
)
def test_a_pod_that_ends_gets_no_podgroup(ended: dict[str, Any]) -> None:
    async def story() -> None:
        status = ended.get("status", {})
        metadata = {key: value for key, value in ended.items() if key != "status"}
        world = World(workload("w", {"g": 1}), {**pod("p", "w", "g", **metadata), "status": status})
        async with world.leading():
            assert (world.pod_groups(), world.told()) == ({}, {"p": None})

    virtual.run(story())


def test_a_pod_that_is_replaced_at_once_finds_its_podgroup_again() -> None:
    async def story() -> None:
        world = World(workload("w", {"g": 2}), pod("p", "w", "g"))
        async with world.leading():
            for number in range(3):
                await world.client.delete(ObjectRef(POD, "p", "ns"))
                await asyncio.sleep(EMPTY_SECONDS * 0.9)
                world.client.load([pod("p", "w", "g", uid=f"uid-{number}")])
                await asyncio.sleep(SOON)
            assert (
                world.told(),
                world.count("delete", POD_GROUP),
                world.count("create", POD_GROUP),
            ) == (
                {"p": "w-g"},
                0,
                1,
            )

    virtual.run(story())


def test_a_podgroup_stays_while_its_pod_is_too_large_to_be_cached() -> None:
    async def story() -> None:
        world = World(workload("w", {"g": 1}), pod("p", "w", "g"))
        async with world.leading():
            notes = {"metadata": {"annotations": {"note": "x" * 100_000}}}
            await world.client.patch(ObjectRef(POD, "p", "ns"), notes)
            await asyncio.sleep(SOON + EMPTY_SECONDS)
            assert (len(world.caches.pods), world.pod_groups()) == (0, {"w-g": 1})
            await world.client.delete(ObjectRef(POD, "p", "ns"))
            await asyncio.sleep(UNKNOWN_SECONDS + EMPTY_SECONDS)
            assert world.pod_groups() == {}

    virtual.run(story())


def test_a_podgroup_stays_while_too_many_pods_of_its_namespace_are_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cache does not name all of them, so one may belong to the PodGroup."""
    monkeypatch.setattr("app.kube.store.MOST_NAMED", 0)

    async def story() -> None:
        world = World(workload("w", {"g": 1}), pod("p", "w", "g"))
        async with world.leading():
            notes = {"metadata": {"annotations": {"note": "x" * 100_000}}}
            await world.client.patch(ObjectRef(POD, "p", "ns"), notes)
            await asyncio.sleep(UNKNOWN_SECONDS + EMPTY_SECONDS)
            assert (world.caches.pods.too_large, world.pod_groups()) == ({}, {"w-g": 1})

    virtual.run(story())


def test_a_workload_that_is_too_large_to_be_cached_is_not_called_missing() -> None:
    async def story() -> None:
        large = workload("w", {"g": 1})
        large["metadata"]["annotations"] = {"note": "x" * 1_000_000}
        world = World(large, pod("p", "w", "g"))
        async with world.leading():
            assert world.happened() == [("p", "WorkloadNotFound")]
            (event,) = world.client.objects(EVENT)
            assert event["note"].startswith('Workload "w" is too large to be cached. Shorten')

    virtual.run(story())


def test_a_podgroup_that_loses_its_pods_again_keeps_its_seconds_again() -> None:
    async def story() -> None:
        world = World(stored(K8S_POD_GROUP, "i", version="v1alpha2", spec={}), pod_of("p", "i"))
        async with world.leading():
            await world.replace_pod(
                "p", {**pod_of("p", "i"), "metadata": {**pod_of("p", "i")["metadata"], "uid": "2"}}
            )
            await world.client.delete(ObjectRef(POD, "p", "ns"))
            await asyncio.sleep(EMPTY_SECONDS / 2)
            assert list(world.pod_groups()) == ["i"]
            await asyncio.sleep(EMPTY_SECONDS)
            assert world.pod_groups() == {}

    virtual.run(story())


def test_the_seconds_of_a_podgroup_are_not_kept_after_it_is_gone() -> None:
    async def story() -> None:
        world = World(workload("w", {"g": 2}), pod("p", "w", "g"))
        async with world.leading():
            await world.client.delete(ObjectRef(POD, "p", "ns"))
            await asyncio.sleep(EMPTY_SECONDS / 2)
            (before,) = world.client.objects(POD_GROUP)
            await world.client.delete(ObjectRef(POD_GROUP, "w-g", "ns"))
            await asyncio.sleep(SOON)
            world.client.load([before])
            await asyncio.sleep(EMPTY_SECONDS / 2)
            assert list(world.pod_groups()) == ["w-g"]

    virtual.run(story())


@pytest.mark.parametrize("resource", [POD, PRIORITY_CLASS], ids=["Pods", "PriorityClasses"])
def test_podgroups_stay_as_they_are_while_a_list_is_not_found(resource: Resource) -> None:
    """A proxy in front of an API server that restarts may answer a list with 404."""

    async def story() -> None:
        of_pod = pod("p", "w", "g")
        of_pod["spec"]["priorityClassName"] = "high"
        world = World(workload("w", {"g": 2}), of_pod, priority_class("high"))
        async with world.leading():
            before = world.client.objects(POD_GROUP)
            assert before[0]["spec"]["priorityClassName"] == "high"
            missing = NotServed("404 page not found", code=404)
            world.client.fail_next("list", resource, missing, times=5)
            world.client.forget_history()
            world.client.drop_watches()
            await asyncio.sleep(EMPTY_SECONDS * 3)
            assert world.client.objects(POD_GROUP) == before
            await asyncio.sleep(60)
            assert world.client.objects(POD_GROUP) == before

    virtual.run(story())


def test_a_podgroup_whose_pods_went_while_nobody_led_is_deleted() -> None:
    async def story() -> None:
        world = World(
            workload("w", {"g": 2, "b": None}),
            pod("p", "w", "g"),
            pod("q", "w", "b"),
            pod("r", "w", "b"),
        )
        async with world.leading():
            assert world.pod_groups() == {"w-g": 2, "w-b": 1}
        for name in ("p", "q"):
            await world.client.delete(ObjectRef(POD, name, "ns"))
        theirs = {"app.kubernetes.io/managed-by": "grove-admission"}
        world.client.load(
            [
                stored(
                    POD_GROUP, "without-a-group", metadata={"labels": theirs}, spec={"minMember": 1}
                )
            ]
        )
        async with world.leading():
            assert world.pod_groups() == {"w-b": 1, "without-a-group": 1}

    virtual.run(story())


def test_the_podgroup_of_a_shared_basic_group_goes_with_the_last_of_all_replicas() -> None:
    async def story() -> None:
        instances = [instance(f"i{number}", "w", "g", "") for number in range(2)]
        world = World(
            workload("w", {"g": None}), *instances, *(pod_of(f"p{n}", f"i{n}") for n in range(2))
        )
        async with world.leading():
            assert (world.told(), world.pod_groups()) == ({"p0": "w-g", "p1": "w-g"}, {"w-g": 1})
            for name in ("i0", "i1"):
                await world.client.delete(ObjectRef(K8S_POD_GROUP, name, "ns"))
            await world.client.delete(ObjectRef(POD, "p0", "ns"))
            await asyncio.sleep(SOON)
            assert world.pod_groups() == {"w-g": 1}
            await world.client.delete(ObjectRef(POD, "p1", "ns"))
            await asyncio.sleep(SOON)
            assert world.pod_groups() == {}

    virtual.run(story())


@pytest.mark.parametrize(
    ("elastic", "minimum"),
    [pytest.param(True, 0, id="KAI since 0.17"), pytest.param(False, 1, id="KAI before 0.17")],
)
def test_a_gang_that_needs_nobody_is_elastic_if_kai_serves_that(
    elastic: bool, minimum: int
) -> None:
    async def story() -> None:
        world = World(pod("p", "w", "g", "0"))
        world.client.elastic = elastic
        groups = [{"name": "g", "policy": {"gang": {"minCount": 0}}}]
        world.client.load([stored(WORKLOAD, "w", version="v1alpha1", spec={"podGroups": groups})])
        async with world.leading():
            assert (world.pod_groups(), world.told()) == ({"w-g-0": minimum}, {"p": "w-g-0"})
            groups[0]["policy"] = policy(2)
            await world.client.patch(
                ObjectRef(WORKLOAD, "w", "ns"), {"spec": {"podGroups": groups}}
            )
            await asyncio.sleep(SOON)
            assert world.pod_groups() == {"w-g-0": 2}
            groups[0]["policy"] = {"gang": {"minCount": 0}}
            await world.client.patch(
                ObjectRef(WORKLOAD, "w", "ns"), {"spec": {"podGroups": groups}}
            )
            await asyncio.sleep(SOON)
            assert (world.pod_groups(), world.happened()) == ({"w-g-0": minimum}, [])

    virtual.run(story())


@pytest.mark.parametrize(
    ("semi", "elastic", "minimum"),
    [
        pytest.param(True, True, 0, id="KAI since 0.18"),
        pytest.param(False, True, 0, id="KAI 0.17"),
        pytest.param(False, False, 1, id="KAI before 0.17"),
    ],
)
def test_a_gang_is_semi_preemptible_if_kai_serves_that_and_stays_so(
    semi: bool, elastic: bool, minimum: int
) -> None:
    async def story() -> None:
        world = World(pod("p", "w", "g", "0"))
        world.client.semi, world.client.elastic = semi, elastic
        groups = [{"name": "g", "policy": {"gang": {"minCount": 0}}}]
        label = {"labels": {"kai.scheduler/preemptibility": "semi-preemptible"}}
        world.client.load(
            [stored(WORKLOAD, "w", version="v1alpha1", metadata=label, spec={"podGroups": groups})]
        )
        said = "semi-preemptible" if semi else None
        async with world.leading():
            assert (world.pod_groups(), world.told()) == ({"w-g-0": minimum}, {"p": "w-g-0"})
            groups[0]["policy"] = policy(2)
            await world.client.patch(
                ObjectRef(WORKLOAD, "w", "ns"), {"spec": {"podGroups": groups}}
            )
            await asyncio.sleep(SOON)
            assert world.pod_groups() == {"w-g-0": 2}
            (group,) = world.client.objects(POD_GROUP)
            assert (group["spec"].get("preemptibility"), world.happened()) == (said, [])

    virtual.run(story())


async def test_a_refused_minimum_takes_no_preemptibility_away() -> None:
    """KAI 0.18 may refuse to raise the minimum of a semi-preemptible PodGroup that runs."""
    label = {"kai.scheduler/preemptibility": "semi-preemptible"}
    world = World(workload("w", {"g": 2}, labels=label), pod("p", "w", "g"))
    for fact, store in world.caches.stores:
        fill(store, world.client.objects(fact.resource) if fact.resource in (POD, WORKLOAD) else ())
    key = ("ns", "w/w/g/")
    await world.reconciler.reconcile(key)
    fill(world.caches.workloads, [workload("w", {"g": 3}, labels=label)])
    world.client.fixed = True
    with pytest.raises(Rejected):
        await world.reconciler.reconcile(key)
    (group,) = world.client.objects(POD_GROUP)
    assert (group["spec"]["minMember"], group["spec"]["preemptibility"]) == (2, "semi-preemptible")


def test_the_minimum_of_a_podgroup_of_1_37_follows_it_and_not_its_template() -> None:
    async def story() -> None:
        templates = [{"name": "g", "schedulingPolicy": policy(2)}]
        world = World(
            stored(WORKLOAD, "w", spec={"podGroupTemplates": templates}), of_1_37("i", "w", "g", 2)
        )
        world.client.load([pod_of("p", "i")])
        async with world.leading():
            templates[0]["schedulingPolicy"] = policy(5)
            await world.client.patch(
                ObjectRef(WORKLOAD, "w", "ns"), {"spec": {"podGroupTemplates": templates}}
            )
            await asyncio.sleep(SOON)
            assert world.pod_groups() == {"i": 2}
            await world.client.patch(
                ObjectRef(K8S_POD_GROUP, "i", "ns"), {"spec": {"schedulingPolicy": policy(5)}}
            )
            await asyncio.sleep(SOON)
            assert (world.pod_groups(), world.told()) == ({"i": 5}, {"p": "i"})

    virtual.run(story())


def test_a_podgroup_of_1_37_whose_workload_does_not_exist_waits_and_that_is_reported() -> None:
    async def story() -> None:
        world = World(of_1_37("i", "w", "g", 2), pod_of("p", "i"))
        async with world.leading():
            assert (world.pod_groups(), world.told(), world.marked()) == (
                {},
                {"p": None},
                {"p": "true"},
            )
            assert world.happened() == [("p", "WorkloadNotFound")]
            await world.client.create(WORKLOAD, stored(WORKLOAD, "w", spec={}), "ns")
            await asyncio.sleep(SOON)
            assert (world.pod_groups(), world.told()) == ({"i": 2}, {"p": "i"})

    virtual.run(story())


def test_a_part_of_a_composite_podgroup_waits_and_that_is_reported() -> None:
    async def story() -> None:
        group = of_1_37("i", "w", "g", 2, parentCompositePodGroupName="c")
        world = World(stored(WORKLOAD, "w", spec={}), group, pod_of("p", "i"))
        async with world.leading():
            assert (world.pod_groups(), world.told(), world.marked()) == (
                {},
                {"p": None},
                {"p": "true"},
            )
            assert world.happened() == [("p", "CompositePodGroupNotSupported")]

    virtual.run(story())


def test_a_preferred_level_with_which_kai_never_places_the_pods_is_left_out() -> None:
    async def story() -> None:
        levels = [{"nodeLabel": "zone"}, {"nodeLabel": "rack", "alias": "r"}]
        kai = stored(KAI_TOPOLOGY, "fabric", spec={"levels": levels})
        kai["metadata"].pop("namespace", None)
        annotations = {
            "kai.scheduler/topology": "fabric",
            "kai.scheduler/topology-required-placement": "r",
            "kai.scheduler/topology-preferred-placement": "zone",
        }
        group = of_1_37("i", "w", "g", 2)
        owner = stored(WORKLOAD, "w", metadata={"annotations": annotations}, spec={})
        required = {"topology": "fabric", "requiredTopologyLevel": "r"}

        world = World(kai, owner, group, pod_of("p", "i"))
        async with world.leading():
            assert world.specs("topologyConstraint") == [required]
            assert world.happened() == [("i", "PreferredLevelLeftOut")]

            narrower = {**kai, "spec": {"levels": list(reversed(levels))}}
            fill(world.topologies, [narrower])
            await asyncio.sleep(SOON)
            assert world.specs("topologyConstraint") == [
                {**required, "preferredTopologyLevel": "zone"}
            ]

    virtual.run(story())


def test_a_topology_of_the_api_counts_and_an_annotation_that_differs_is_reported() -> None:
    async def story() -> None:
        constraints = {"topology": [{"key": "rack"}]}
        metadata = {"annotations": {"kai.scheduler/topology-required-placement": "zone"}}
        group = of_1_37("i", "w", "g", 2, schedulingConstraints=constraints)
        world = World(stored(WORKLOAD, "w", metadata=metadata, spec={}), group, pod_of("p", "i"))
        async with world.leading():
            assert world.specs("topologyConstraint") == [
                {"topology": "", "requiredTopologyLevel": "rack"}
            ]
            assert world.happened() == [("i", "TopologyConflict")]

    virtual.run(story())
