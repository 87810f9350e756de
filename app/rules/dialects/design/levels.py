"""The levels of a ClusterTopology, with their validation.

Source: `rules/README.md`.
"""

from collections.abc import Mapping
from typing import Any

from app.objects import fields
from app.objects.fields import FieldError, FieldPath
from app.objects.shape import maps_of
from app.rules.topology.levels import DOMAINS, Level, broadest_first, validate_levels


def read_levels(spec_levels: Any) -> tuple[Level, ...]:
    """Read `spec.levels` of a stored ClusterTopology. Returns the valid levels, broadest first."""
    levels = {
        item["domain"]: Level(item["domain"], item["key"])
        for item in maps_of(spec_levels)
        if isinstance(item.get("domain"), str)
        and item["domain"] in DOMAINS
        and isinstance(item.get("key"), str)
    }
    return broadest_first(levels.values())


def validate_cluster_topology(obj: Mapping[str, Any]) -> list[FieldError]:
    """Return findings about a ClusterTopology.

    Each domain must be one of DOMAINS and unique, and each key a qualified label name and unique.
    Levels may be in any order. `refusal_to_write` decides who may write it.
    """
    findings: list[FieldError] = []
    root = FieldPath("")
    spec = fields.walk_map(obj, "spec", root, findings)
    levels = fields.walk_list(spec, "levels", root.child("spec"), findings)
    if not findings:
        findings = validate_levels(levels, root.child("spec", "levels"))
    return findings
