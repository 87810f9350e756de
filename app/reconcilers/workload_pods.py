"""Writes the annotations of Pods of Workload groups: the name of their KAI
PodGroup, and the one that makes KAI's own podgrouper skip them. If another writer
changes them back, an event reports it, and the Pod is left alone for a while."""

import asyncio
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import Any

from app.cluster.workload_caches import WorkloadCaches
from app.cluster.workloads import StoredPod
from app.kube.api import Client, ClusterError, Key, NotFound
from app.kube.events import Notices, Regarding
from app.kube.rewrites import Rewrites
from app.objects.resource import POD
from app.rules.workload.groups import POD_GROUP_NAME, SKIP_PODGROUPER

AT_ONCE = 16
MOST_EVENTS = 10
"""The most Pods of a group that get the same event, because a group may have thousands of Pods."""


class PodWriter:
    """Writes the annotations of Pods with one patch for each Pod, up to AT_ONCE at
    a time. `rewrites` count the writes of each Pod."""

    def __init__(self, client: Client, caches: WorkloadCaches, notices: Notices, rewrites: Rewrites) -> None:
        self._client, self._caches, self._notices, self._rewrites = client, caches, notices, rewrites

    async def assign(self, key: Key, pods: Sequence[StoredPod], pod_group: str) -> float | None:
        """Annotates `pods` with the name of their PodGroup. If another writer keeps changing some of them back, returns
        the seconds until the next try. An error is raised after all Pods have been tried."""
        return await self._write(key, pods, {POD_GROUP_NAME: pod_group, SKIP_PODGROUPER: "true"}, "told")

    async def mark(self, key: Key, pods: Iterable[StoredPod]) -> float | None:
        """Marks those of `pods` that are not marked yet, so that KAI does not
        schedule them alone. Returns as `assign`."""
        unmarked = [pod for pod in pods if not pod.marked]
        return await self._write(key, unmarked, {SKIP_PODGROUPER: "true"}, "marked") if unmarked else None

    async def unmark(self, key: Key, pods: Iterable[StoredPod]) -> float | None:
        """Removes the mark of those of `pods` without a PodGroup, so that KAI's podgrouper groups them. The webhook
        marks a Pod before its top owner, which may opt out, is known. Returns as `assign`."""
        marked = [pod for pod in pods if pod.marked and not pod.pod_group]
        return await self._write(key, marked, {SKIP_PODGROUPER: None}, "marked") if marked else None

    async def _write(
        self, key: Key, pods: Sequence[StoredPod], annotations: dict[str, Any], purpose: str
    ) -> float | None:
        counted = {pod.uid: (pod.namespace, f"{pod.uid}/{purpose}") for pod in pods}
        pauses = {pod.uid: self._rewrites.pause(counted[pod.uid]) for pod in pods}
        self._report(key, [pod for pod in pods if pauses[pod.uid] is not None])
        waiting, failures = iter([pod for pod in pods if pauses[pod.uid] is None]), list[ClusterError]()

        async def worker() -> None:
            for pod in waiting:
                try:
                    await self._patch(pod, annotations)
                    self._rewrites.count(counted[pod.uid])
                except NotFound:
                    continue
                except ClusterError as error:
                    failures.append(error)

        await asyncio.gather(*(worker() for _ in range(min(AT_ONCE, len(pods)))))
        if failures:
            raise failures[0]
        return min((pause for pause in pauses.values() if pause is not None), default=None)

    async def _patch(self, pod: StoredPod, annotations: dict[str, Any]) -> None:
        patch = {"metadata": {"uid": pod.uid, "annotations": annotations}}
        self._caches.pods.note(await self._client.patch(POD, pod.name, patch, pod.namespace))

    def _report(self, key: Key, contested: Sequence[StoredPod]) -> None:
        subject = (key[0], f"{key[1]}/annotations")
        if not contested:
            self._notices.forget(subject)
            return
        note = f"something keeps changing the annotations {POD_GROUP_NAME} or {SKIP_PODGROUPER}; left alone for a while"
        self._notices.say(subject, first_pods(contested), "PodGroupNameContested", note)


def first_pods(pods: Iterable[StoredPod]) -> list[Regarding]:
    """Returns the Pods that get an event that concerns all of `pods`: the first ones by name."""
    first = nsmallest(MOST_EVENTS, pods, key=lambda pod: pod.name)
    return [Regarding(POD.api_version(), POD.kind, pod.namespace, pod.name, pod.uid) for pod in first]
