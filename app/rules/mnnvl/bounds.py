"""Annotations, selectors and affinity that keep the Pods of a unit together or apart.

LeaderWorkerSet and JobSet copy their annotations to Pods. KAI reads its own one from the top owner,
from the Jobs of a JobSet, and from some templates of Pods:
https://github.com/kai-scheduler/KAI-Scheduler/tree/d5bc503a/pkg/podgrouper/podgrouper/plugins
"""

from collections.abc import Sequence

from app.base.value import Value
from app.facts.grove.topology import HOSTNAME_KEY
from app.facts.kubernetes.gpus import gpus_of_pod
from app.facts.kubernetes.selectors import node_selector, required_affinity
from app.facts.labels import POD_GROUP_NAME, SKIP_PODGROUPER, SUBGROUP
from app.facts.unit_owners import OWNER_KINDS
from app.facts.unit_sizes import UnitSize
from app.objects.owners import controller_of
from app.objects.shape import JsonMap, annotations_of, labels_of, map_at, maps_at, text_at
from app.rules.topology.levels import NVLINK_DOMAIN
from app.rules.workload.kai_podgroup import TOPOLOGY_REQUIRED

_KEPT_TOGETHER = (*(kind.together for kind in OWNER_KINDS if kind.together), TOPOLOGY_REQUIRED)
"""The annotations that keep Pods within one domain of a level, by its node label."""


class Bounds(Value):
    """The constraints on where a Pod that requests `gpus` may run, relative to its unit.

    They stay within one value of each of the node labels `levels`. `is_known` is whether everything
    above the Pod could be read. `is_apart` is whether some Pods may not share its node.

    `is_exclusive` is whether no two units share a domain. `group` is the PodGroup of KAI that its
    author made, "" if KAI's pod-grouper makes it, and None if nobody does. `size` is that of its
    unit, if that is known.
    """

    gpus: int
    levels: frozenset[str]
    is_known: bool
    is_apart: bool
    is_exclusive: bool = False
    group: str | None = ""
    size: UnitSize | None = None


class OwnGroup(Value):
    """The PodGroup of KAI that a Pod names, which no pod-grouper has made.

    `levels` are the node labels whose domains the PodGroup or the subgroup of the Pod requires.
    They are None if the PodGroup can't be read.
    """

    name: str
    levels: frozenset[str] | None


def name_of_own_group(pod: JsonMap) -> str:
    """Return the name of the PodGroup that the template of a Pod names, "" if it names none."""
    return text_at(annotations_of(pod), POD_GROUP_NAME)


def read_own_group(pod: JsonMap, group: JsonMap) -> OwnGroup:
    """Return what the PodGroup `group` requires of `pod`.

    A constraint of a subgroup holds for the subgroups below it too.
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
) -> Bounds:
    """Return the bounds of a Pod.

    `above` are its controllers, as far as they can be read. `own_group` is the PodGroup that its
    author made, and `size` that of its unit, if they are known.
    """
    spec = map_at(pod, "spec")
    affinity = map_at(spec, "affinity")
    levels = _topology_keys(affinity, "podAffinity")
    for term in (node_selector(spec), *required_affinity(spec)):
        chosen = {wish.key for wish in term if wish.operator == "In" and len(wish.values) == 1}
        levels |= chosen & {NVLINK_DOMAIN, HOSTNAME_KEY}

    together = {
        key: text_at(annotations_of(obj), key)
        for key in _KEPT_TOGETHER
        for obj in (pod, *above)
        if key in annotations_of(obj)
    }
    # the pod-grouper doesn't look at the annotations of what it skips, and replaces the PodGroup
    # that other Pods name
    is_skipped = any(annotations_of(obj).get(SKIP_PODGROUPER) == "true" for obj in (pod, *above))
    group: str | None = ""
    if is_skipped:
        together.pop(TOPOLOGY_REQUIRED, None)
        group = own_group.name if own_group is not None else None
    else:
        own_group = None
    levels |= set(together.values())
    if own_group is not None:
        levels |= own_group.levels or frozenset()

    return Bounds(
        gpus_of_pod(spec).every,
        frozenset(filter(None, levels)),
        is_known=controller_of([pod, *above][-1]) is None
        and (own_group is None or own_group.levels is not None),
        is_apart=HOSTNAME_KEY in _topology_keys(affinity, "podAntiAffinity"),
        is_exclusive=any(key != TOPOLOGY_REQUIRED for key in together),
        group=group,
        size=size,
    )


def _topology_keys(affinity: JsonMap, name: str) -> set[str]:
    terms = maps_at(affinity, name, "requiredDuringSchedulingIgnoredDuringExecution")
    return {text_at(term, "topologyKey") for term in terms}
