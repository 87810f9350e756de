"""Look up the Workload group of a Pod in the caches."""

from typing import Any

from msgspec.structs import replace

from app.cluster.leader_rows import StoredPod, WorkloadCaches
from app.facts.kinds import K8S_POD_GROUP
from app.kube.store import WatchStore
from app.rules.workload.groups import DefinedGroup, group_of_pod_group, groups_of_workload
from app.rules.workload.kai_podgroup import Remark


def group_of(caches: WorkloadCaches, pod: StoredPod) -> DefinedGroup | Remark:
    """Return the group that `pod` names, or a Remark that says why the group can't be used.

    It can't be used if it does not exist or is part of a CompositePodGroup.

    If a PodGroup of scheduling.k8s.io names a Workload, the Workload must exist too, because it may
    name the queue, which is written only when the KAI PodGroup is created.
    """
    return _of_pod_group(caches, pod) if pod.ref.pod_group else _of_workload(caches, pod)


def _of_workload(caches: WorkloadCaches, pod: StoredPod) -> DefinedGroup | Remark:
    ref = pod.ref
    stored = caches.workloads.get(pod.namespace, ref.workload)
    if stored is None:
        return _not_found(
            caches.workloads, pod.namespace, f'Workload "{ref.workload}"', ref.workload
        )

    groups = groups_of_workload(stored.view())
    if ref.group not in groups:
        names = ", ".join(sorted(groups)) or "none"
        return Remark(
            "WorkloadNotFound",
            f'Workload "{ref.workload}" has no group "{ref.group}" (its groups: {names}), so the'
            " Pod stays pending. Groups are immutable: recreate the Workload with this group, or"
            " the Pod with one of the Workload's groups in spec.workloadRef.podGroup",
        )

    return replace(groups[ref.group], replica_key=ref.replica_key)


def _of_pod_group(caches: WorkloadCaches, pod: StoredPod) -> DefinedGroup | Remark:
    name = pod.ref.pod_group
    stored = caches.instances.get(pod.namespace, name)
    if stored is None:
        subject = f'PodGroup "{name}" of {K8S_POD_GROUP.group}'
        return _not_found(caches.instances, pod.namespace, subject, name)

    if stored.composite:
        note = (
            f'PodGroup "{name}" is part of CompositePodGroup "{stored.composite}".'
            " CompositePodGroups are not supported, so KAI does not schedule the Pod. Use a"
            " PodGroup without parentCompositePodGroupName"
        )
        return Remark("CompositePodGroupNotSupported", note)

    if not stored.workload:
        return group_of_pod_group(stored.view(), None)

    workload = caches.workloads.get(pod.namespace, stored.workload)
    if workload is None:
        subject = f'Workload "{stored.workload}" of PodGroup "{name}"'
        return _not_found(caches.workloads, pod.namespace, subject, stored.workload)

    return group_of_pod_group(stored.view(), workload.view())


def _not_found(store: WatchStore[Any], namespace: str, subject: str, name: str) -> Remark:
    """Return the remark that an object does not exist or is too large for the cache `store`.

    `name` is its name, and `subject` names it in the message.
    """
    problem = "does not exist. Create it"
    if (namespace, name) in store.too_large:
        problem = "is too large to be cached. Shorten its labels and annotations"
    return Remark("WorkloadNotFound", f"{subject} {problem}. Until then, the Pod stays pending")
