"""The KAI PodGroup of a Workload group: where its fields come from, and what of a stored one differs.

Source: the table of metadata in `designs/kubernetes-workload-api.md`; for queue, project, node pool and user what KAI's
own grouper does (`pkg/podgrouper/podgrouper/plugins/defaultgrouper`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.objects.metadata import annotations_of, labels_of, string_map
from app.rules.kinds import POD_GROUP
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

_FIELDS = ("minMember", "queue", "priorityClassName", "preemptibility", "topologyConstraint")
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


def desired_pod_group(
    group: Group, owner: Layer, pod: Layer, owner_reference: Mapping[str, Any], conventions: Conventions
) -> dict[str, Any]:
    """The KAI PodGroup of `group`: each field from the Workload, else the top owner, else (but for topology) the
    Pod."""
    return {
        "apiVersion": POD_GROUP.api_version(),
        "kind": POD_GROUP.kind,
        "metadata": {
            "name": group.pod_group_name,
            **_metadata(group, owner, pod, conventions.keys),
            "ownerReferences": [dict(owner_reference)],
        },
        "spec": _spec(group, owner, pod, conventions),
    }


def _metadata(group: Group, owner: Layer, pod: Layer, keys: LabelKeys) -> dict[str, dict[str, str]]:
    labels = {**_only(pod.labels, (keys.user, keys.node_pool)), **owner.labels, **group.layer.labels}
    annotations = {**_only(pod.annotations, (keys.user,)), **owner.annotations, **group.layer.annotations}
    copied = [*(f"labels/{key}" for key in sorted(labels)), *(f"annotations/{key}" for key in sorted(annotations))]
    return {
        "labels": {**labels, MANAGED_BY: MANAGER},
        "annotations": {**annotations, WORKLOAD_GROUP: group.identity, COPIED: ",".join(copied)},
    }


def _only(found: Mapping[str, str], keys: Iterable[str]) -> dict[str, str]:
    return {key: found[key] for key in keys if key in found}


def _spec(group: Group, owner: Layer, pod: Layer, conventions: Conventions) -> dict[str, Any]:
    chain, keys = (group.layer, owner, pod), conventions.keys
    known = {
        "queue": _queue(chain, conventions),
        "priorityClassName": group.priority_class or _first(chain, keys.priority_class) or pod.priority_class,
        "preemptibility": _preemptibility(chain, keys.preemptibility),
        "topologyConstraint": _topology(group, owner, conventions.topology),
    }
    return {"minMember": group.minimum or 1} | {field: value for field, value in known.items() if value}


def _first(chain: Iterable[Layer], key: str) -> str | None:
    return next((value for layer in chain if (value := layer.find(key)) is not None), None)


def _queue(chain: tuple[Layer, Layer, Layer], conventions: Conventions) -> str:
    """The queue by its own label; else that of the project, one for each node pool."""
    keys = conventions.keys
    queue, project = _first(chain, keys.queue), _first(chain, keys.project)
    if queue or not project:
        return queue or conventions.default_queue
    pool = chain[-1].labels.get(keys.node_pool)
    return f"{project}-{pool}" if pool else project


def _preemptibility(chain: Iterable[Layer], key: str) -> str | None:
    """Who says something that KAI doesn't know has said nothing."""
    return next((value for layer in chain if (value := layer.find(key)) in PREEMPTIBILITIES), None)


def _topology(group: Group, owner: Layer, topology: str) -> dict[str, str]:
    chain = (group.layer, owner)
    required = group.topology_key or _first(chain, TOPOLOGY_REQUIRED)
    preferred = _first(chain, TOPOLOGY_PREFERRED)
    if not required and not preferred:
        return {}
    found = {"topology": _first(chain, TOPOLOGY) or topology}
    found |= {"requiredTopologyLevel": required} if required else {}
    return found | ({"preferredTopologyLevel": preferred} if preferred else {})


def difference(stored: Mapping[str, Any], desired: Mapping[str, Any]) -> dict[str, Any]:
    """A merge patch that makes `stored` as desired; {} where it is. Its owners, and labels, annotations and fields that
    others have set, stay."""
    metadata, spec = _metadata_difference(stored, desired), _spec_difference(stored, desired)
    return ({"metadata": metadata} if metadata else {}) | ({"spec": spec} if spec else {})


def _metadata_difference(stored: Mapping[str, Any], desired: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in _MAPS:
        has, wanted = string_map(stored, name), desired["metadata"][name]
        changed: dict[str, Any] = {key: value for key, value in wanted.items() if has.get(key) != value}
        gone = {key: None for key in _copied(stored, name) if key in has and key not in wanted}
        found |= {name: gone | changed} if gone or changed else {}
    return found


def _copied(stored: Mapping[str, Any], name: str) -> list[str]:
    """The keys of labels or annotations that `stored` got from elsewhere."""
    noted = str(annotations_of(stored).get(COPIED, "")).split(",")
    return [one.removeprefix(f"{name}/") for one in noted if one.startswith(f"{name}/")]


def _spec_difference(stored: Mapping[str, Any], desired: Mapping[str, Any]) -> dict[str, Any]:
    held, wanted = stored.get("spec") or {}, desired["spec"]
    spec = {field: wanted.get(field) for field in _FIELDS if (held.get(field) or None) != wanted.get(field)}
    if spec.get("topologyConstraint") and held.get("topologyConstraint"):
        gone = dict.fromkeys(set(held["topologyConstraint"]) - set(spec["topologyConstraint"]))
        spec["topologyConstraint"] = {**gone, **spec["topologyConstraint"]}
    return spec


def owners_to_write(
    stored: Mapping[str, Any], wanted: Iterable[Mapping[str, Any]], shared: Mapping[str, Any]
) -> list[Any] | None:
    """The owner references of `stored`, with `shared` (which all its Pods have in common) added where one of `wanted`
    is missing: it would go with the first of several owners, under the Pods of the others. None: they stay."""
    held = stored["metadata"].get("ownerReferences") or []
    uids = {one["uid"] for one in held}
    if shared["uid"] in uids or uids.issuperset(one["uid"] for one in wanted):
        return None
    return [*held, dict(shared)]


def is_of_group(stored: Mapping[str, Any], group: Group) -> bool:
    """Whether a stored KAI PodGroup was made here for `group`, and not by anybody else or for another of that name."""
    ours = labels_of(stored).get(MANAGED_BY) == MANAGER
    return ours and annotations_of(stored).get(WORKLOAD_GROUP) == group.identity
