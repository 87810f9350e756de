"""What the caches keep of objects.

These are Pods in groups, Workloads, and PodGroups of Kubernetes and of KAI.
"""

from dataclasses import dataclass

from app.facts.labels import POD_GROUP_NAME
from app.kube.api import Object
from app.kube.owners import Controller, controller_of
from app.objects.packed import packed, unpacked
from app.objects.shape import map_of, text_of
from app.rules.workload.groups import SKIP_PODGROUPER, GroupRef, group_keys, group_ref, shared_key
from app.rules.workload.kai_podgroup import WORKLOAD_GROUP
from app.rules.workload.versions import group_of_pod_group, groups_of_workload

_METADATA = ("name", "namespace", "uid", "labels", "annotations", "ownerReferences")


@dataclass(frozen=True, slots=True)
class Stored:
    """A cached object.

    `content` is JSON of its metadata and, except for Pods, of its apiVersion and spec.
    """

    namespace: str
    name: str
    content: bytes

    def view(self) -> Object:
        return unpacked(self.content)


@dataclass(frozen=True, slots=True)
class StoredPod(Stored):
    """A Pod that names a group. `pod_group` is its annotation `pod-group-name`, or ""."""

    uid: str
    ref: GroupRef
    controller: Controller | None
    pod_group: str
    marked: bool
    """Whether it has the annotation that makes KAI's own podgrouper skip it."""

    ending: bool
    """Whether it has finished or is being deleted."""

    priority_class: str

    @property
    def settled_group(self) -> str:
        """Its `pod-group-name` if it is marked too, else ""."""
        return self.pod_group if self.marked else ""


def read_pod(obj: Object) -> StoredPod | None:
    """Projection of a Pod. None if it names no group or has opted out."""
    ref = group_ref(obj)
    if ref is None:
        return None

    metadata = obj["metadata"]
    annotations = obj["metadata"].get("annotations") or {}
    content = {
        "metadata": {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
    }

    return StoredPod(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        content=packed(content),
        uid=metadata["uid"],
        ref=ref,
        controller=controller_of(obj),
        pod_group=annotations.get(POD_GROUP_NAME, ""),
        marked=annotations.get(SKIP_PODGROUPER) == "true",
        ending=bool(metadata.get("deletionTimestamp"))
        or map_of(obj.get("status")).get("phase") in ("Succeeded", "Failed"),
        priority_class=text_of(map_of(obj.get("spec")).get("priorityClassName")),
    )


def _stored(obj: Object) -> tuple[str, str, bytes]:
    """Return the fields of `Stored`."""
    metadata = {key: obj["metadata"][key] for key in _METADATA if key in obj["metadata"]}
    content = packed(
        {"apiVersion": obj["apiVersion"], "metadata": metadata, "spec": map_of(obj.get("spec"))}
    )
    return metadata.get("namespace", ""), metadata["name"], content


@dataclass(frozen=True, slots=True)
class StoredWorkload(Stored):
    """A Workload. `basic` are the names of its groups with the basic policy."""

    basic: frozenset[str]


def read_workload(obj: Object) -> StoredWorkload:
    groups = groups_of_workload(obj)
    return StoredWorkload(
        *_stored(obj), frozenset(name for name, group in groups.items() if group.minimum is None)
    )


@dataclass(frozen=True, slots=True)
class StoredInstance(Stored):
    """A PodGroup of scheduling.k8s.io.

    `workload` and `template` are what it was made from, and `composite` is the CompositePodGroup
    that it is part of, each "" if there is none. `basic` is true for the basic policy.
    """

    workload: str
    template: str
    basic: bool
    composite: str

    @property
    def shared_key(self) -> str:
        """The key of its group if its policy is basic; "" without a Workload."""
        return shared_key(self.workload, self.template)


def read_instance(obj: Object) -> StoredInstance:
    group = group_of_pod_group(obj, None)
    return StoredInstance(
        *_stored(obj), group.workload, group.name, group.minimum is None, group.composite
    )


@dataclass(frozen=True, slots=True)
class StoredPodGroup(Stored):
    """A KAI PodGroup that this program made. `group_keys` are the keys that its group can have."""

    uid: str
    group_keys: tuple[str, ...]


def read_pod_group(obj: Object) -> StoredPodGroup:
    metadata = obj["metadata"]
    identity = str((metadata.get("annotations") or {}).get(WORKLOAD_GROUP, ""))
    return StoredPodGroup(
        *_stored(obj), metadata["uid"], tuple(group_keys(identity, metadata["name"]))
    )
