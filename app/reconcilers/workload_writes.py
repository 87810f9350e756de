"""Write KAI PodGroups, and two annotations of their Pods.

One annotation names the KAI PodGroup, and the other makes KAI's pod-grouper skip the Pod. If
another writer keeps reverting writes, the reconciler backs off and records an event.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest

from app.base.value import Value
from app.cluster.leader_rows import StoredPod, WorkloadCaches
from app.facts.kinds import POD_GROUP
from app.facts.labels import IGNORE_WORKLOADS, POD_GROUP_NAME, SKIP_PODGROUPER
from app.kube.api import Client, ClusterError, Conflict, Key, NotFound, Object, ObjectRef, Rejected
from app.kube.competing_writers import Rewrites, remedy_for_writers, write_key
from app.kube.events import Notices, Regarding
from app.objects.resource import POD
from app.objects.shape import JsonMap, map_at
from app.reconcilers.writing import soonest
from app.rules.workload.groups import DefinedGroup
from app.rules.workload.kai_podgroup import (
    LabelKeys,
    Remark,
    difference,
    is_of_group,
    specs_for_crds,
)

INVALID = 422
"""The HTTP status of an object that does not match the schema of its CRD."""
AT_ONCE = 8
"""The maximum number of Pods that are written at once."""
IN_A_STEP = 64
"""The maximum number of Pods that one step writes, so that keys of other namespaces get a turn."""

MOST_EVENTS = 10
"""The maximum number of Pods of a group that get the same event. A group may have thousands."""


class PodGroupWriter(Value):
    """A writer that creates and corrects KAI PodGroups."""

    client: Client
    """Sends the writes."""
    caches: WorkloadCaches
    """Has the stored PodGroups. Written PodGroups are added at once."""
    notices: Notices
    """Records events, without repeating them."""
    keys: LabelKeys
    """The keys of the labels that KAI reads."""
    rewrites: Rewrites
    """Counts the writes of each PodGroup."""

    async def put(
        self, namespace: str, group: DefinedGroup, desired: Object
    ) -> tuple[Object | None, float | None]:
        """Create or correct the PodGroup of `group`, so that it has the fields of `desired`.

        If the CRD of an old KAI release rejects a field, write an older form. Return two values:

        - the created PodGroup or, if it existed, the PodGroup before the correction, or None if the
          existing PodGroup was not created for `group`
        - the seconds until the next attempt if another writer keeps changing the PodGroup,
          otherwise None

        Raise ClusterError if a request fails.
        """
        cached = self.caches.pod_groups.get(namespace, group.pod_group_name)
        stored = map_at(cached.view(), "spec") if cached else {}
        whole, *older = specs_for_crds(desired["spec"], stored)
        for spec in older:
            try:
                return await self._put(namespace, group, {**desired, "spec": whole})
            except Rejected as rejection:
                if rejection.code != INVALID:
                    raise
            whole = spec
        return await self._put(namespace, group, {**desired, "spec": whole})

    async def _put(
        self, namespace: str, group: DefinedGroup, desired: Object
    ) -> tuple[Object | None, float | None]:
        """Do the work of `put` with the spec in `desired`."""
        cached = self.caches.pod_groups.get(namespace, group.pod_group_name)
        stored = cached.view() if cached else await self._create(namespace, desired)
        if not is_of_group(stored, group):
            return None, None

        patch = difference(stored, desired, self.keys)
        version = cached.resource_version if cached else stored["metadata"]["resourceVersion"]

        return stored, await self._correct(stored, version, patch) if patch else None

    async def _create(self, namespace: str, desired: Object) -> Object:
        """Create the PodGroup and return it, or return the existing PodGroup with the same name."""
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
        """Write `patch` if the PodGroup still has the resourceVersion `version`, and return None.

        Raise Conflict if it has changed. If another writer keeps undoing the patch, write nothing,
        and return the seconds until the next attempt.
        """
        metadata = stored["metadata"]
        ref = ObjectRef(POD_GROUP, metadata["name"], metadata["namespace"])
        counted = write_key(f"{ref.namespace}/{ref.name}", patch)
        pause = self.rewrites.pause(counted)
        if pause is not None:
            note = (
                "another writer keeps changing the fields that grove-admission writes; backing off."
                f" {remedy_for_writers(ref)}"
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
        """Record an event with `remark` on the PodGroup `stored`, unless it was already recorded.

        A remark replaces the last one with the same `subject`. If `remark` is None, the next remark
        is recorded even if it equals the last one.
        """
        metadata = stored["metadata"]
        key = (metadata["namespace"], f"{POD_GROUP}/{metadata['name']}/{subject}")
        if remark is None:
            self.notices.forget(key)
            return
        regarding = Regarding.to(POD_GROUP, metadata["name"], key[0], metadata["uid"])
        self.notices.say(key, [regarding], remark.reason, remark.note)


class PodWriter(Value):
    """A writer of the annotations of Pods. It patches up to AT_ONCE Pods at a time."""

    client: Client
    """Sends the patches."""
    caches: WorkloadCaches
    """Has the cached Pods. Written Pods are added at once."""
    notices: Notices
    """Records events, without repeating them."""
    rewrites: Rewrites
    """Counts the writes of each Pod."""

    async def assign(self, key: Key, pods: Sequence[StoredPod], pod_group: str) -> float | None:
        """Annotate `pods` with the name of their PodGroup, and make KAI's pod-grouper skip them.

        At most IN_A_STEP Pods are written. If Pods are left, or another writer keeps reverting the
        annotations of some, return the seconds until the next attempt, otherwise None. If writes
        fail with a ClusterError, raise the first one after all of these Pods were tried.
        """
        return await self._write(
            key,
            pods,
            {POD_GROUP_NAME: pod_group, SKIP_PODGROUPER: "true"},
            "assigned",
        )

    async def mark(self, key: Key, pods: Iterable[StoredPod]) -> float | None:
        """Make KAI's pod-grouper skip `pods`, so that KAI does not schedule each of them alone.

        Return and raise the same as `assign`.
        """
        unmarked = [pod for pod in pods if not pod.marked]
        return (
            await self._write(key, unmarked, {SKIP_PODGROUPER: "true"}, "marked")
            if unmarked
            else None
        )

    async def release(self, key: Key, pods: Sequence[StoredPod], whose: str) -> float | None:
        """Remove both annotations of `pods`, so that KAI's pod-grouper groups them.

        `whose` names the object whose annotation opts out of Workloads, for the event. Return and
        raise the same as `assign`.
        """
        if not pods:
            return None
        annotations = {SKIP_PODGROUPER: None, POD_GROUP_NAME: None}
        pause = await self._write(key, pods, annotations, "marked")
        released = [pod for pod in pods if not self._is_marked(pod)]
        note = (
            f'{whose} has the annotation {IGNORE_WORKLOADS}: "true", so KAI groups the Pod by its'
            " top owner instead of its Workload"
        )
        for regarding in first_pods(released):
            self.notices.events.record(regarding, "Normal", "WorkloadIgnored", note)
        return pause

    def _is_marked(self, pod: StoredPod) -> bool:
        """Return whether the Pod is marked in the cache, which may be newer than `pod`."""
        stored = self.caches.pods.get(pod.namespace, pod.name)
        return stored is not None and stored.uid == pod.uid and stored.marked

    async def _write(
        self, key: Key, pods: Sequence[StoredPod], annotations: JsonMap, purpose: str
    ) -> float | None:
        """Write `annotations` to `pods`, and return and raise what `assign` does.

        Repeated writes of a Pod are counted for each `purpose`.
        """
        pauses = [self.rewrites.pause(_counted(pod, purpose)) for pod in pods]
        paused = list(zip(pods, pauses, strict=True))
        self._report(key, [pod for pod, pause in paused if pause is not None])
        writable = [pod for pod, pause in paused if pause is None]
        await self._patch_all(writable[:IN_A_STEP], annotations, purpose)
        return 0.0 if writable[IN_A_STEP:] else soonest(*pauses)

    async def _patch_all(
        self, pods: Sequence[StoredPod], annotations: JsonMap, purpose: str
    ) -> None:
        """Patch `pods`, and raise the first ClusterError afterwards, if any."""
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
        """Patch the remaining `pods`, an iterator that workers share, and return the errors."""
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
        """Record an event on the first Pods whose annotations another writer keeps changing.

        If there are none, forget the last event.
        """
        subject = (key[0], f"{key[1]}/annotations")
        if not contested:
            self.notices.forget(subject)
            return
        note = (
            f"another writer keeps changing the annotation {POD_GROUP_NAME} or {SKIP_PODGROUPER};"
            f" backing off. Upgrade KAI if its pod-grouper does not support {SKIP_PODGROUPER}"
        )
        self.notices.say(subject, first_pods(contested), "PodGroupNameContested", note)


def _counted(pod: StoredPod, purpose: str) -> Key:
    """Return the key under which the writes of `pod` for `purpose` are counted."""
    return pod.namespace, f"{pod.uid}/{purpose}"


def first_pods(pods: Iterable[StoredPod]) -> list[Regarding]:
    """Return references to the first MOST_EVENTS `pods` by name, for an event about all of them."""
    first = nsmallest(MOST_EVENTS, pods, key=lambda pod: pod.name)
    return [Regarding.to(POD, pod.name, pod.namespace, pod.uid) for pod in first]
