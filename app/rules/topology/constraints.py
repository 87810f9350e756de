"""Topology constraints (`packDomain`) of a PodCliqueSet, its scaling groups and its
cliques. Each must be as strict as the constraints above it, or stricter.

Source: `rules/README.md`. Whether scaling groups name cliques that exist is checked by Grove's own webhook.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.objects.fields import (
    FieldError,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    walk_list,
    walk_map,
    walk_maps,
    wrong_type,
)
from app.rules.topology.levels import DOMAINS, Topology, rank

NOT_ENABLED = "topology support is not enabled in the operator"

_TEMPLATE = FieldPath("spec.template")


@dataclass(frozen=True, slots=True)
class Constraint:
    """One packDomain. `owner` is ("set", ""), ("group", name) or ("clique", name), whatever the order of the lists."""

    owner: tuple[str, str]
    path: FieldPath
    domain: str


@dataclass(frozen=True, slots=True)
class Constraints:
    """All packDomains of one PodCliqueSet, in the order of its lists. `groups_of`
    maps the name of a clique to those of its scaling groups."""

    all: tuple[Constraint, ...]
    groups_of: Mapping[str, Sequence[str]]

    @property
    def comparable(self) -> tuple[list[tuple[tuple[str, str], str]], dict[str, list[str]]]:
        """Equal for two versions of a set if its constraints have not changed: owners with their domains, and the
        scaling groups of each clique that has a constraint. Several owners may have one name, by mistake."""
        owners = {constraint.owner for constraint in self.all}
        groups = {name: sorted(groups) for name, groups in self.groups_of.items() if ("clique", name) in owners}
        return sorted((constraint.owner, constraint.domain) for constraint in self.all), groups


def validate_pod_clique_set(
    constraints: Constraints, old: Mapping[str, Any] | None, topology: Topology
) -> tuple[list[FieldError], list[str]]:
    """Returns findings and warnings about the constraints of a set. `old` is the object that an UPDATE replaces, None
    at CREATE. Problems of constraints that an update does not change are warnings."""
    findings = validate_constraints(constraints, topology)
    if findings and is_unchanged(constraints, old):
        return [], [ignored(str(finding)) for finding in findings]
    return findings, []


def is_unchanged(constraints: Constraints, old: Mapping[str, Any] | None) -> bool:
    """Whether an update of `old` does not change any constraint."""
    return old is not None and read_constraints(old, []).comparable == constraints.comparable


def ignored(reason: str) -> str:
    """Returns the warning about a stored constraint that can't be applied, for `reason`."""
    return f"topology constraint ignored, it was stored before: {reason}"


def read_constraints(obj: Mapping[str, Any], findings: list[FieldError]) -> Constraints:
    """Returns every packDomain of `obj`. Parts that don't have the CRD's shape are left out, with a finding each."""
    spec = walk_map(obj, "spec", FieldPath(""), findings)
    template = walk_map(spec, "template", FieldPath("spec"), findings)
    constraints = _read_constraint(template, ("set", ""), _TEMPLATE, findings)
    groups_of: dict[str, list[str]] = {}
    groups = walk_list(template, "podCliqueScalingGroups", _TEMPLATE, findings)
    for at, group in walk_maps(groups, _TEMPLATE.child("podCliqueScalingGroups"), findings):
        name = str(group.get("name", ""))
        constraints += _read_constraint(group, ("group", name), at, findings)
        for clique_name in walk_list(group, "cliqueNames", at, findings):
            groups_of.setdefault(str(clique_name), []).append(name)
    cliques = walk_list(template, "cliques", _TEMPLATE, findings)
    for at, clique in walk_maps(cliques, _TEMPLATE.child("cliques"), findings):
        constraints += _read_constraint(clique, ("clique", str(clique.get("name", ""))), at, findings)
    return Constraints(tuple(constraints), groups_of)


def _read_constraint(
    holder: dict[str, Any], owner: tuple[str, str], at: FieldPath, findings: list[FieldError]
) -> list[Constraint]:
    """Returns the constraint of `holder`, if it has one."""
    if holder.get("topologyConstraint") is None:
        return []
    domain = walk_map(holder, "topologyConstraint", at, findings).get("packDomain")
    if domain is None or domain == "":
        return []
    path = at.child("topologyConstraint", "packDomain")
    if isinstance(domain, str):
        return [Constraint(owner, path, domain)]
    findings.append(wrong_type(path, domain, "a string"))
    return []


def validate_constraints(constraints: Constraints, topology: Topology) -> list[FieldError]:
    """Returns all findings about the constraints, in the order of the lists: for each constraint,
    whether its level exists, then whether it is as strict as the constraints above it."""
    if not topology.enabled:
        return [forbidden(constraint.path, NOT_ENABLED) for constraint in constraints.all]
    domains = {constraint.owner: constraint.domain for constraint in constraints.all if constraint.domain in DOMAINS}
    findings: list[FieldError] = []
    for constraint in constraints.all:
        _validate_level(constraint, topology, findings)
        _validate_parents(constraint, _parents(constraint, constraints.groups_of), domains, findings)
    return findings


def _validate_level(constraint: Constraint, topology: Topology, findings: list[FieldError]) -> None:
    if constraint.domain not in DOMAINS:
        findings.append(not_supported(constraint.path, constraint.domain, DOMAINS))
    elif topology.key_of(constraint.domain) is None:
        levels = ", ".join(level.domain for level in topology.levels)
        detail = f'topology level not found in ClusterTopology "{topology.name}", which has: {levels}'
        findings.append(invalid(constraint.path, constraint.domain, detail))


def _parents(constraint: Constraint, groups_of: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    kind, name = constraint.owner
    groups = [("group", group) for group in groups_of.get(name, ())] if kind == "clique" else []
    return [] if kind == "set" else [("set", ""), *groups]


def _validate_parents(
    constraint: Constraint,
    parents: list[tuple[str, str]],
    domains: dict[tuple[str, str], str],
    findings: list[FieldError],
) -> None:
    """Adds at most one finding: about the strictest of the parents that are stricter than `constraint`."""
    domain = constraint.domain
    if domain not in DOMAINS:
        return
    stricter = [owner for owner in parents if owner in domains and rank(domain) < rank(domains[owner])]
    if not stricter:
        return
    parent = max(stricter, key=lambda owner: rank(domains[owner]))
    holder = "the PodCliqueSet" if parent[0] == "set" else f'scaling group "{parent[1]}"'
    allowed = ", ".join(DOMAINS[rank(domains[parent]) :])
    detail = f'must be as strict as packDomain "{domains[parent]}" of {holder}, or stricter; allowed: {allowed}'
    findings.append(invalid(constraint.path, domain, detail))
