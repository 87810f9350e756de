"""Derive the KAI PodGroup of a Workload group, and the patch for a stored PodGroup that differs.

Sources: KAI's design
https://github.com/kai-scheduler/KAI-Scheduler/blob/d5bc503a/docs/developer/designs/k8s-workload-api/README.md
and, for queue, priority class, project, node pool and user, KAI's own pod-grouper:
https://github.com/kai-scheduler/KAI-Scheduler/tree/d5bc503a/pkg/podgrouper/podgrouper/plugins/defaultgrouper
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from app.base.value import Value
from app.facts.kai.topology import KaiTopology
from app.facts.kinds import K8S_POD_GROUP, POD_GROUP
from app.facts.labels import (
    KAI_PREEMPTIBILITY,
    KAI_QUEUE,
    KAI_TOPOLOGY_NAME,
    MANAGED_BY,
    MANAGER,
    NODE_POOL,
)
from app.objects.shape import JsonMap, Object, annotations_of, labels_of, only, string_map
from app.rules.topology.unsatisfiable import TopologyOf, is_broader_level
from app.rules.workload.groups import DefinedGroup, MetadataLayer

WORKLOAD_GROUP = "grove.io/workload-group"
COPIED = "grove.io/copied-metadata"
"""The annotation that lists the copied labels and annotations, and the constraint if we wrote it.

A copy is removed when its original is removed.
"""

TOPOLOGY_REQUIRED = "kai.scheduler/topology-required-placement"
TOPOLOGY_PREFERRED = "kai.scheduler/topology-preferred-placement"
SEMI_PREEMPTIBLE = "semi-preemptible"
"""The preemptibility of a PodGroup of which KAI may evict only the pods beyond the minimum.

KAI's CRDs before 0.18 reject it.
"""

PREEMPTIBILITIES = ("preemptible", "non-preemptible", SEMI_PREEMPTIBLE)

DEFAULT_PRIORITY_CLASS = "train"
DEFAULT_PRIORITY_CLASSES = {
    ("apps", "Deployment"): "inference",
    ("serving.knative.dev", "Service"): "inference",
    ("kubeflow.org", "Notebook"): "build",
}
"""KAI's default priority classes by API group and kind of the top owner.

For other kinds, it is DEFAULT_PRIORITY_CLASS.
"""

_FIELDS = ("minMember", "priorityClassName", "preemptibility", "topologyConstraint")
_CONSTRAINT = "spec/topologyConstraint"
"""The entry of `COPIED` that says that this program wrote the constraint of a PodGroup."""
_TOPOLOGY_ANNOTATIONS = (
    f"annotations/{TOPOLOGY_REQUIRED}",
    f"annotations/{TOPOLOGY_PREFERRED}",
)
_OF_CONSTRAINT = ("topology", "requiredTopologyLevel", "preferredTopologyLevel")
_MAPS = ("labels", "annotations")


class LabelKeys(Value):
    """The configurable keys of the labels and annotations that KAI and this program read.

    The labels `user` and `node_pool` and the annotation `user` are copied from the first Pod.
    """

    queue: str = KAI_QUEUE
    priority_class: str = "priorityClassName"
    preemptibility: str = KAI_PREEMPTIBILITY
    project: str = "project"
    user: str = "user"
    node_pool: str = NODE_POOL


class Conventions(Value):
    """The configured settings for PodGroups of Workloads."""

    keys: LabelKeys = LabelKeys()
    """The keys of the labels and annotations to read."""
    topology: str = ""
    """The KAI Topology of constraints that do not name one."""
    default_queue: str = "default-queue"
    """The queue of groups that do not name one, or "" for no queue."""


def _unknown(name: str) -> KaiTopology | None:
    return None


class Sources(Value):
    """The facts from which the fields of a PodGroup are computed, next to its `DefinedGroup`."""

    owner: MetadataLayer
    """The metadata of the top owner, empty if there is none."""
    pod: MetadataLayer
    """The metadata of the first Pod."""
    kind: tuple[str, str]
    """The API group and kind of the top owner, or of a Pod if there is no top owner."""
    common_owner: JsonMap | None
    """The reference to the top owner that all Pods share, or None."""
    priority_classes: Collection[str]
    """The names of all PriorityClasses."""
    topology_of: TopologyOf = _unknown
    """Returns a KAI Topology by its name, or None if it is not known."""


class Remark(Value):
    """The reason and note of an event about a PodGroup, or about Pods that do not have one yet."""

    reason: str
    """The reason for programs, one CamelCase word."""
    note: str
    """The note for people."""


def desired_pod_group(group: DefinedGroup, sources: Sources, conventions: Conventions) -> Object:
    """Return the KAI PodGroup that `group` should have.

    Settings are taken from the Workload, or else from the top owner, or else from the Pod. The
    topology is never taken from the Pod, and `minMember` always from `group`.
    """
    owner = sources.common_owner
    spec = _spec(group, sources, conventions)
    return {
        "apiVersion": POD_GROUP.api_version(),
        "kind": POD_GROUP.kind,
        "metadata": {
            "name": group.pod_group_name,
            **_metadata(group, sources, conventions.keys, spec),
            "ownerReferences": [] if owner is None else [dict(owner)],
        },
        "spec": spec,
    }


def _metadata(
    group: DefinedGroup, sources: Sources, keys: LabelKeys, spec: JsonMap
) -> dict[str, dict[str, str]]:
    owner = sources.owner
    pod = sources.pod
    labels = {
        **only(pod.labels, (keys.user, keys.node_pool)),
        **owner.labels,
        **group.layer.labels,
    }
    annotations = {
        **only(pod.annotations, (keys.user,)),
        **owner.annotations,
        **group.layer.annotations,
    }
    copied = [
        *(f"labels/{key}" for key in sorted(labels)),
        *(f"annotations/{key}" for key in sorted(annotations)),
        *([_CONSTRAINT] if "topologyConstraint" in spec else []),
    ]

    return {
        "labels": {**labels, MANAGED_BY: MANAGER},
        "annotations": {**annotations, WORKLOAD_GROUP: group.identity, COPIED: ",".join(copied)},
    }


def _chain(group: DefinedGroup, sources: Sources) -> tuple[MetadataLayer, ...]:
    return group.layer, sources.owner, sources.pod


def _spec(group: DefinedGroup, sources: Sources, conventions: Conventions) -> Object:
    chain = _chain(group, sources)
    keys = conventions.keys
    constraint = _topology(group, sources.owner, conventions.topology)
    if _is_never_placed(constraint, sources):
        del constraint["preferredTopologyLevel"]

    preemptibilities = (layer.find(keys.preemptibility) for layer in chain)
    fields = {
        "queue": named_queue(chain, keys) or conventions.default_queue,
        "priorityClassName": _priority_class(group, sources, keys.priority_class),
        "preemptibility": next(
            (value for value in preemptibilities if value in PREEMPTIBILITIES), None
        ),
        "topologyConstraint": constraint,
    }
    minimum = 1 if group.minimum is None else group.minimum

    return {"minMember": minimum} | {field: value for field, value in fields.items() if value}


def _first(chain: Iterable[MetadataLayer], key: str) -> str | None:
    return next((value for layer in chain if (value := layer.find(key)) is not None), None)


def _first_label(labels: Iterable[Mapping[str, str]], key: str) -> str | None:
    return next((value for entries in labels if (value := entries.get(key))), None)


def named_queue(chain: Sequence[MetadataLayer], keys: LabelKeys) -> str | None:
    """Return the queue of the first layer in `chain` that names one, or None.

    If no layer names a queue, the result is the project, followed by the node pool of the Pod. As
    in KAI, an empty queue label names no queue and disables the project. Only a Workload may name
    its queue in an annotation: KAI reads labels of owners and Pods, and the queue guard can only
    select labels.
    """
    workload = chain[0]
    pod = chain[-1]
    labels = [layer.labels for layer in chain]
    queue = workload.find(keys.queue) or _first_label(labels, keys.queue)
    project = _first_label(labels, keys.project)
    if queue or not project or any(keys.queue in entries for entries in labels):
        return queue

    pool = pod.labels.get(keys.node_pool)
    return f"{project}-{pool}" if pool else project


def _priority_class(group: DefinedGroup, sources: Sources, key: str) -> str | None:
    """Return the first PriorityClass that exists, or None.

    The candidates are the named classes, then KAI's default for the kind of the top owner.
    """
    default = DEFAULT_PRIORITY_CLASSES.get(sources.kind, DEFAULT_PRIORITY_CLASS)
    from_layers = (layer.find(key) for layer in _chain(group, sources))
    candidates = (group.priority_class, *from_layers, sources.pod.priority_class, default)
    return next((name for name in candidates if name and name in sources.priority_classes), None)


def _topology(group: DefinedGroup, owner: MetadataLayer, topology: str) -> dict[str, str]:
    chain = (group.layer, owner)
    required = group.topology_key or _first(chain, TOPOLOGY_REQUIRED)
    preferred = _first(chain, TOPOLOGY_PREFERRED)
    if not required and not preferred:
        return {}
    constraint = {"topology": _first(chain, KAI_TOPOLOGY_NAME) or topology}
    if required:
        constraint["requiredTopologyLevel"] = required
    if preferred:
        constraint["preferredTopologyLevel"] = preferred
    return constraint


def _is_never_placed(constraint: Mapping[str, str], sources: Sources) -> bool:
    """Return whether the preferred level of `constraint` is broader than the required level."""
    kai = sources.topology_of(constraint.get("topology", ""))
    preferred = constraint.get("preferredTopologyLevel", "")
    required = constraint.get("requiredTopologyLevel", "")
    return kai is not None and is_broader_level(preferred, required, kai)


def remarks(
    stored: JsonMap, group: DefinedGroup, sources: Sources, conventions: Conventions
) -> dict[str, Remark | None]:
    """Return the remarks about the stored PodGroup by subject, None for a subject without one."""
    return {
        "queue": _queue_remark(stored, named_queue(_chain(group, sources), conventions.keys)),
        "topology": _topology_remark(group, sources.owner),
        "levels": _levels_remark(_topology(group, sources.owner, conventions.topology), sources),
    }


def _queue_remark(stored: JsonMap, queue: str | None) -> Remark | None:
    current = (stored.get("spec") or {}).get("queue") or ""
    if queue is None or queue == current:
        return None
    return Remark(
        "QueueDiffers",
        f'the labels and annotations ask for queue "{queue}", but spec.queue stays "{current}":'
        " grove-admission writes it only at creation. To move the group, change spec.queue",
    )


def _topology_remark(group: DefinedGroup, owner: MetadataLayer) -> Remark | None:
    annotated = _first((group.layer, owner), TOPOLOGY_REQUIRED)
    if not group.topology_key or annotated in (None, group.topology_key):
        return None
    return Remark(
        "TopologyConflict",
        f'schedulingConstraints.topology requires "{group.topology_key}" and is used;'
        f' {TOPOLOGY_REQUIRED} requires "{annotated}" and is ignored. Remove one of them',
    )


def _levels_remark(constraint: Mapping[str, str], sources: Sources) -> Remark | None:
    if not _is_never_placed(constraint, sources):
        return None

    return Remark(
        "PreferredLevelLeftOut",
        f'the preferred level "{constraint["preferredTopologyLevel"]}" is broader than the required'
        f' level "{constraint["requiredTopologyLevel"]}", so KAI would never place the pods. The'
        " PodGroup gets no preferred level. Remove the preferred level, or use a narrower one",
    )


def specs_for_crds(spec: JsonMap, stored: JsonMap) -> Iterator[JsonMap]:
    """Yield the spec of a PodGroup, and then the specs that CRDs of older KAI releases accept.

    CRDs before 0.18 reject the value `semi-preemptible`. Without it, the PriorityClass decides
    whether the PodGroup is preemptible, as in KAI if a label has an unknown value. If the `stored`
    spec has the value, the CRD accepts it. CRDs before 0.17 reject a `minMember` of 0, which then
    becomes 1.
    """
    yield spec
    if spec.get("preemptibility") == SEMI_PREEMPTIBLE != stored.get("preemptibility"):
        spec = {key: value for key, value in spec.items() if key != "preemptibility"}
        yield spec
    if not spec["minMember"]:
        yield {**spec, "minMember": 1}


def difference(stored: JsonMap, desired: JsonMap, keys: LabelKeys) -> Object:
    """Return the merge patch that corrects `stored` according to `desired`, or {} for no change.

    Labels, annotations and fields of other writers are kept. Owners are kept or removed together
    (`_loses_owners`).

    After creation, KAI's queue assigner and administrators own the queue and the node pool of a
    PodGroup, and its project, which determines the queue if no queue label was copied.

    If `minSubGroup` is set, `minMember` is not written, because KAI allows only one of the two.
    Another writer's preemptibility is kept unless a label or annotation names one. Another writer's
    topologyConstraint is kept unless `desired` has one, as in KAI since 0.16.1.
    """
    metadata = _metadata_difference(stored, desired, (keys.queue, keys.node_pool, keys.project))
    if _loses_owners(stored, desired):
        metadata["ownerReferences"] = []
    spec = _spec_difference(stored, desired, keys)
    return ({"metadata": metadata} if metadata else {}) | ({"spec": spec} if spec else {})


def _metadata_difference(
    stored: JsonMap, desired: JsonMap, only_at_creation: Collection[str]
) -> Object:
    patch: Object = {}
    for name in _MAPS:
        current = string_map(stored, name)
        entries = desired["metadata"][name]
        begin = f"{name}/"
        copied = [entry.removeprefix(begin) for entry in _copies(stored) if entry.startswith(begin)]
        gone = [key for key in copied if key in current]
        desired_values = {**dict.fromkeys(gone), **entries}
        excluded = only_at_creation if name == "labels" else ()
        changes = {
            key: value
            for key, value in desired_values.items()
            if current.get(key) != value and key not in excluded
        }
        if changes:
            patch[name] = changes

    return patch


def _copies(stored: JsonMap) -> list[str]:
    return str(annotations_of(stored).get(COPIED, "")).split(",")


def _spec_difference(stored: JsonMap, desired: JsonMap, keys: LabelKeys) -> Object:
    current = stored.get("spec") or {}
    values = desired["spec"]
    kept = set()
    if current.get("minSubGroup") is not None:
        kept.add("minMember")
    copies = _copies(stored)
    if not values.get("preemptibility") and f"labels/{keys.preemptibility}" not in copies:
        kept.add("preemptibility")
    # releases before 0.10 noted only the annotations that they copied
    was_ours = {_CONSTRAINT, *_TOPOLOGY_ANNOTATIONS}.intersection(copies)
    if not values.get("topologyConstraint") and not was_ours:
        kept.add("topologyConstraint")
    spec = {
        field: values.get(field)
        for field in _FIELDS
        if field not in kept and _value(current, field) != values.get(field)
    }
    if spec.get("topologyConstraint"):
        former = dict.fromkeys(_value(current, "topologyConstraint") or ())
        spec["topologyConstraint"] = former | spec["topologyConstraint"]

    return spec


def _value(spec: JsonMap, field: str) -> Any:
    """Return the value of `field`, or None if it is missing or empty.

    A `minMember` of 0 is not empty. Only the fields of a topologyConstraint that we write count.
    """
    value = spec.get(field)
    if field == "topologyConstraint" and isinstance(value, dict):
        value = {key: value[key] for key in _OF_CONSTRAINT if value.get(key)}
    return None if value in ("", {}) else value


def _loses_owners(stored: JsonMap, desired: JsonMap) -> bool:
    """Return whether all owners of `stored` must be removed.

    They must be removed unless one of them is the owner that all Pods share: with the owner of only
    one Pod, the PodGroup would be garbage-collected while other Pods run. A Workload must never be
    an owner. In all cases, the reconciler deletes a PodGroup after its last Pod.
    """
    references = stored["metadata"].get("ownerReferences") or []
    uids = {owner["uid"] for owner in references}
    of_workload = any(
        str(owner.get("apiVersion", "")).startswith(f"{K8S_POD_GROUP.group}/")
        for owner in references
    )
    is_common = any(owner["uid"] in uids for owner in desired["metadata"]["ownerReferences"])
    return bool(references) and (of_workload or not is_common)


def is_of_group(stored: JsonMap, group: DefinedGroup) -> bool:
    """Return whether this program created the stored KAI PodGroup for `group`."""
    ours = labels_of(stored).get(MANAGED_BY) == MANAGER
    return ours and annotations_of(stored).get(WORKLOAD_GROUP) == group.identity
