"""Read which annotations, selectors and affinity keep the Pods of a unit together or apart.

LeaderWorkerSet and JobSet copy their annotations to Pods. KAI reads its own annotation from the top
owner, from the Jobs of a JobSet, and from some pod templates:
https://github.com/kai-scheduler/KAI-Scheduler/tree/d5bc503a/pkg/podgrouper/podgrouper/plugins
"""

from collections.abc import Sequence

from app.base.value import Value
from app.facts.grove.topology import HOSTNAME_KEY
from app.facts.kubernetes.gpus import gpus_of_pod
from app.facts.kubernetes.selectors import Term, node_selector, required_affinity
from app.facts.labels import NVLINK_DOMAIN, POD_GROUP_NAME, SKIP_PODGROUPER, SUBGROUP
from app.facts.unit_owners import (
    EXCLUSIVE_JOBS,
    JOBS_OF_SET,
    JOBS_OF_TEMPLATE,
    OWNER_KINDS,
    UnitSize,
)
from app.objects.names import label_key_problem
from app.objects.owners import controller_of
from app.objects.shape import JsonMap, annotations_of, labels_of, map_at, maps_at, text_at
from app.rules.workload.groups import group_ref
from app.rules.workload.kai_podgroup import TOPOLOGY_REQUIRED

_KEPT_TOGETHER = (*(kind.together for kind in OWNER_KINDS if kind.together), TOPOLOGY_REQUIRED)
"""The annotations that keep Pods within one domain. The value is the node label of the level."""

_JOBS_IN = {"set": JOBS_OF_SET, "replicatedJob": JOBS_OF_TEMPLATE}
"""The label with the number of Jobs in a unit, for each scope whose units can have several Jobs."""


class Bounds(Value):
    """The constraints on where a Pod may run, relative to the other Pods of its unit."""

    gpus: int
    """The GPUs that the Pod requests."""
    levels: frozenset[str]
    """The node labels for which all Pods of the unit must be on nodes with the same value."""
    is_known: bool
    """Whether all controllers of the Pod, and the PodGroup that it names, could be read."""
    is_apart: bool
    """Whether the Pod has a required anti-affinity by node. The selector is not checked."""
    is_exclusive: bool = False
    """Whether a controller keeps units out of each other's domains."""
    group: str | None = ""
    """The KAI PodGroup that the Pod names.

    It is "" if a controller creates the PodGroup, and None if nothing creates one.
    """
    size: UnitSize | None = None
    """The size of the unit, or None if that is not known."""
    split_by: str = ""
    """The node label by which JobSet puts the Jobs of the unit into separate domains, or ""."""


class OwnGroup(Value):
    """The KAI PodGroup that a Pod names in its annotation."""

    name: str
    levels: frozenset[str] | None
    """The node labels of the required levels of the PodGroup and of the Pod's SubGroup.

    The value is None if the PodGroup cannot be read.
    """


def name_of_own_group(pod: JsonMap) -> str:
    """Return the name of the PodGroup in the annotation of `pod`, or "" without one."""
    return text_at(annotations_of(pod), POD_GROUP_NAME)


def read_own_group(pod: JsonMap, group: JsonMap) -> OwnGroup:
    """Return the PodGroup `group` that `pod` names, with the levels that it requires for `pod`.

    A constraint of a SubGroup also applies to the SubGroups below it.
    """
    spec = map_at(group, "spec")
    subgroups = {text_at(item, "name"): item for item in maps_at(spec, "subGroups")}
    holders = [spec]
    name = text_at(labels_of(pod), SUBGROUP)
    while name in subgroups:
        subgroup = subgroups.pop(name)
        holders.append(subgroup)
        name = text_at(subgroup, "parent")
    levels = (
        text_at(map_at(holder, "topologyConstraint"), "requiredTopologyLevel") for holder in holders
    )
    return OwnGroup(name_of_own_group(pod), frozenset(filter(None, levels)))


def read_bounds(
    pod: JsonMap,
    above: Sequence[JsonMap],
    own_group: OwnGroup | None = None,
    size: UnitSize | None = None,
    *,
    scope: str = "",
) -> Bounds:
    """Return the bounds of a Pod, whose unit has this `scope`.

    `above` are the controllers of the Pod from the nearest one up, as far as they can be read.
    `own_group` is the PodGroup that the Pod names, and `size` is the size of the unit. They are
    None if they are not known.
    """
    spec = map_at(pod, "spec")
    affinity = map_at(spec, "affinity")
    levels = _topology_keys(affinity, "podAffinity")
    levels |= {key for key, _ in _chosen_values(spec)} & {NVLINK_DOMAIN, HOSTNAME_KEY}

    annotated = [annotations_of(obj) for obj in (pod, *above)]
    together = {
        key: text_at(annotations, key)
        for annotations in annotated
        for key in _KEPT_TOGETHER
        if key in annotations
    }
    is_exclusive = any(key != TOPOLOGY_REQUIRED for key in together)
    jobs = text_at(labels_of(pod), _JOBS_IN.get(scope, ""))
    split_by = together.pop(EXCLUSIVE_JOBS, "") if jobs not in ("", "1") else ""
    # the pod-grouper ignores the annotations of Pods that it skips, and overwrites the PodGroup
    # name of all other Pods
    is_skipped = any(annotations.get(SKIP_PODGROUPER) == "true" for annotations in annotated)
    group: str | None = ""
    if is_skipped:
        together.pop(TOPOLOGY_REQUIRED, None)
        named = own_group.name if own_group is not None else name_of_own_group(pod)
        # the leader creates the PodGroup of a Workload group
        group = named or (None if group_ref(pod) is None else "")
    else:
        own_group = None
    levels |= set(together.values())
    if own_group is not None:
        levels |= own_group.levels or frozenset()

    return Bounds(
        gpus_of_pod(spec).every,
        # nodes can't have other labels, and an annotation in a review may have megabytes
        frozenset(level for level in levels if level and not label_key_problem(level)),
        is_known=controller_of([pod, *above][-1]) is None
        and (not group or (own_group is not None and own_group.levels is not None)),
        is_apart=HOSTNAME_KEY in _topology_keys(affinity, "podAntiAffinity"),
        is_exclusive=is_exclusive,
        group=group,
        size=size,
        split_by="" if label_key_problem(split_by) else split_by,
    )


def _chosen_values(spec: JsonMap) -> set[tuple[str, str]]:
    """Return the labels for which a pod spec allows only one value, as pairs (label, value).

    A node must meet the nodeSelector and one term of the affinity.
    """
    terms = [_in_term(term) for term in required_affinity(spec) if term]
    return _in_term(node_selector(spec)).union(set.intersection(*terms) if terms else ())


def _in_term(term: Term) -> set[tuple[str, str]]:
    return {
        (wish.key, wish.values[0])
        for wish in term
        if wish.operator == "In" and len(wish.values) == 1
    }


def _topology_keys(affinity: JsonMap, name: str) -> set[str]:
    terms = maps_at(affinity, name, "requiredDuringSchedulingIgnoredDuringExecution")
    return {text_at(term, "topologyKey") for term in terms}
