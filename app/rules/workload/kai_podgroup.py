"""The KAI PodGroup of a Workload group: where its fields come from, and what of a stored one differs.

Sources: KAI's design
https://github.com/kai-scheduler/KAI-Scheduler/blob/d5bc503a/docs/developer/designs/k8s-workload-api/README.md
and, for queue, priority class, project, node pool and user, what KAI's own grouper does (`pkg/podgrouper/podgrouper/
plugins/defaultgrouper` of that repository).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.objects.metadata import annotations_of, labels_of, string_map
from app.rules.kinds import K8S_POD_GROUP, POD_GROUP
from app.rules.labels import MANAGED_BY, MANAGER
from app.rules.workload.groups import Group, Layer

KAI_SCHEDULER = "kai-scheduler"
"""The `schedulerName` of KAI as it is installed."""

WORKLOAD_GROUP = "grove.io/workload-group"
COPIED = "grove.io/copied-metadata"
"""Which labels and annotations came from elsewhere: they go when they go there."""

TOPOLOGY = "kai.scheduler/topology"
TOPOLOGY_REQUIRED = "kai.scheduler/topology-required-placement"
TOPOLOGY_PREFERRED = "kai.scheduler/topology-preferred-placement"
PREEMPTIBILITIES = ("preemptible", "non-preemptible")

DEFAULT_PRIORITY_CLASS = "train"
DEFAULT_PRIORITY_CLASSES = {
    ("apps", "Deployment"): "inference",
    ("serving.knative.dev", "Service"): "inference",
    ("kubeflow.org", "Notebook"): "build",
}
"""KAI's priority classes by API group and kind of the top owner."""

_FIELDS = ("minMember", "priorityClassName", "preemptibility", "topologyConstraint")
_MAPS = ("labels", "annotations")


@dataclass(frozen=True, slots=True)
class LabelKeys:
    """Where queue, priority class, preemptibility and project are read: labels, else annotations, of each layer; and
    the labels of Pods that their PodGroup has too: user and node pool."""

    queue: str = "kai.scheduler/queue"
    priority_class: str = "priorityClassName"
    preemptibility: str = "kai.scheduler/preemptibility"
    project: str = "project"
    user: str = "user"
    node_pool: str = "kai.scheduler/node-pool"


@dataclass(frozen=True, slots=True)
class Conventions:
    """How KAI is set up: its labels, the Topology that a topology key without one is meant in, and the queue of those
    who name none ("" for no queue)."""

    keys: LabelKeys = LabelKeys()
    topology: str = ""
    default_queue: str = "default-queue"


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the fields of a PodGroup come from, beside its group. `kind` is the API group and kind of the top owner,
    `common_owner` the reference to the top owner that all Pods have in common, if they have one, and `priority_classes`
    the names of those that exist."""

    owner: Layer
    pod: Layer
    kind: tuple[str, str]
    common_owner: Mapping[str, Any] | None
    priority_classes: Collection[str]


@dataclass(frozen=True, slots=True)
class Remark:
    """What people should know about a stored PodGroup, as reason and note of an event."""

    reason: str
    note: str


def desired_pod_group(group: Group, sources: Sources, conventions: Conventions) -> dict[str, Any]:
    """The KAI PodGroup of `group`: each field from the Workload, else the top owner, else (but for topology) the
    Pod."""
    owner = sources.common_owner
    return {
        "apiVersion": POD_GROUP.api_version(),
        "kind": POD_GROUP.kind,
        "metadata": {
            "name": group.pod_group_name,
            **_metadata(group, sources, conventions.keys),
            "ownerReferences": [] if owner is None else [dict(owner)],
        },
        "spec": _spec(group, sources, conventions),
    }


def _metadata(group: Group, sources: Sources, keys: LabelKeys) -> dict[str, dict[str, str]]:
    owner, pod = sources.owner, sources.pod
    labels = {**_only(pod.labels, (keys.user, keys.node_pool)), **owner.labels, **group.layer.labels}
    annotations = {**_only(pod.annotations, (keys.user,)), **owner.annotations, **group.layer.annotations}
    copied = [*(f"labels/{key}" for key in sorted(labels)), *(f"annotations/{key}" for key in sorted(annotations))]
    return {
        "labels": {**labels, MANAGED_BY: MANAGER},
        "annotations": {**annotations, WORKLOAD_GROUP: group.identity, COPIED: ",".join(copied)},
    }


def _only(entries: Mapping[str, str], keys: Iterable[str]) -> dict[str, str]:
    return {key: entries[key] for key in keys if key in entries}


def _chain(group: Group, sources: Sources) -> tuple[Layer, Layer, Layer]:
    return group.layer, sources.owner, sources.pod


def _spec(group: Group, sources: Sources, conventions: Conventions) -> dict[str, Any]:
    chain, keys = _chain(group, sources), conventions.keys
    known = {
        "queue": named_queue(chain, keys) or conventions.default_queue,
        "priorityClassName": _priority_class(group, sources, keys.priority_class),
        "preemptibility": _preemptibility(chain, keys.preemptibility),
        "topologyConstraint": _topology(group, sources.owner, conventions.topology),
    }
    minimum = 1 if group.minimum is None else group.minimum
    return {"minMember": minimum} | {field: value for field, value in known.items() if value}


def _first(chain: Iterable[Layer], key: str) -> str | None:
    return next((value for layer in chain if (value := layer.find(key)) is not None), None)


def named_queue(chain: tuple[Layer, Layer, Layer], keys: LabelKeys) -> str | None:
    """The queue by its own label; else that of the project, one for each node pool."""
    queue, project = _first(chain, keys.queue), _first(chain, keys.project)
    if queue or not project:
        return queue
    pool = chain[-1].labels.get(keys.node_pool)
    return f"{project}-{pool}" if pool else project


def _priority_class(group: Group, sources: Sources, key: str) -> str | None:
    """The first that exists, of those named and KAI's default for the kind of the top owner."""
    default = DEFAULT_PRIORITY_CLASSES.get(sources.kind, DEFAULT_PRIORITY_CLASS)
    named = (layer.find(key) for layer in _chain(group, sources))
    candidates = (group.priority_class, *named, sources.pod.priority_class, default)
    return next((name for name in candidates if name and name in sources.priority_classes), None)


def _preemptibility(chain: Iterable[Layer], key: str) -> str | None:
    """A value that KAI doesn't know counts as none."""
    return next((value for layer in chain if (value := layer.find(key)) in PREEMPTIBILITIES), None)


def _topology(group: Group, owner: Layer, topology: str) -> dict[str, str]:
    chain = (group.layer, owner)
    required = group.topology_key or _first(chain, TOPOLOGY_REQUIRED)
    preferred = _first(chain, TOPOLOGY_PREFERRED)
    if not required and not preferred:
        return {}
    constraint = {"topology": _first(chain, TOPOLOGY) or topology}
    constraint |= {"requiredTopologyLevel": required} if required else {}
    return constraint | ({"preferredTopologyLevel": preferred} if preferred else {})


def remarks(
    stored: Mapping[str, Any], group: Group, sources: Sources, conventions: Conventions
) -> dict[str, Remark | None]:
    """By subject what people should know about the stored PodGroup, or None if there is nothing to say of it."""
    return {
        "queue": _queue_remark(stored, named_queue(_chain(group, sources), conventions.keys)),
        "topology": _topology_remark(group, sources.owner),
    }


def _queue_remark(stored: Mapping[str, Any], named: str | None) -> Remark | None:
    current = (stored.get("spec") or {}).get("queue") or ""
    if named is None or named == current:
        return None
    return Remark(
        "QueueDiffers",
        f'labels name the queue "{named}", spec.queue is "{current}" and stays so: grove-admission writes it only at '
        "creation. To move the group, change spec.queue",
    )


def _topology_remark(group: Group, owner: Layer) -> Remark | None:
    annotated = _first((group.layer, owner), TOPOLOGY_REQUIRED)
    if not group.topology_key or annotated in (None, group.topology_key):
        return None
    return Remark(
        "TopologyConflict",
        f'schedulingConstraints.topology asks for "{group.topology_key}", the annotation {TOPOLOGY_REQUIRED} for '
        f'"{annotated}": the first counts. Remove one of them',
    )


def difference(stored: Mapping[str, Any], desired: Mapping[str, Any], keys: LabelKeys) -> dict[str, Any]:
    """A merge patch that makes `stored` as desired; {} if it is. Its owners, and labels, annotations and fields that
    others have set, stay. Queue and node pool belong to KAI's queue assigner and to administrators once the PodGroup is
    stored; `minMember` is not written beside `minSubGroup`, which excludes it."""
    metadata = _metadata_difference(stored, desired, (keys.queue, keys.node_pool))
    spec = _spec_difference(stored, desired)
    return ({"metadata": metadata} if metadata else {}) | ({"spec": spec} if spec else {})


def _metadata_difference(
    stored: Mapping[str, Any], desired: Mapping[str, Any], only_at_creation: Collection[str]
) -> dict[str, Any]:
    patch: dict[str, Any] = {}
    for name in _MAPS:
        current, wanted = string_map(stored, name), desired["metadata"][name]
        kept = only_at_creation if name == "labels" else ()
        changes: dict[str, Any] = {
            key: None for key in _copied(stored, name) if key in current and key not in wanted and key not in kept
        }
        changes |= {key: value for key, value in wanted.items() if current.get(key) != value and key not in kept}
        patch |= {name: changes} if changes else {}
    return patch


def _copied(stored: Mapping[str, Any], name: str) -> list[str]:
    """The keys of labels or annotations that `stored` got from elsewhere."""
    entries = str(annotations_of(stored).get(COPIED, "")).split(",")
    return [entry.removeprefix(f"{name}/") for entry in entries if entry.startswith(f"{name}/")]


def _spec_difference(stored: Mapping[str, Any], desired: Mapping[str, Any]) -> dict[str, Any]:
    current, wanted = stored.get("spec") or {}, desired["spec"]
    fields = [field for field in _FIELDS if field != "minMember" or current.get("minSubGroup") is None]
    spec = {field: wanted.get(field) for field in fields if _given(current, field) != wanted.get(field)}
    if spec.get("topologyConstraint") and current.get("topologyConstraint"):
        gone = [key for key in current["topologyConstraint"] if key not in spec["topologyConstraint"]]
        spec["topologyConstraint"] = {**spec["topologyConstraint"], **dict.fromkeys(gone)}
    return spec


def _given(spec: Mapping[str, Any], field: str) -> Any:
    """The value of `field`, None if it is missing or empty. A `minMember` of 0 is not empty."""
    value = spec.get(field)
    return None if value in ("", {}) else value


def owners_to_write(stored: Mapping[str, Any], common_owner: Mapping[str, Any] | None) -> list[Any] | None:
    """The owner references that `stored` should have, or None if they stay. It has none if its Pods have no owner in
    common: it would be collected with the first of several owners, while Pods of the others run. A Workload is never an
    owner. Whatever its owners, the PodGroup is deleted with its last Pod."""
    references = stored["metadata"].get("ownerReferences") or []
    of_workload = any(str(owner.get("apiVersion", "")).startswith(f"{K8S_POD_GROUP.group}/") for owner in references)
    is_common = common_owner is not None and common_owner["uid"] in {owner["uid"] for owner in references}
    return [] if references and (of_workload or not is_common) else None


def is_of_group(stored: Mapping[str, Any], group: Group) -> bool:
    """Whether a stored KAI PodGroup was made here for `group`, and not by anybody else or for another of that name."""
    ours = labels_of(stored).get(MANAGED_BY) == MANAGER
    return ours and annotations_of(stored).get(WORKLOAD_GROUP) == group.identity
