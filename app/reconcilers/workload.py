"""Workload groups become KAI PodGroups, and their Pods are told which.

One key is one group of one namespace. KAI's own grouper leaves a Pod alone that says `kai.scheduler/skip-podgrouper`;
if the annotation flips all the same, that is said and not fought.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from app.cluster.api import Client, ClusterError, Conflict, Key, NotFound, Object
from app.cluster.owners import Owners, controller_of
from app.cluster.workloads import BY_GROUP, BY_POD_GROUP, BY_WORKLOAD, Stored, StoredPod, WorkloadCaches
from app.domain.kinds import POD, POD_GROUP, WORKLOAD
from app.domain.workload import (
    IGNORE,
    POD_GROUP_NAME,
    SKIP_PODGROUPER,
    Group,
    LabelKeys,
    Layer,
    desired_pod_group,
    difference,
    group_of_pod_group,
    groups_of_workload,
    is_of_group,
    layer_of,
)
from app.reconcilers.events import Recorder, Regarding
from app.reconcilers.loop import Loop
from app.reconcilers.rewrites import Rewrites

NOT_SYNCED_SECONDS = 0.5
AT_ONCE = 16
TOLD_PODS = 10
"""Pods of a group that get an event about it: their number may be thousands."""

NO_LAYER = Layer({}, {})


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a group has no PodGroup yet; resolves by a watch."""

    note: str


class WorkloadReconciler:
    """`topology_name` is the KAI Topology that a topology key of a Workload is meant in."""

    name = "workload"

    def __init__(
        self,
        client: Client,
        caches: WorkloadCaches,
        owners: Owners,
        events: Recorder,
        keys: LabelKeys,
        topology_name: str,
        rewrites: Rewrites | None = None,
    ) -> None:
        self.rewrites = rewrites or Rewrites(tolerated=2, window=600.0)
        self._client, self._caches, self._owners, self._events = client, caches, owners, events
        self._keys, self._topology_name = keys, topology_name
        self._told: dict[Key, str] = {}

    def all_keys(self) -> list[Key]:
        return list(dict.fromkeys((pod.namespace, pod.ref.key) for pod in self._caches.pods.values()))

    async def reconcile(self, key: Key) -> float | None:
        if not self._caches.synced:
            return NOT_SYNCED_SECONDS
        pods = [pod for pod in self._caches.pods.by_index(BY_GROUP, key) if not pod.going]
        tops = {pod.uid: await self._top(pod) for pod in pods}
        pods = [pod for pod in pods if not _opted_out(tops[pod.uid])]
        if not pods:
            self._told.pop(key, None)
            return None
        first = min(pods, key=lambda pod: pod.name)
        group = self._group(first)
        if isinstance(group, Missing):
            self._tell(key, pods, "WorkloadNotFound", group.note)
            return None
        if not await self._ensure(key, group, pods, first, tops[first.uid]):
            return None
        return await self._mark([pod for pod in pods if pod.settled != group.pod_group_name], group.pod_group_name)

    async def _top(self, pod: StoredPod) -> Object | None:
        """The Pod's top owner; None for a Pod that nobody controls."""
        reference = controller_of(pod.view())
        return None if reference is None else await self._owners.top_owner(pod.namespace, reference)

    # The group.

    def _group(self, pod: StoredPod) -> Group | Missing:
        return self._k8s_group(pod) if pod.ref.pod_group else self._workload_group(pod)

    def _workload_group(self, pod: StoredPod) -> Group | Missing:
        ref = pod.ref
        stored = self._caches.workloads.get(pod.namespace, ref.workload)
        if stored is None:
            return Missing(f'Workload "{ref.workload}" does not exist: the Pod waits for it')
        groups = groups_of_workload(stored.view())
        if ref.group not in groups:
            named = ", ".join(sorted(groups)) or "none"
            return Missing(
                f'Workload "{ref.workload}" has no group "{ref.group}" (it has: {named}): the Pod waits for it'
            )
        found = groups[ref.group]
        return Group(found.workload, found.name, found.minimum, found.layer, ref.replica_key)

    def _k8s_group(self, pod: StoredPod) -> Group | Missing:
        stored = self._caches.k8s_pod_groups.get(pod.namespace, pod.ref.pod_group)
        if stored is None:
            return Missing(f'PodGroup "{pod.ref.pod_group}" does not exist: the Pod waits for it')
        if not stored.workload:
            return group_of_pod_group(stored.view(), None)
        workload = self._caches.workloads.get(pod.namespace, stored.workload)
        if workload is None:
            return Missing(
                f'Workload "{stored.workload}" of PodGroup "{stored.name}" does not exist: the Pod waits for it'
            )
        return group_of_pod_group(stored.view(), workload.view())

    # The KAI PodGroup.

    async def _ensure(self, key: Key, group: Group, pods: list[StoredPod], pod: StoredPod, top: Object | None) -> bool:
        """Makes the PodGroup, or brings it in step; False where its name is another's."""
        owner = NO_LAYER if top is None else layer_of(top)
        reference = self._owner_reference(pod, group, top)
        desired = desired_pod_group(group, owner, _pod_layer(pod), reference, self._keys, self._topology_name)
        name = group.pod_group_name
        held = self._caches.pod_groups.get(pod.namespace, name)
        try:
            stored = held.view() if held else await self._create(pod.namespace, desired)
        except NotFound:
            return False  # gone again while we looked: its watch brings us back
        if not is_of_group(stored, group):
            note = (
                f'PodGroup "{name}" exists and is not that of group {group.identity}: delete it, or rename the Workload'
            )
            self._tell(key, pods, "PodGroupNameTaken", note)
            return False
        self._told.pop(key, None)
        patch = difference(stored, desired)
        if patch:
            self._caches.pod_groups.note(await self._client.patch(POD_GROUP, name, patch, pod.namespace))
        return True

    async def _create(self, namespace: str, desired: Object) -> Object:
        """The stored PodGroup; where somebody was quicker, theirs."""
        try:
            stored = await self._client.create(POD_GROUP, desired, namespace)
        except Conflict as conflict:
            if not conflict.already_exists:
                raise
            return await self._client.get(POD_GROUP, desired["metadata"]["name"], namespace)
        self._caches.pod_groups.note(stored)
        return stored

    def _owner_reference(self, pod: StoredPod, group: Group, top: Object | None) -> Object:
        """The top owner. Pods that nobody controls share their group with others, so that none of them can own it: the
        Workload does, or the PodGroup of scheduling.k8s.io."""
        if top is not None:
            metadata = top["metadata"]
            return _reference(top["apiVersion"], top["kind"], metadata["name"], metadata["uid"])
        version = self._client.served_version(WORKLOAD)
        workload = self._caches.workloads.get(pod.namespace, group.workload) if group.workload else None
        if workload is not None:
            uid = workload.view()["metadata"]["uid"]
            return _reference(WORKLOAD.api_version(version), WORKLOAD.kind, workload.name, uid)
        stored = self._caches.k8s_pod_groups.get(pod.namespace, group.pod_group)
        uid = stored.view()["metadata"]["uid"] if stored else ""
        return _reference(WORKLOAD.api_version(version), "PodGroup", group.pod_group, uid)

    # The Pods.

    async def _mark(self, pods: list[StoredPod], name: str) -> float | None:
        """One patch for each Pod that isn't told yet, some at once. What fails is raised once all have been tried."""
        waiting, failures, pauses = iter(pods), list[ClusterError](), list[float]()

        async def worker() -> None:
            for pod in waiting:
                pause = self.rewrites.pause((pod.namespace, pod.uid))
                if pause is not None:
                    note = f"something keeps changing the annotation {POD_GROUP_NAME}; left alone for {pause:.0f} s"
                    self._events.record(_regarding(pod), "Warning", "PodGroupNameContested", note)
                    pauses.append(pause)
                    continue
                try:
                    await self._mark_one(pod, name)
                except NotFound:
                    continue
                except ClusterError as error:
                    failures.append(error)

        await asyncio.gather(*(worker() for _ in range(min(AT_ONCE, len(pods)))))
        if failures:
            raise failures[0]
        return min(pauses, default=None)

    async def _mark_one(self, pod: StoredPod, name: str) -> None:
        annotations = {POD_GROUP_NAME: name, SKIP_PODGROUPER: "true"}
        patch = {"metadata": {"uid": pod.uid, "annotations": annotations}}
        stored = await self._client.patch(POD, pod.name, patch, pod.namespace)
        self.rewrites.count((pod.namespace, pod.uid))
        self._caches.pods.note(stored)

    def _tell(self, key: Key, pods: Iterable[StoredPod], reason: str, note: str) -> None:
        """An event on the first Pods of the group, once for each note."""
        if self._told.get(key) == note:
            return
        self._told[key] = note
        for pod in list(pods)[:TOLD_PODS]:
            self._events.record(_regarding(pod), "Warning", reason, note)


def subscribe(loop: Loop, caches: WorkloadCaches) -> None:
    """Whatever a group depends on leads to a look at it: its Pods, its Workload, its PodGroups."""

    def pod_changed(key: Key, before: StoredPod | None, after: StoredPod | None) -> None:
        for one in filter(None, (before, after)):
            loop.add((one.namespace, one.ref.key))

    def look_at(index: str) -> Callable[[Key, Stored | None, Stored | None], None]:
        def changed(key: Key, before: Stored | None, after: Stored | None) -> None:
            for pod in caches.pods.by_index(index, key):
                loop.add((pod.namespace, pod.ref.key))

        return changed

    def template_changed(key: Key, before: Stored | None, after: Stored | None) -> None:
        for group in caches.k8s_pod_groups.by_index(BY_WORKLOAD, key):
            loop.add((group.namespace, f"g/{group.name}"))

    caches.pods.subscribe(pod_changed)
    caches.workloads.subscribe(look_at(BY_WORKLOAD))
    caches.workloads.subscribe(template_changed)
    caches.k8s_pod_groups.subscribe(lambda key, before, after: loop.add((key[0], f"g/{key[1]}")))
    caches.pod_groups.subscribe(look_at(BY_POD_GROUP))


def _opted_out(top: Object | None) -> bool:
    return top is not None and (top["metadata"].get("annotations") or {}).get(IGNORE) == "true"


def _pod_layer(pod: StoredPod) -> Layer:
    view = pod.view()
    layer = layer_of(view)
    return Layer({**view["spec"], **layer.labels}, layer.annotations)


def _reference(api_version: str, kind: str, name: str, uid: str) -> Object:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}


def _regarding(pod: StoredPod) -> Regarding:
    return Regarding(POD.api_version(), POD.kind, pod.namespace, pod.name, pod.uid)
