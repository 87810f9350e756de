"""Validate ClusterTopologies and ClusterTopologyBindings, and authorize writes of the managed one.

The API server does not send writes of `status` to this webhook.
"""

from collections.abc import Collection

from app.admission.review import Request
from app.admission.verdict import ALLOWED, Verdict, judged, not_allowed
from app.base.value import Value
from app.cluster.view import DIALECTS, ClusterView
from app.rules.topology.levels import refusal_to_write

_DIALECT_OF = {dialect.resource.kind: dialect for dialect in DIALECTS}


class ClusterTopologyWebhook(Value):
    """The handler for ClusterTopologies and ClusterTopologyBindings.

    The dialect of an object validates it, even if another dialect is in force.
    """

    managed_name: str
    """The name of the managed topology."""
    guarded: Collection[str]
    """The kinds whose object with the name `managed_name` is protected."""
    authorized: Collection[str]
    """The full names of the only users who may write the managed topology."""
    topology: ClusterView
    """The facts for the rules of the dialects."""

    def __call__(self, request: Request) -> Verdict:
        managed = request.name == self.managed_name and request.kind in self.guarded
        if request.is_deleting and request.operation == "UPDATE" and not managed:
            return ALLOWED
        if managed:
            refusal = refusal_to_write(
                kind=request.kind,
                name=request.name,
                operation=request.operation,
                username=request.username,
                authorized=self.authorized,
            )
            if refusal is not None:
                return not_allowed(refusal, final=True)

        verdict = _DIALECT_OF[request.kind].validate_levels(
            request.object,
            request.old,
            request.operation,
            self.topology,
            managed=managed,
        )
        if verdict.refusal is not None:
            return not_allowed(verdict.refusal)

        return judged(verdict.findings, verdict.warnings)
