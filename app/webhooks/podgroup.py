"""Validate the names and parents of SubGroups in PodGroups of KAI.

Also warn about missing queues and about levels that KAI ignores or never satisfies.
"""

import contextlib

from app.admission.review import Request
from app.admission.verdict import Verdict, judged
from app.base.value import Value
from app.cluster.view import ClusterView
from app.facts.kai.topology import KaiTopology
from app.kube.api import Unavailable
from app.rules.podgroup import constraint_warnings
from app.rules.queue_warnings import warnings_of_group
from app.rules.subgroups import validate_pod_group


class PodGroupWebhook(Value):
    """The handler for PodGroups.

    Whether it rejects a PodGroup never depends on cached facts. Without the queues or the KAI
    Topology, there are only fewer warnings.
    """

    facts: ClusterView

    def __call__(self, request: Request) -> Verdict:
        findings = validate_pod_group(request.object)
        if findings:
            return judged(findings)
        warnings = warnings_of_group(
            request.object, self.facts.queues, is_whole=self.facts.known.is_whole
        )
        warnings += constraint_warnings(request.object, self._topology)
        return judged([], warnings)

    def _topology(self, name: str) -> KaiTopology | None:
        with contextlib.suppress(Unavailable):
            return self.facts.kai_topology(name)
        return None
