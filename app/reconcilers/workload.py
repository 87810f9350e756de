"""Reconcile the KAI PodGroups of the groups that Workloads define.

The reconciler maintains a PodGroup for each group, and annotates the Pods of the group with its
name. If the PodGroup can't be written yet, the Pods are only marked, so that KAI does not schedule
them alone. A PodGroup is deleted once it has no Pods, and for no other reason.
"""

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from app.base.value import Value
from app.cluster.leader_rows import (
    BY_GROUP,
    BY_POD_GROUP,
    BY_WORKLOAD,
    StoredPod,
    StoredPodGroup,
    WorkloadCaches,
)
from app.facts.kinds import POD_GROUP
from app.kube.api import Client, ClusterError, Key, NotFound, NotServed, Object, ObjectRef, Rejected
from app.kube.competing_writers import Rewrites
from app.kube.discovery import Discovery
from app.kube.events import Notices, Recorder
from app.kube.loop import Loop
from app.kube.owners import FRESH_SECONDS, Owners
from app.objects.names import is_subdomain
from app.objects.owners import OwnerRef
from app.objects.resource import POD
from app.objects.time import Clock
from app.reconcilers.workload_groups import group_of
from app.reconcilers.workload_writes import PodGroupWriter, PodWriter, first_pods
from app.reconcilers.writing import soonest
from app.rules.workload.groups import DefinedGroup, instance_key, layer_of, opts_out
from app.rules.workload.kai_podgroup import Conventions, Remark, Sources, desired_pod_group, remarks

NOT_SYNCED_SECONDS = 0.5
"""The time in seconds until the next attempt if the caches are not synced yet."""
TAKEN_SECONDS = 30.0
"""The time in seconds until the next attempt if another writer's PodGroup has the name.

Such PodGroups are not watched.
"""

FRESHEST_SECONDS = 0.1
"""The maximum age in seconds of a cached top owner that decides about Pods without a PodGroup.

A Pod that is created after its top owner opted out must not be grouped by its Workload.
"""

OWNERS_SECONDS = 5.0
"""The minimum interval in seconds at which the top owners of pending Pods are read again.

Top owners are not watched, and may opt out while their Pods are pending.
"""

OWNERS_PER_SECOND = 100
"""The number of cached Pods for which the interval is one second.

With more than 500 Pods, the interval is longer than OWNERS_SECONDS.
"""

UNKNOWN_SECONDS = 30.0
"""The time in seconds until the next check of an empty PodGroup if Pods are too large to cache.

One of these Pods may belong to the PodGroup.
"""

EMPTY_SECONDS = 2.0
"""The time in seconds for which a PodGroup without Pods is kept.

While a Pod is replaced, its group may be empty for a moment.
"""

TopOwners = Mapping[OwnerRef | None, Object | None]
"""The top owner of each controller.

The key and the value are None for Pods without a controller.
"""


class Members(Value):
    """The Pods of a group from which its PodGroup is created."""

    first: StoredPod
    """The first Pod by name."""
    waiting: list[StoredPod]
    """The Pods that are not annotated with the PodGroup yet."""
    top_owners: TopOwners
    """The top owners of the first Pod, and of the Pods that are not settled in a PodGroup yet."""


class WorkloadReconciler:
    """A reconciler of one group and its KAI PodGroup at a time.

    A key is (namespace, key of the group). `pod_rewrites` and `group_rewrites` count the writes of
    each Pod and of each KAI PodGroup. `clock` is monotonic, in seconds.
    """

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
        clock: Clock = time.monotonic,
    ) -> None:
        self._client = client
        self._caches = caches
        self._owners = owners
        self._conventions = conventions
        self._notices = Notices(events)
        self._pods = PodWriter(client, caches, self._notices, pod_rewrites)
        self._pod_groups = PodGroupWriter(
            client=client,
            caches=caches,
            notices=self._notices,
            keys=conventions.keys,
            rewrites=group_rewrites,
        )
        self._clock = clock
        self._empty_since: dict[str, float] = {}
        """The time, by `clock`, since which a PodGroup has had no Pods, by the PodGroup's uid."""
        caches.pod_groups.subscribe(self._forget_deleted)

    def all_keys(self) -> list[Key]:
        of_pods = (self._caches.key_of(pod) for pod in self._caches.pods.values())
        stored = (
            (group.namespace, key)
            for group in self._caches.pod_groups.values()
            for key in group.group_keys
        )
        return list(dict.fromkeys((*of_pods, *stored)))

    async def reconcile(self, key: Key) -> float | None:
        """Maintain the PodGroup of one group, and the annotations of the group's Pods.

        Pods that opt out of Workloads are released first. Without other Pods, the PodGroup is
        deleted. Return the seconds until the next step, or None if none is needed.
        """
        if not self._caches.synced:
            return NOT_SYNCED_SECONDS

        named = [pod for pod in self._caches.pods_of(key) if not pod.ending]
        pause = await self._release(key, [pod for pod in named if pod.opted_out], "the Pod")
        pods = [pod for pod in named if not pod.opted_out]
        if not pods or self._client.served_version(POD_GROUP) is None:
            self._notices.forget(key)
            return soonest(pause, await self._collect(key))

        group = group_of(self._caches, min(pods, key=lambda pod: pod.name))
        settled = self._settled(pods, "" if isinstance(group, Remark) else group.pod_group_name)
        top_owners, until_owners = await self._read_top_owners(pods, settled)
        pause = soonest(pause, until_owners)

        leaving = [pod for pod in pods if _is_opted_out(pod, top_owners)]
        pause = soonest(pause, await self._release_by_owner(key, leaving, top_owners))
        joining = [pod for pod in pods if not _is_opted_out(pod, top_owners)]
        if not joining:
            self._notices.forget(key)
            return soonest(pause, await self._collect(key, annotated_only=True))

        for stored in self._caches.pod_groups.by_index(BY_GROUP, key):
            self._empty_since.pop(stored.uid, None)

        unsettled = [pod for pod in joining if pod.uid not in settled]
        if isinstance(group, Remark):  # a watch adds the key again once the group exists
            self._notices.say(key, first_pods(unsettled), group.reason, group.note)
            return soonest(pause, await self._pods.mark(key, unsettled))

        first = min(joining, key=lambda pod: pod.name)
        waiting = [pod for pod in joining if pod.settled_group != group.pod_group_name]
        owner_of_first = await self._top_owners([first], FRESH_SECONDS)
        read = {pod.controller: top_owners[pod.controller] for pod in unsettled}
        members = Members(first, waiting, {**read, **owner_of_first})
        return soonest(pause, await self._settle(key, group, members))

    async def _settle(self, key: Key, group: DefinedGroup, members: Members) -> float | None:
        """Write the PodGroup of `group`, and annotate the Pods that still lack it.

        If the PodGroup can't be written, only mark the Pods. Return the seconds until the next
        step, or None if none is needed. Raise ClusterError if a request fails.
        """
        sources = self._sources(members)
        desired = desired_pod_group(group, sources, self._conventions)
        try:
            stored, pause = await self._pod_groups.put(key[0], group, desired)
        except ClusterError as error:
            if isinstance(error, Rejected) and not error.is_temporary:
                note = f'KAI PodGroup "{group.pod_group_name}" can\'t be written: {error.message}'
                self._notices.say(key, first_pods(members.waiting), "PodGroupNotWritten", note)
            await self._pods.mark(key, members.waiting)
            raise

        if stored is None:
            name = group.pod_group_name
            note = (
                f'KAI PodGroup "{name}" exists and does not belong to group {group.identity}. If'
                f" nothing uses it, run: kubectl -n {key[0]} delete {POD_GROUP} {name}. Otherwise,"
                " recreate the workload with another name"
            )
            self._notices.say(key, first_pods(members.waiting), "PodGroupNameTaken", note)
            await self._pods.mark(key, members.waiting)
            return TAKEN_SECONDS

        self._notices.forget(key)
        for subject, remark in remarks(stored, group, sources, self._conventions).items():
            self._pod_groups.report(stored, subject, remark)

        return soonest(pause, await self._pods.assign(key, members.waiting, group.pod_group_name))

    # The Pods and their owners.

    def _settled(self, pods: Iterable[StoredPod], name: str) -> set[str]:
        """Return the uids of the marked Pods that are annotated with the existing PodGroup `name`.

        If `name` is "", any existing PodGroup of ours counts.
        """
        return {
            pod.uid
            for pod in pods
            if pod.settled_group == (name or pod.pod_group)
            if self._caches.pod_groups.get(pod.namespace, pod.settled_group) is not None
        }

    async def _read_top_owners(
        self, pods: list[StoredPod], settled: set[str]
    ) -> tuple[TopOwners, float | None]:
        """Return the top owners that may opt out, and the seconds until they must be read again.

        Bound Pods in `settled` stay in their PodGroup, so their top owners are not read. The second
        value is None unless a pending Pod has a controller. Raise ClusterError if a request fails.
        """
        often = max(OWNERS_SECONDS, len(self._caches.pods) / OWNERS_PER_SECOND)
        pending = [pod for pod in pods if pod.uid in settled and not pod.bound]
        unsettled = [pod for pod in pods if pod.uid not in settled]
        top_owners = {
            **await self._top_owners(pending, often),
            **await self._top_owners(unsettled, FRESHEST_SECONDS),
        }
        may_change = any(pod.controller is not None and not pod.bound for pod in pods)
        return top_owners, often if may_change else None

    async def _release_by_owner(
        self, key: Key, pods: list[StoredPod], top_owners: TopOwners
    ) -> float | None:
        """Release `pods`, because their top owners opt out.

        Return the seconds until the next step, or None if none is needed.
        """
        by_owner = defaultdict(list)
        for pod in pods:
            owner = top_owners[pod.controller] or {}
            by_owner[f"{owner['kind']} {owner['metadata']['name']}"].append(pod)
        pauses = [await self._release(key, released, owner) for owner, released in by_owner.items()]
        return soonest(*pauses)

    async def _release(self, key: Key, pods: list[StoredPod], whose: str) -> float | None:
        """Let KAI's pod-grouper group `pods`. `whose` names the object that opts out of Workloads.

        Bound Pods are not changed. Pods in another writer's PodGroup are not changed either,
        because they need the mark to stay in it. Return the seconds until the next step, or None if
        none is needed.
        """
        releasable = [
            pod
            for pod in pods
            if pod.marked and not pod.bound and not await self._is_in_foreign_group(pod)
        ]
        return await self._pods.release(key, releasable, whose)

    async def _is_in_foreign_group(self, pod: StoredPod) -> bool:
        """Return whether `pod` is annotated with an existing PodGroup of another writer.

        The PodGroup is read from the API server, because such PodGroups are not watched.
        """
        ours = self._caches.pod_groups.get(pod.namespace, pod.pod_group)
        if ours is not None or not is_subdomain(pod.pod_group):
            return False
        try:
            await self._client.get(ObjectRef(POD_GROUP, pod.pod_group, pod.namespace))
        except (NotFound, NotServed):
            return False
        return True

    async def _top_owners(self, pods: Iterable[StoredPod], fresh_seconds: float) -> TopOwners:
        """Return the top owners of `pods`. A cached top owner is at most `fresh_seconds` old.

        The top owner of each controller is read once. Raise ClusterError if a request fails.
        """
        namespaces = {pod.controller: pod.namespace for pod in pods}
        return {
            controller: (
                None
                if controller is None
                else await self._owners.top_owner(
                    namespace, controller, fresh_seconds=fresh_seconds
                )
            )
            for controller, namespace in namespaces.items()
        }

    def _sources(self, members: Members) -> Sources:
        """Return the sources of the PodGroup's fields. Of the Pods, only the first one counts."""
        first = members.first
        owner = members.top_owners[first.controller]
        uids = {
            None if top is None else top["metadata"]["uid"] for top in members.top_owners.values()
        }

        return Sources(
            owner=layer_of(owner or {}),
            pod=replace(layer_of(first.view()), priority_class=first.priority_class),
            kind=(
                ("", POD.kind)
                if owner is None
                else (owner["apiVersion"].rpartition("/")[0], owner["kind"])
            ),
            common_owner=_reference(owner) if owner is not None and len(uids) == 1 else None,
            priority_classes=frozenset(self._caches.priority_classes.values()),
            topology_of=lambda name: self._caches.topologies.get("", name),
        )

    # The end of a KAI PodGroup.

    async def _collect(self, key: Key, *, annotated_only: bool = False) -> float | None:
        """Delete the PodGroups of the group of `key` that have had no Pods for EMPTY_SECONDS.

        With `annotated_only`, Pods that name the group and lack the annotation don't count, because
        they have opted out. Return the seconds until the next check, or None if none is needed.
        """
        pauses = [
            await self._collect_empty(stored, annotated_only)
            for stored in self._caches.pod_groups.by_index(BY_GROUP, key)
        ]
        return soonest(*pauses)

    async def _collect_empty(self, stored: StoredPodGroup, annotated_only: bool) -> float | None:
        """Delete the PodGroup `stored` if it has had no Pods for EMPTY_SECONDS.

        `annotated_only` has the same meaning as in `_collect`. Return the seconds until the next
        check, or None if none is needed.
        """
        annotated = (stored.namespace, stored.name)
        if (
            self._caches.pods.by_index(BY_POD_GROUP, annotated)
            if annotated_only
            else self._caches.has_pods(stored)
        ):
            self._empty_since.pop(stored.uid, None)
            return None
        if self._caches.lacks_pods_of(stored.namespace):
            return UNKNOWN_SECONDS

        remaining = (
            self._empty_since.setdefault(stored.uid, self._clock()) + EMPTY_SECONDS - self._clock()
        )
        if remaining > 0:
            return remaining

        del self._empty_since[stored.uid]
        with contextlib.suppress(NotFound):
            ref = ObjectRef(POD_GROUP, stored.name, stored.namespace)
            await self._client.delete(ref, uid=stored.uid)

        return None

    def _forget_deleted(
        self, key: Key, before: StoredPodGroup | None, after: StoredPodGroup | None
    ) -> None:
        """Forget since when a PodGroup was empty, once it is deleted or created again."""
        if before is not None and (after is None or after.uid != before.uid):
            self._empty_since.pop(before.uid, None)


class _Changes(Value):
    """Handlers of changes, which add the keys of the groups concerned to a loop."""

    loop: Loop
    """The loop of the groups."""
    caches: WorkloadCaches
    """Finds the groups that a change concerns."""

    def all_changed(self, *change: object) -> None:
        """Add all groups with Pods."""
        self._add(self.caches.pods.values())

    def pod_changed(self, key: Key, before: StoredPod | None, after: StoredPod | None) -> None:
        """Add a Pod's old and new group, and the groups of the KAI PodGroup that the Pod left."""
        self._add(filter(None, (before, after)))
        if (
            before is not None
            and before.pod_group
            and (after is None or after.pod_group != before.pod_group)
        ):
            self._add_groups_of(self.caches.pod_groups.get(before.namespace, before.pod_group))

    def workload_changed(self, key: Key, before: object, after: object) -> None:
        """Add the groups of the Workload, and the groups of PodGroups that were created from it."""
        self._add(self.caches.pods.by_index(BY_WORKLOAD, key))
        for instance in self.caches.instances.by_index(BY_WORKLOAD, key):
            self.instance_changed((instance.namespace, instance.name), None, None)

    def instance_changed(self, key: Key, before: object, after: object) -> None:
        """Add the group of a PodGroup of scheduling.k8s.io."""
        self._add(self.caches.pods.by_index(BY_GROUP, (key[0], instance_key(key[1]))))

    def pod_group_changed(self, key: Key, before: object, after: StoredPodGroup | None) -> None:
        """Add the groups of a KAI PodGroup, and of the Pods that are annotated with it."""
        self._add(self.caches.pods.by_index(BY_POD_GROUP, key))
        self._add_groups_of(after)

    def _add(self, pods: Iterable[StoredPod]) -> None:
        for key in {self.caches.key_of(pod) for pod in pods}:
            self.loop.add(key)

    def _add_groups_of(self, pod_group: StoredPodGroup | None) -> None:
        if pod_group is not None:
            for key in pod_group.group_keys:
                self.loop.add((pod_group.namespace, key))


def subscribe(loop: Loop, caches: WorkloadCaches, discovery: Discovery) -> None:
    """Reconcile a group after a change of its Pods, its Workload or its PodGroups.

    Reconcile all groups with Pods after a change of a PriorityClass or a KAI Topology, and after
    KAI was installed or removed.
    """
    changes = _Changes(loop, caches)
    caches.pods.subscribe(changes.pod_changed)
    caches.workloads.subscribe(changes.workload_changed)
    caches.instances.subscribe(changes.instance_changed)
    caches.pod_groups.subscribe(changes.pod_group_changed)
    caches.priority_classes.subscribe(changes.all_changed)
    caches.topologies.subscribe(changes.all_changed)
    discovery.subscribe(
        lambda resource, version: changes.all_changed() if resource == POD_GROUP else None
    )


def _is_opted_out(pod: StoredPod, top_owners: TopOwners) -> bool:
    """Return whether the top owner of `pod` was read and opts out of Workloads.

    Return False for a bound Pod that is annotated with a PodGroup, because it stays in that group.
    """
    if pod.bound and pod.settled_group:
        return False
    owner = top_owners.get(pod.controller)
    return owner is not None and opts_out(owner)


def _reference(obj: Object) -> Object:
    """Return a reference to `obj`, with its uid."""
    metadata = obj["metadata"]
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
