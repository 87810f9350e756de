"""Caches for Workloads: Pods in groups, Workloads, PodGroups of Kubernetes and of KAI, the names of PriorityClasses.
Only the leader has them."""

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
from app.rules.kinds import K8S_POD_GROUP, POD_GROUP, PRIORITY_CLASS, WORKLOAD
from app.rules.labels import MANAGED_BY, MANAGER
from app.rules.workload.groups import GroupRef, group_keys, group_ref, instance_key, shared_key
from app.rules.workload.kai_podgroup import WORKLOAD_GROUP
from app.rules.workload.pods import POD_GROUP_NAME, SKIP_PODGROUPER
from app.rules.workload.versions import group_of_pod_group, groups_of_workload

BY_GROUP = "group"
"""Index of Pods: namespace and the key of the group that they name. Index of KAI's PodGroups: namespace and the keys
that the group they were made for can have."""

BY_SHARED = "shared group"
"""Index of Pods and of Kubernetes' PodGroups: namespace and the key that their group has if its policy is basic."""

BY_WORKLOAD = "workload"
"""Index of Pods and of Kubernetes' PodGroups: namespace and Workload."""

BY_POD_GROUP = "pod group"
"""Index of Pods: namespace and the KAI PodGroup that they were told."""

_METADATA = ("name", "namespace", "uid", "labels", "annotations", "ownerReferences")


@dataclass(frozen=True, slots=True)
class Stored:
    """An object of which JSON is kept: its apiVersion, its metadata that layers are made from and, but for Pods, its
    spec."""

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
    told: str
    """Its `pod-group-name`, or ""."""

    marked: bool
    """Whether KAI's own grouper is to leave it alone."""

    going: bool
    priority_class: str

    @property
    def settled(self) -> str:
        """Its `pod-group-name` if it is marked too, else ""."""
        return self.told if self.marked else ""


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
        told=annotations.get(POD_GROUP_NAME, ""),
        marked=annotations.get(SKIP_PODGROUPER) == "true",
        going=bool(metadata.get("deletionTimestamp"))
        or (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"),
        priority_class=str(obj["spec"].get("priorityClassName") or ""),
    )


def _kept(obj: Object) -> tuple[str, str, bytes]:
    metadata = obj["metadata"]
    kept = {key: metadata[key] for key in _METADATA if key in metadata}
    seen = packed({"apiVersion": obj["apiVersion"], "metadata": kept, "spec": obj.get("spec") or {}})
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
    composite: str
    """The CompositePodGroup that it is part of, or ""."""


def read_instance(obj: Object) -> StoredInstance:
    group = group_of_pod_group(obj, None)
    return StoredInstance(*_kept(obj), group.workload, group.name, group.minimum is None, group.composite)


@dataclass(frozen=True, slots=True)
class StoredPodGroup(Stored):
    """A KAI PodGroup that was made here. `uid` is its uid, `group_keys` are the keys that its group can have."""

    uid: str
    group_keys: tuple[str, ...]


def read_pod_group(obj: Object) -> StoredPodGroup:
    metadata = obj["metadata"]
    identity = str((metadata.get("annotations") or {}).get(WORKLOAD_GROUP, ""))
    return StoredPodGroup(*_kept(obj), metadata["uid"], tuple(group_keys(identity, metadata["name"])))


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
        self.pod_groups: WatchStore[StoredPodGroup] = WatchStore(read_pod_group, {BY_GROUP: _made_for})
        self.priority_classes: WatchStore[str] = WatchStore(lambda obj: str(obj["metadata"]["name"]))

    def watched(self) -> dict[str, WatchStore[Any]]:
        return {
            "pods": self.pods,
            "workloads": self.workloads,
            "podgroups.scheduling.k8s.io": self.instances,
            "podgroups.scheduling.run.ai": self.pod_groups,
            "priorityclasses": self.priority_classes,
        }

    @property
    def synced(self) -> bool:
        return all(store.synced for store in self.watched().values())

    def key_of(self, pod: StoredPod) -> Key:
        """One for each KAI PodGroup: that of the group that `pod` names, or, if its policy is known to be basic, of
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

    def has_pods(self, pod_group: StoredPodGroup) -> bool:
        """Whether a Pod, finished or not, was told `pod_group` or names the group that it was made for."""
        namespace = pod_group.namespace
        return bool(self.pods.by_index(BY_POD_GROUP, (namespace, pod_group.name))) or any(
            self.pods_of((namespace, key)) for key in pod_group.group_keys
        )

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
            tasks.create_task(
                self._watch(self.priority_classes, PRIORITY_CLASS, metadata_only=True), name="watch classes"
            )

    async def _watch(
        self,
        store: WatchStore[Any],
        resource: Resource,
        labels: str = "",
        fields: str = "",
        *,
        metadata_only: bool = False,
    ) -> NoReturn:
        await run_store(
            self._client,
            store,
            resource,
            label_selector=labels,
            field_selector=fields,
            metadata_only=metadata_only,
            served_changed=self._discovery.changed,
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
    if pod.told:
        yield pod.namespace, pod.told


def _made_for(pod_group: StoredPodGroup) -> Iterator[Key]:
    for key in pod_group.group_keys:
        yield pod_group.namespace, key


def _instance_shared(instance: StoredInstance) -> Iterator[Key]:
    if instance.workload:
        yield instance.namespace, shared_key(instance.workload, instance.template)


def _instance_workloads(instance: StoredInstance) -> Iterator[Key]:
    if instance.workload:
        yield instance.namespace, instance.workload
