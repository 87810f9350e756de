"""Kubernetes Workloads: which group a Pod is in, and how its Workload defines the group.

Source: `designs/kubernetes-workload-api.md`; the API's types, v1alpha1 (Kubernetes 1.35: `spec.workloadRef` of the Pod)
and v1alpha2 (1.36: `spec.schedulingGroup`, a PodGroup of scheduling.k8s.io, and its template in a Workload).
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
    """One group as its Workload defines it. `minimum` None: the basic policy."""

    workload: str
    name: str
    minimum: int | None
    layer: Layer
    replica_key: str = ""
    pod_group: str = ""
    priority_class: str = ""
    topology_key: str = ""

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


def groups_of_workload(workload: Mapping[str, Any]) -> dict[str, Group]:
    """The groups that a Workload defines, by name: `podGroups` in v1alpha1, `podGroupTemplates` in v1alpha2."""
    spec, name = workload.get("spec"), workload["metadata"]["name"]
    found = (spec.get("podGroups") or spec.get("podGroupTemplates") or []) if isinstance(spec, dict) else []
    layer = layer_of(workload)
    return {
        one["name"]: Group(name, one["name"], _minimum(one.get("policy") or one.get("schedulingPolicy")), layer)
        for one in found
        if isinstance(one, dict) and isinstance(one.get("name"), str)
    }


def group_of_pod_group(pod_group: Mapping[str, Any], workload: Mapping[str, Any] | None) -> Group:
    """The group that a PodGroup of scheduling.k8s.io is; its policy is the PodGroup's own, its metadata those of the
    Workload that it was made from (None for one that names none)."""
    spec, metadata = pod_group.get("spec") or {}, pod_group["metadata"]
    template = template_of(pod_group)
    keys = ((spec.get("schedulingConstraints") or {}).get("topology") or [{}])[0]
    return Group(
        workload=template[0] if template else "",
        name=template[1] if template else "",
        minimum=_minimum(spec.get("schedulingPolicy")),
        layer=layer_of(workload or pod_group),
        pod_group=metadata["name"],
        priority_class=str(spec.get("priorityClassName") or ""),
        topology_key=str(keys.get("key") or ""),
    )


def template_of(pod_group: Mapping[str, Any]) -> tuple[str, str] | None:
    """(Workload, template) that a PodGroup of scheduling.k8s.io was made from."""
    reference = ((pod_group.get("spec") or {}).get("podGroupTemplateRef") or {}).get("workload")
    if not isinstance(reference, dict):
        return None
    return str(reference.get("workloadName") or ""), str(reference.get("podGroupTemplateName") or "")


def _minimum(policy: Any) -> int | None:
    gang = policy.get("gang") if isinstance(policy, dict) else None
    count = gang.get("minCount") if isinstance(gang, dict) else None
    return count if isinstance(count, int) and count > 0 else None
