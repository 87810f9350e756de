"""ClusterTopology: authorization of the managed one, validation of all. `status` isn't covered (no such rule)."""

from collections.abc import Collection

from app.admission.review import Request
from app.admission.verdict import ALLOWED, Verdict, judged, not_allowed
from app.domain.authorization import refusal_to_write_managed_topology
from app.domain.topology import validate_cluster_topology


class ClusterTopologyWebhook:
    """`authorized` are the full user names that may write the ClusterTopology `managed_name`."""

    def __init__(self, managed_name: str, authorized: Collection[str]) -> None:
        self._managed_name = managed_name
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
        return ALLOWED if request.operation == "DELETE" else judged(validate_cluster_topology(request.object))
