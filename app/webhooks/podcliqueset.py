"""PodCliqueSet: topology constraints, validated against the managed ClusterTopology."""

from app.admission.review import Request
from app.admission.verdict import Verdict, judged
from app.cluster.readers import TopologyMissing, TopologyReader
from app.objects.fields import FieldError
from app.rules.topology.constraints import ignored, is_unchanged, read_constraints, validate_pod_clique_set


class PodCliqueSetWebhook:
    def __init__(self, topology: TopologyReader) -> None:
        self._topology = topology

    def __call__(self, request: Request) -> Verdict:
        findings: list[FieldError] = []
        constraints = read_constraints(request.object, findings)
        if findings or not constraints.found:
            return judged(findings)
        try:
            topology = self._topology.topology()
        except TopologyMissing as missing:
            if is_unchanged(constraints, request.old):
                return judged([], [ignored(missing.message)])
            raise
        return judged(*validate_pod_clique_set(constraints, request.old, topology))
