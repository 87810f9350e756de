"""Workload groups become KAI PodGroups, and their Pods are told which.

One key is one KAI PodGroup: one group of one namespace. A Pod whose PodGroup cannot be made yet is marked, so that KAI
does not schedule it alone. A PodGroup is deleted with its last Pod, and with nothing else.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.cluster.table import BY_GROUP, BY_POD_GROUP, BY_WORKLOAD
from app.cluster.workload_caches import WorkloadCaches
from app.cluster.workloads import StoredPod, StoredPodGroup
from app.kube.api import Client, ClusterError, Conflict, Forbidden, Key, NotFound, Object
from app.kube.discovery import Discovery
from app.kube.events import Recorder, Regarding
from app.kube.loop import Loop
from app.kube.notices import Notices
from app.kube.owners import Controller, Owners
from app.kube.rewrites import Rewrites, same
from app.objects.metadata import annotations_of
from app.objects.resource import POD
from app.reconcilers.workload_groups import Missing, group_of
from app.reconcilers.workload_pods import PodWriter, first_of
from app.rules.kinds import POD_GROUP
from app.rules.workload.groups import IGNORE, Group, Layer, instance_key, layer_of
from app.rules.workload.kai_podgroup import (
    Conventions,
    Sources,
    desired_pod_group,
    difference,
    is_of_group,
    owners_to_write,
    remarks,
)

NOT_SYNCED_SECONDS = 0.5
TAKEN_SECONDS = 30.0
"""Until a name that was taken is tried again: PodGroups of others are not watched."""

EMPTY_SECONDS = 2.0
"""How long a PodGroup stays without Pods: a Pod that is replaced leaves its group empty for a moment."""

INVALID = 422

Tops = Mapping[Controller | None, Object | None]
"""By controller its top owner; None for Pods that nobody controls."""


@dataclass(frozen=True, slots=True)
class Members:
    """The Pods of a group: the first by name, those that are to be told, and the top owners that were looked at."""

    first: StoredPod
    waiting: list[StoredPod]
    tops: Tops


class WorkloadReconciler:
    """`pod_rewrites` and `group_rewrites` count what is written to each Pod and to each KAI PodGroup. `clock` is
    monotonic, in seconds."""

    name = "workload"

    def __init__(
        self,
        client: Client,
        caches: WorkloadCaches,
        owners: Owners,
        events: Recorder,
        conventions: Conventions,
        pod_rewrites: Rewrites,
        group_rewrites: Rewrites,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._caches, self._owners = client, caches, owners
        self._conventions, self._notices = conventions, Notices(events)
        self._pods = PodWriter(client, caches, self._notices, pod_rewrites)
        self._group_rewrites, self._clock = group_rewrites, clock
        self._empty_since: dict[str, float] = {}

    def all_keys(self) -> list[Key]:
        of_pods = (self._caches.key_of(pod) for pod in self._caches.pods.values())
        made = ((stored.namespace, key) for stored in self._caches.pod_groups.values() for key in stored.group_keys)
        return list(dict.fromkeys((*of_pods, *made)))

    async def reconcile(self, key: Key) -> float | None:
        if not self._caches.synced:
            return NOT_SYNCED_SECONDS
        pods = [pod for pod in self._caches.pods_of(key) if not pod.ending]
        if not pods or self._client.served_version(POD_GROUP) is None:
            self._notices.forget(key)
            return await self._collect(key)
        group = group_of(self._caches, min(pods, key=lambda pod: pod.name))
        if isinstance(group, Missing):
            return await self._wait_for(key, pods, group)
        members = await self._members(key, group, pods)
        if members is None:
            self._notices.forget(key)
            return None
        return await self._settle(key, group, members)

    async def _wait_for(self, key: Key, pods: list[StoredPod], missing: Missing) -> float | None:
        """Nothing is made, and a watch brings us back. A Pod whose PodGroup is there lacks nothing yet."""
        pods = [pod for pod in pods if self._caches.pod_groups.get(pod.namespace, pod.settled_group) is None]
        joining, _ = await self._without_those_that_opted_out(key, pods)
        self._notices.say(key, first_of(joining), missing.reason, missing.note)
        return await self._pods.mark(key, joining)

    async def _settle(self, key: Key, group: Group, members: Members) -> float | None:
        sources = self._sources(members)
        desired = desired_pod_group(group, sources, self._conventions)
        try:
            stored, paused = await self._put(key[0], group, desired, sources.common_owner)
        except ClusterError:
            await self._pods.mark(key, members.waiting)
            raise
        if stored is None:
            of = f"{group.identity}: delete it, or rename the Workload"
            note = f'PodGroup "{group.pod_group_name}" exists and is not that of group {of}'
            self._notices.say(key, first_of(members.waiting), "PodGroupNameTaken", note)
            await self._pods.mark(key, members.waiting)
            return TAKEN_SECONDS
        self._notices.forget(key)
        for subject, remark in remarks(stored, group, sources, self._conventions).items():
            self._remark(stored, subject, *((remark.reason, remark.note) if remark else ()))
        return _soonest(paused, await self._pods.tell(key, members.waiting, group.pod_group_name))

    # The Pods and their owners.

    async def _members(self, key: Key, group: Group, pods: list[StoredPod]) -> Members | None:
        """Without those that opted out; None if nobody is left. Of Pods that were told, and whose PodGroup is there,
        owners are not read again."""
        name = group.pod_group_name
        made = self._caches.pod_groups.get(pods[0].namespace, name) is not None
        unsettled = [pod for pod in pods if pod.settled_group != name or not made]
        joining, tops = await self._without_those_that_opted_out(key, unsettled)
        out = {pod.uid for pod in unsettled} - {pod.uid for pod in joining}
        pods = [pod for pod in pods if pod.uid not in out]
        if not pods:
            return None
        first = min(pods, key=lambda pod: pod.name)
        return Members(first, [pod for pod in pods if pod.settled_group != name], {**tops, **await self._tops([first])})

    async def _without_those_that_opted_out(
        self, key: Key, pods: list[StoredPod]
    ) -> tuple[list[StoredPod], dict[Controller | None, Object | None]]:
        """Those of `pods` whose top owner did not opt out, and their top owners. The others are left to KAI."""
        tops = await self._tops(pods)
        await self._pods.leave_to_kai(key, [pod for pod in pods if _opts_out(tops[pod.controller])])
        joining = [pod for pod in pods if not _opts_out(tops[pod.controller])]
        return joining, {pod.controller: tops[pod.controller] for pod in joining}

    async def _tops(self, pods: Iterable[StoredPod]) -> dict[Controller | None, Object | None]:
        """The top owners of `pods`, one look for each controller."""
        spaces = {pod.controller: pod.namespace for pod in pods}
        return {
            controller: None if controller is None else await self._owners.top_owner(namespace, controller)
            for controller, namespace in spaces.items()
        }

    def _sources(self, members: Members) -> Sources:
        """If Pods differ, the first counts."""
        first, top = members.first, members.tops[members.first.controller]
        uids = {None if owner is None else owner["metadata"]["uid"] for owner in members.tops.values()}
        return Sources(
            owner=Layer({}, {}) if top is None else layer_of(top),
            pod=replace(layer_of(first.view()), priority_class=first.priority_class),
            kind=("", POD.kind) if top is None else (top["apiVersion"].rpartition("/")[0], top["kind"]),
            common_owner=_reference(top) if top is not None and len(uids) == 1 else None,
            priority_classes=frozenset(self._caches.priority_classes.values()),
        )

    # The KAI PodGroup.

    async def _put(
        self, namespace: str, group: Group, desired: Object, common_owner: Mapping[str, Any] | None
    ) -> tuple[Object | None, float | None]:
        """The stored PodGroup, brought in step with `desired`, and the seconds until the next try if something keeps
        changing it. None if one of that name belongs to something else."""
        try:
            return await self._put_as_it_is(namespace, group, desired, common_owner)
        except Forbidden as refused:
            if refused.code != INVALID or desired["spec"]["minMember"]:
                raise
        # Releases of KAI before 0.17 have no elastic PodGroups: minMember must be at least 1.
        desired = {**desired, "spec": {**desired["spec"], "minMember": 1}}
        return await self._put_as_it_is(namespace, group, desired, common_owner)

    async def _put_as_it_is(
        self, namespace: str, group: Group, desired: Object, common_owner: Mapping[str, Any] | None
    ) -> tuple[Object | None, float | None]:
        cached = self._caches.pod_groups.get(namespace, group.pod_group_name)
        stored = cached.view() if cached else await self._create(namespace, desired)
        if not is_of_group(stored, group):
            return None, None
        patch = difference(stored, desired, self._conventions.keys)
        references = owners_to_write(stored, common_owner)
        if references is not None:
            patch["metadata"] = {**patch.get("metadata", {}), "ownerReferences": references}
        return stored, await self._bring_in_step(namespace, stored, patch)

    async def _create(self, namespace: str, desired: Object) -> Object:
        """The stored PodGroup; if somebody was quicker, theirs."""
        try:
            stored = await self._client.create(POD_GROUP, desired, namespace)
        except Conflict as conflict:
            if not conflict.already_exists:
                raise
            return await self._client.get(POD_GROUP, desired["metadata"]["name"], namespace)
        self._caches.pod_groups.note(stored)
        return stored

    async def _bring_in_step(self, namespace: str, stored: Object, patch: Object) -> float | None:
        """Writes `patch`, unless somebody keeps undoing it: then the seconds until the next try."""
        name, uid = stored["metadata"]["name"], stored["metadata"]["uid"]
        if not patch:
            return None
        counted = same(f"{namespace}/{name}", patch)
        pause = self._group_rewrites.pause(counted)
        if pause is not None:
            note = "something keeps changing what grove-admission writes here; left alone for a while"
            self._remark(stored, "fight", "PodGroupContested", note)
            return pause
        self._remark(stored, "fight")
        only_this = {**patch, "metadata": {**patch.get("metadata", {}), "uid": uid}}
        self._caches.pod_groups.note(await self._client.patch(POD_GROUP, name, only_this, namespace))
        self._group_rewrites.count(counted)
        return None

    def _remark(self, stored: Object, subject: str, reason: str = "", note: str = "") -> None:
        """An event on the stored PodGroup, or no longer any if `reason` is ""."""
        metadata = stored["metadata"]
        key = (metadata["namespace"], f"{POD_GROUP}/{metadata['name']}/{subject}")
        if not reason:
            self._notices.forget(key)
            return
        regarding = Regarding(POD_GROUP.api_version(), POD_GROUP.kind, key[0], metadata["name"], metadata["uid"])
        self._notices.say(key, [regarding], reason, note)

    # The end of a KAI PodGroup.

    async def _collect(self, key: Key) -> float | None:
        """Deletes the PodGroups that were made for the group of `key` and have had no Pod for a while."""
        waits = [await self._collect_empty(stored) for stored in self._caches.pod_groups.by_index(BY_GROUP, key)]
        return _soonest(*waits)

    async def _collect_empty(self, stored: StoredPodGroup) -> float | None:
        if self._caches.has_pods(stored):
            self._empty_since.pop(stored.uid, None)
            return None
        left = self._empty_since.setdefault(stored.uid, self._clock()) + EMPTY_SECONDS - self._clock()
        if left > 0:
            return left
        del self._empty_since[stored.uid]
        with contextlib.suppress(NotFound):
            await self._client.delete(POD_GROUP, stored.name, stored.namespace, uid=stored.uid)
        return None


class _Looks:
    """Adds the keys of groups to `loop` after a change of something that they depend on."""

    def __init__(self, loop: Loop, caches: WorkloadCaches) -> None:
        self._loop, self._caches = loop, caches

    def at(self, pods: Iterable[StoredPod]) -> None:
        for key in {self._caches.key_of(pod) for pod in pods}:
            self._loop.add(key)

    def at_all(self) -> None:
        self.at(self._caches.pods.values())

    def pod_changed(self, key: Key, before: StoredPod | None, after: StoredPod | None) -> None:
        self.at(filter(None, (before, after)))
        if before is not None and before.pod_group and (after is None or after.pod_group != before.pod_group):
            self._at_made(self._caches.pod_groups.get(before.namespace, before.pod_group))

    def workload_changed(self, key: Key, before: object, after: object) -> None:
        self.at(self._caches.pods.by_index(BY_WORKLOAD, key))
        for instance in self._caches.instances.by_index(BY_WORKLOAD, key):
            self.at(self._caches.pods.by_index(BY_GROUP, (instance.namespace, instance_key(instance.name))))

    def instance_changed(self, key: Key, before: object, after: object) -> None:
        self.at(self._caches.pods.by_index(BY_GROUP, (key[0], instance_key(key[1]))))

    def pod_group_changed(self, key: Key, before: object, after: StoredPodGroup | None) -> None:
        self.at(self._caches.pods.by_index(BY_POD_GROUP, key))
        self._at_made(after)

    def _at_made(self, stored: StoredPodGroup | None) -> None:
        if stored is not None:
            for key in stored.group_keys:
                self._loop.add((stored.namespace, key))


def subscribe(loop: Loop, caches: WorkloadCaches, discovery: Discovery) -> None:
    """Whatever a group depends on leads to a look at it: its Pods, its Workload, its PodGroups, PriorityClasses, and
    KAI itself."""
    looks = _Looks(loop, caches)
    caches.pods.subscribe(looks.pod_changed)
    caches.workloads.subscribe(looks.workload_changed)
    caches.instances.subscribe(looks.instance_changed)
    caches.pod_groups.subscribe(looks.pod_group_changed)
    caches.priority_classes.subscribe(lambda key, before, after: looks.at_all())
    discovery.subscribe(lambda resource, version: looks.at_all() if resource == POD_GROUP else None)


def _opts_out(top: Object | None) -> bool:
    return top is not None and annotations_of(top).get(IGNORE) == "true"


def _reference(obj: Object) -> Object:
    metadata = obj["metadata"]
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": metadata["name"], "uid": metadata["uid"]}


def _soonest(*seconds: float | None) -> float | None:
    return min((pause for pause in seconds if pause is not None), default=None)
