"""The writes of KAI PodGroups and of the annotations of their Pods.

The annotations are the name of the KAI PodGroup, and the one that makes KAI's own podgrouper skip
the Pods. If another writer changes them back, an event reports it, and the Pod is left alone for a
while.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest

from app.base.value import Value
from app.cluster.rows import StoredPod, WorkloadCaches
from app.facts.kinds import POD_GROUP
from app.facts.labels import IGNORE_WORKLOADS, POD_GROUP_NAME, SKIP_PODGROUPER
from app.kube.api import Client, ClusterError, Conflict, Key, NotFound, Object, ObjectRef, Rejected
from app.kube.events import Notices, Regarding
from app.kube.rewrites import Rewrites, same
from app.objects.resource import POD
from app.objects.shape import JsonMap
from app.reconcilers.writing import soonest
from app.rules.workload.groups import DefinedGroup
from app.rules.workload.kai_podgroup import LabelKeys, Remark, difference, is_of_group

INVALID = 422
AT_ONCE = 8
IN_A_STEP = 64
"""The most Pods that are written before keys of other namespaces have their turn."""

MOST_EVENTS = 10
"""The most Pods of a group that get the same event, because a group may have thousands of Pods."""


class PodGroupWriter(Value):
    """A writer of KAI PodGroups, which it creates and corrects.

    `keys` are those of the labels that KAI reads. `rewrites` count the writes of each PodGroup.
    """

    client: Client
    caches: WorkloadCaches
    notices: Notices
    keys: LabelKeys
    rewrites: Rewrites

    async def put(
        self, namespace: str, group: DefinedGroup, desired: Object
    ) -> tuple[Object | None, float | None]:
        """Create or correct the PodGroup of `group`, so that it becomes as `desired`.

        Returns the stored PodGroup and, if another writer keeps changing it, the seconds until the
        next try. The first is None if a PodGroup of that name exists that was not made for `group`.
        """
        try:
            return await self._put(namespace, group, desired)
        except Rejected as rejection:
            if rejection.code != INVALID or desired["spec"]["minMember"]:
                raise
        # Before 0.17, KAI has no elastic PodGroups: minMember must be at least 1.
        desired = {**desired, "spec": {**desired["spec"], "minMember": 1}}
        return await self._put(namespace, group, desired)

    async def _put(
        self, namespace: str, group: DefinedGroup, desired: Object
    ) -> tuple[Object | None, float | None]:
        cached = self.caches.pod_groups.get(namespace, group.pod_group_name)
        stored = cached.view() if cached else await self._create(namespace, desired)
        if not is_of_group(stored, group):
            return None, None

        patch = difference(stored, desired, self.keys)
        version = cached.resource_version if cached else stored["metadata"]["resourceVersion"]

        return stored, await self._correct(stored, version, patch) if patch else None

    async def _create(self, namespace: str, desired: Object) -> Object:
        """Return the stored PodGroup: the created one, or an existing one of the same name."""
        try:
            stored = await self.client.create(POD_GROUP, desired, namespace)
        except Conflict as conflict:
            if not conflict.already_exists:
                raise
            return await self.client.get(
                ObjectRef(POD_GROUP, desired["metadata"]["name"], namespace)
            )
        self.caches.pod_groups.note(stored)
        return stored

    async def _correct(self, stored: Object, version: str, patch: Object) -> float | None:
        """Write `patch` if the PodGroup still has the resourceVersion `version`.

        Raise Conflict if it has another one. If another writer keeps undoing the patch, return the
        seconds until the next try instead.
        """
        metadata = stored["metadata"]
        ref = ObjectRef(POD_GROUP, metadata["name"], metadata["namespace"])
        counted = same(f"{ref.namespace}/{ref.name}", patch)
        pause = self.rewrites.pause(counted)
        if pause is not None:
            note = (
                "something keeps changing what grove-admission writes here; left alone for a while"
            )
            self.report(stored, "fight", Remark("PodGroupContested", note))
            return pause

        self.report(stored, "fight", None)
        preconditions = {"uid": metadata["uid"], "resourceVersion": version}
        patch = {**patch, "metadata": {**patch.get("metadata", {}), **preconditions}}
        self.caches.pod_groups.note(await self.client.patch(ref, patch))
        self.rewrites.count(counted)

        return None

    def report(self, stored: Object, subject: str, remark: Remark | None) -> None:
        """Report `remark` on the stored PodGroup by an event, once until it changes.

        None means that there is no remark on `subject` any more.
        """
        metadata = stored["metadata"]
        key = (metadata["namespace"], f"{POD_GROUP}/{metadata['name']}/{subject}")
        if remark is None:
            self.notices.forget(key)
            return
        regarding = Regarding.to(POD_GROUP, metadata["name"], key[0], metadata["uid"])
        self.notices.say(key, [regarding], remark.reason, remark.note)


class PodWriter(Value):
    """A writer of annotations of Pods: a patch for each Pod, up to AT_ONCE at a time.

    `rewrites` count the writes of each Pod.
    """

    client: Client
    caches: WorkloadCaches
    notices: Notices
    rewrites: Rewrites

    async def assign(self, key: Key, pods: Sequence[StoredPod], pod_group: str) -> float | None:
        """Annotates `pods` with the name of their PodGroup.

        If another writer keeps changing some of them back, or not all are written yet, returns the
        seconds until the next try. An error is raised after IN_A_STEP Pods have been tried.
        """
        return await self._write(
            key,
            pods,
            {POD_GROUP_NAME: pod_group, SKIP_PODGROUPER: "true"},
            "told",
        )

    async def mark(self, key: Key, pods: Iterable[StoredPod]) -> float | None:
        """Mark those of `pods` that are not marked yet, so that KAI does not schedule them alone.

        Returns as `assign`.
        """
        unmarked = [pod for pod in pods if not pod.marked]
        return (
            await self._write(key, unmarked, {SKIP_PODGROUPER: "true"}, "marked")
            if unmarked
            else None
        )

    async def release(self, key: Key, pods: Sequence[StoredPod], whose: str) -> float | None:
        """Remove both annotations of `pods`, because `whose` annotation opts out of Workloads.

        KAI's podgrouper then groups them. Return the same as `assign`.
        """
        if not pods:
            return None
        annotations = {SKIP_PODGROUPER: None, POD_GROUP_NAME: None}
        pause = await self._write(key, pods, annotations, "marked")
        released = [pod for pod in pods if not self._is_marked(pod)]
        note = (
            f'{whose} has the annotation {IGNORE_WORKLOADS}: "true".'
            " KAI groups the Pod by its top owner and not by its Workload."
        )
        for regarding in first_pods(released):
            self.notices.events.record(regarding, "Normal", "WorkloadIgnored", note)
        return pause

    def _is_marked(self, pod: StoredPod) -> bool:
        stored = self.caches.pods.get(pod.namespace, pod.name)
        return stored is not None and stored.uid == pod.uid and stored.marked

    async def _write(
        self, key: Key, pods: Sequence[StoredPod], annotations: JsonMap, purpose: str
    ) -> float | None:
        pauses = [self.rewrites.pause(_counted(pod, purpose)) for pod in pods]
        paused = list(zip(pods, pauses, strict=True))
        self._report(key, [pod for pod, pause in paused if pause is not None])
        writable = [pod for pod, pause in paused if pause is None]
        await self._patch_all(writable[:IN_A_STEP], annotations, purpose)
        return 0.0 if writable[IN_A_STEP:] else soonest(*pauses)

    async def _patch_all(
        self, pods: Sequence[StoredPod], annotations: JsonMap, purpose: str
    ) -> None:
        """Patch `pods`, and raise the first error afterwards."""
        waiting = iter(pods)
        workers = (
            self._patch_each(waiting, annotations, purpose) for _ in range(min(AT_ONCE, len(pods)))
        )
        failures = [error for errors in await asyncio.gather(*workers) for error in errors]
        if failures:
            raise failures[0]

    async def _patch_each(
        self, pods: Iterator[StoredPod], annotations: JsonMap, purpose: str
    ) -> list[ClusterError]:
        """Patch the next of `pods`, which workers share, until none is left. Return the errors."""
        failures: list[ClusterError] = []
        for pod in pods:
            ref = ObjectRef(POD, pod.name, pod.namespace)
            patch = {"metadata": {"uid": pod.uid, "annotations": annotations}}
            try:
                self.caches.pods.note(await self.client.patch(ref, patch))
                self.rewrites.count(_counted(pod, purpose))
            except NotFound:
                continue
            except ClusterError as error:
                failures.append(error)
        return failures

    def _report(self, key: Key, contested: Sequence[StoredPod]) -> None:
        subject = (key[0], f"{key[1]}/annotations")
        if not contested:
            self.notices.forget(subject)
            return
        note = (
            f"something keeps changing the annotations {POD_GROUP_NAME} or {SKIP_PODGROUPER}; left"
            " alone for a while"
        )
        self.notices.say(subject, first_pods(contested), "PodGroupNameContested", note)


def _counted(pod: StoredPod, purpose: str) -> Key:
    """Return the key by which the writes of a Pod for a purpose are counted."""
    return pod.namespace, f"{pod.uid}/{purpose}"


def first_pods(pods: Iterable[StoredPod]) -> list[Regarding]:
    """Return the Pods that get an event that concerns all of `pods`: the first ones by name."""
    first = nsmallest(MOST_EVENTS, pods, key=lambda pod: pod.name)
    return [Regarding.to(POD, pod.name, pod.namespace, pod.uid) for pod in first]
