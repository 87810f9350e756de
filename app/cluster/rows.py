"""Rows of what only the leader keeps: its reading needs rules about claims and Workloads."""

from app.cluster.projections import (
    StoredInstance,
    StoredPod,
    StoredPodGroup,
    StoredWorkload,
    read_instance,
    read_pod,
    read_pod_group,
    read_workload,
)
from app.facts import kinds
from app.facts.labels import MANAGED_BY, MANAGER
from app.facts.named import read_name
from app.facts.table import BY_SET, Row, in_namespace
from app.kube.store import IndexFunction
from app.objects.resource import POD
from app.rules.mnnvl.demand import ClaimedClique
from app.rules.mnnvl.missing import Unclaimed, read_clique

BY_BASE = "base"
"""Lookup of PodCliques with a claim of ours: namespace and the base name of its resources."""

BY_GROUP = "group"
"""Lookup of Pods: namespace and the key of the group that they name.

Lookup of KAI's PodGroups: namespace and the keys that the group they were made for can have.
"""

BY_SHARED = "shared group"
"""Lookup of Pods and of Kubernetes' PodGroups.

A key is the namespace and the key that their group has if its policy is basic.
"""

BY_WORKLOAD = "workload"
"""Lookup of Pods and of Kubernetes' PodGroups: namespace and Workload."""

BY_POD_GROUP = "pod group"
"""Lookup of Pods: namespace and the KAI PodGroup in their annotation."""

StoredClique = ClaimedClique | Unclaimed

CLIQUES: Row[StoredClique] = Row(
    kinds.POD_CLIQUE,
    read_clique,
    {
        BY_SET: lambda clique: in_namespace(clique.member.namespace, clique.member.place.pcs),
        BY_BASE: lambda clique: (
            in_namespace(clique.member.namespace, clique.base_name)
            if isinstance(clique, ClaimedClique)
            else []
        ),
    },
)
"""Only the leader needs them, to put claims back, and to restore and to collect MNNVL resources."""

WORKLOADS: Row[StoredWorkload] = Row(kinds.WORKLOAD, read_workload)
INSTANCES: Row[StoredInstance] = Row(
    kinds.K8S_POD_GROUP,
    read_instance,
    {
        BY_SHARED: lambda instance: in_namespace(instance.namespace, instance.shared_key),
        BY_WORKLOAD: lambda instance: in_namespace(instance.namespace, instance.workload),
    },
)
POD_GROUPS: Row[StoredPodGroup] = Row(
    kinds.POD_GROUP,
    read_pod_group,
    {BY_GROUP: lambda pod_group: in_namespace(pod_group.namespace, *pod_group.group_keys)},
    labels=f"{MANAGED_BY}={MANAGER}",
)
PRIORITY_CLASSES: Row[str] = Row(kinds.PRIORITY_CLASS, read_name, metadata_only=True)


def pods_of_scheduler(scheduler_name: str) -> Row[StoredPod]:
    """Return the row of the Pods of `scheduler_name` that name a group.

    It and the rows above are the facts that only the leader needs, for Workloads.
    """
    indexes: dict[str, IndexFunction[StoredPod]] = {
        BY_GROUP: lambda pod: in_namespace(pod.namespace, pod.ref.key),
        BY_SHARED: lambda pod: in_namespace(pod.namespace, pod.ref.shared_key),
        BY_WORKLOAD: lambda pod: in_namespace(pod.namespace, pod.ref.workload),
        BY_POD_GROUP: lambda pod: in_namespace(pod.namespace, pod.pod_group),
    }
    return Row(POD, read_pod, indexes, fields=f"spec.schedulerName={scheduler_name}")
