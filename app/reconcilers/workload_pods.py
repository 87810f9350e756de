"""What Pods of Workload groups are told, by annotations: their KAI PodGroup, and that KAI's own grouper is to leave
them alone. If another writer changes an annotation back, that is reported, and the Pod is left as it is for a while."""

import asyncio
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import Any

from app.cluster.workload_caches import WorkloadCaches
from app.cluster.workloads import StoredPod
from app.kube.api import Client, ClusterError, Key, NotFound
from app.kube.events import Regarding
from app.kube.notices import Notices
from app.kube.rewrites import Rewrites
from app.objects.resource import POD
from app.rules.workload.pods import POD_GROUP_NAME, SKIP_PODGROUPER

AT_ONCE = 16
TOLD_PODS = 10
"""Pods of a group that get an event about it, the first by name: their number may be thousands."""


class PodWriter:
    """Writes the annotations of Pods, one patch for each Pod, some at once. `rewrites` count what each is told."""

    def __init__(self, client: Client, caches: WorkloadCaches, notices: Notices, rewrites: Rewrites) -> None:
        self._client, self._caches, self._notices, self._rewrites = client, caches, notices, rewrites

    async def tell(self, key: Key, pods: Sequence[StoredPod], name: str) -> float | None:
        """Tells `pods` that their PodGroup is `name`. Returns the seconds until the next try if another writer changes
        the annotations of some of them back. What fails is raised once all have been tried."""
        return await self._write(key, pods, {POD_GROUP_NAME: name, SKIP_PODGROUPER: "true"}, "told")

    async def mark(self, key: Key, pods: Iterable[StoredPod]) -> float | None:
        """KAI does not schedule `pods` alone from now on."""
        unmarked = [pod for pod in pods if not pod.marked]
        return await self._write(key, unmarked, {SKIP_PODGROUPER: "true"}, "marked") if unmarked else None

    async def leave_to_kai(self, key: Key, pods: Iterable[StoredPod]) -> float | None:
        """KAI's own grouper groups those of `pods` that were marked when they were created, and told nothing yet. Their
        top owner, which opted out for them, is not known at that time."""
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
        about = (key[0], f"{key[1]}/annotations")
        if not contested:
            self._notices.forget(about)
            return
        note = f"something keeps changing the annotations {POD_GROUP_NAME} or {SKIP_PODGROUPER}; left alone for a while"
        self._notices.say(about, first_of(contested), "PodGroupNameContested", note)


def first_of(pods: Iterable[StoredPod]) -> list[Regarding]:
    """The Pods that get an event about something that concerns all of `pods`."""
    first = nsmallest(TOLD_PODS, pods, key=lambda pod: pod.name)
    return [Regarding(POD.api_version(), POD.kind, pod.namespace, pod.name, pod.uid) for pod in first]
