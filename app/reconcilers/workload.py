"""Workload groups become KAI PodGroups, and their Pods are told which.

One key is one KAI PodGroup: one group of one namespace. KAI's own grouper leaves a Pod alone that says
`kai.scheduler/skip-podgrouper`; if the annotation flips all the same, that is said and not fought.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from heapq import nsmallest

from app.cluster.workloads import BY_GROUP, BY_POD_GROUP, BY_WORKLOAD, StoredPod, WorkloadCaches
from app.kube.api import Client, ClusterError, Conflict, Key, NotFound, Object
from app.kube.discovery import Discovery
from app.kube.events import Recorder, Regarding
from app.kube.loop import Loop
from app.kube.notices import Notices
from app.kube.owners import Controller, Owners
from app.kube.rewrites import Rewrites, same
from app.objects.metadata import annotations_of
from app.objects.resource import POD, Resource
from app.rules.kinds import K8S_POD_GROUP, POD_GROUP, WORKLOAD
from app.rules.workload.groups import (
    IGNORE,
    Group,
    Layer,
    group_of_pod_group,
    groups_of_workload,
    instance_key,
    layer_of,
)
from app.rules.workload.kai_podgroup import (
    Conventions,
    desired_pod_group,
    difference,
    is_of_group,
    owners_to_write,
)
from app.rules.workload.pods import POD_GROUP_NAME, SKIP_PODGROUPER

NOT_SYNCED_SECONDS = 0.5
TAKEN_SECONDS = 30.0
"""Until a name that was taken is tried again: PodGroups of others are not watched."""

AT_ONCE = 16
TOLD_PODS = 10
"""Pods of a group that get an event about it, the first by name: their number may be thousands."""

Tops = Mapping[Controller | None, Object | None]
"""By controller its top owner; None for Pods that nobody controls."""


@dataclass(frozen=True, slots=True)
class Members:
    """The Pods of a group: the first by name, those that are to be told, and the top owners that were looked at."""

    first: StoredPod
    waiting: list[StoredPod]
    tops: Tops


class WorkloadReconciler:
    """`pod_rewrites` and `group_rewrites` count what is written to each Pod and to each KAI PodGroup."""

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
    ) -> None:
        self._client, self._caches, self._owners = client, caches, owners
        self._conventions, self._notices = conventions, Notices(events)
        self._pod_rewrites, self._group_rewrites = pod_rewrites, group_rewrites

    def all_keys(self) -> list[Key]:
        return list(dict.fromkeys(self._caches.key_of(pod) for pod in self._caches.pods.values()))

    async def reconcile(self, key: Key) -> float | None:
        if not self._caches.synced:
            return NOT_SYNCED_SECONDS
        pods = [pod for pod in self._caches.pods_of(key) if not pod.going]
        if not pods or self._client.served_version(POD_GROUP) is None:
            self._notices.forget(key)
            return None
        group = self._group(_first(pods))
        if isinstance(group, str):
            await self._say_missing(key, pods, group)
            return None
        members = await self._members(group, pods)
        if members is None:
            self._notices.forget(key)
            return None
        return await self._settle(key, group, members)

    async def _say_missing(self, key: Key, pods: list[StoredPod], note: str) -> None:
        """Nothing is made, and a watch brings us back. A Pod whose PodGroup is there lacks nothing yet."""
        pods = [pod for pod in pods if self._caches.pod_groups.get(pod.namespace, pod.settled) is None]
        tops = await self._tops(pods)
        pods = [pod for pod in pods if not _opts_out(tops[pod.controller])]
        self._notices.say(key, _first_of(pods), "WorkloadNotFound", note)

    async def _settle(self, key: Key, group: Group, members: Members) -> float | None:
        name, namespace = group.pod_group_name, key[0]
        desired, owners = self._desired(group, members)
        held = self._caches.pod_groups.get(namespace, name)
        stored = held.view() if held else await self._create(namespace, desired)
        if not is_of_group(stored, group):
            of = f"{group.identity}: delete it, or rename the Workload"
            note = f'PodGroup "{name}" exists and is not that of group {of}'
            self._notices.say(key, _first_of(members.waiting), "PodGroupNameTaken", note)
            return TAKEN_SECONDS
        patch = difference(stored, desired)
        references = owners_to_write(stored, owners, self._shared_owner(namespace, group))
        if references is not None:
            patch["metadata"] = {**patch.get("metadata", {}), "ownerReferences": references}
        paused = await self._bring_in_step(namespace, stored, patch)
        return _soonest(paused, await self._tell(key, members.waiting, name))

    # The Pods and their owners.

    async def _members(self, group: Group, pods: list[StoredPod]) -> Members | None:
        """Without those that opted out; None where nobody is left. Of Pods that were told, and whose PodGroup is there,
        owners are not read again."""
        name = group.pod_group_name
        made = self._caches.pod_groups.get(pods[0].namespace, name) is not None
        looked_at = [pod for pod in pods if pod.settled != name or not made]
        tops = await self._tops(looked_at)
        out = {pod.uid for pod in looked_at if _opts_out(tops[pod.controller])}
        pods = [pod for pod in pods if pod.uid not in out]
        if not pods:
            return None
        first = _first(pods)
        tops = {controller: top for controller, top in tops.items() if not _opts_out(top)}
        return Members(first, [pod for pod in pods if pod.settled != name], {**tops, **await self._tops([first])})

    async def _tops(self, pods: Iterable[StoredPod]) -> Tops:
        """The top owners of `pods`, one look for each controller."""
        spaces = {pod.controller: pod.namespace for pod in pods}
        return {
            controller: None if controller is None else await self._owners.top_owner(namespace, controller)
            for controller, namespace in spaces.items()
        }

    # The group.

    def _group(self, pod: StoredPod) -> Group | str:
        """The group that `pod` names, or a text that says what is missing."""
        return self._group_of_instance(pod) if pod.ref.pod_group else self._group_of_workload(pod)

    def _group_of_workload(self, pod: StoredPod) -> Group | str:
        ref = pod.ref
        stored = self._caches.workloads.get(pod.namespace, ref.workload)
        if stored is None:
            return f'Workload "{ref.workload}" does not exist: the Pod has no PodGroup until it does'
        groups = groups_of_workload(stored.view())
        if ref.group not in groups:
            named = ", ".join(sorted(groups)) or "none"
            return f'Workload "{ref.workload}" has no group "{ref.group}" (it has: {named}): the Pod waits for it'
        return replace(groups[ref.group], replica_key=ref.replica_key)

    def _group_of_instance(self, pod: StoredPod) -> Group | str:
        stored = self._caches.instances.get(pod.namespace, pod.ref.pod_group)
        if stored is None:
            return f'PodGroup "{pod.ref.pod_group}" of {K8S_POD_GROUP.group} does not exist: the Pod waits for it'
        if not stored.workload:
            return group_of_pod_group(stored.view(), None)
        workload = self._caches.workloads.get(pod.namespace, stored.workload)
        if workload is None:
            return f'Workload "{stored.workload}" of PodGroup "{stored.name}" does not exist: the Pod waits for it'
        return group_of_pod_group(stored.view(), workload.view())

    # The KAI PodGroup.

    def _desired(self, group: Group, members: Members) -> tuple[Object, list[Object]]:
        """The PodGroup as it should be, and the owners that it should have one of each. Where Pods differ the first
        counts. Pods of several owners, and those that nobody controls, have their Workload in common, which owns."""
        shared = self._shared_owner(members.first.namespace, group)
        owners = [shared if top is None else _reference(top) for top in members.tops.values()]
        owner = owners[0] if len({one["uid"] for one in owners}) == 1 else shared
        pod = replace(layer_of(members.first.view()), priority_class=members.first.priority_class)
        top = members.tops[members.first.controller]
        of_owner = Layer({}, {}) if top is None else layer_of(top)
        return desired_pod_group(group, of_owner, pod, owner, self._conventions), owners

    def _shared_owner(self, namespace: str, group: Group) -> Object:
        """The Workload; for a PodGroup of scheduling.k8s.io that was made without one, that."""
        workload = self._caches.workloads.get(namespace, group.workload)
        if workload is not None:
            return self._reference(WORKLOAD, workload.view())
        instance = self._caches.instances.get(namespace, group.pod_group)
        if instance is None:  # it went while we waited for an answer: look again
            raise Conflict(f"group {group.identity} is gone")
        return self._reference(K8S_POD_GROUP, instance.view())

    def _reference(self, resource: Resource, obj: Object) -> Object:
        version = resource.api_version(self._client.served_version(resource))
        return _reference({**obj, "apiVersion": version, "kind": resource.kind})

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

    async def _bring_in_step(self, namespace: str, stored: Object, patch: Object) -> float | None:
        """Writes `patch`, unless somebody keeps undoing it: then the seconds until the next try."""
        name, uid = stored["metadata"]["name"], stored["metadata"]["uid"]
        key = (namespace, f"{POD_GROUP}/{name}")
        if not patch:
            return None
        counted = same(f"{namespace}/{name}", patch)
        pause = self._group_rewrites.pause(counted)
        if pause is not None:
            note = "something keeps changing what grove-admission writes here; left alone for a while"
            regarding = Regarding(POD_GROUP.api_version(), POD_GROUP.kind, namespace, name, uid)
            self._notices.say(key, [regarding], "PodGroupContested", note)
            return pause
        self._notices.forget(key)
        only_this = {**patch, "metadata": {**patch.get("metadata", {}), "uid": uid}}
        self._caches.pod_groups.note(await self._client.patch(POD_GROUP, name, only_this, namespace))
        self._group_rewrites.count(counted)
        return None

    # What Pods are told.

    async def _tell(self, key: Key, pods: list[StoredPod], name: str) -> float | None:
        """One patch for each Pod, some at once; for those in a fight the seconds until the next try. What fails is
        raised once all have been tried."""
        pauses = {pod.uid: self._pod_rewrites.pause((pod.namespace, pod.uid)) for pod in pods}
        contested = [pod for pod in pods if pauses[pod.uid] is not None]
        if contested:
            note = f"something keeps changing the annotation {POD_GROUP_NAME}; left alone for a while"
            self._notices.say(key, _first_of(contested), "PodGroupNameContested", note)
        else:
            self._notices.forget(key)
        waiting, failures = iter([pod for pod in pods if pauses[pod.uid] is None]), list[ClusterError]()

        async def worker() -> None:
            for pod in waiting:
                try:
                    await self._tell_one(pod, name)
                except NotFound:
                    continue
                except ClusterError as error:
                    failures.append(error)

        await asyncio.gather(*(worker() for _ in range(min(AT_ONCE, len(pods)))))
        if failures:
            raise failures[0]
        return _soonest(*pauses.values())

    async def _tell_one(self, pod: StoredPod, name: str) -> None:
        annotations = {POD_GROUP_NAME: name, SKIP_PODGROUPER: "true"}
        patch = {"metadata": {"uid": pod.uid, "annotations": annotations}}
        stored = await self._client.patch(POD, pod.name, patch, pod.namespace)
        self._pod_rewrites.count((pod.namespace, pod.uid))
        self._caches.pods.note(stored)


def subscribe(loop: Loop, caches: WorkloadCaches, discovery: Discovery) -> None:
    """Whatever a group depends on leads to a look at it: its Pods, its Workload, its PodGroups, and KAI itself."""

    def look_at(pods: Iterable[StoredPod]) -> None:
        for key in {caches.key_of(pod) for pod in pods}:
            loop.add(key)

    def workload_changed(key: Key, before: object, after: object) -> None:
        look_at(caches.pods.by_index(BY_WORKLOAD, key))
        for instance in caches.instances.by_index(BY_WORKLOAD, key):
            look_at(caches.pods.by_index(BY_GROUP, (instance.namespace, instance_key(instance.name))))

    def served(resource: Resource, version: str | None) -> None:
        if resource == POD_GROUP:
            look_at(caches.pods.values())

    caches.pods.subscribe(lambda key, before, after: look_at(filter(None, (before, after))))
    caches.workloads.subscribe(workload_changed)
    caches.instances.subscribe(
        lambda key, before, after: look_at(caches.pods.by_index(BY_GROUP, (key[0], instance_key(key[1]))))
    )
    caches.pod_groups.subscribe(lambda key, before, after: look_at(caches.pods.by_index(BY_POD_GROUP, key)))
    discovery.subscribe(served)


def _opts_out(top: Object | None) -> bool:
    return top is not None and annotations_of(top).get(IGNORE) == "true"


def _reference(obj: Object) -> Object:
    metadata = obj["metadata"]
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": metadata["name"], "uid": metadata["uid"]}


def _first(pods: Iterable[StoredPod]) -> StoredPod:
    return min(pods, key=lambda pod: pod.name)


def _first_of(pods: Iterable[StoredPod]) -> list[Regarding]:
    first = nsmallest(TOLD_PODS, pods, key=lambda pod: pod.name)
    return [Regarding(POD.api_version(), POD.kind, pod.namespace, pod.name, pod.uid) for pod in first]


def _soonest(*seconds: float | None) -> float | None:
    return min((one for one in seconds if one is not None), default=None)
