"""Warn about the topology constraints of a KAI PodGroup and its SubGroups.

Source: https://github.com/kai-scheduler/KAI-Scheduler/blob/d5bc503a/pkg/apis/scheduling/v2alpha2/podgroup_types.go
"""

from app.objects.fields import MOST_ITEMS, FieldPath
from app.objects.shape import JsonMap, list_of, map_of, text_at
from app.rules.topology.unsatisfiable import WHOLE, PartLevels, TopologyOf, placing_warnings

_SPEC = FieldPath("spec")


def constraint_warnings(obj: JsonMap, topology_of: TopologyOf) -> list[str]:
    """Return warnings about constraints of the PodGroup `obj` that KAI ignores, or never satisfies.

    The names and parents of its SubGroups must be valid. Only the first MOST_ITEMS are read.
    """
    spec = map_of(obj.get("spec"))
    if not _is_constrained(spec):
        return []

    parts = {WHOLE: _part(spec, _SPEC, WHOLE)}
    for position, subgroup in enumerate(list_of(spec.get("subGroups"))[:MOST_ITEMS]):
        holder = map_of(subgroup)
        at = _SPEC.child("subGroups").index(position)
        parts[text_at(holder, "name")] = _part(holder, at, text_at(holder, "parent"))
    return placing_warnings(parts, topology_of)


def _is_constrained(spec: JsonMap) -> bool:
    """Return whether the PodGroup or a SubGroup has a constraint. Most PodGroups have none."""
    if "topologyConstraint" in spec:
        return True
    for subgroup in list_of(spec.get("subGroups")):
        if isinstance(subgroup, dict) and "topologyConstraint" in subgroup:
            return True
    return False


def _part(holder: JsonMap, at: FieldPath, parent: str) -> PartLevels:
    constraint = map_of(holder.get("topologyConstraint"))
    path = at.child("topologyConstraint")
    return PartLevels(
        topology=text_at(constraint, "topology"),
        required=text_at(constraint, "requiredTopologyLevel"),
        required_at=path.child("requiredTopologyLevel"),
        preferred=text_at(constraint, "preferredTopologyLevel"),
        preferred_at=path.child("preferredTopologyLevel"),
        parent=parent,
    )
