"""Validate the topology constraints of a PodCliqueSet in the dialect `bindings`.

The constraints are `topologyName`, `pack.required`, `pack.preferred`, and the deprecated
`packDomain`.

The verdicts equal those of Grove's own webhook, but list all findings at once. There is one
exception: a new PodCliqueSet is also rejected if it prefers a broader domain than it requires.
Updates may make only the changes that Grove's webhook allows. Source:
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/internal/webhook/admission/pcs/validation/topologyconstraints.go
"""

from collections.abc import Iterator, Mapping, Sequence

from app.base.value import Value
from app.facts.grove.constraint import TopologyConstraint, read_constraint
from app.facts.grove.template import SET, Owner, Template, owner_text
from app.facts.grove.topology import Level, LevelsByName
from app.objects.fields import (
    CheckedMap,
    FieldError,
    FieldPath,
    Findings,
    forbidden,
    invalid,
    quote,
    required,
)
from app.rules.dialects.dialect import NO_CONSTRAINTS, SetVerdict, TopologyFacts
from app.rules.topology.coverage import NodesWith
from app.rules.topology.levels import STILL_ALLOWED


class Packing(TopologyConstraint, kw_only=True):
    """The topologyConstraint of a PodCliqueSet, or of one of its scaling groups or cliques."""

    owner: Owner
    """The set, scaling group or clique that has the constraint."""
    path: FieldPath
    """The path of the constraint."""
    parents: tuple["Packing", ...]
    """The enclosing constraints: the set's and, for a clique, those of its scaling groups."""

    @property
    def required_path(self) -> FieldPath:
        """The path of the required domain."""
        return (
            self.path.child("pack.required")
            if self.pack_required
            else self.path.child("packDomain")
        )

    @property
    def preferred_path(self) -> FieldPath:
        """The path of the preferred domain."""
        return self.path.child("pack.preferred")

    @property
    def values(self) -> tuple[str, str, str, str]:
        """The values by which an update is compared with the stored constraint."""
        return self.topology_name, self.pack_domain, self.required, self.preferred


class Packings(Value):
    """All topologyConstraints of the PodCliqueSet `template`."""

    template: Template
    constraints: tuple[Packing, ...]
    """The constraints of the set, its groups and its cliques, in this order."""
    by_owner: Mapping[Owner, Packing]
    """The first constraint of each owner."""
    names: Mapping[Owner, str]
    """The topologyName of each owner: its own, else its scaling group's, else the set's."""
    name_findings: Findings
    """Findings about missing names, which have no entry in `names`, and about names that differ."""

    @property
    def required(self) -> dict[Owner, str]:
        """The domain that each owner requires."""
        return {packing.owner: packing.required for packing in self.constraints if packing.required}

    @property
    def constrained(self) -> list[Owner]:
        """The owners that require or prefer a domain."""
        return [
            packing.owner for packing in self.constraints if packing.required or packing.preferred
        ]

    @property
    def deprecated(self) -> list[FieldPath]:
        """The paths of all packDomains."""
        return [
            packing.path.child("packDomain") for packing in self.constraints if packing.pack_domain
        ]


def read_packings(template: Template) -> tuple[Packings, Findings]:
    """Return the constraints of `template`, and a finding for each value that is not a string.

    Only the first constraint of an owner is compared with the enclosing constraints, because the
    API server rejects a second clique with the same name.
    """
    findings: Findings = []
    constraints: list[Packing] = []
    by_owner: dict[Owner, Packing] = {}
    for part in template.parts:
        if part.constraint is None:
            continue

        above = () if part.owner in by_owner else template.above(part.owner)
        parents = tuple(by_owner[owner] for owner in above if owner in by_owner)
        fields = CheckedMap(part.constraint, findings, "topologyConstraint", part.path)
        texts = read_constraint(fields)
        packing = Packing(*texts, owner=part.owner, path=fields.path, parents=parents)
        constraints.append(packing)
        by_owner.setdefault(part.owner, packing)

    names, name_findings = _read_names(constraints)
    packings = Packings(
        template=template,
        constraints=tuple(constraints),
        by_owner=by_owner,
        names=names,
        name_findings=name_findings,
    )
    return packings, findings


def _read_names(constraints: Sequence[Packing]) -> tuple[dict[Owner, str], Findings]:
    """Return the topologyName of each owner, and findings about missing and differing names."""
    findings: Findings = []
    names: dict[Owner, str] = {}
    for packing in constraints:
        nearest = sorted(packing.parents, key=lambda parent: parent.owner == SET)
        inherited = next((names[parent.owner] for parent in nearest if parent.owner in names), "")
        name = packing.topology_name or names.get(packing.owner) or inherited
        at = packing.path.child("topologyName")
        if not name:
            text = (
                "set the name of a ClusterTopologyBinding here, or once in"
                " spec.template.topologyConstraint"
            )
            findings.append(required(at, text))
            continue
        first = next(iter(names.values()), name)
        if packing.topology_name and packing.topology_name != first:
            text = (
                "all topologyName values of a PodCliqueSet must be the same, but another one is"
                f" {quote(first)}"
            )
            findings.append(invalid(at, packing.topology_name, text))
        names[packing.owner] = name

    return names, findings


class Problems(Value):
    """The problems of the constraints of a set, in the order of the constraints."""

    findings: Findings
    """The reasons to reject the set."""
    missing: Sequence[str]
    """The names of bindings that were not found. `findings` has a finding about each."""
    unplaceable: Findings
    """Findings about constraints that Grove allows but KAI never satisfies."""
    warnings: list[str]


_ONLY_AGAIN = "to correct it, delete the PodCliqueSet and create it again"


def validate_set(template: Template, old: Template | None, facts: TopologyFacts) -> SetVerdict:
    """Return the verdict on the shape of a PodCliqueSet and on its constraints.

    `old` is the set that an UPDATE replaces, None at CREATE. If an update changes no constraint,
    problems of constraints are only warnings, so that workloads can still be scaled after their
    binding has changed. Wrong types are always findings. As in Grove, a stored set from before the
    field `topologyName` must get a topologyName with its next update. `facts` raises an error if
    the bindings are not known.
    """
    packings, of_values = read_packings(template)
    if template.findings or of_values:
        return SetVerdict([*template.findings, *of_values])

    stored = None if old is None else read_packings(old)[0]
    if not packings.constraints and not (stored and stored.constraints):
        return NO_CONSTRAINTS

    bindings = facts.bindings()
    problems = _problems(packings, bindings, facts.nodes_with)
    if len(problems.findings) == len(problems.missing):
        for name in problems.missing:
            facts.need_binding(name)
    findings, warnings = _judge(problems, packings, stored)
    levels = bindings.get(next(iter(packings.names.values()), ""), ())

    return SetVerdict(
        findings=findings,
        warnings=warnings,
        levels=levels,
        required=packings.required,
        constrained=packings.constrained,
    )


def _judge(
    problems: Problems, packings: Packings, stored: Packings | None
) -> tuple[Findings, list[str]]:
    """Return the findings and warnings of a request.

    `stored` are the constraints that an UPDATE replaces, None at CREATE.
    """
    findings = problems.findings
    if stored is None:
        # Grove's CRD does not allow packDomain in a new PodCliqueSet
        text = "packDomain is allowed only in PodCliqueSets that already have it; use pack.required"
        deprecated = [forbidden(path, text) for path in packings.deprecated]
        return [*findings, *problems.unplaceable, *deprecated], problems.warnings

    unplaceable = (
        f"{STILL_ALLOWED} ({_ONLY_AGAIN}): {finding}" for finding in problems.unplaceable
    )
    warnings = [*problems.warnings, *unplaceable]
    changes = [*_validate_change(packings, stored)]
    if changes or _needs_names(stored):
        return [*changes, *findings], warnings
    return [], [*(f"{STILL_ALLOWED}: {finding}" for finding in findings), *warnings]


def _problems(packings: Packings, bindings: LevelsByName, nodes_with: NodesWith) -> Problems:
    """Return the problems of `packings`. Findings about names come first."""
    findings = [*packings.name_findings]
    unplaceable: Findings = []
    warnings = []
    if packings.deprecated:
        paths = ", ".join(map(str, packings.deprecated))
        warnings.append(
            f"packDomain is deprecated in this release of Grove; use pack.required instead: {paths}"
        )
    of_nodes: list[str] = []
    unknown: list[str] = []
    for packing in packings.constraints:
        name = packings.names.get(packing.owner, "")
        levels = bindings.get(name, ())
        domains = [level.domain for level in levels]
        if name in bindings:
            findings += _unknown_domains(packing, name, domains)
            findings += _too_broad(packing, packings.names, domains)
        elif packing.topology_name and name not in unknown:
            unknown.append(name)
            findings.append(_unknown_binding(packing, name, bindings))

        unplaceable += _never_placed(packing, domains)
        warnings += _useless(packing, domains)
        of_nodes += _shared_domain(packing, levels, nodes_with)

    return Problems(findings, unknown, unplaceable, warnings + of_nodes)


# Findings.


def _unknown_binding(packing: Packing, name: str, bindings: LevelsByName) -> FieldError:
    allowed = "this cluster has none"
    if bindings:
        allowed = f"existing ones: {', '.join(sorted(bindings))}"
    text = f"ClusterTopologyBinding not found; {allowed}"
    return invalid(packing.path.child("topologyName"), name, text)


def _unknown_domains(packing: Packing, name: str, domains: Sequence[str]) -> Iterator[FieldError]:
    used = (
        (packing.path.child("packDomain"), packing.pack_domain),
        (packing.path.child("pack.required"), packing.pack_required),
        (packing.preferred_path, packing.preferred),
    )
    for path, domain in used:
        if domain and domain not in domains:
            text = (
                f'not a level of ClusterTopologyBinding "{name}", which has: {", ".join(domains)}'
            )
            yield invalid(path, domain, text)


def _too_broad(
    packing: Packing, names: Mapping[Owner, str], domains: Sequence[str]
) -> Iterator[FieldError]:
    """Yield findings about domains that are broader than the enclosing constraints' domains."""
    parents = [
        parent for parent in packing.parents if names.get(parent.owner) == names.get(packing.owner)
    ]
    for field in ("required", "preferred"):
        domain: str = getattr(packing, field)
        above = [(getattr(parent, field), parent.owner) for parent in parents]
        narrower = [pair for pair in above if _is_broader(domain, pair[0], domains)]
        if narrower:
            other, owner = max(narrower, key=lambda pair: domains.index(pair[0]))
            allowed = ", ".join(domains[domains.index(other) :])
            text = (
                f'must not be broader than the {field} domain "{other}" of {owner_text(owner)};'
                f" allowed: {allowed}"
            )
            path: FieldPath = getattr(packing, f"{field}_path")
            yield invalid(path, domain, text)


def _is_broader(domain: str, other: str, domains: Sequence[str]) -> bool:
    """Return whether `domain` is broader than `other`.

    Both must be in `domains`, which are listed broadest first.
    """
    return domain in domains and other in domains and domains.index(domain) < domains.index(other)


def _never_placed(packing: Packing, domains: Sequence[str]) -> Iterator[FieldError]:
    """Yield a finding about a preferred domain that is broader than the required one.

    Grove allows it, but KAI never places such pods, and Grove allows no correction later. Source:
    `d3-*` in `tests/testdata/kai-decisions`.
    """
    if _is_broader(packing.preferred, packing.required, domains):
        allowed = ", ".join(domains[domains.index(packing.required) :])
        text = (
            f'must not be broader than the required domain "{packing.required}", because KAI never'
            f" places such pods. Remove pack.preferred, or use one of: {allowed}"
        )
        yield invalid(packing.preferred_path, packing.preferred, text)


# Warnings about constraints that Grove accepts but that have no effect or conflict.


def _useless(packing: Packing, domains: Sequence[str]) -> Iterator[str]:
    """Yield warnings about a constraint that has no effect or conflicts with an enclosing one."""
    if not packing.required and not packing.preferred:
        # other constraints may inherit its topologyName
        yield (
            f"{packing.path} has neither pack.required nor pack.preferred, so it keeps no pods"
            " together"
        )
    for parent in packing.parents:
        if _is_broader(packing.preferred, parent.required, domains):
            yield (
                f'{packing.preferred_path} "{packing.preferred}" has no effect:'
                f' {owner_text(parent.owner)} already requires the narrower "{parent.required}"'
            )
        if _is_broader(packing.required, parent.preferred, domains):
            yield (
                f'{packing.required_path} "{packing.required}" is broader than the preferred domain'
                f' "{parent.preferred}" of {owner_text(parent.owner)}, so this preference may be'
                f" ignored for {owner_text(packing.owner)}"
            )


def _shared_domain(
    packing: Packing, levels: Sequence[Level], nodes_with: NodesWith
) -> Iterator[str]:
    """Yield a warning if KAI never satisfies a required domain without a preferred one.

    That is so if all nodes with the labels of all levels are in one domain of a narrower level. A
    constraint inside of another one gets no warning. Source: `d5-one-rack` and `d5-grove` in
    `tests/testdata/kai-decisions`.
    """
    domains = [level.domain for level in levels]
    if packing.preferred or packing.required not in domains or packing.parents:
        return

    keys = tuple(level.key for level in levels)
    depth = nodes_with(keys).shared_levels(keys)
    if depth > domains.index(packing.required) + 1:
        yield (
            f'{packing.required_path} "{packing.required}": all nodes with the labels of its'
            f' topology are in one "{domains[depth - 1]}", and KAI then places the pods only if a'
            f" level is also preferred. Create the PodCliqueSet with pack.preferred: {domains[-1]}"
        )


# Updates.


def _needs_names(old: Packings) -> bool:
    """Return whether a stored set lacks a topologyName that it must get with its next update.

    One of its constraints then has a packDomain from before `topologyName` existed.
    """
    return bool(old.name_findings) and any(
        packing.pack_domain and not packing.topology_name for packing in old.constraints
    )


def _is_same(new: Packing | None, old: Packing | None) -> bool:
    if new is None or old is None:
        return new is old
    return new.values == old.values or _is_migrated(new, old)


def _is_migrated(new: Packing, old: Packing) -> bool:
    """Return whether `packDomain` was moved to `pack.required` without any other change."""
    moved = bool(old.pack_domain) and not new.pack_domain and new.pack_required == old.pack_domain
    return moved and (new.topology_name, new.preferred) == (old.topology_name, old.preferred)


def _validate_change(packings: Packings, old: Packings) -> Iterator[FieldError]:
    """Yield findings about constraints that an update changes.

    Grove allows only two changes: packDomain may be moved to pack.required, and missing names may
    be added, if the stored set needs them.
    """
    may_add_names = _needs_names(old)
    parts = {part.owner: part for part in packings.template.parts}
    for owner, part in parts.items():
        new = packings.by_owner.get(owner)
        stored = old.by_owner.get(owner)
        if _is_same(new, stored) or (may_add_names and _adds_name(new, stored)):
            continue
        text = (
            f"cannot be changed after creation: was {_shown(stored)}, would be {_shown(new)}. To"
            " change it, delete the PodCliqueSet and create it again"
        )
        yield forbidden(part.path.child("topologyConstraint"), text)


def _adds_name(new: Packing | None, old: Packing | None) -> bool:
    if new is None or old is None:
        return False
    return (
        not old.topology_name
        and bool(old.pack_domain)
        and bool(new.topology_name)
        and new.pack_domain == old.pack_domain
    )


def _shown(packing: Packing | None) -> str:
    if packing is None:
        return "absent"
    fields = (
        ("topologyName", packing.topology_name),
        ("packDomain", packing.pack_domain),
        ("required", packing.pack_required),
        ("preferred", packing.preferred),
    )
    return "{" + ", ".join(f"{name}: {value}" for name, value in fields if value) + "}"
