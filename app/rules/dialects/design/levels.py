"""Validate the levels of a ClusterTopology. Source: `rules/README.md`."""

from app.objects.fields import CheckedMap, FieldPath, Findings
from app.objects.shape import JsonMap
from app.rules.topology.levels import validate_levels


def validate_cluster_topology(obj: JsonMap) -> Findings:
    """Return findings about the levels of a ClusterTopology, which may be in any order."""
    spec = CheckedMap(obj).child("spec")
    levels = spec.list_at("levels")
    return spec.findings or validate_levels(levels, FieldPath("spec.levels"))
