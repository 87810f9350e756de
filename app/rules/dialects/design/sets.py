"""Topology constraints (`packDomain`) of a PodCliqueSet, its scaling groups and its cliques.

Each must be as strict as the constraints above it, or stricter.

Source: `rules/README.md`. Whether scaling groups name cliques that exist is checked by Grove's own
webhook.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.facts.grove.topology import DOMAINS
from app.objects import fields
from app.objects.fields import FieldError, FieldPath
from app.rules.topology.levels import ManagedTopology
from app.rules.topology.owners import Owner, is_broader, owner_text, owners_above, walk_owners

NOT_ENABLED = "topology support is not enabled in the operator"


@dataclass(frozen=True, slots=True)
class Constraint:
    """One packDomain."""

    owner: Owner
    path: FieldPath
    domain: str


@dataclass(frozen=True, slots=True)
class Constraints:
    """All packDomains of one PodCliqueSet, in the order of its lists.

    `groups_of` maps the name of a clique to those of its scaling groups.
    """

    all: tuple[Constraint, ...]
    groups_of: Mapping[str, Sequence[str]]

    @property
    def comparable(self) -> tuple[list[tuple[Owner, str]], dict[str, list[str]]]:
        """A value that is equal for two versions of a set with the same constraints.

        It has the owners with their domains, and the scaling groups of each clique that has a
        constraint. Several owners may have one name, by mistake.
        """
        owners = {constraint.owner for constraint in self.all}
        groups = {
            name: sorted(groups)
            for name, groups in self.groups_of.items()
            if ("clique", name) in owners
        }
        return sorted((constraint.owner, constraint.domain) for constraint in self.all), groups


def validate_pod_clique_set(
    constraints: Constraints, old: Mapping[str, Any] | None, topology: ManagedTopology
) -> tuple[list[FieldError], list[str]]:
    """Return findings and warnings about the constraints of a set.

    `old` is the object that an UPDATE replaces, None at CREATE. Problems of constraints that an
    update does not change are warnings.
    """
    findings = _findings(constraints, topology)
    if findings and is_unchanged(constraints, old):
        return [], [ignored(str(finding)) for finding in findings]
    return findings, []


def is_unchanged(constraints: Constraints, old: Mapping[str, Any] | None) -> bool:
    """Return whether an update of `old` does not change any constraint."""
    return old is not None and read_constraints(old, []).comparable == constraints.comparable


def ignored(reason: str) -> str:
    """Return the warning about a stored constraint that can't be applied, for `reason`."""
    return f"topology constraint ignored, it was stored before: {reason}"


def read_constraints(obj: Mapping[str, Any], findings: list[FieldError]) -> Constraints:
    """Return every packDomain of `obj`.

    Parts that don't have the CRD's shape are left out, with a finding each.
    """
    constraints: list[Constraint] = []
    groups_of: dict[str, list[str]] = {}
    for owner, at, content in walk_owners(obj, findings):
        constraints += _read_constraint(content, owner, at, findings)
        kind, name = owner
        for clique in (
            fields.walk_list(content, "cliqueNames", at, findings) if kind == "group" else ()
        ):
            groups_of.setdefault(str(clique), []).append(name)
    return Constraints(tuple(constraints), groups_of)


def _read_constraint(
    content: dict[str, Any], owner: Owner, at: FieldPath, findings: list[FieldError]
) -> list[Constraint]:
    """Return the constraint of `owner`, if it has one."""
    domain = fields.walk_map(content, "topologyConstraint", at, findings).get("packDomain")
    if domain is None or domain == "":
        return []
    path = at.child("topologyConstraint.packDomain")
    if isinstance(domain, str):
        return [Constraint(owner, path, domain)]
    findings.append(fields.wrong_type(path, domain, "a string"))
    return []


def _findings(constraints: Constraints, topology: ManagedTopology) -> list[FieldError]:
    """Return all findings about the constraints, in the order of the lists.

    For each constraint, they say whether its level exists, then whether it is as strict as the
    constraints above it.
    """
    if not topology.enabled:
        return [fields.forbidden(constraint.path, NOT_ENABLED) for constraint in constraints.all]

    domains = {
        constraint.owner: constraint.domain
        for constraint in constraints.all
        if constraint.domain in DOMAINS
    }
    strictest = {
        owner: _strictest_above(owner, domains, constraints.groups_of) for owner in domains
    }
    findings: list[FieldError] = []
    for constraint in constraints.all:
        if constraint.domain not in DOMAINS:
            findings.append(fields.not_supported(constraint.path, constraint.domain, DOMAINS))
            continue
        if topology.key_of(constraint.domain) is None:
            levels = ", ".join(level.domain for level in topology.levels)
            detail = (
                f'topology level not found in ClusterTopology "{topology.name}", which has:'
                f" {levels}"
            )
            findings.append(fields.invalid(constraint.path, constraint.domain, detail))
        above = strictest[constraint.owner]
        if above is not None and is_broader(constraint.domain, above[1], DOMAINS):
            owner, domain = above
            allowed = allowed_below(domain, topology)
            text = (
                f'must be as strict as packDomain "{domain}" of {owner_text(owner)}, or stricter;'
                f" allowed: {allowed}"
            )
            findings.append(fields.invalid(constraint.path, constraint.domain, text))

    return findings


def allowed_below(domain: str, topology: ManagedTopology) -> str:
    """Return the levels that exist and are as strict as a domain, `rack, host`, or `none`."""
    existing = {level.domain for level in topology.levels}
    allowed = [name for name in DOMAINS[DOMAINS.index(domain) :] if name in existing]
    return ", ".join(allowed) or "none"


def _strictest_above(
    owner: Owner, domains: Mapping[Owner, str], groups_of: Mapping[str, Sequence[str]]
) -> tuple[Owner, str] | None:
    """Return the owner above `owner` with the strictest of `domains`, and that domain."""
    strictest: tuple[Owner, str] | None = None
    for above in owners_above(owner, groups_of):
        domain = domains.get(above)
        if domain and (strictest is None or is_broader(strictest[1], domain, DOMAINS)):
            strictest = (above, domain)
    return strictest
