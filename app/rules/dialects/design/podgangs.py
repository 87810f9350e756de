"""Topology constraints of a PodGang, its scaling groups and its PodGroups in the dialect `design`.

The webhook and the reconciler use the same rule. Source: `rules/README.md`. Of a constraint, only
`packConstraint.required` and `packConstraint.preferred` are written here. Other fields of a
constraint are kept, and so are entries of `spec.topologyConstraintGroupConfigs` that have such
fields.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from app.objects.edits import ABSENT, Edit, Path, value_at
from app.objects.fields import FieldError, FieldPath, walk_list, walk_map, walk_maps
from app.objects.shape import list_of, map_of, maps_of
from app.rules.labels import TOPOLOGY_NAME
from app.rules.podcliqueset import Clique, PodCliqueSet
from app.rules.topology.levels import Topology
from app.rules.topology.members import Member, Members

_OURS = ("required", "preferred")


def validate_shape(obj: Mapping[str, Any]) -> list[FieldError]:
    """Returns findings about the parts of a PodGang that constraints are written into."""
    findings: list[FieldError] = []
    root = FieldPath("")
    at = FieldPath("spec")
    spec = walk_map(obj, "spec", root, findings)
    _validate_constraint_shape(spec, at, findings)
    for name in ("podgroups", "topologyConstraintGroupConfigs"):
        for entry_at, entry in walk_maps(
            walk_list(spec, name, at, findings), at.child(name), findings
        ):
            _validate_constraint_shape(entry, entry_at, findings)
    return findings


def _validate_constraint_shape(
    holder: dict[str, Any], at: FieldPath, findings: list[FieldError]
) -> None:
    constraint = walk_map(holder, "topologyConstraint", at, findings)
    walk_map(constraint, "packConstraint", at.child("topologyConstraint"), findings)


def constraint_changes(
    obj: Mapping[str, Any], pcs: PodCliqueSet | None, topology: Topology
) -> list[Edit]:
    """Returns the changes that give the PodGang `obj` the constraints of its set `pcs`.

    If `pcs` is None, the set is not known: only preferred constraints are written, and
    required ones stay. If topology support is disabled, all constraints are removed.
    """
    changes = _constraints(obj, pcs, topology) if topology.enabled else _removals(obj)
    return [change for change in changes if value_at(obj, change.path) != change.value]


def _constraints(
    obj: Mapping[str, Any], pcs: PodCliqueSet | None, topology: Topology
) -> list[Edit]:
    names = [str(item.get("name", "")) for item in list_of(value_at(obj, ("spec", "podgroups")))]
    known = Members(pcs) if pcs is not None else None
    members = [known.find(name) if known else None for name in names]
    changes = [
        Edit(("metadata", "annotations", TOPOLOGY_NAME), topology.name),
        *_pack(("spec",), pcs, pcs, topology),
    ]
    for position, member in enumerate(members):
        changes += _pack(
            ("spec", "podgroups", position), pcs, member.clique if member else None, topology
        )
    if pcs is not None:
        changes += _group_configs(obj, pcs, topology, list(zip(names, members, strict=True)))
    return changes


def _pack(
    path: Path, pcs: PodCliqueSet | None, holder: PodCliqueSet | Clique | None, topology: Topology
) -> list[Edit]:
    """Returns the constraint at `path`, which is that of `holder`: the set `pcs` or one of its
    cliques.
    """
    path = (*path, "topologyConstraint", "packConstraint")
    key = topology.key_of(holder.pack_domain) if holder and holder.pack_domain else None
    required = [] if pcs is None else [Edit((*path, "required"), ABSENT if key is None else key)]
    return [*required, Edit((*path, "preferred"), topology.strictest_key)]


def _group_configs(
    obj: Any, pcs: PodCliqueSet, topology: Topology, members: Sequence[tuple[str, Member | None]]
) -> list[Edit]:
    """Returns the change to the list of group constraints.

    The list has one entry per scaling group replica in this PodGang whose group has a constraint,
    in the order of the PodGroups.
    """
    path = ("spec", "topologyConstraintGroupConfigs")
    stored = value_at(obj, path)
    entries = maps_of(stored)
    current = {entry["name"]: entry for entry in entries if isinstance(entry.get("name"), str)}
    desired: dict[str, dict[str, Any]] = {}
    for podgroup, member in members:
        if member is None or member.group is None or member.group.pack_domain is None:
            continue
        name = f"{pcs.name}-{member.replica}-{member.group.name}-{member.index}"
        if name not in desired:
            required = topology.key_of(member.group.pack_domain)
            constraint = _merged(current.get(name), required, topology.strictest_key)
            desired[name] = {
                **current.get(name, {}),
                "name": name,
                "podGroupNames": [],
                **constraint,
            }
        desired[name]["podGroupNames"].append(podgroup)
    others = [
        _without_pack(entry)
        for entry in entries
        if str(entry.get("name")) not in desired and _has_more(entry)
    ]
    value = [*desired.values(), *others]
    return [Edit(path, value or ABSENT)] if value or stored else []


def _merged(
    entry: dict[str, Any] | None, required: str | None, preferred: str | None
) -> dict[str, Any]:
    """Returns the constraint of `entry` with these values."""
    constraint = map_of(value_at(entry, ("topologyConstraint",)))
    pack = {
        field: value
        for field, value in map_of(constraint.get("packConstraint")).items()
        if field != "required"
    }
    if required is not None:
        pack["required"] = required
    pack["preferred"] = preferred
    return {"topologyConstraint": {**constraint, "packConstraint": pack}}


def _removals(obj: Mapping[str, Any]) -> list[Edit]:
    changes = [Edit(("metadata", "annotations", TOPOLOGY_NAME), ABSENT), *_removal(obj, ("spec",))]
    entries = value_at(obj, ("spec", "topologyConstraintGroupConfigs"))
    others = [_without_pack(entry) for entry in maps_of(entries) if _has_more(entry)]
    changes.append(Edit(("spec", "topologyConstraintGroupConfigs"), others or ABSENT))
    for position, _ in enumerate(list_of(value_at(obj, ("spec", "podgroups")))):
        changes += _removal(obj, ("spec", "podgroups", position))
    return changes


def _removal(obj: Any, holder: Path) -> list[Edit]:
    """Returns the edits that remove the constraint at `holder`.

    If it has other fields too, only ours are removed.
    """
    if not _has_more(value_at(obj, holder)):
        return [Edit((*holder, "topologyConstraint"), ABSENT)]
    path = (*holder, "topologyConstraint", "packConstraint")
    return [Edit((*path, field), ABSENT) for field in _OURS]


def _has_more(holder: Any) -> bool:
    """Whether the constraint of `holder` has fields that this rule doesn't write."""
    constraint = map_of(value_at(holder, ("topologyConstraint",)))
    return not {*constraint, *map_of(constraint.get("packConstraint"))} <= {
        "packConstraint",
        *_OURS,
    }


def _without_pack(entry: dict[str, Any]) -> dict[str, Any]:
    constraint = entry["topologyConstraint"]
    pack = constraint.get("packConstraint")
    if not isinstance(pack, dict):
        return entry
    others = {field: value for field, value in pack.items() if field not in _OURS}
    return {**entry, "topologyConstraint": {**constraint, "packConstraint": others}}
