"""Topology constraints of a PodGang: three levels, required and preferred. The webhook and the reconciler share this.

Source: `designs/topology-aware-scheduling.md`, Translation Logic. `spec.topologyConstraintGroupConfigs` is ours whole;
inside a constraint only `packConstraint.required` and `.preferred` are, and unknown fields survive.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.objects.edits import ABSENT, Change, Edit, value_at
from app.objects.metadata import annotations_of
from app.rules.labels import TOPOLOGY_NAME
from app.rules.podcliqueset import PodCliqueSet
from app.rules.topology.levels import Topology

_KEEP: Any = object()


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
    `<pcs>-<replica>-<group>-<index>-<clique>`. None where the set has no such clique. The replica is read from the
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


def constraint_changes(obj: Mapping[str, Any], pcs: PodCliqueSet | None, topology: Topology) -> list[Change]:
    """What has to change in the PodGang `obj`, which belongs to `pcs` (None where it is not known: then only preferred
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
    entries = [one for one in stored if isinstance(one, dict)] if isinstance(stored, list) else []
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
    wanted: Any = list(desired.values()) or ABSENT
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
    paths: list[tuple[str | int, ...]] = [("metadata", "annotations", TOPOLOGY_NAME)]
    paths += [("spec", "topologyConstraint"), ("spec", "topologyConstraintGroupConfigs")]
    podgroups = value_at(obj, ("spec", "podgroups"))
    count = len(podgroups) if isinstance(podgroups, list) else 0
    paths += [("spec", "podgroups", position, "topologyConstraint") for position in range(count)]
    return [Edit(path, ABSENT) for path in paths if value_at(obj, path) is not ABSENT]
