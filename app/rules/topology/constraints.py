"""Topology constraints of a PodCliqueSet: set -> scaling group -> clique, each as strict as its parent or stricter.

Source: `rules/README.md`. Not checked here: whether scaling groups name
cliques that exist (Grove's own webhook does). The cost doesn't depend on the number of replicas.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.objects.fields import (
    FieldError,
    FieldPath,
    as_map,
    forbidden,
    invalid,
    not_supported,
    walk_list,
    walk_map,
    wrong_type,
)
from app.rules.topology.levels import DOMAINS, Topology, rank

NOT_ENABLED = "topology support is not enabled in the operator"

_TEMPLATE = FieldPath("spec.template")


@dataclass(frozen=True, slots=True)
class Constraint:
    """One packDomain. `owner` identifies where it stands in a way that survives reordering: ("set", ""),
    ("group", name) or ("clique", name)."""

    owner: tuple[str, str]
    path: FieldPath
    domain: str


@dataclass(slots=True)
class Constraints:
    """All packDomains of one PodCliqueSet, in list order, and which scaling groups each clique is in."""

    found: list[Constraint]
    groups_of: dict[str, list[str]]

    def as_facts(self) -> tuple[dict[tuple[str, str], str], dict[str, list[str]]]:
        """What must be equal for a set's constraints to count as unchanged: domains by owner, and, of cliques that
        are bound by something, their groups."""
        domains = {one.owner: one.domain for one in self.found}
        return domains, {name: sorted(groups) for name, groups in self.groups_of.items() if ("clique", name) in domains}


def validate_pod_clique_set(
    constraints: Constraints, old: Mapping[str, Any] | None, topology: Topology
) -> tuple[list[FieldError], list[str]]:
    """Findings and warnings about the constraints of a set; `old` is what an UPDATE replaces, None at CREATE.

    Ratchet: what is wrong with constraints that the update leaves as they were becomes warnings.
    """
    findings = validate_constraints(constraints, topology)
    if findings and is_unchanged(constraints, old):
        return [], [ignored(str(finding)) for finding in findings]
    return findings, []


def is_unchanged(constraints: Constraints, old: Mapping[str, Any] | None) -> bool:
    """Whether an update of `old` leaves all constraints as they were."""
    return old is not None and read_constraints(old, []).as_facts() == constraints.as_facts()


def ignored(why: str) -> str:
    """The warning for constraints that nobody can be held to."""
    return f"topology constraint ignored, it was stored before: {why}"


def read_constraints(obj: Mapping[str, Any], findings: list[FieldError]) -> Constraints:
    """Every packDomain of `obj`; what isn't of the CRD's shape becomes a finding and is passed over."""
    spec = walk_map(obj, "spec", FieldPath(""), findings)
    template = walk_map(spec, "template", FieldPath("spec"), findings)
    constraints = Constraints([], {})
    _read_constraint(template, ("set", ""), _TEMPLATE, constraints, findings)
    at = _TEMPLATE.child("podCliqueScalingGroups")
    for position, item in enumerate(walk_list(template, "podCliqueScalingGroups", _TEMPLATE, findings)):
        group = as_map(item, at.index(position), findings)
        if group is not None:
            name = str(group.get("name", ""))
            _read_constraint(group, ("group", name), at.index(position), constraints, findings)
            for clique in walk_list(group, "cliqueNames", at.index(position), findings):
                constraints.groups_of.setdefault(str(clique), []).append(name)
    at = _TEMPLATE.child("cliques")
    for position, item in enumerate(walk_list(template, "cliques", _TEMPLATE, findings)):
        clique = as_map(item, at.index(position), findings)
        if clique is not None:
            _read_constraint(clique, ("clique", str(clique.get("name", ""))), at.index(position), constraints, findings)
    return constraints


def _read_constraint(
    holder: dict[str, Any], owner: tuple[str, str], at: FieldPath, into: Constraints, findings: list[FieldError]
) -> None:
    if holder.get("topologyConstraint") is None:
        return
    domain = walk_map(holder, "topologyConstraint", at, findings).get("packDomain")
    if domain is None or domain == "":
        return
    path = at.child("topologyConstraint", "packDomain")
    if isinstance(domain, str):
        into.found.append(Constraint(owner, path, domain))
    else:
        findings.append(wrong_type(path, domain, "a string"))


def validate_constraints(constraints: Constraints, topology: Topology) -> list[FieldError]:
    """All findings about the constraints, in list order: per constraint, whether its level exists, then whether it is
    as strict as what stands above it."""
    if not topology.enabled:
        return [forbidden(one.path, NOT_ENABLED) for one in constraints.found]
    domains = {one.owner: one.domain for one in constraints.found if one.domain in DOMAINS}
    findings: list[FieldError] = []
    for one in constraints.found:
        _validate_level(one, topology, findings)
        _validate_parents(one, _parents(one, constraints.groups_of), domains, findings)
    return findings


def _validate_level(one: Constraint, topology: Topology, findings: list[FieldError]) -> None:
    if one.domain not in DOMAINS:
        findings.append(not_supported(one.path, one.domain, DOMAINS))
    elif topology.key_of(one.domain) is None:
        levels = ", ".join(level.domain for level in topology.levels)
        detail = f'topology level not found in ClusterTopology "{topology.name}", which has: {levels}'
        findings.append(invalid(one.path, one.domain, detail))


def _parents(one: Constraint, groups_of: dict[str, list[str]]) -> list[tuple[str, str]]:
    kind, name = one.owner
    groups = [("group", group) for group in groups_of.get(name, ())] if kind == "clique" else []
    return [] if kind == "set" else [("set", ""), *groups]


def _validate_parents(
    one: Constraint, parents: list[tuple[str, str]], domains: dict[tuple[str, str], str], findings: list[FieldError]
) -> None:
    """At most one finding: against the strictest parent that `one` is broader than."""
    if one.owner not in domains:
        return
    broader = [owner for owner in parents if owner in domains and rank(one.domain) < rank(domains[owner])]
    if not broader:
        return
    parent = max(broader, key=lambda owner: rank(domains[owner]))
    whose = "the PodCliqueSet" if parent[0] == "set" else f'scaling group "{parent[1]}"'
    allowed = ", ".join(DOMAINS[rank(domains[parent]) :])
    detail = f'must be as strict as packDomain "{domains[parent]}" of {whose}, or stricter; allowed: {allowed}'
    findings.append(invalid(one.path, one.domain, detail))
