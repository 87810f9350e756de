"""Topology constraints of a PodCliqueSet in the dialect `bindings`.

They are `topologyName`, `pack.required`, `pack.preferred`, and the deprecated `packDomain`.

The verdicts are those of Grove's own webhook, but with all findings at once. It also decides which
changes an update may make. Source:
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/internal/webhook/admission/pcs/validation/topologyconstraints.go
"""

from collections.abc import Iterator, Mapping, Sequence

from app.facts.grove.template import SET, Owner, SetPart, Template, owner_text
from app.facts.grove.topology import Level
from app.objects.fields import (
    FieldPath,
    Findings,
    forbidden,
    invalid,
    required,
    walk_map,
    wrong_type,
)
from app.objects.shape import JsonMap
from app.rules.topology.coverage import NodesWith
from app.rules.topology.levels import is_broader
from app.value import Value

Bindings = Mapping[str, Sequence[Level]]
"""The levels of all ClusterTopologyBindings by name, broadest first."""


class Packing(Value):
    """One topologyConstraint. `path` is its path. A value is "" if it is not set.

    `parents` are the constraints above it: that of the set, and for a clique those of its scaling
    groups.
    """

    owner: Owner
    path: FieldPath
    parents: tuple["Packing", ...]
    name: str
    pack_domain: str
    pack_required: str
    preferred: str

    @property
    def required(self) -> str:
        return self.pack_required or self.pack_domain

    @property
    def required_path(self) -> FieldPath:
        return (
            self.path.child("pack.required")
            if self.pack_required
            else self.path.child("packDomain")
        )

    @property
    def preferred_path(self) -> FieldPath:
        return self.path.child("pack.preferred")

    @property
    def values(self) -> tuple[str, str, str, str]:
        """The values that an update may not change."""
        return self.name, self.pack_domain, self.required, self.preferred


class Packings(Value):
    """The constraints of the PodCliqueSet `template`.

    They are that of the set, then those of its groups and cliques in list order. `by_owner` has the
    first constraint of each owner. `names` has the topologyName of each owner: its own, or that of
    its scaling group or set. `name_findings` are about missing names, which have no entry, and
    about names that differ.
    """

    template: Template
    constraints: tuple[Packing, ...]
    by_owner: Mapping[Owner, Packing]
    names: Mapping[Owner, str]
    name_findings: Findings

    @property
    def required(self) -> dict[Owner, str]:
        """The domain that each owner requires."""
        return {packing.owner: packing.required for packing in self.constraints if packing.required}

    @property
    def constrained(self) -> list[Owner]:
        """The owners whose pods KAI places by a constraint."""
        return [
            packing.owner for packing in self.constraints if packing.required or packing.preferred
        ]

    @property
    def deprecated(self) -> list[FieldPath]:
        """The paths of all packDomains."""
        return [
            packing.path.child("packDomain") for packing in self.constraints if packing.pack_domain
        ]

    def domains(self, packing: Packing, bindings: Bindings) -> list[str]:
        """Return the domains of the binding of `packing`, none if it doesn't exist."""
        levels = bindings.get(self.names.get(packing.owner, ""), ())
        return [level.domain for level in levels]


def read_packings(template: Template, findings: Findings) -> Packings:
    """Return the constraints of `template`, and add a finding for each value that is no text.

    Only the first constraint of an owner is compared with those above it: an API server rejects a
    second clique of the same name.
    """
    constraints: list[Packing] = []
    by_owner: dict[Owner, Packing] = {}
    for part in template.parts:
        if part.constraint is None:
            continue

        above = () if part.owner in by_owner else template.above(part.owner)
        parents = tuple(by_owner[owner] for owner in above if owner in by_owner)
        packing = _read(part, part.constraint, parents, findings)
        constraints.append(packing)
        by_owner.setdefault(part.owner, packing)

    names, name_findings = _read_names(constraints)
    return Packings(template, tuple(constraints), by_owner, names, name_findings)


def _read(
    part: SetPart,
    constraint: JsonMap,
    parents: tuple[Packing, ...],
    findings: Findings,
) -> Packing:
    path = part.path.child("topologyConstraint")
    pack = walk_map(constraint, "pack", path, findings)
    return Packing(
        part.owner,
        path,
        parents,
        _text(constraint, "topologyName", path, findings),
        _text(constraint, "packDomain", path, findings),
        _text(pack, "required", path.child("pack"), findings),
        _text(pack, "preferred", path.child("pack"), findings),
    )


def _text(
    holder: JsonMap,
    field: str,
    at: FieldPath,
    findings: Findings,
) -> str:
    value = holder.get(field)
    if value is None or isinstance(value, str):
        return value or ""
    findings.append(wrong_type(at.child(field), value, "a string"))
    return ""


def _read_names(constraints: Sequence[Packing]) -> tuple[dict[Owner, str], Findings]:
    """Return the topologyName of each owner, and the findings about names."""
    findings: Findings = []
    names: dict[Owner, str] = {}
    for packing in constraints:
        nearest = sorted(packing.parents, key=lambda parent: parent.owner == SET)
        inherited = next((names[parent.owner] for parent in nearest if parent.owner in names), "")
        name = packing.name or names.get(packing.owner) or inherited
        at = packing.path.child("topologyName")
        if not name:
            text = (
                "the name of a ClusterTopologyBinding is needed here or in the topologyConstraint"
                " above"
            )
            findings.append(required(at, text))
            continue
        first = next(iter(names.values()), name)
        if packing.name and packing.name != first:
            text = (
                "all topologyName values of a PodCliqueSet must be the same, and another one is"
                f' "{first}"'
            )
            findings.append(invalid(at, packing.name, text))
        names[packing.owner] = name

    return names, findings


# Findings.

_STORED = "topology constraint stored before, and allowed to stay"


def validate_packings(
    packings: Packings,
    stored: Packings | None,
    bindings: Bindings,
    nodes_with: NodesWith,
) -> tuple[Findings, list[str]]:
    """Return findings and warnings about the constraints of a set.

    `stored` are those that an UPDATE replaces, None at CREATE. Grove allows hardly any change of
    them. Problems that an update does not cause are warnings.
    """
    warnings = _packing_warnings(packings, bindings)
    warnings += _shared_domain_warnings(packings, bindings, nodes_with)
    findings = _findings(packings, bindings)
    unplaceable = _never_placed(packings, bindings)
    if stored is None:
        return [*findings, *unplaceable, *_deprecated_fields(packings)], warnings

    warnings += [f"{_STORED}: {finding}" for finding in unplaceable]
    changes = _validate_change(packings, stored)
    if changes or _needs_names(stored):
        return [*changes, *findings], warnings
    return [], [*(f"{_STORED}: {finding}" for finding in findings), *warnings]


def _findings(packings: Packings, bindings: Bindings) -> Findings:
    """Return all findings about the constraints.

    The first are about their names, then for each constraint about its levels and the constraints
    above it.
    """
    findings = [*packings.name_findings]
    unknown: set[str] = set()
    for packing in packings.constraints:
        name = packings.names.get(packing.owner, "")
        if name in bindings:
            domains = packings.domains(packing, bindings)
            _validate_domains(packing, name, domains, findings)
            _validate_parents(packing, packings.names, domains, findings)
        elif name and packing.name and name not in unknown:
            unknown.add(name)
            allowed = (
                f"these exist: {', '.join(sorted(bindings))}"
                if bindings
                else "there is none in this cluster"
            )
            text = f"ClusterTopologyBinding not found; {allowed}"
            findings.append(invalid(packing.path.child("topologyName"), name, text))

    return findings


def _validate_domains(
    packing: Packing,
    name: str,
    domains: Sequence[str],
    findings: Findings,
) -> None:
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
            findings.append(invalid(path, domain, text))


def _validate_parents(
    packing: Packing,
    names: Mapping[Owner, str],
    domains: Sequence[str],
    findings: Findings,
) -> None:
    parents = [
        parent for parent in packing.parents if names.get(parent.owner) == names.get(packing.owner)
    ]
    for field in ("required", "preferred"):
        domain: str = getattr(packing, field)
        above = [(getattr(parent, field), parent.owner) for parent in parents]
        narrower = [pair for pair in above if is_broader(domain, pair[0], domains)]
        if narrower:
            other, owner = max(narrower, key=lambda pair: domains.index(pair[0]))
            allowed = ", ".join(domains[domains.index(other) :])
            text = (
                f'broader than the {field} domain "{other}" of {owner_text(owner)}; allowed:'
                f" {allowed}"
            )
            path: FieldPath = getattr(packing, f"{field}_path")
            findings.append(invalid(path, domain, text))


def _never_placed(packings: Packings, bindings: Bindings) -> Findings:
    """Return findings about preferred domains that are broader than the required one beside them.

    Grove allows them, but KAI never places such pods, and Grove allows no correction later. Source:
    `d3-*` in `tests/testdata/kai-decisions`.
    """
    findings: Findings = []
    for packing in packings.constraints:
        domains = packings.domains(packing, bindings)
        if is_broader(packing.preferred, packing.required, domains):
            allowed = ", ".join(domains[domains.index(packing.required) :])
            text = (
                f'broader than the required domain "{packing.required}", so that KAI never places'
                f" these pods: remove it, or use one of: {allowed}"
            )
            findings.append(invalid(packing.preferred_path, packing.preferred, text))

    return findings


def _deprecated_fields(packings: Packings) -> Findings:
    """Return findings about packDomain in a new PodCliqueSet.

    Grove's CRD doesn't allow it there.
    """
    text = "packDomain is allowed only in PodCliqueSets that have it already: use pack.required"
    return [forbidden(path, text) for path in packings.deprecated]


# Warnings.


def _packing_warnings(packings: Packings, bindings: Bindings) -> list[str]:
    """Return warnings about constraints that Grove accepts, but that don't help.

    They have no effect, or contradict a constraint above them.
    """
    paths = ", ".join(map(str, packings.deprecated))
    text = f"packDomain is deprecated in this release of Grove; use pack.required instead: {paths}"
    warnings = [text] if paths else []
    for packing in packings.constraints:
        domains = packings.domains(packing, bindings)
        warnings += _own_warnings(packing)
        for parent in packing.parents:
            warnings += _parent_warnings(packing, parent, domains)
    return warnings


def _shared_domain_warnings(
    packings: Packings, bindings: Bindings, nodes_with: NodesWith
) -> list[str]:
    """Return warnings about required domains without a preferred one.

    If all nodes are in the same domain of a narrower level, KAI never places the pods.

    Only constraints with none above them count. Source: `d5-one-rack` and `d5-grove` in
    `tests/testdata/kai-decisions`.
    """
    warnings: list[str] = []
    for packing in packings.constraints:
        levels = bindings.get(packings.names.get(packing.owner, ""), ())
        domains = [level.domain for level in levels]
        if packing.preferred or packing.required not in domains or packing.parents:
            continue

        keys = tuple(level.key for level in levels)
        depth = nodes_with(keys).shared_levels(keys)
        if depth > domains.index(packing.required) + 1:
            warnings.append(
                f'{packing.required_path} "{packing.required}": all nodes are in one'
                f' "{domains[depth - 1]}", and then KAI never places the pods unless a level is'
                f' preferred too: add pack.preferred, such as "{domains[-1]}"'
            )
    return warnings


def _own_warnings(packing: Packing) -> Iterator[str]:
    if not packing.required and not packing.preferred:
        yield (
            f"{packing.path} has neither pack.required nor pack.preferred, so it constrains nothing"
        )


def _parent_warnings(packing: Packing, parent: Packing, domains: Sequence[str]) -> Iterator[str]:
    if is_broader(packing.preferred, parent.required, domains):
        yield (
            f'{packing.preferred_path} "{packing.preferred}" has no effect:'
            f' {owner_text(parent.owner)} already requires the narrower "{parent.required}"'
        )
    if is_broader(packing.required, parent.preferred, domains):
        yield (
            f'{packing.required_path} "{packing.required}" allows what {owner_text(parent.owner)}'
            f' wants to avoid: it prefers the narrower "{parent.preferred}", so that the preference'
            f" may be ignored for {owner_text(packing.owner)}"
        )


# Updates.


def _needs_names(old: Packings) -> bool:
    """Return whether a stored set has constraints without a name.

    Their packDomain is older than `topologyName`.
    """
    return bool(old.name_findings) and any(
        packing.pack_domain and not packing.name for packing in old.constraints
    )


def _is_same(new: Packing | None, old: Packing | None) -> bool:
    if new is None or old is None:
        return new is old
    return new.values == old.values or _is_migrated(new, old)


def _is_migrated(new: Packing, old: Packing) -> bool:
    """Return whether `packDomain` was moved to `pack.required`, and nothing else was changed."""
    moved = bool(old.pack_domain) and not new.pack_domain and new.pack_required == old.pack_domain
    return moved and (new.name, new.preferred) == (old.name, old.preferred)


def _validate_change(packings: Packings, old: Packings) -> Findings:
    """Return findings about constraints that an update changes.

    Grove allows only two changes: packDomain may be moved to pack.required, and missing names may
    be added, if the stored set needs them.
    """
    may_add_names = _needs_names(old)
    findings: Findings = []
    parts = {part.owner: part for part in packings.template.parts}
    for owner, part in parts.items():
        new = packings.by_owner.get(owner)
        stored = old.by_owner.get(owner)
        if _is_same(new, stored) or (may_add_names and _adds_name(new, stored)):
            continue
        text = f"cannot be changed after creation: was {_shown(stored)}, would be {_shown(new)}"
        findings.append(forbidden(part.path.child("topologyConstraint"), text))
    return findings


def _adds_name(new: Packing | None, old: Packing | None) -> bool:
    if new is None or old is None:
        return False
    return (
        not old.name
        and bool(old.pack_domain)
        and bool(new.name)
        and new.pack_domain == old.pack_domain
    )


def _shown(packing: Packing | None) -> str:
    if packing is None:
        return "absent"
    fields = (
        ("topologyName", packing.name),
        ("required", packing.required),
        ("preferred", packing.preferred),
    )
    return "{" + ", ".join(f"{name}: {value}" for name, value in fields if value) + "}"
