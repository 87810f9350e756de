"""PodCliqueSet: topology constraints, validated against the managed ClusterTopology."""

from app.admission.review import Request
from app.admission.verdict import Verdict, judged
from app.cluster.readers import TopologyMissing, TopologyReader
from app.rules.topology.constraints import ignored


class PodCliqueSetWebhook:
    def __init__(self, topology: TopologyReader) -> None:
        self._topology = topology

    def __call__(self, request: Request) -> Verdict:
        dialect = self._topology.dialect()
        try:
            return judged(*dialect.validate_set(request.object, request.old, self._topology.topology))
        except TopologyMissing as missing:
            if dialect.is_unchanged(request.object, request.old):
                return judged([], [ignored(missing.message)])
            raise
