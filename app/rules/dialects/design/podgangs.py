"""Write the topology constraints of PodGangs in the dialect `design`.

A PodGang has constraints for all its pods, for its scaling group replicas and for its PodGroups.
The webhook and the reconciler use the same rule. Source: `rules/README.md`. Only the fields
`packConstraint.required` and `packConstraint.preferred` of a constraint are written. Other fields
are kept, and so are entries of `spec.topologyConstraintGroupConfigs` that have other fields.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.grove.topology import ClusterTopology
from app.facts.kubernetes.requests import Requests
from app.facts.labels import TOPOLOGY_NAME
from app.objects.edits import ABSENT, Edit, Path, value_at
from app.objects.fields import CheckedMap, Findings
from app.objects.shape import JsonMap, Object, list_of, map_at, map_of, maps_of
from app.rules.topology.members import PodGroupClique, PodGroupCliques

_OURS = ("required", "preferred")
_PACK = ("topologyConstraint", "packConstraint")


def validate_shape(gang: JsonMap) -> Findings:
    """Return a finding for each field of a PodGang that holds constraints and has a wrong type."""
    spec = CheckedMap(gang).child("spec")
    spec.child("topologyConstraint").map_at("packConstraint")
    for field in ("podgroups", "topologyConstraintGroupConfigs"):
        for entry in spec.children(field):
            entry.child("topologyConstraint").map_at("packConstraint")
    return spec.findings


def constraint_changes(
    obj: JsonMap, pcs: PodCliqueSet | None, topology: ClusterTopology
) -> list[Edit]:
    """Return the changes that give the PodGang `obj` the constraints of its set `pcs`.

    If `pcs` is None, the set is not known: only preferred constraints are written, and required
    ones are kept. If topology support is disabled, the constraints are removed. Changes that
    `obj` already has are left out.
    """
    if not topology.enabled:
        changes = _removals(obj)
    elif pcs is None:
        changes = _preferences(obj, topology)
    else:
        changes = _constraints(obj, pcs, topology)
    return [change for change in changes if value_at(obj, change.path) != change.value]


def _constraints(obj: JsonMap, pcs: PodCliqueSet, topology: ClusterTopology) -> list[Edit]:
    known = PodGroupCliques(pcs)
    names = [str(item.get("name", "")) for item in list_of(value_at(obj, ("spec", "podgroups")))]
    members = [known.find(name) for name in names]

    changes = [Edit(("metadata", "annotations", TOPOLOGY_NAME), topology.name)]
    changes += _constraint(obj, ("spec",), _pack(pcs.constraint.pack_domain, members, topology))
    for position, member in enumerate(members):
        domain = member.clique.constraint.pack_domain if member and member.clique else ""
        pack = _pack(domain, [member], topology)
        changes += _constraint(obj, ("spec", "podgroups", position), pack)

    named = list(zip(names, members, strict=True))
    return [*changes, *_group_configs(obj, topology, named)]


def _preferences(obj: JsonMap, topology: ClusterTopology) -> list[Edit]:
    """Return the changes to a PodGang whose set is not known.

    Its PodGroups may have pods of different sizes. So the whole PodGang prefers a level only if it
    has a single PodGroup or requires a level.
    """
    podgroups = list_of(value_at(obj, ("spec", "podgroups")))
    required = value_at(obj, ("spec", *_PACK, "required"))
    holders: list[Path] = []
    if len(podgroups) == 1 or (isinstance(required, str) and required):
        holders.append(("spec",))
    holders += (("spec", "podgroups", position) for position in range(len(podgroups)))

    named = Edit(("metadata", "annotations", TOPOLOGY_NAME), topology.name)
    preferred = topology.strictest_key
    return [named, *(Edit((*holder, *_PACK, "preferred"), preferred) for holder in holders)]


def _pack(
    domain: str, members: Sequence[PodGroupClique | None], topology: ClusterTopology
) -> dict[str, str]:
    """Return the packConstraint of `members`, whose set, scaling group or clique requires `domain`.

    `domain` is "" if none is required. A domain that `topology` lacks is not required either. The
    strictest level is also preferred if one is required, or if KAI counts no more room than the
    pods need. In other cases, no level is preferred, because with a preference KAI might never
    place the pods.
    """
    required = topology.key_of(domain) if domain else None
    pack = {"required": required} if required else {}
    if topology.strictest_key and (required or _are_counted_exactly(members)):
        pack["preferred"] = topology.strictest_key
    return pack


def _are_counted_exactly(members: Sequence[PodGroupClique | None]) -> bool:
    """Return whether KAI looks for no more room than the pods of `members` need.

    The pods of one PodGroup are equal, even if its clique is not known.
    """
    cliques = [member.clique if member else None for member in members]
    known = [clique for clique in cliques if clique is not None]
    all_known = len(known) == len(cliques)
    return len(cliques) == 1 or (
        all_known and are_counted_exactly(clique.requests for clique in known)
    )


def _constraint(obj: JsonMap, holder: Path, pack: Mapping[str, str]) -> list[Edit]:
    """Return the changes that make `pack` the constraint at `holder`."""
    stored = map_of(value_at(obj, (*holder, *_PACK)))
    if pack:
        return [Edit((*holder, *_PACK, field), pack.get(field, ABSENT)) for field in _OURS]
    return [] if stored.keys().isdisjoint(_OURS) else _removal(obj, holder)


def _group_configs(
    obj: Any, topology: ClusterTopology, members: Sequence[tuple[str, PodGroupClique | None]]
) -> list[Edit]:
    """Return the change to the list of group constraints.

    The list has one entry for each scaling group replica in this PodGang that gets a constraint, in
    the order of the PodGroups. Stored entries are kept if they have fields that this rule doesn't
    write.
    """
    # the members of each replica of a group with a constraint, by the names of their PodGroups
    replicas: dict[str, dict[str, PodGroupClique]] = {}
    for podgroup, member in members:
        if member is not None and member.group is not None and member.group.constraint.pack_domain:
            replicas.setdefault(member.group_replica, {})[podgroup] = member

    path = ("spec", "topologyConstraintGroupConfigs")
    stored = value_at(obj, path)
    entries = maps_of(stored)
    current = {str(entry.get("name")): entry for entry in entries}
    value: list[Object] = []
    for name, replica in replicas.items():
        found = list(replica.values())
        group = found[0].group
        pack = _pack(group.constraint.pack_domain if group else "", found, topology)
        entry: JsonMap = current.get(name, {})
        if pack or _has_more(entry):
            config = {**entry, "name": name, "podGroupNames": list(replica)}
            value.append({**config, **_merged(entry, pack)})

    value += _without_packs([entry for entry in entries if str(entry.get("name")) not in replicas])
    return [Edit(path, value or ABSENT)] if value or stored else []


def _without_packs(entries: Sequence[Object]) -> list[Object]:
    """Return the `entries` that have fields of other writers, without the fields of this rule."""
    kept = [entry for entry in entries if _has_more(entry)]
    return [
        {**entry, **_merged(entry, {})}
        if isinstance(entry["topologyConstraint"].get("packConstraint"), dict)
        else entry
        for entry in kept
    ]


def _merged(entry: JsonMap, pack: Mapping[str, str]) -> Object:
    """Return the constraint of `entry` with `pack` in the fields that this rule writes."""
    constraint = map_at(entry, "topologyConstraint")
    others = {
        field: value
        for field, value in map_at(constraint, "packConstraint").items()
        if field not in _OURS
    }
    return {"topologyConstraint": {**constraint, "packConstraint": {**others, **pack}}}


def _removals(obj: JsonMap) -> list[Edit]:
    changes = [Edit(("metadata", "annotations", TOPOLOGY_NAME), ABSENT), *_removal(obj, ("spec",))]
    entries = value_at(obj, ("spec", "topologyConstraintGroupConfigs"))
    others = _without_packs(maps_of(entries))
    changes.append(Edit(("spec", "topologyConstraintGroupConfigs"), others or ABSENT))
    for position, _ in enumerate(list_of(value_at(obj, ("spec", "podgroups")))):
        changes += _removal(obj, ("spec", "podgroups", position))
    return changes


def _removal(obj: Any, holder: Path) -> list[Edit]:
    """Return the edits that remove the constraint at `holder`.

    If the constraint has fields that this rule doesn't write, these are kept.
    """
    if not _has_more(value_at(obj, holder)):
        return [Edit((*holder, "topologyConstraint"), ABSENT)]
    return [Edit((*holder, *_PACK, field), ABSENT) for field in _OURS]


def _has_more(holder: Any) -> bool:
    """Return whether the constraint of `holder` has fields that this rule doesn't write."""
    constraint = map_of(value_at(holder, ("topologyConstraint",)))
    return not {*constraint, *map_at(constraint, "packConstraint")} <= {
        "packConstraint",
        *_OURS,
    }


_NO_DEVICES = ("cpu", "memory", "pods")


def are_counted_exactly(requests: Iterable[Requests]) -> bool:
    """Return whether KAI looks for no more room than pods with `requests` need.

    Under any constraint, KAI looks for a domain with room for all pods as if each were the largest
    one, resource by resource. KAI adds up their requests only if some pods request a device that
    others do not. Source: `useRepresentorPodsAccounting` in
    https://github.com/kai-scheduler/KAI-Scheduler/blob/d5bc503a/pkg/scheduler/plugins/topology/job_filtering.go

    This must also hold for any subset of the pods, because KAI counts only the pods that it places.
    So all pods with the same devices must have equal requests.
    """
    distinct = set(requests)
    devices = {
        frozenset(name for name, _ in asked if name not in _NO_DEVICES) for asked in distinct
    }
    return len(distinct) == len(devices)
