"""ClusterTopology: authorization of the managed one, validation of all. `status` isn't covered (no such rule)."""

from collections.abc import Collection, Mapping
from typing import Any

from app.admission.review import Request
from app.admission.verdict import Verdict, judged, not_allowed
from app.cluster.readers import PodCliqueSetReader
from app.rules.topology.authorization import refusal_to_write_managed_topology
from app.rules.topology.levels import read_levels, validate_cluster_topology
from app.rules.topology.satisfaction import lost_levels_warning


class ClusterTopologyWebhook:
    """`authorized` are the full user names that may write the ClusterTopology `managed_name`; `sets` are who its levels
    matter to."""

    def __init__(self, managed_name: str, authorized: Collection[str], sets: PodCliqueSetReader) -> None:
        self._managed_name = managed_name
        self._sets = sets
        self._authorized = frozenset(authorized)

    def __call__(self, request: Request) -> Verdict:
        refusal = refusal_to_write_managed_topology(
            name=request.name,
            managed_name=self._managed_name,
            operation=request.operation,
            username=request.username,
            authorized=self._authorized,
        )
        if refusal is not None:
            return not_allowed(refusal)
        findings = [] if request.operation == "DELETE" else validate_cluster_topology(request.object)
        return judged(findings, warnings=[] if findings else self._impact(request))

    def _impact(self, request: Request) -> list[str]:
        """What the change would do to workloads that are there, before it happens."""
        if request.name != self._managed_name or request.operation == "CREATE":
            return []
        kept = set() if request.operation == "DELETE" else _domains(request.object)
        lost = _domains(request.old or request.object) - kept
        warning = lost_levels_warning(lost, self._sets.sets_naming(lost)) if lost else None
        return [] if warning is None else [warning]


def _domains(topology: Mapping[str, Any]) -> set[str]:
    spec = topology.get("spec")
    return {level.domain for level in read_levels(spec.get("levels"))} if isinstance(spec, dict) else set()
