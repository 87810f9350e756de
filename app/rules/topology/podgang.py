"""Topology constraints of a PodGang: three levels, required and preferred. The webhook and the reconciler share this.

Source: `rules/README.md`. Inside a constraint only `packConstraint.required`
and `.preferred` are ours. Whatever else a constraint contains survives, and so does the entry of
`spec.topologyConstraintGroupConfigs` that contains it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.objects.edits import ABSENT, Change, Edit, value_at
from app.objects.fields import FieldError, FieldPath, as_map, walk_list, walk_map
from app.objects.metadata import annotations_of
from app.rules.labels import TOPOLOGY_NAME
from app.rules.podcliqueset import PodCliqueSet
from app.rules.topology.levels import Topology

_KEEP: Any = object()
_OURS = ("required", "preferred")


@dataclass(frozen=True, slots=True)
class Member:
    """What one PodGroup of a PodGang is made from: a clique of one replica of the set, and the scaling group replica
    that it belongs to. Indexes are text, as in names."""

    clique: str
    replica: str
    group: str = ""
    index: str = ""


def find_member(podgroup: str, pcs: PodCliqueSet) -> Member | None:
    """The member that `podgroup` names: a PodClique is called `<pcs>-<replica>-<clique>`, or in a scaling group
    `<pcs>-<replica>-<group>-<index>-<clique>`. None if the set has no such clique. The replica is read from the
    name too, because Grove's operator writes it on PodCliques, but not on PodGangs."""
    prefix = f"{pcs.name}-"
    replica, _, rest = podgroup[len(prefix) :].partition("-")
    if not podgroup.startswith(prefix) or not replica.isdecimal():
        return None
    for group in pcs.groups:
        if rest.startswith(f"{group.name}-"):
            index, _, clique = rest[len(group.name) + 1 :].partition("-")
            if index.isdecimal() and clique in group.cliques:
                return Member(clique, replica, group.name, index)
    return Member(rest, replica) if pcs.clique_of(rest) is not None else None


def validate_shape(obj: Mapping[str, Any]) -> list[FieldError]:
    """Findings about the parts of a PodGang that constraints are written into."""
    findings: list[FieldError] = []
    root, at = FieldPath(""), FieldPath("spec")
    spec = walk_map(obj, "spec", root, findings)
    _validate_constraint_shape(spec, at, findings)
    for name in ("podgroups", "topologyConstraintGroupConfigs"):
        for position, item in enumerate(walk_list(spec, name, at, findings)):
            entry = as_map(item, at.child(name).index(position), findings)
            if entry is not None:
                _validate_constraint_shape(entry, at.child(name).index(position), findings)
    return findings


def _validate_constraint_shape(holder: dict[str, Any], at: FieldPath, findings: list[FieldError]) -> None:
    constraint = walk_map(holder, "topologyConstraint", at, findings)
    walk_map(constraint, "packConstraint", at.child("topologyConstraint"), findings)


def constraint_changes(obj: Mapping[str, Any], pcs: PodCliqueSet | None, topology: Topology) -> list[Change]:
    """What has to change in the PodGang `obj`, which belongs to `pcs` (None if it is not known: then only preferred
    constraints are written, and required ones stay as they are). Topology disabled: all constraints go."""
    if not topology.enabled:
        return _removals(obj)
    podgroups = value_at(obj, ("spec", "podgroups"))
    names = [str(item.get("name", "")) for item in podgroups] if isinstance(podgroups, list) else []
    members = [find_member(name, pcs) for name in names] if pcs else [None] * len(names)
    changes: list[Change] = []
    if annotations_of(obj).get(TOPOLOGY_NAME) != topology.name:
        changes.append(Edit(("metadata", "annotations", TOPOLOGY_NAME), topology.name))
    changes += _pack(obj, ("spec",), _required(pcs, pcs.pack_domain if pcs else None, topology), topology)
    for position, member in enumerate(members):
        clique = pcs.clique_of(member.clique) if pcs and member else None
        required = _required(pcs, clique.pack_domain if clique else None, topology)
        changes += _pack(obj, ("spec", "podgroups", position), required, topology)
    if pcs is not None:
        changes += _group_config_changes(obj, pcs, topology, list(zip(names, members, strict=True)))
    return changes


def _required(pcs: PodCliqueSet | None, domain: str | None, topology: Topology) -> Any:
    if pcs is None:
        return _KEEP
    key = topology.key_of(domain) if domain else None
    return ABSENT if key is None else key


def _pack(obj: Any, holder: tuple[str | int, ...], required: Any, topology: Topology) -> list[Change]:
    path = (*holder, "topologyConstraint", "packConstraint")
    changes: list[Change] = []
    if required is not _KEEP and value_at(obj, (*path, "required")) != required:
        changes.append(Edit((*path, "required"), required))
    if value_at(obj, (*path, "preferred")) != topology.strictest_key:
        changes.append(Edit((*path, "preferred"), topology.strictest_key))
    return changes


def _group_config_changes(
    obj: Any, pcs: PodCliqueSet, topology: Topology, members: Sequence[tuple[str, Member | None]]
) -> list[Change]:
    """One entry per scaling-group replica in this PodGang whose group has a constraint, in the order in which their
    PodGroups come."""
    path = ("spec", "topologyConstraintGroupConfigs")
    stored = value_at(obj, path)
    entries = _maps(stored)
    current = {one["name"]: one for one in entries if isinstance(one.get("name"), str)}
    desired: dict[str, dict[str, Any]] = {}
    for podgroup, member in members:
        group = pcs.group_of(member.group) if member and member.group else None
        if member is None or group is None or group.pack_domain is None:
            continue
        name = f"{pcs.name}-{member.replica}-{member.group}-{member.index}"
        if name not in desired:
            constraint = _merged(current.get(name), topology.key_of(group.pack_domain), topology.strictest_key)
            desired[name] = {**current.get(name, {}), "name": name, "podGroupNames": [], **constraint}
        desired[name]["podGroupNames"].append(podgroup)
    kept = [_without_pack(entry) for entry in entries if str(entry.get("name")) not in desired and _has_more(entry)]
    wanted: Any = [*desired.values(), *kept] or ABSENT
    if wanted is ABSENT and stored in (ABSENT, None, []):
        return []
    return [] if stored == wanted else [Edit(path, wanted)]


def _merged(entry: dict[str, Any] | None, required: str | None, preferred: str | None) -> dict[str, Any]:
    held = value_at(entry, ("topologyConstraint",))
    pack = value_at(held, ("packConstraint",))
    merged = dict(pack) if isinstance(pack, dict) else {}
    merged.pop("required", None)
    if required is not None:
        merged["required"] = required
    merged["preferred"] = preferred
    return {"topologyConstraint": {**(held if isinstance(held, dict) else {}), "packConstraint": merged}}


def _removals(obj: Mapping[str, Any]) -> list[Change]:
    podgroups = value_at(obj, ("spec", "podgroups"))
    count = len(podgroups) if isinstance(podgroups, list) else 0
    changes = [Edit(("metadata", "annotations", TOPOLOGY_NAME), ABSENT), *_removal(obj, ("spec",))]
    entries = value_at(obj, ("spec", "topologyConstraintGroupConfigs"))
    kept = [_without_pack(entry) if _has_more(entry) else None for entry in _maps(entries)]
    changes.append(Edit(("spec", "topologyConstraintGroupConfigs"), [entry for entry in kept if entry] or ABSENT))
    for position in range(count):
        changes += _removal(obj, ("spec", "podgroups", position))
    return [change for change in changes if value_at(obj, change.path) != change.value]


def _removal(obj: Any, holder: tuple[str | int, ...]) -> list[Edit]:
    """Removes the constraint of `holder`, or only what is ours in it if it contains more."""
    if not _has_more(value_at(obj, holder)):
        return [Edit((*holder, "topologyConstraint"), ABSENT)]
    path = (*holder, "topologyConstraint", "packConstraint")
    return [Edit((*path, field), ABSENT) for field in _OURS]


def _has_more(holder: Any) -> bool:
    """Whether the constraint of `holder` contains anything that this rule doesn't write."""
    constraint = value_at(holder, ("topologyConstraint",))
    pack = value_at(constraint, ("packConstraint",))
    fields = {*(constraint if isinstance(constraint, dict) else ()), *(pack if isinstance(pack, dict) else ())}
    return not fields <= {"packConstraint", *_OURS}


def _without_pack(entry: dict[str, Any]) -> dict[str, Any]:
    constraint = entry["topologyConstraint"]
    pack = constraint.get("packConstraint")
    if not isinstance(pack, dict):
        return entry
    kept = {field: value for field, value in pack.items() if field not in _OURS}
    return {**entry, "topologyConstraint": {**constraint, "packConstraint": kept}}


def _maps(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
