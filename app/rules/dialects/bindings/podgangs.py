"""Check the stored constraints of PodGangs in the dialect `bindings`.

They may differ from the PodCliqueSet's constraints, or KAI may never satisfy them. If somebody
edits them by hand, Grove copies the edited constraints to the scheduler until the PodCliqueSet
changes.

Source:
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/internal/controller/podcliqueset/components/podgang
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.facts.constraint import UNBOUND, SchedulerConstraint
from app.facts.grove.podcliqueset import Clique, PodCliqueSet, ScalingGroup
from app.facts.grove.podgang import PodGang, read_pod_gang, read_told
from app.facts.grove.topology import Level
from app.facts.labels import TOPOLOGY_NAME
from app.objects.fields import MOST_ITEMS, FieldPath
from app.objects.shape import (
    JsonMap,
    annotations_of,
    list_of,
    map_at,
    map_of,
    text_of,
)
from app.rules.topology.members import PodGroupClique, PodGroupCliques
from app.rules.topology.unsatisfiable import WHOLE, PartLevels, TopologyOf, placing_warnings


def drifted_constraints(gang: JsonMap, pcs: PodCliqueSet, levels: Sequence[Level]) -> list[str]:
    """Return a message for each constraint of the PodGang `gang` that Grove would replace.

    The constraints of `pcs` are the desired ones. `levels` are the levels of its binding.
    """
    keys = {level.domain: level.key for level in levels}
    return [
        f"{path}: is {_shown(current)}, but Grove would write {_shown(desired)}"
        for path, current, desired in _comparisons(read_pod_gang(gang), pcs, keys)
        if current != desired
    ]


def gang_warnings(gang: JsonMap, topology_of: TopologyOf) -> list[str]:
    """Return warnings about constraints of the PodGang `gang` that KAI ignores or never satisfies.

    Grove writes them, so they can only be corrected in the PodCliqueSet. Of each list, only the
    first MOST_ITEMS entries are read.
    """
    spec = map_at(gang, "spec")
    topology = text_of(annotations_of(gang).get(TOPOLOGY_NAME))
    at = FieldPath("spec")
    parts = {WHOLE: _part(spec, topology, at, WHOLE)}

    group_of: dict[str, str] = {}
    entries = list_of(spec.get("topologyConstraintGroupConfigs"))[:MOST_ITEMS]
    for position, entry in enumerate(entries):
        name = f"group {position}"
        path = at.child("topologyConstraintGroupConfigs").index(position)
        parts[name] = _part(entry, topology, path, WHOLE)
        group_of |= {
            str(podgroup): name for podgroup in list_of(map_of(entry).get("podGroupNames"))
        }

    for position, podgroup in enumerate(list_of(spec.get("podgroups"))[:MOST_ITEMS]):
        path = at.child("podgroups").index(position)
        parent = group_of.get(str(map_of(podgroup).get("name")), WHOLE)
        parts[f"podgroup {position}"] = _part(podgroup, topology, path, parent)

    return placing_warnings(parts, topology_of)


def _part(holder: Any, topology: str, at: FieldPath, parent: str) -> PartLevels:
    told = read_told(map_of(holder))
    path = at.child("topologyConstraint.packConstraint")
    return PartLevels(
        topology=topology,
        required=told.required,
        required_at=path.child("required"),
        preferred=told.preferred,
        preferred_at=path.child("preferred"),
        parent=parent,
    )


Comparison = tuple[str, SchedulerConstraint, SchedulerConstraint]
"""The path, the current value and the desired value of a constraint."""


def _comparisons(gang: PodGang, pcs: PodCliqueSet, keys: Mapping[str, str]) -> Iterator[Comparison]:
    """Yield a comparison for each constraint of `gang` whose part of `pcs` is known.

    `keys` has the node label per domain.
    """
    known = PodGroupCliques(pcs)
    members = [known.find(part.name) for part in gang.parts]
    found = [member for member in members if member is not None]

    owner = _owner_of_whole(gang, pcs, found)
    if owner is not None:
        yield "spec.topologyConstraint", gang.told, _desired(owner, keys)
    if owner is pcs:
        yield from _group_comparisons(gang, found, keys)

    for position, (part, member) in enumerate(zip(gang.parts, members, strict=True)):
        if member is not None and member.clique is not None:
            path = f"spec.podgroups[{position}].topologyConstraint"
            yield path, part.told, _desired(member.clique, keys)


def _owner_of_whole(
    gang: PodGang, pcs: PodCliqueSet, members: Sequence[PodGroupClique]
) -> PodCliqueSet | ScalingGroup | None:
    """Return the part of `pcs` whose constraint applies to the whole PodGang.

    Only a scaled PodGang of a release without PodGangMaps has the constraint of its scaling group.
    Return None if no known PodGroup shows which part it is.
    """
    is_base = any(gang.name == f"{pcs.name}-{member.replica}" for member in members)
    if members and (is_base or gang.role):
        return pcs
    return next((member.group for member in members if member.group), None)


def _group_comparisons(
    gang: PodGang, members: Sequence[PodGroupClique], keys: Mapping[str, str]
) -> Iterator[Comparison]:
    """Yield a comparison for each scaling group replica and each stored group of a PodGang."""
    desired = {
        member.group_replica: _desired(member.group, keys)
        for member in members
        if member.group is not None
    }
    current = {group.name: group.told for group in gang.groups}

    for name in {**desired, **current}:
        path = f"spec.topologyConstraintGroupConfigs[{name}].topologyConstraint"
        yield path, current.get(name, UNBOUND), desired.get(name, UNBOUND)


def _desired(
    holder: PodCliqueSet | ScalingGroup | Clique, keys: Mapping[str, str]
) -> SchedulerConstraint:
    constraint = holder.constraint
    return SchedulerConstraint(
        keys.get(constraint.required, ""), keys.get(constraint.preferred, "")
    )


def _shown(told: SchedulerConstraint) -> str:
    fields = (("required", told.required), ("preferred", told.preferred))
    return "{" + ", ".join(f"{field}: {key}" for field, key in fields if key) + "}"
