"""Read from a workload whether it has ended or is suspended."""

from app.base.value import Value
from app.facts.identity import Ref, read_key
from app.facts.kubernetes.kueue import is_of_kueue
from app.objects.owners import controller_of
from app.objects.shape import JsonMap, map_at, maps_at, text_at
from app.objects.time import seconds_since_1970

FAILED = "Failed"
_ENDS = (FAILED, "Complete", "Completed", "Succeeded")
"""The conditions with which Jobs, JobSets and Kubeflow's jobs end."""
_ENDS_OF_RAY = {"FAILED": FAILED, "SUCCEEDED": "Complete", "STOPPED": "Complete"}
"""The condition that is equivalent to each `status.jobStatus` of a RayJob that has ended."""


class WorkloadStatus(Value):
    """Whether a workload, such as a Job, has ended or is suspended, and why."""

    ref: Ref
    """The workload."""
    ended: str = ""
    """The type of the condition with which the workload ended, or "" if it has not ended."""
    reason: str = ""
    """The reason that the status gives for the end, or ""."""
    message: str = ""
    """The message that the status gives about the end, or ""."""
    time: float | None = None
    """When the workload ended, or None if it has not ended or the time is not known."""
    suspended: str = ""
    """The field that suspends the workload, such as `spec.suspend`, or ""."""
    queued: bool = False
    """Whether the workload has a label of Kueue, such as the name of a queue."""
    controller: Ref | None = None
    """The owner that controls the workload, such as the JobSet of a Job, or None."""


def read_workload_status(obj: JsonMap) -> WorkloadStatus:
    """Read whether the workload `obj`, such as a Job or a RayJob, has ended or is suspended."""
    ref = Ref(text_at(obj, "kind"), *read_key(obj))
    queued = is_of_kueue(map_at(obj, "metadata", "labels"), (), ())
    made_by = controller_of(obj)
    controller = Ref(made_by.kind, ref.namespace, made_by.name) if made_by else None
    spec = map_at(obj, "spec")
    suspended = ""
    if spec.get("suspend") is True:
        suspended = "spec.suspend"
    elif map_at(spec, "runPolicy").get("suspend") is True:
        suspended = "spec.runPolicy.suspend"

    status = map_at(obj, "status")
    for condition in maps_at(status, "conditions"):
        if condition.get("type") in _ENDS and condition.get("status") == "True":
            return WorkloadStatus(
                ref,
                text_at(condition, "type"),
                text_at(condition, "reason"),
                text_at(condition, "message"),
                seconds_since_1970(condition.get("lastTransitionTime")),
                suspended,
                queued,
                controller,
            )
    ended = _ENDS_OF_RAY.get(text_at(status, "jobStatus"), "")
    if text_at(status, "jobDeploymentStatus") == FAILED:
        ended = FAILED
    return WorkloadStatus(
        ref,
        ended,
        text_at(status, "reason") if ended else "",
        text_at(status, "message") if ended else "",
        seconds_since_1970(status.get("endTime")) if ended else None,
        suspended,
        queued,
        controller,
    )
