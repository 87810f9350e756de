"""Caches for Workloads: Pods in groups, Workloads, PodGroups of Kubernetes and of KAI. Only the leader has them."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import orjson

from app.cluster.api import Client, Key, Object
from app.cluster.discovery import Discovery
from app.cluster.gangs import packed
from app.cluster.store import WatchStore
from app.cluster.watch import run_store
from app.domain.kinds import K8S_POD_GROUP, POD, POD_GROUP, WORKLOAD, Resource
from app.domain.labels import MANAGED_BY, MANAGER
from app.domain.workload import POD_GROUP_NAME, SKIP_PODGROUPER, GroupRef, group_ref, template_of

BY_GROUP = "group"
"""Index of Pods: namespace and the key of their group."""

BY_WORKLOAD = "workload"
"""Index of Pods and of Kubernetes' PodGroups: namespace and Workload."""

BY_POD_GROUP = "pod group"
"""Index of Pods: namespace and the KAI PodGroup that they were told."""

_SPEC = ("priorityClassName",)
_METADATA = ("name", "namespace", "uid", "labels", "annotations", "ownerReferences")


@dataclass(frozen=True, slots=True)
class StoredPod:
    """A Pod that names a group. `seen` is JSON of its metadata that layers are made from."""

    namespace: str
    name: str
    uid: str
    ref: GroupRef
    settled: str
    """Its `pod-group-name`, where it also tells KAI's own grouper to leave it alone."""

    going: bool
    seen: bytes

    def view(self) -> Object:
        found: Object = orjson.loads(self.seen)
        return found


def read_pod(obj: Object) -> StoredPod | None:
    """Projection; None for a Pod that names no group, or has opted out."""
    ref = group_ref(obj)
    if ref is None:
        return None
    metadata, annotations = obj["metadata"], obj["metadata"].get("annotations") or {}
    seen = {
        "metadata": {key: metadata[key] for key in ("labels", "annotations", "ownerReferences") if key in metadata},
        "spec": {key: obj["spec"][key] for key in _SPEC if key in obj["spec"]},
    }
    return StoredPod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        ref=ref,
        settled=annotations.get(POD_GROUP_NAME, "") if annotations.get(SKIP_PODGROUPER) == "true" else "",
        going=bool(metadata.get("deletionTimestamp"))
        or (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"),
        seen=packed(seen),
    )


@dataclass(frozen=True, slots=True)
class Stored:
    """Any object that is kept as JSON. `workload` is the Workload that a PodGroup was made from."""

    namespace: str
    name: str
    workload: str
    seen: bytes

    def view(self) -> Object:
        found: Object = orjson.loads(self.seen)
        return found


def read_stored(obj: Object) -> Stored:
    """Projection: metadata that layers are made from, and the spec."""
    metadata = obj["metadata"]
    kept = {key: metadata[key] for key in _METADATA if key in metadata}
    seen = packed({"metadata": kept, "spec": obj.get("spec") or {}})
    template = template_of(obj)
    return Stored(metadata.get("namespace", ""), metadata["name"], template[0] if template else "", seen)


class WorkloadCaches:
    """Kept in step by `run`, from empty each time that we lead."""

    def __init__(self, client: Client, discovery: Discovery, scheduler_name: str) -> None:
        self._client, self._discovery = client, discovery
        self._selector = f"spec.schedulerName={scheduler_name}"
        self.pods: WatchStore[StoredPod] = WatchStore(
            read_pod, {BY_GROUP: _group_keys, BY_WORKLOAD: _pod_workloads, BY_POD_GROUP: _pod_group_keys}
        )
        self.workloads: WatchStore[Stored] = WatchStore(read_stored)
        self.k8s_pod_groups: WatchStore[Stored] = WatchStore(read_stored, {BY_WORKLOAD: _stored_workloads})
        self.pod_groups: WatchStore[Stored] = WatchStore(read_stored)

    def watched(self) -> dict[str, WatchStore[Any]]:
        return {
            "pods": self.pods,
            "workloads": self.workloads,
            "podgroups.scheduling.k8s.io": self.k8s_pod_groups,
            "podgroups.scheduling.run.ai": self.pod_groups,
        }

    @property
    def synced(self) -> bool:
        return all(store.synced for store in self.watched().values())

    async def run(self) -> None:
        for store in self.watched().values():  # what another leader has changed meanwhile must not be undone
            store.forget()
        managed = f"{MANAGED_BY}={MANAGER}"
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(self.workloads, WORKLOAD), name="watch workloads")
            tasks.create_task(self._watch(self.k8s_pod_groups, K8S_POD_GROUP), name="watch Kubernetes' podgroups")
            tasks.create_task(self._watch(self.pod_groups, POD_GROUP, managed), name="watch KAI's podgroups")
            tasks.create_task(self._watch(self.pods, POD, "", self._selector), name="watch pods")

    async def _watch(self, store: WatchStore[Any], resource: Resource, labels: str = "", fields: str = "") -> NoReturn:
        changed = self._discovery.changed
        await run_store(
            self._client, store, resource, label_selector=labels, field_selector=fields, served_changed=changed
        )


def _group_keys(pod: StoredPod) -> Iterator[Key]:
    yield pod.namespace, pod.ref.key


def _pod_group_keys(pod: StoredPod) -> Iterator[Key]:
    if pod.settled:
        yield pod.namespace, pod.settled


def _pod_workloads(pod: StoredPod) -> Iterator[Key]:
    if pod.ref.workload:
        yield pod.namespace, pod.ref.workload


def _stored_workloads(stored: Stored) -> Iterator[Key]:
    if stored.workload:
        yield stored.namespace, stored.workload
