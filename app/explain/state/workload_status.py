"""Find the status of a workload: as it was read, or as failed if an event says so."""

from app.explain.state.index import Index
from app.explain.state.makers import warnings_about
from app.facts.identity import Ref
from app.facts.kubernetes.workload_status import FAILED, WorkloadStatus

_FINAL = {
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
}
"""The reasons of events that say that a Job has failed: `pkg/controller/job` of Kubernetes."""


def status_of(index: Index, ref: Ref) -> WorkloadStatus | None:
    """Return the status of a workload, or None if it is not known.

    If the status was not read and the workload has no unfinished pods, an event can say that it has
    failed.
    """
    known = index.workload_statuses.get(ref)
    if known or any(not pod.finished for pod in index.pods_made_for.get(ref, ())):
        return known
    for event in warnings_about(index, ref):
        if event.about == ref and event.reason in _FINAL:
            return WorkloadStatus(ref, FAILED, event.reason, event.message, event.time)
    return None
