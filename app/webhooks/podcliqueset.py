"""PodCliqueSet: topology constraints, validated against the managed ClusterTopology."""

from app.admission.review import Request
from app.admission.verdict import ALLOWED, Verdict, judged
from app.cluster.api import TopologyReader
from app.domain.hierarchy import read_constraints, validate_pod_clique_set


class PodCliqueSetWebhook:
    def __init__(self, topology: TopologyReader) -> None:
        self._topology = topology

    def __call__(self, request: Request) -> Verdict:
        findings = []  # type: ignore[var-annotated]
        if not read_constraints(request.object, findings).found:
            return judged(findings) if findings else ALLOWED
        return judged(*validate_pod_clique_set(request.object, request.old, self._topology.topology()))
