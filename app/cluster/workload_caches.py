"""Caches for Workloads, with the joins between them. Only the leader has them."""

from app.cluster import rows
from app.cluster.rows import StoredPod, StoredPodGroup
from app.facts.kai.topology import KaiTopology
from app.kube.api import Key
from app.kube.store import WatchStore
from app.rules.workload.groups import GroupRef, instance_key
from app.stores.stores import Stores


class WorkloadCaches:
    """The stores for the PodGroups of Workloads.

    They have Pods of `scheduler_name` in groups, Workloads, PodGroups of Kubernetes (`instances`)
    and of KAI (`pod_groups`), and the names of PriorityClasses. `watched.run_from_empty` fills
    them.

    `topologies` is the store of KAI Topologies, which verdicts need too, and which is filled for
    them.
    """

    def __init__(self, scheduler_name: str, topologies: WatchStore[KaiTopology]) -> None:
        pods = rows.pods_of_scheduler(scheduler_name)
        self.stores = Stores(
            (rows.WORKLOADS, rows.INSTANCES, rows.POD_GROUPS, pods, rows.PRIORITY_CLASSES)
        )
        self.topologies = topologies
        self.pods = self.stores[pods]
        self.workloads = self.stores[rows.WORKLOADS]
        self.instances = self.stores[rows.INSTANCES]
        self.pod_groups = self.stores[rows.POD_GROUPS]
        self.priority_classes = self.stores[rows.PRIORITY_CLASSES]

    @property
    def synced(self) -> bool:
        """Whether all caches are filled."""
        return self.topologies.synced and all(store.synced for _, store in self.stores)

    def key_of(self, pod: StoredPod) -> Key:
        """Return the namespace and the key of the KAI PodGroup of `pod`.

        The key is that of the group that it names or, if the policy of the group is basic, that of
        all its replicas.
        """
        return pod.namespace, self._shared_key(pod.namespace, pod.ref) or pod.ref.key

    def _shared_key(self, namespace: str, ref: GroupRef) -> str:
        if not ref.pod_group:
            workload = self.workloads.get(namespace, ref.workload)
            basic = workload is not None and ref.group in workload.basic
            return ref.shared_key if basic else ""
        instance = self.instances.get(namespace, ref.pod_group)
        return instance.shared_key if instance is not None and instance.basic else ""

    def pods_of(self, key: Key) -> list[StoredPod]:
        """Return the Pods whose `key_of` is `key`."""
        pods = self._of(key, rows.BY_GROUP, key) + self._of(key, rows.BY_SHARED, key)
        for instance in self.instances.by_index(rows.BY_SHARED, key):
            pods += self._of(key, rows.BY_GROUP, (instance.namespace, instance_key(instance.name)))
        return pods

    def has_pods(self, pod_group: StoredPodGroup) -> bool:
        """Return whether a Pod, finished or not, belongs to `pod_group`.

        It is annotated with it, or names the group that it was made for.
        """
        namespace = pod_group.namespace
        return bool(self.pods.by_index(rows.BY_POD_GROUP, (namespace, pod_group.name))) or any(
            self.pods_of((namespace, key)) for key in pod_group.group_keys
        )

    def _of(self, key: Key, index: str, value: Key) -> list[StoredPod]:
        """Return the Pods of an index if their `key_of` is `key`. They all name the same group."""
        pods = self.pods.by_index(index, value)
        return pods if pods and self.key_of(pods[0]) == key else []
