"""Updates of PodCliqueSets with topology constraints of the dialect `bindings`: which changes Grove allows.

Source: https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/internal/webhook/admission/pcs/validation/topologyconstraints.go
"""

from app.objects.fields import FieldError, forbidden
from app.rules.topology.packs import Packing, Packings, effective_names


def needs_names(old: Packings) -> bool:
    """Whether a stored set has constraints without a name, because their packDomain is older than `topologyName`."""
    findings: list[FieldError] = []
    effective_names(old, findings)
    return bool(findings) and any(packing.pack_domain and not packing.name for packing in old.constraints)


def is_unchanged(packings: Packings, old: Packings) -> bool:
    """Whether the constraints are those of `old`. A packDomain that was moved to pack.required is no change."""
    return all(_is_same(packings.by_owner.get(owner), old.by_owner.get(owner)) for owner in packings.paths)


def _is_same(new: Packing | None, old: Packing | None) -> bool:
    if new is None or old is None:
        return new is old
    return new.values == old.values or _is_migrated(new, old)


def _is_migrated(new: Packing, old: Packing) -> bool:
    """Whether `packDomain` was moved to `pack.required`, and nothing else was changed."""
    moved = bool(old.pack_domain) and not new.pack_domain and new.pack_required == old.pack_domain
    return moved and (new.name, new.preferred) == (old.name, old.preferred)


def validate_change(packings: Packings, old: Packings) -> list[FieldError]:
    """Returns findings about constraints that an update changes. Grove allows only two
    changes: packDomain may be moved to pack.required, and missing names may be added."""
    may_add_names = needs_names(old)
    findings: list[FieldError] = []
    for owner, at in packings.paths.items():
        new, stored = packings.by_owner.get(owner), old.by_owner.get(owner)
        if _is_same(new, stored) or (may_add_names and _adds_name(new, stored)):
            continue
        text = f"cannot be changed after creation: was {_shown(stored)}, would be {_shown(new)}"
        findings.append(forbidden(at.child("topologyConstraint"), text))
    return findings


def _adds_name(new: Packing | None, old: Packing | None) -> bool:
    if new is None or old is None:
        return False
    return not old.name and bool(old.pack_domain) and bool(new.name) and new.pack_domain == old.pack_domain


def _shown(packing: Packing | None) -> str:
    if packing is None:
        return "absent"
    fields = (("topologyName", packing.name), ("required", packing.required), ("preferred", packing.preferred))
    return "{" + ", ".join(f"{name}: {value}" for name, value in fields if value) + "}"
