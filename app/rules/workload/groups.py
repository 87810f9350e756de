"""Groups of Kubernetes Workloads, whatever the version of the API: which group a Pod is in, and what a group is.

A Pod of Kubernetes 1.35 names its group by `spec.workloadRef`, one of 1.36 and later by `spec.schedulingGroup`. The
files `v1alpha1`, `v1alpha2` and `v1beta1` read the objects of these versions into a `Group`.
Source: https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/4671-gang-scheduling
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from app.objects.metadata import annotations_of, labels_of

IGNORE = "kai.scheduler/ignore-workload-api"
MAX_NAME = 253

_NOT_COPIED = ("kubectl.kubernetes.io/", "deployment.kubernetes.io/", "batch.kubernetes.io/job-tracking", IGNORE)


@dataclass(frozen=True, slots=True)
class GroupRef:
    """What a Pod says about its group. In v1alpha2 only `pod_group` is given, which leads to the rest."""

    workload: str = ""
    group: str = ""
    replica_key: str = ""
    pod_group: str = ""

    @property
    def key(self) -> str:
        """One text for each group of a namespace; no name holds a slash."""
        if self.pod_group:
            return instance_key(self.pod_group)
        return f"w/{self.workload}/{self.group}/{self.replica_key}"


def instance_key(pod_group: str) -> str:
    """The key of a group that a PodGroup of scheduling.k8s.io defines."""
    return f"g/{pod_group}"


def shared_key(workload: str, group: str) -> str:
    """The key of a group with the basic policy, whose replicas are all one."""
    return f"b/{workload}/{group}"


@dataclass(frozen=True, slots=True)
class Layer:
    """One source of metadata: a Workload, a top owner or a Pod. `priority_class` is that of a Pod's spec."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    priority_class: str = ""

    def find(self, key: str) -> str | None:
        return self.labels.get(key) or self.annotations.get(key) or None


@dataclass(frozen=True, slots=True)
class Group:
    """One group as its Workload defines it. `minimum` is the `minCount` of a gang, or None for the basic policy.
    `composite` is the CompositePodGroup that the group is part of, or ""."""

    workload: str
    name: str
    minimum: int | None
    layer: Layer
    replica_key: str = ""
    pod_group: str = ""
    priority_class: str = ""
    topology_key: str = ""
    composite: str = ""

    @property
    def identity(self) -> str:
        """What tells this group from every other in its namespace. All replicas of a basic group are one."""
        replica = "" if self.minimum is None else self.replica_key or self.pod_group
        return f"{self.workload}/{self.name}/{replica}"

    @property
    def pod_group_name(self) -> str:
        """`<workload>-<group>-<replica key>`; in v1alpha2 the PodGroup of a gang has a name of its own. One that is too
        long is cut, and told apart by a hash of the whole."""
        if self.pod_group and (self.minimum is not None or not self.workload):
            return self.pod_group
        replica = "" if self.minimum is None else self.replica_key
        return shortened("-".join(filter(None, (self.workload, self.name, replica))))


def shortened(name: str) -> str:
    if len(name) <= MAX_NAME:
        return name
    digest = sha256(name.encode()).hexdigest()[:10]
    return f"{name[: MAX_NAME - 11].rstrip('-.')}-{digest}"


def group_ref(pod: Mapping[str, Any]) -> GroupRef | None:
    """The group that `pod` names, in either dialect; None for a Pod without one, or that opted out."""
    if annotations_of(pod).get(IGNORE) == "true":
        return None
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return None
    scheduling, workload = spec.get("schedulingGroup"), spec.get("workloadRef")
    if isinstance(scheduling, dict) and scheduling.get("podGroupName"):
        return GroupRef(pod_group=str(scheduling["podGroupName"]))
    if isinstance(workload, dict) and workload.get("name") and workload.get("podGroup"):
        key = str(workload.get("podGroupReplicaKey") or "")
        return GroupRef(str(workload["name"]), str(workload["podGroup"]), key)
    return None


def layer_of(obj: Mapping[str, Any]) -> Layer:
    """Labels and annotations of `obj`, without those that belong to tools that made it."""
    return Layer(_copied(labels_of(obj)), _copied(annotations_of(obj)))


def _copied(found: Mapping[str, Any]) -> dict[str, str]:
    return {key: value for key, value in found.items() if isinstance(value, str) and not key.startswith(_NOT_COPIED)}


def group_keys(identity: str, name: str) -> list[str]:
    """The keys (see `GroupRef.key`) that the Pods of the KAI PodGroup `name` can have, by its `Group.identity`."""
    parts = identity.split("/")
    if len(parts) != 3:
        return []
    workload, group, instance = parts
    if not workload:
        return [instance_key(instance or name)]
    named = GroupRef(workload, group, instance).key
    return [named, instance_key(instance) if instance else shared_key(workload, group)]


def named_groups(workload: Mapping[str, Any], listed: Any, policy: str) -> dict[str, Group]:
    """The groups of `workload` by name. `listed` are their definitions, in whose field `policy` the policy is."""
    name, layer = workload["metadata"]["name"], layer_of(workload)
    return {
        entry["name"]: Group(name, entry["name"], minimum_of(entry.get(policy)), layer)
        for entry in (listed if isinstance(listed, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("name"), str)
    }


def minimum_of(policy: Any) -> int | None:
    """The `minCount` of a gang, or None if `policy` is not that of a gang."""
    gang = policy.get("gang") if isinstance(policy, dict) else None
    count = gang.get("minCount") if isinstance(gang, dict) else None
    return count if isinstance(count, int) and count >= 0 else None


def topology_key_of(spec: Mapping[str, Any]) -> str:
    """The node label of `schedulingConstraints.topology` (KEP-5732), in whose domain all Pods of the group must be."""
    topology = (spec.get("schedulingConstraints") or {}).get("topology") or [{}]
    return str(topology[0].get("key") or "")
