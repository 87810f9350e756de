"""Grove as of August 2026: levels in ClusterTopologyBindings, `topologyName` and `pack` in PodCliqueSets. Grove writes
the constraints of PodGangs, its own conditions and the KAI Topologies.

Reads: `spec.levels` of ClusterTopologyBindings, `topologyConstraint` of PodCliqueSets.
Writes: nothing in PodGangs, PodCliqueSets or KAI Topologies.

Source: https://github.com/ai-dynamo/grove/tree/fcc3b3bb
"""

from collections.abc import Mapping
from typing import Any

from app.objects.conditions import Condition
from app.objects.edits import Change
from app.objects.fields import FieldError
from app.rules.kinds import CLUSTER_TOPOLOGY_BINDING
from app.rules.podcliqueset import PodCliqueSet
from app.rules.topology.dialect import Managed
from app.rules.topology.levels import Level, Topology


class Bindings:
    """In force if `clustertopologybindings.grove.io` is served, also beside `clustertopologies.grove.io`."""

    name = "bindings"
    resource = CLUSTER_TOPOLOGY_BINDING
    owns_topology = False

    def read_levels(self, obj: Mapping[str, Any]) -> tuple[Level, ...]:
        spec = obj.get("spec")
        levels = spec.get("levels") if isinstance(spec, dict) else None
        return tuple(
            Level(level["domain"], level["key"])
            for level in (levels if isinstance(levels, list) else ())
            if isinstance(level, dict) and isinstance(level.get("domain"), str) and isinstance(level.get("key"), str)
        )

    def validate_set(
        self, obj: Mapping[str, Any], old: Mapping[str, Any] | None, managed: Managed
    ) -> tuple[list[FieldError], list[str]]:
        return [], []

    def is_unchanged(self, obj: Mapping[str, Any], old: Mapping[str, Any] | None) -> bool:
        return False

    def validate_podgang(self, gang: Mapping[str, Any]) -> list[FieldError]:
        return []

    def podgang_changes(self, gang: Mapping[str, Any], pcs: PodCliqueSet | None, managed: Managed) -> list[Change]:
        return []

    def condition(self, pcs: PodCliqueSet, topology: Topology | None) -> Condition | None:
        return None


BINDINGS = Bindings()
