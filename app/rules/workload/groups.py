"""Read the groups of Kubernetes Workloads, in one form for all versions of the API.

A Pod names its group in `spec.workloadRef` in Kubernetes 1.35, and in `spec.schedulingGroup` since
1.36. Source:
https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/4671-gang-scheduling
"""

from collections.abc import Mapping
from hashlib import sha256

from app.base.value import Value
from app.facts.kubernetes.workload import read_workload, read_workload_group
from app.facts.labels import IGNORE_WORKLOADS, SKIP_PODGROUPER
from app.objects.edits import Edit
from app.objects.shape import (
    JsonMap,
    annotations_of,
    labels_of,
    map_of,
    text_at,
)

MAX_NAME = 253

_NOT_COPIED = (
    "kubectl.kubernetes.io/",
    "deployment.kubernetes.io/",
    "batch.kubernetes.io/job-tracking",
    IGNORE_WORKLOADS,
)


class GroupRef(Value):
    """The reference of a Pod to its group."""

    workload: str = ""
    """The name of the Workload in v1alpha1, otherwise ""."""
    group: str = ""
    """The name of the group in the Workload in v1alpha1, otherwise ""."""
    replica_key: str = ""
    """The replica of the group in v1alpha1, or ""."""
    pod_group: str = ""
    """The name of a PodGroup of scheduling.k8s.io in later versions, otherwise ""."""

    @property
    def key(self) -> str:
        """A string that is different for each replica of each group of a namespace.

        Names contain no slash.
        """
        if self.pod_group:
            return instance_key(self.pod_group)
        return f"w/{self.workload}/{self.group}/{self.replica_key}"

    @property
    def shared_key(self) -> str:
        """The key of the group if it has the basic policy, or "" without a Workload."""
        return shared_key(self.workload, self.group)


def instance_key(pod_group: str) -> str:
    """Return the key of the group that a PodGroup of scheduling.k8s.io defines."""
    return f"g/{pod_group}"


def shared_key(workload: str, group: str) -> str:
    """Return the key that all replicas of a group with the basic policy share.

    Return "" without a Workload.
    """
    return f"b/{workload}/{group}" if workload else ""


class MetadataLayer(Value):
    """The metadata of a Workload, a top owner or a Pod."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    priority_class: str = ""
    """The priority class in the spec of a Pod, or ""."""

    def find(self, key: str) -> str | None:
        """Return the label `key`, or else the annotation `key`, or None if neither has a value."""
        return self.labels.get(key) or self.annotations.get(key) or None


class DefinedGroup(Value):
    """A group as its Workload or PodGroup defines it."""

    workload: str
    """The name of its Workload, or ""."""
    name: str
    """The name of the group in its Workload, or ""."""
    minimum: int | None
    """The `minCount` of a gang, or None for the basic policy."""
    layer: MetadataLayer
    """The metadata of the Workload or, without one, of the PodGroup."""
    replica_key: str = ""
    """The replica of the group (v1alpha1), or ""."""
    pod_group: str = ""
    """The PodGroup of scheduling.k8s.io that defines the group, or ""."""
    priority_class: str = ""
    """The PriorityClass that the PodGroup names, or ""."""
    topology_key: str = ""
    """The node label of the required topology level, or ""."""
    composite: str = ""
    """The CompositePodGroup that contains the group, or ""."""

    @property
    def identity(self) -> str:
        """A string that is different for each replica of each gang of a namespace.

        All replicas of a group with the basic policy have the same identity.
        """
        replica = "" if self.minimum is None else self.replica_key or self.pod_group
        return f"{self.workload}/{self.name}/{replica}"

    @property
    def pod_group_name(self) -> str:
        """The name of the KAI PodGroup.

        It is `<workload>-<group>-<replica key>`, `shortened`, without a replica key for the basic
        policy. If a PodGroup of scheduling.k8s.io defines a gang or has no Workload, it is the name
        of that PodGroup.
        """
        if self.pod_group and (self.minimum is not None or not self.workload):
            return self.pod_group
        replica = "" if self.minimum is None else self.replica_key
        return shortened("-".join(filter(None, (self.workload, self.name, replica))))


def shortened(name: str, longest: int = MAX_NAME) -> str:
    """Return `name`, with its end replaced by a hash of the whole name if it is too long."""
    if len(name) <= longest:
        return name
    digest = sha256(name.encode()).hexdigest()[:10]
    return f"{name[: longest - 11].rstrip('-.')}-{digest}"


def opts_out(obj: JsonMap) -> bool:
    """Return whether `obj`, a Pod or its top owner, opts out of Workloads."""
    return annotations_of(obj).get(IGNORE_WORKLOADS) == "true"


def group_ref(pod: JsonMap) -> GroupRef | None:
    """Return the group that `pod` uses, or None if it names none or has opted out."""
    return None if opts_out(pod) else named_group(pod)


def named_group(pod: JsonMap) -> GroupRef | None:
    """Return the group that `pod` names, even if it has opted out, or None if it names none."""
    spec = map_of(pod.get("spec"))
    pod_group = text_at(map_of(spec.get("schedulingGroup")), "podGroupName")
    if pod_group:
        return GroupRef(pod_group=pod_group)

    reference = map_of(spec.get("workloadRef"))
    workload = text_at(reference, "name")
    group = text_at(reference, "podGroup")
    if workload and group:
        return GroupRef(workload, group, text_at(reference, "podGroupReplicaKey"))

    return None


def layer_of(obj: JsonMap) -> MetadataLayer:
    """Return the labels and annotations of `obj` that a PodGroup may get.

    Entries that kubectl, Deployments and Jobs write, and the opt-out of Workloads, are left out.
    """
    return MetadataLayer(_copied(labels_of(obj)), _copied(annotations_of(obj)))


def _copied(entries: JsonMap) -> dict[str, str]:
    return {
        key: value
        for key, value in entries.items()
        if isinstance(value, str) and not key.startswith(_NOT_COPIED)
    }


def group_keys(identity: str, name: str) -> list[str]:
    """Return the keys (see `GroupRef.key`) that Pods of the KAI PodGroup `name` can have.

    `identity` is the `DefinedGroup.identity` of its group. The result is empty if it is malformed.
    """
    parts = identity.split("/")
    if len(parts) != 3:
        return []
    workload, group, instance = parts
    if not workload:
        return [instance_key(instance or name)]
    own_key = GroupRef(workload, group, instance).key
    return [own_key, instance_key(instance) if instance else shared_key(workload, group)]


def admission_changes(pod: JsonMap, scheduler_name: str) -> list[Edit]:
    """Return the change that annotates a new Pod, so that KAI does not schedule it alone.

    There is no change if the scheduler of the Pod is not `scheduler_name`, if the Pod names no
    Workload group or has opted out, or if it already has the annotation.
    """
    if map_of(pod.get("spec")).get("schedulerName") != scheduler_name or group_ref(pod) is None:
        return []
    if annotations_of(pod).get(SKIP_PODGROUPER) == "true":
        return []
    return [Edit(("metadata", "annotations", SKIP_PODGROUPER), "true")]


# Groups, as their Workload or their PodGroup defines them.


def groups_of_workload(obj: JsonMap) -> dict[str, DefinedGroup]:
    """Return, by name, the groups that a Workload defines or has templates for."""
    workload = read_workload(obj)
    layer = layer_of(obj)
    return {
        name: DefinedGroup(workload.name, name, minimum, layer)
        for name, minimum in workload.groups.items()
    }


def group_of_pod_group(obj: JsonMap, workload: JsonMap | None) -> DefinedGroup:
    """Return the group that a PodGroup of scheduling.k8s.io defines.

    It has the labels and annotations of `workload` or, if that is None, of the PodGroup.
    """
    pod_group = read_workload_group(obj)
    return DefinedGroup(
        workload=pod_group.workload,
        name=pod_group.template,
        minimum=pod_group.minimum,
        layer=layer_of(workload or obj),
        pod_group=pod_group.name,
        priority_class=pod_group.priority_class,
        topology_key=pod_group.topology_key,
        composite=pod_group.composite,
    )
