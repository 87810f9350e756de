"""Define the cached objects that only the leader needs, and the rows of their stores.

They are not in `facts/`, because reading them needs rules about claims and Workloads.
`WorkloadCaches` joins the caches of Workloads.
"""

from app.base.json import from_json, to_json
from app.base.value import Value, Versioned
from app.facts import kinds
from app.facts.grove import unit_member
from app.facts.grove.unit_member import Unclaimed
from app.facts.identity import read_key, read_name
from app.facts.kai.queue import read_queue_names
from app.facts.kai.topology import KaiTopology
from app.facts.kubernetes.pod_fields import PodForm
from app.facts.kubernetes.workload import read_workload, read_workload_group
from app.facts.labels import MANAGED_BY, MANAGER, MNNVL_UNIT, POD_GROUP_NAME, SKIP_PODGROUPER
from app.facts.rows import BY_SET, MOST_OF_POD, Row, in_namespace
from app.kube.api import Key, Object
from app.kube.store import IndexFunction, WatchStore
from app.objects.conditions import condition_of
from app.objects.owners import OwnerRef, controller_of
from app.objects.resource import POD
from app.objects.shape import annotations_of, map_at, only, text_at
from app.rules.mnnvl.claim_holders import ClaimedMember, claimed
from app.rules.mnnvl.missing_claims import is_ending, read_clique
from app.rules.topology.coverage import LEVELS_COVERED
from app.rules.topology.kai import READY
from app.rules.workload.groups import (
    GroupRef,
    group_keys,
    group_ref,
    instance_key,
    named_group,
    opts_out,
    shared_key,
)
from app.rules.workload.kai_podgroup import WORKLOAD_GROUP
from app.stores.stores import Stores

_METADATA = ("name", "namespace", "uid", "labels", "annotations", "ownerReferences")


class Stored(Value):
    """A cached object that is kept as JSON, because many of its fields are needed."""

    namespace: str
    """The namespace of the object, or "" if it is cluster-scoped."""
    name: str
    """The name of the object."""
    content: bytes
    """JSON with the apiVersion, the metadata in _METADATA, and the spec of the object.

    For a Pod, it has only the labels and annotations.
    """

    def view(self) -> Object:
        """Return the fields of the object that `content` has."""
        content: Object = from_json(self.content)
        return content


class StoredPod(Stored):
    """A cached Pod that names the group of a Workload.

    A Pod that has opted out of Workloads is cached only while it is `marked`.
    """

    uid: str
    """The uid of the Pod."""
    ref: GroupRef
    """The group that the Pod names."""
    controller: OwnerRef | None
    """The owner reference to the controller of the Pod, or None."""
    pod_group: str
    """The KAI PodGroup in the Pod's annotation `pod-group-name`, or ""."""
    marked: bool
    """Whether the Pod has the annotation that makes KAI's own pod-grouper skip it."""

    opted_out: bool
    """Whether the Pod's own annotation opts out of Workloads."""

    bound: bool
    """Whether the Pod has a node."""

    ending: bool
    """Whether the Pod has finished or is being deleted."""

    priority_class: str
    """The priority class of the Pod, or ""."""

    @property
    def settled_group(self) -> str:
        """The KAI PodGroup in the Pod's annotation if the Pod is also marked, otherwise ""."""
        return self.pod_group if self.marked else ""


def read_stored_pod(obj: Object) -> StoredPod | None:
    """Return the facts of a Pod that names a group of a Workload.

    Return None if it names none, or if it has opted out and is not marked.
    """
    annotations = annotations_of(obj)
    marked = annotations.get(SKIP_PODGROUPER) == "true"
    ref = named_group(obj) if marked else group_ref(obj)
    if ref is None:
        return None

    metadata = obj["metadata"]
    content = {"metadata": only(metadata, ("labels", "annotations"))}

    return StoredPod(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        content=to_json(content),
        uid=metadata["uid"],
        ref=ref,
        controller=controller_of(obj),
        pod_group=annotations.get(POD_GROUP_NAME, ""),
        marked=marked,
        opted_out=opts_out(obj),
        bound=bool(text_at(map_at(obj, "spec"), "nodeName")),
        ending=is_ending(obj),
        priority_class=text_at(map_at(obj, "spec"), "priorityClassName"),
    )


def _stored(obj: Object) -> tuple[str, str, bytes]:
    """Return the namespace, name and content of an object: the fields of `Stored`."""
    metadata = only(obj["metadata"], _METADATA)
    content = to_json(
        {"apiVersion": obj["apiVersion"], "metadata": metadata, "spec": map_at(obj, "spec")}
    )
    return metadata.get("namespace", ""), metadata["name"], content


class StoredWorkload(Stored):
    """A cached Workload of scheduling.k8s.io."""

    basic: frozenset[str]
    """The names of the Workload's groups that have the basic policy."""


def read_stored_workload(obj: Object) -> StoredWorkload:
    """Return the facts of a Workload of scheduling.k8s.io."""
    groups = read_workload(obj).groups
    return StoredWorkload(
        *_stored(obj), frozenset(name for name, minimum in groups.items() if minimum is None)
    )


class StoredInstance(Stored):
    """A cached PodGroup of scheduling.k8s.io, usually an instance of a Workload's template."""

    workload: str
    """The name of the Workload from which the PodGroup was created, or ""."""
    template: str
    """The name of the template in `workload`, or ""."""
    basic: bool
    """Whether the PodGroup has the basic policy."""
    composite: str
    """The name of the CompositePodGroup to which the PodGroup belongs, or ""."""

    @property
    def shared_key(self) -> str:
        """The key that all PodGroups of the same template share if they have the basic policy.

        It is "" if this PodGroup was not created from a Workload.
        """
        return shared_key(self.workload, self.template)


def read_stored_instance(obj: Object) -> StoredInstance:
    """Return the facts of a PodGroup of scheduling.k8s.io."""
    group = read_workload_group(obj)
    return StoredInstance(
        *_stored(obj),
        workload=group.workload,
        template=group.template,
        basic=group.minimum is None,
        composite=group.composite,
    )


class StoredPodGroup(Versioned, Stored):
    """A cached KAI PodGroup that grove-admission has created."""

    uid: str
    """The uid of the PodGroup."""
    group_keys: tuple[str, ...]
    """The keys (`GroupRef.key`) that the group of this PodGroup can have."""
    resource_version: str
    """The resourceVersion, which does not count in comparisons."""


def read_stored_pod_group(obj: Object) -> StoredPodGroup:
    """Return the facts of a KAI PodGroup that grove-admission has created."""
    metadata = obj["metadata"]
    identity = text_at(annotations_of(obj), WORKLOAD_GROUP)
    return StoredPodGroup(
        *_stored(obj),
        metadata["uid"],
        tuple(group_keys(identity, metadata["name"])),
        metadata["resourceVersion"],
    )


BY_BASE = "base"
"""Index of PodCliques and of Pods with our claim: (namespace, base name of their resources)."""

BY_GROUP = "group"
"""Index of Pods: (namespace, key of the group that they name).

Index of KAI PodGroups: (namespace, each key that their group can have).
"""

BY_SHARED = "shared group"
"""Index of Pods and of PodGroups of Kubernetes: (namespace, shared key).

All replicas of a group with the basic policy have the same shared key. Pods are listed under it
whatever the policy of their group.
"""

BY_WORKLOAD = "workload"
"""Index of Pods and of PodGroups of Kubernetes: (namespace, Workload)."""

BY_POD_GROUP = "pod group"
"""Index of Pods: (namespace, KAI PodGroup in their annotation)."""

StoredClique = ClaimedMember | Unclaimed

CLIQUES: Row[StoredClique] = Row(
    kinds.POD_CLIQUE,
    read_clique,
    {
        BY_SET: lambda clique: in_namespace(clique.namespace, clique.place.pcs),
        BY_BASE: lambda clique: (
            in_namespace(clique.namespace, clique.base_name)
            if isinstance(clique, ClaimedMember)
            else []
        ),
    },
)
"""The PodCliques that have our claim or may need it."""


def read_unit_pod(obj: Object) -> ClaimedMember | None:
    """Return the facts of a Pod that is in no PodClique and has our claim.

    Return None if it does not have our claim, has finished, or is being deleted.
    """
    if is_ending(obj):
        return None
    return claimed(unit_member.read_carrier_of_pod(obj, read_key(obj)[0]))


UNIT_PODS = Row(
    POD,
    read_unit_pod,
    {BY_BASE: lambda pod: in_namespace(pod.namespace, pod.base_name)},
    labels=MNNVL_UNIT,
    form=PodForm,
    most_decoded=MOST_OF_POD,
)
"""The Pods with our claim that belong to no PodClique.

The watch selects them by a label that our webhook sets.
"""

WORKLOADS = Row(kinds.WORKLOAD, read_stored_workload)
INSTANCES: Row[StoredInstance] = Row(
    kinds.K8S_POD_GROUP,
    read_stored_instance,
    {
        BY_SHARED: lambda instance: in_namespace(instance.namespace, instance.shared_key),
        BY_WORKLOAD: lambda instance: in_namespace(instance.namespace, instance.workload),
    },
)
POD_GROUPS: Row[StoredPodGroup] = Row(
    kinds.POD_GROUP,
    read_stored_pod_group,
    {BY_GROUP: lambda pod_group: in_namespace(pod_group.namespace, *pod_group.group_keys)},
    labels=f"{MANAGED_BY}={MANAGER}",
)


class TopologyStatus(Value):
    """The cached status of a ClusterTopology or a ClusterTopologyBinding."""

    name: str
    """The name of the topology."""
    uid: str
    """The uid of the topology."""
    content: bytes
    """JSON with the parts of the status that the leader writes."""
    is_managed: bool
    """Whether the status has the condition Ready.

    The leader writes this condition only into the managed ClusterTopology.
    """


_OUR_CONDITIONS = (READY, LEVELS_COVERED)


def read_topology_status(obj: Object) -> TopologyStatus:
    """Return the facts of the status of a ClusterTopology or a ClusterTopologyBinding."""
    conditions = [condition_of(obj, kind) for kind in _OUR_CONDITIONS]
    status = only(map_at(obj, "status"), ("observedGeneration", "lastErrors"))
    metadata = obj["metadata"]
    return TopologyStatus(
        name=metadata["name"],
        uid=metadata["uid"],
        content=to_json([conditions, status]),
        is_managed=bool(conditions[0]),
    )


TOPOLOGY_STATUSES = Row(kinds.CLUSTER_TOPOLOGY, read_topology_status)
BINDING_STATUSES = Row(kinds.CLUSTER_TOPOLOGY_BINDING, read_topology_status)
"""The rows of statuses. Their caches are separate, so that PodGangs ignore changes of a status."""

LISTED_QUEUES = Row(kinds.QUEUE_NAMES, read_queue_names)
"""The queue names in the object that admission policies get as their parameter."""

PRIORITY_CLASSES = Row(kinds.PRIORITY_CLASS, read_name, metadata_only=True)


def pods_of_scheduler(scheduler_name: str) -> Row[StoredPod]:
    """Return the row for the Pods that name a group and that `scheduler_name` schedules."""
    indexes: dict[str, IndexFunction[StoredPod]] = {
        BY_GROUP: lambda pod: in_namespace(pod.namespace, pod.ref.key),
        BY_SHARED: lambda pod: in_namespace(pod.namespace, pod.ref.shared_key),
        BY_WORKLOAD: lambda pod: in_namespace(pod.namespace, pod.ref.workload),
        BY_POD_GROUP: lambda pod: in_namespace(pod.namespace, pod.pod_group),
    }
    selector = f"spec.schedulerName={scheduler_name}"
    return Row(
        POD,
        read_stored_pod,
        indexes,
        fields=selector,
        form=PodForm,
        most=64 * 2**10,
        most_of_namespace=16 * 2**20,  # kept as JSON
        most_decoded=MOST_OF_POD,
    )


class WorkloadCaches:
    """The caches for the KAI PodGroups that are created for Workloads.

    They contain Workloads, PodGroups of Kubernetes (`instances`) and of KAI (`pod_groups`), the
    names of PriorityClasses, and the Pods of `scheduler_name` that name a group.
    `stores.run_from_empty` fills them. `topologies` is the store of KAI Topologies, which verdicts
    use too.
    """

    def __init__(self, scheduler_name: str, topologies: WatchStore[KaiTopology]) -> None:
        pods = pods_of_scheduler(scheduler_name)
        self.stores = Stores((WORKLOADS, INSTANCES, POD_GROUPS, pods, PRIORITY_CLASSES))
        self.topologies = topologies
        self.pods = self.stores[pods]
        self.workloads = self.stores[WORKLOADS]
        self.instances = self.stores[INSTANCES]
        self.pod_groups = self.stores[POD_GROUPS]
        self.priority_classes = self.stores[PRIORITY_CLASSES]

    @property
    def synced(self) -> bool:
        """Whether all caches, including `topologies`, are filled."""
        return self.topologies.synced and all(store.synced for _, store in self.stores)

    def key_of(self, pod: StoredPod) -> Key:
        """Return (namespace, key of the group) of `pod`.

        All replicas of a group with the basic policy share one key.
        """
        return pod.namespace, self._shared_key(pod.namespace, pod.ref) or pod.ref.key

    def _shared_key(self, namespace: str, ref: GroupRef) -> str:
        """Return the shared key of the group `ref` if it has the basic policy, otherwise ""."""
        if not ref.pod_group:
            workload = self.workloads.get(namespace, ref.workload)
            basic = workload is not None and ref.group in workload.basic
            return ref.shared_key if basic else ""
        instance = self.instances.get(namespace, ref.pod_group)
        return instance.shared_key if instance is not None and instance.basic else ""

    def pods_of(self, key: Key) -> list[StoredPod]:
        """Return the Pods whose `key_of` is `key`."""
        pods = self._of(key, BY_GROUP, key) + self._of(key, BY_SHARED, key)
        for instance in self.instances.by_index(BY_SHARED, key):
            pods += self._of(key, BY_GROUP, (instance.namespace, instance_key(instance.name)))
        return pods

    def has_pods(self, pod_group: StoredPodGroup) -> bool:
        """Return whether a Pod is annotated with `pod_group` or names its group.

        Finished Pods count too.
        """
        namespace = pod_group.namespace
        return bool(self.pods.by_index(BY_POD_GROUP, (namespace, pod_group.name))) or any(
            self.pods_of((namespace, key)) for key in pod_group.group_keys
        )

    def lacks_pods_of(self, namespace: str) -> bool:
        """Return whether some Pods of a namespace are too large or too many to be cached.

        The groups of these Pods are not known.
        """
        return self.pods.lacks_some_of(namespace)

    def _of(self, key: Key, index: str, value: Key) -> list[StoredPod]:
        """Return the Pods at `value` in `index` if the key of their common group is `key`."""
        pods = self.pods.by_index(index, value)
        return pods if pods and self.key_of(pods[0]) == key else []
