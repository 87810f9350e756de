"""Topology constraints of a PodCliqueSet in the words of today's Grove: `topologyName`, `pack.required`,
`pack.preferred`, and the deprecated `packDomain`.

The verdicts are those of Grove's own webhook, but with all findings at once:
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/internal/webhook/admission/pcs/validation/topologyconstraints.go
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.objects.fields import (
    FieldError,
    FieldPath,
    as_map,
    forbidden,
    invalid,
    required,
    walk_list,
    walk_map,
    wrong_type,
)
from app.rules.topology.levels import Level

LevelsOf = Callable[[str], Sequence[Level] | None]
"""The levels of the ClusterTopologyBinding of a name, broadest first; None if it doesn't exist."""

Owner = tuple[str, str]
"""("set", ""), ("group", name) or ("clique", name): what a constraint belongs to, however the lists are ordered."""

_TEMPLATE = FieldPath("spec.template")
_SET: Owner = ("set", "")


@dataclass(frozen=True, slots=True)
class Packing:
    """One topologyConstraint; `path` is where it is. Each value is "" if it is not set."""

    owner: Owner
    path: FieldPath
    name: str
    pack_domain: str
    pack_required: str
    preferred: str

    @property
    def required(self) -> str:
        return self.pack_required or self.pack_domain

    @property
    def required_path(self) -> FieldPath:
        return self.path.child("pack", "required") if self.pack_required else self.path.child("packDomain")

    @property
    def preferred_path(self) -> FieldPath:
        return self.path.child("pack", "preferred")

    @property
    def values(self) -> tuple[str, str, str, str]:
        """What may not be changed by an update."""
        return self.name, self.pack_domain, self.required, self.preferred


@dataclass(slots=True)
class Packings:
    """The constraints of one PodCliqueSet in list order, set, groups, cliques. `places` has the path of every possible
    owner, `members` the cliques of each scaling group."""

    constraints: list[Packing]
    places: dict[Owner, FieldPath]
    members: dict[str, list[str]]

    def of(self, owner: Owner) -> Packing | None:
        return next((packing for packing in self.constraints if packing.owner == owner), None)

    def parents(self, packing: Packing) -> Iterator[Packing]:
        """The constraints that stand above `packing`: the set's, and for a clique those of its scaling groups."""
        kind, name = packing.owner
        above: list[Owner] = [] if kind == "set" else [_SET]
        above += [("group", group) for group, members in self.members.items() if kind == "clique" and name in members]
        for owner in above:
            parent = self.of(owner)
            if parent is not None:
                yield parent


def read_packings(obj: Mapping[str, Any], findings: list[FieldError]) -> Packings:
    """The constraints of the PodCliqueSet `obj`. What isn't of the CRD's shape becomes a finding."""
    spec = walk_map(obj, "spec", FieldPath(""), findings)
    template = walk_map(spec, "template", FieldPath("spec"), findings)
    packings = Packings([], {}, {})
    _read(template, _SET, _TEMPLATE, packings, findings)
    for kind, field in (("group", "podCliqueScalingGroups"), ("clique", "cliques")):
        for position, item in enumerate(walk_list(template, field, _TEMPLATE, findings)):
            at = _TEMPLATE.child(field).index(position)
            holder = as_map(item, at, findings)
            if holder is None:
                continue
            name = str(holder.get("name", ""))
            if kind == "group":
                packings.members[name] = [str(member) for member in walk_list(holder, "cliqueNames", at, findings)]
            _read(holder, (kind, name), at, packings, findings)
    return packings


def _read(holder: dict[str, Any], owner: Owner, at: FieldPath, into: Packings, findings: list[FieldError]) -> None:
    into.places[owner] = at
    if holder.get("topologyConstraint") is None:
        return
    path = at.child("topologyConstraint")
    constraint = walk_map(holder, "topologyConstraint", at, findings)
    pack = walk_map(constraint, "pack", path, findings)
    into.constraints.append(
        Packing(
            owner,
            path,
            _text(constraint, "topologyName", path, findings),
            _text(constraint, "packDomain", path, findings),
            _text(pack, "required", path.child("pack"), findings),
            _text(pack, "preferred", path.child("pack"), findings),
        )
    )


def _text(holder: dict[str, Any], field: str, at: FieldPath, findings: list[FieldError]) -> str:
    value = holder.get(field)
    if value is None or isinstance(value, str):
        return value or ""
    findings.append(wrong_type(at.child(field), value, "a string"))
    return ""


# Which binding each constraint refers to.


def effective_names(packings: Packings, findings: list[FieldError]) -> dict[Owner, str]:
    """The topologyName of each constraint, its own or inherited from its scaling group or its set; without an entry if
    there is none. Missing and contradicting names are findings."""
    names: dict[Owner, str] = {}
    for packing in packings.constraints:
        inherited = _inherited(packings, packing, names)
        name = packing.name or inherited
        at = packing.path.child("topologyName")
        if not name:
            text = "the name of a ClusterTopologyBinding is needed here or in the topologyConstraint above"
            findings.append(required(at, text))
            continue
        first = next(iter(names.values()), name)
        if packing.name and packing.name != first:
            text = f'all topologyName values of a PodCliqueSet must be the same, and another one is "{first}"'
            findings.append(invalid(at, packing.name, text))
        names[packing.owner] = name
    return names


def _inherited(packings: Packings, packing: Packing, names: Mapping[Owner, str]) -> str:
    parents = [parent.owner for parent in packings.parents(packing) if parent.owner in names]
    groups = [owner for owner in parents if owner[0] == "group"]
    nearest = (*groups, *parents)
    return names[nearest[0]] if nearest else ""


# What is wrong with them.


def validate_packings(packings: Packings, levels_of: LevelsOf, existing: Sequence[str]) -> list[FieldError]:
    """All findings about the constraints: names, then per constraint its levels and what stands above it. `existing`
    are the names of the bindings that exist, for the message."""
    findings: list[FieldError] = []
    names = effective_names(packings, findings)
    unknown: set[str] = set()
    for packing in packings.constraints:
        name = names.get(packing.owner, "")
        levels = levels_of(name) if name else None
        if levels is not None:
            _validate_domains(packing, name, [level.domain for level in levels], findings)
            _validate_parents(packings, packing, names, [level.domain for level in levels], findings)
        elif name and packing.name and name not in unknown:
            unknown.add(name)
            allowed = f"these exist: {', '.join(existing)}" if existing else "there is none in this cluster"
            text = f"ClusterTopologyBinding not found; {allowed}"
            findings.append(invalid(packing.path.child("topologyName"), name, text))
    return findings


def _validate_domains(packing: Packing, name: str, domains: Sequence[str], findings: list[FieldError]) -> None:
    used = (
        (packing.path.child("packDomain"), packing.pack_domain),
        (packing.path.child("pack", "required"), packing.pack_required),
        (packing.preferred_path, packing.preferred),
    )
    for path, domain in used:
        if domain and domain not in domains:
            text = f'not a level of ClusterTopologyBinding "{name}", which has: {", ".join(domains)}'
            findings.append(invalid(path, domain, text))


def _validate_parents(
    packings: Packings, packing: Packing, names: Mapping[Owner, str], domains: Sequence[str], findings: list[FieldError]
) -> None:
    parents = [parent for parent in packings.parents(packing) if names.get(parent.owner) == names.get(packing.owner)]
    for field in ("required", "preferred"):
        domain: str = getattr(packing, field)
        above = [(parent, getattr(parent, field)) for parent in parents]
        broader = [(parent, over) for parent, over in above if _is_broader(domain, over, domains)]
        if broader:
            parent, over = max(broader, key=lambda pair: domains.index(pair[1]))
            allowed = ", ".join(domains[domains.index(over) :])
            text = f'broader than the {field} domain "{over}" of {_whose(parent)}; allowed: {allowed}'
            path: FieldPath = getattr(packing, f"{field}_path")
            findings.append(invalid(path, domain, text))


def _is_broader(domain: str, other: str, domains: Sequence[str]) -> bool:
    """Whether both are levels and `domain` is the broader one."""
    return domain in domains and other in domains and domains.index(domain) < domains.index(other)


def _whose(packing: Packing) -> str:
    kind, name = packing.owner
    return "the PodCliqueSet" if kind == "set" else f'scaling group "{name}"' if kind == "group" else f'clique "{name}"'


def former_words(packings: Packings) -> list[FieldError]:
    """Findings about packDomain in a new PodCliqueSet, which the CRD of today's Grove doesn't allow."""
    text = "packDomain is allowed only in PodCliqueSets that have it already: use pack.required"
    at = (packing.path.child("packDomain") for packing in packings.constraints if packing.pack_domain)
    return [forbidden(path, text) for path in at]


# What has no effect, or not the one that was meant.


def packing_warnings(packings: Packings, levels_of: LevelsOf) -> list[str]:
    """Constraints that are valid for Grove, but without effect or in contradiction to one above."""
    names = effective_names(packings, [])
    former = [str(packing.path.child("packDomain")) for packing in packings.constraints if packing.pack_domain]
    warnings = [_deprecated(former)] if former else []
    for packing in packings.constraints:
        levels = levels_of(names[packing.owner]) if packing.owner in names else None
        domains = [level.domain for level in levels or ()]
        warnings += _own_warnings(packing, domains)
        for parent in packings.parents(packing):
            warnings += _parent_warnings(packing, parent, domains)
    return warnings


def _deprecated(paths: Sequence[str]) -> str:
    return f"packDomain is deprecated in this release of Grove; use pack.required instead: {', '.join(paths)}"


def _own_warnings(packing: Packing, domains: Sequence[str]) -> Iterator[str]:
    if not packing.required and not packing.preferred:
        yield f"{packing.path} has neither pack.required nor pack.preferred, so it constrains nothing"
    if _is_broader(packing.preferred, packing.required, domains):
        yield (
            f'{packing.preferred_path} "{packing.preferred}" is broader than the required domain "{packing.required}" '
            f"and has no effect"
        )


def _parent_warnings(packing: Packing, parent: Packing, domains: Sequence[str]) -> Iterator[str]:
    if _is_broader(packing.preferred, parent.required, domains):
        yield (
            f'{packing.preferred_path} "{packing.preferred}" has no effect: {_whose(parent)} already requires '
            f'the narrower "{parent.required}"'
        )
    if _is_broader(packing.required, parent.preferred, domains):
        yield (
            f'{packing.required_path} "{packing.required}" allows what {_whose(parent)} wants to avoid: it prefers '
            f'the narrower "{parent.preferred}", so that the preference may be ignored for {_whose(packing)}'
        )


# Updates.


def needs_names(old: Packings) -> bool:
    """Whether a stored set has a packDomain from before `topologyName` existed, without any name."""
    findings: list[FieldError] = []
    effective_names(old, findings)
    return bool(findings) and any(packing.pack_domain and not packing.name for packing in old.constraints)


def is_unchanged(packings: Packings, old: Packings) -> bool:
    """Whether the constraints are those of `old`, or differ only by a packDomain that became pack.required."""
    return all(_is_kept(packings.of(owner), old.of(owner)) for owner in packings.places)


def _is_kept(new: Packing | None, old: Packing | None) -> bool:
    if new is None or old is None:
        return new is old
    return new.values == old.values or _is_migrated(new, old)


def _is_migrated(new: Packing, old: Packing) -> bool:
    """Whether only `packDomain` became `pack.required`."""
    moved = bool(old.pack_domain) and not new.pack_domain and new.pack_required == old.pack_domain
    return moved and (new.name, new.preferred) == (old.name, old.preferred)


def validate_change(packings: Packings, old: Packings) -> list[FieldError]:
    """Findings about constraints that an update changes: Grove allows no change, except that a packDomain becomes
    pack.required, and that a set from before `topologyName` existed gets its names."""
    repairable = needs_names(old)
    findings: list[FieldError] = []
    for owner, at in packings.places.items():
        new, before = packings.of(owner), old.of(owner)
        if _is_kept(new, before) or (repairable and _is_repaired(new, before)):
            continue
        text = f"cannot be changed after creation: was {_shown(before)}, would be {_shown(new)}"
        findings.append(forbidden(at.child("topologyConstraint"), text))
    return findings


def _is_repaired(new: Packing | None, old: Packing | None) -> bool:
    if new is None or old is None:
        return False
    return not old.name and bool(old.pack_domain) and bool(new.name) and new.pack_domain == old.pack_domain


def _shown(packing: Packing | None) -> str:
    if packing is None:
        return "absent"
    named = (("topologyName", packing.name), ("required", packing.required), ("preferred", packing.preferred))
    return "{" + ", ".join(f"{name}: {value}" for name, value in named if value) + "}"
