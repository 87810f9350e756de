"""Writes the KAI PodGroups of Workload groups."""

from collections.abc import Mapping
from typing import Any

from app.cluster.workload_caches import WorkloadCaches
from app.kube.api import Client, Conflict, Forbidden, Object
from app.kube.events import Notices, Regarding
from app.kube.rewrites import Rewrites, same
from app.rules.kinds import POD_GROUP
from app.rules.workload.groups import Group
from app.rules.workload.kai_podgroup import LabelKeys, Remark, difference, is_of_group, owners_to_write

INVALID = 422


class PodGroupWriter:
    """Creates and corrects KAI PodGroups. `keys` are those of the labels that KAI
    reads. `rewrites` count the writes of each PodGroup."""

    def __init__(
        self, client: Client, caches: WorkloadCaches, notices: Notices, keys: LabelKeys, rewrites: Rewrites
    ) -> None:
        self._client, self._caches, self._notices, self._keys, self._rewrites = client, caches, notices, keys, rewrites

    async def put(
        self, namespace: str, group: Group, desired: Object, common_owner: Mapping[str, Any] | None
    ) -> tuple[Object | None, float | None]:
        """Creates or corrects the PodGroup of `group`, so that it becomes as
        `desired`. `common_owner` is the owner that all its Pods have in common.

        Returns the stored PodGroup and, if another writer keeps changing it, the seconds until the
        next try. The first is None if a PodGroup of that name exists that was not made for `group`.
        """
        try:
            return await self._put(namespace, group, desired, common_owner)
        except Forbidden as rejection:
            if rejection.code != INVALID or desired["spec"]["minMember"]:
                raise
        # Before 0.17, KAI has no elastic PodGroups: minMember must be at least 1.
        desired = {**desired, "spec": {**desired["spec"], "minMember": 1}}
        return await self._put(namespace, group, desired, common_owner)

    async def _put(
        self, namespace: str, group: Group, desired: Object, common_owner: Mapping[str, Any] | None
    ) -> tuple[Object | None, float | None]:
        cached = self._caches.pod_groups.get(namespace, group.pod_group_name)
        version = self._caches.pod_groups.resource_version(namespace, group.pod_group_name)
        stored = cached.view() if cached else await self._create(namespace, desired)
        if not is_of_group(stored, group):
            return None, None
        patch = difference(stored, desired, self._keys)
        references = owners_to_write(stored, common_owner)
        if references is not None:
            patch["metadata"] = {**patch.get("metadata", {}), "ownerReferences": references}
        version = stored["metadata"].get("resourceVersion", version)  # the cache keeps it beside the object
        return stored, await self._correct(namespace, stored, version, patch) if patch else None

    async def _create(self, namespace: str, desired: Object) -> Object:
        """Returns the stored PodGroup: the created one, or an existing one of the same name."""
        try:
            stored = await self._client.create(POD_GROUP, desired, namespace)
        except Conflict as conflict:
            if not conflict.already_exists:
                raise
            return await self._client.get(POD_GROUP, desired["metadata"]["name"], namespace)
        self._caches.pod_groups.note(stored)
        return stored

    async def _correct(self, namespace: str, stored: Object, version: str | None, patch: Object) -> float | None:
        """Writes `patch` if the PodGroup still has the resourceVersion `version`; else raises Conflict. If another
        writer keeps undoing the patch, returns the seconds until the next try instead."""
        name, uid = stored["metadata"]["name"], stored["metadata"]["uid"]
        counted = same(f"{namespace}/{name}", patch)
        pause = self._rewrites.pause(counted)
        if pause is not None:
            note = "something keeps changing what grove-admission writes here; left alone for a while"
            self.report(stored, "fight", Remark("PodGroupContested", note))
            return pause
        self.report(stored, "fight", None)
        preconditions = {"uid": uid, "resourceVersion": version}
        patch = {**patch, "metadata": {**patch.get("metadata", {}), **preconditions}}
        self._caches.pod_groups.note(await self._client.patch(POD_GROUP, name, patch, namespace))
        self._rewrites.count(counted)
        return None

    def report(self, stored: Object, subject: str, remark: Remark | None) -> None:
        """Reports `remark` on the stored PodGroup by an event, once until it
        changes. None means that there is no remark on `subject` any more."""
        metadata = stored["metadata"]
        key = (metadata["namespace"], f"{POD_GROUP}/{metadata['name']}/{subject}")
        if remark is None:
            self._notices.forget(key)
            return
        regarding = Regarding(POD_GROUP.api_version(), POD_GROUP.kind, key[0], metadata["name"], metadata["uid"])
        self._notices.say(key, [regarding], remark.reason, remark.note)
