"""Validation of the levels of a ClusterTopology. Source: `rules/README.md`."""

from app.objects import fields
from app.objects.fields import FieldPath, Findings
from app.objects.shape import JsonMap
from app.rules.topology.levels import validate_levels


def validate_cluster_topology(obj: JsonMap) -> Findings:
    """Return findings about a ClusterTopology.

    Each domain must be one of DOMAINS and unique, and each key a qualified label name and unique.
    Levels may be in any order. `refusal_to_write` decides who may write it.
    """
    findings: Findings = []
    root = FieldPath("")
    spec = fields.walk_map(obj, "spec", root, findings)
    levels = fields.walk_list(spec, "levels", root.child("spec"), findings)
    if not findings:
        findings = validate_levels(levels, root.child("spec.levels"))
    return findings
