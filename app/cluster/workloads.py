"""Caches for Workloads: Pods in groups, Workloads, PodGroups of Kubernetes and of KAI. Only the leader has them."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import orjson

from app.cluster.podgangs import packed
from app.kube.api import Client, Key, Object
from app.kube.discovery import Discovery
from app.kube.owners import Controller, controller_of
from app.kube.store import WatchStore
from app.kube.watch import run_store
from app.objects.resource import POD, Resource
from app.rules.kinds import K8S_POD_GROUP, POD_GROUP, WORKLOAD
from app.rules.labels import MANAGED_BY, MANAGER
from app.rules.workload.groups import (
    GroupRef,
    group_of_pod_group,
    group_ref,
    groups_of_workload,
    instance_key,
    shared_key,
)
from app.rules.workload.pods import POD_GROUP_NAME, SKIP_PODGROUPER

BY_GROUP = "group"
"""Index of Pods: namespace and the key of the group that they name."""

BY_SHARED = "shared group"
"""Index of Pods and of Kubernetes' PodGroups: namespace and the key that their group has if its policy is basic."""

BY_WORKLOAD = "workload"
"""Index of Pods and of Kubernetes' PodGroups: namespace and Workload."""

BY_POD_GROUP = "pod group"
"""Index of Pods: namespace and the KAI PodGroup that they were told."""

_METADATA = ("name", "namespace", "uid", "labels", "annotations", "ownerReferences")


@dataclass(frozen=True, slots=True)
class Stored:
    """An object of which JSON is kept: its metadata that layers are made from and, but for Pods, its spec."""

    namespace: str
    name: str
    seen: bytes

    def view(self) -> Object:
        found: Object = orjson.loads(self.seen)
        return found


@dataclass(frozen=True, slots=True)
class StoredPod(Stored):
    """A Pod that names a group."""

    uid: str
    ref: GroupRef
    controller: Controller | None
    settled: str
    """Its `pod-group-name`, where it also tells KAI's own grouper to leave it alone."""

    going: bool
    priority_class: str


def read_pod(obj: Object) -> StoredPod | None:
    """Projection; None for a Pod that names no group, or has opted out."""
    ref = group_ref(obj)
    if ref is None:
        return None
    metadata, annotations = obj["metadata"], obj["metadata"].get("annotations") or {}
    seen = {"metadata": {key: metadata[key] for key in ("labels", "annotations") if key in metadata}}
    return StoredPod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        seen=packed(seen),
        uid=metadata["uid"],
        ref=ref,
        controller=controller_of(obj),
        settled=annotations.get(POD_GROUP_NAME, "") if annotations.get(SKIP_PODGROUPER) == "true" else "",
        going=bool(metadata.get("deletionTimestamp"))
        or (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"),
        priority_class=str(obj["spec"].get("priorityClassName") or ""),
    )


def read_stored(obj: Object) -> Stored:
    return Stored(*_kept(obj))


def _kept(obj: Object) -> tuple[str, str, bytes]:
    metadata = obj["metadata"]
    kept = {key: metadata[key] for key in _METADATA if key in metadata}
    seen = packed({"metadata": kept, "spec": obj.get("spec") or {}})
    return metadata.get("namespace", ""), metadata["name"], seen


@dataclass(frozen=True, slots=True)
class StoredWorkload(Stored):
    """`basic` are its groups with the basic policy."""

    basic: frozenset[str]


def read_workload(obj: Object) -> StoredWorkload:
    groups = groups_of_workload(obj)
    return StoredWorkload(*_kept(obj), frozenset(name for name, group in groups.items() if group.minimum is None))


@dataclass(frozen=True, slots=True)
class StoredInstance(Stored):
    """A PodGroup of scheduling.k8s.io, with the Workload and template that it was made from ("" for none)."""

    workload: str
    template: str
    basic: bool


def read_instance(obj: Object) -> StoredInstance:
    group = group_of_pod_group(obj, None)
    return StoredInstance(*_kept(obj), group.workload, group.name, group.minimum is None)


class WorkloadCaches:
    """Kept in step by `run`, from empty each time that we lead."""

    def __init__(self, client: Client, discovery: Discovery, scheduler_name: str) -> None:
        self._client, self._discovery = client, discovery
        self._selector = f"spec.schedulerName={scheduler_name}"
        self.pods: WatchStore[StoredPod] = WatchStore(
            read_pod,
            {BY_GROUP: _group_keys, BY_SHARED: _pod_shared, BY_WORKLOAD: _pod_workloads, BY_POD_GROUP: _told_keys},
        )
        self.workloads: WatchStore[StoredWorkload] = WatchStore(read_workload)
        self.instances: WatchStore[StoredInstance] = WatchStore(
            read_instance, {BY_SHARED: _instance_shared, BY_WORKLOAD: _instance_workloads}
        )
        self.pod_groups: WatchStore[Stored] = WatchStore(read_stored)

    def watched(self) -> dict[str, WatchStore[Any]]:
        return {
            "pods": self.pods,
            "workloads": self.workloads,
            "podgroups.scheduling.k8s.io": self.instances,
            "podgroups.scheduling.run.ai": self.pod_groups,
        }

    @property
    def synced(self) -> bool:
        return all(store.synced for store in self.watched().values())

    def key_of(self, pod: StoredPod) -> Key:
        """One for each KAI PodGroup: that of the group that `pod` names, or, where its policy is known to be basic, of
        all replicas."""
        return pod.namespace, self._shared_key(pod.namespace, pod.ref) or pod.ref.key

    def _shared_key(self, namespace: str, ref: GroupRef) -> str | None:
        if not ref.pod_group:
            workload = self.workloads.get(namespace, ref.workload)
            basic = workload is not None and ref.group in workload.basic
            return shared_key(ref.workload, ref.group) if basic else None
        instance = self.instances.get(namespace, ref.pod_group)
        if instance is None or not instance.basic or not instance.workload:
            return None
        return shared_key(instance.workload, instance.template)

    def pods_of(self, key: Key) -> list[StoredPod]:
        """The Pods whose `key_of` is `key`."""
        found = self._of(key, BY_GROUP, key) + self._of(key, BY_SHARED, key)
        for instance in self.instances.by_index(BY_SHARED, key):
            found += self._of(key, BY_GROUP, (instance.namespace, instance_key(instance.name)))
        return found

    def _of(self, key: Key, index: str, value: Key) -> list[StoredPod]:
        """Those of an index; what holds for one of them holds for all, for they name the same group."""
        pods = self.pods.by_index(index, value)
        return pods if pods and self.key_of(pods[0]) == key else []

    async def run(self) -> None:
        for store in self.watched().values():  # what another leader has changed meanwhile must not be undone
            store.forget()
        managed = f"{MANAGED_BY}={MANAGER}"
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(self.workloads, WORKLOAD), name="watch workloads")
            tasks.create_task(self._watch(self.instances, K8S_POD_GROUP), name="watch Kubernetes' podgroups")
            tasks.create_task(self._watch(self.pod_groups, POD_GROUP, managed), name="watch KAI's podgroups")
            tasks.create_task(self._watch(self.pods, POD, "", self._selector), name="watch pods")

    async def _watch(self, store: WatchStore[Any], resource: Resource, labels: str = "", fields: str = "") -> NoReturn:
        changed = self._discovery.changed
        await run_store(
            self._client, store, resource, label_selector=labels, field_selector=fields, served_changed=changed
        )


def _group_keys(pod: StoredPod) -> Iterator[Key]:
    yield pod.namespace, pod.ref.key


def _pod_shared(pod: StoredPod) -> Iterator[Key]:
    if pod.ref.workload:
        yield pod.namespace, shared_key(pod.ref.workload, pod.ref.group)


def _pod_workloads(pod: StoredPod) -> Iterator[Key]:
    if pod.ref.workload:
        yield pod.namespace, pod.ref.workload


def _told_keys(pod: StoredPod) -> Iterator[Key]:
    if pod.settled:
        yield pod.namespace, pod.settled


def _instance_shared(instance: StoredInstance) -> Iterator[Key]:
    if instance.workload:
        yield instance.namespace, shared_key(instance.workload, instance.template)


def _instance_workloads(instance: StoredInstance) -> Iterator[Key]:
    if instance.workload:
        yield instance.namespace, instance.workload
