"""Read the status of workloads, such as Jobs: whether they have ended, and why they lack pods."""

from types import MappingProxyType

from app.base.value import Value
from app.facts.identity import Ref, read_key
from app.facts.kinds import (
    DYNAMO_GRAPH,
    JOB_SET,
    LEADER_WORKER_SET,
    RAY_CLUSTER,
    RAY_JOB,
    RAY_SERVICE,
)
from app.facts.kubernetes.kueue import is_of_kueue
from app.facts.kubernetes.replicated_jobs import ReplicatedJob, read_replicated_jobs
from app.facts.rollout import Rollout, read_rollout
from app.objects.owners import controller_of
from app.objects.resource import DEPLOYMENT, JOB, STATEFUL_SET
from app.objects.shape import JsonMap, int_of, map_at, map_of, maps_at, text_at
from app.objects.time import seconds_since_1970

FAILED = "Failed"
LEADER_READY = "LeaderReady"
"""The startupPolicy with which a LeaderWorkerSet creates workers once their leader is ready."""
WORKERS_READY = "WaitForWorkersReady"
"""The launcherCreationPolicy with which an MPIJob gets its launcher once its workers are ready."""
NO_JOB_ID = "spec.jobId is not set"
"""Why a RayJob with submissionMode InteractiveMode waits."""
_REVISION = "deployment.kubernetes.io/revision"
"""The annotation of a Deployment that has created a ReplicaSet."""
_LEADER_CREATED = "LeaderCreated"
"""The default of the startupPolicy."""
_NOTHING: JsonMap = MappingProxyType({})
_ENDS = {
    **{name: name for name in (FAILED, "Complete", "Completed", "Succeeded")},
    "FailureTarget": FAILED,
    "SuccessCriteriaMet": "Complete",
}
"""The value of `WorkloadStatus.ended` for each condition with which Jobs and similar kinds end.

A Job with FailureTarget or SuccessCriteriaMet creates no more pods, but its last pods may still
exist.
"""
_REPLICA_FAILURE = "ReplicaFailure"
"""The condition of Deployments and RayClusters that can't create pods."""
_ENDS_OF_RAY = {"FAILED": FAILED, "SUCCEEDED": "Complete", "STOPPED": "Complete"}
"""The value of `WorkloadStatus.ended` for each `status.jobStatus` of an ended RayJob."""
_RETRYING = "Retrying"
"""The `status.jobDeploymentStatus` of a RayJob that KubeRay starts again with a new RayCluster."""
_FAILED_RAY = {FAILED, "ValidationFailed"}
"""The values of `status.jobDeploymentStatus` of a RayJob that has failed."""


class WorkloadStatus(Value):
    """The status of a workload, such as a Job, as far as it explains an end or missing pods."""

    ref: Ref
    ended: str = ""
    """How the workload ended, such as Complete or Failed, or "" if it has not ended."""
    reason: str = ""
    """The reason that the status gives for the end, or ""."""
    message: str = ""
    """The message that the status gives about the end, or ""."""
    time: float | None = None
    """When the workload ended, in seconds since 1970.

    It is None if the workload has not ended, or if the time is not known.
    """
    suspended: str = ""
    """The field that suspends the workload, such as `spec.suspend`, or ""."""
    queued: bool = False
    """Whether the workload has a label of Kueue, such as the name of a queue."""
    controller: Ref | None = None
    """The owner that controls the workload, such as the JobSet of a Job, or None."""
    startup: str = ""
    """The setting that makes some pods wait for others, or "".

    It is the startupPolicy of a LeaderWorkerSet, the startupPolicyOrder of a JobSet, or the
    launcherCreationPolicy of an MPIJob.
    """
    group: int = 0
    """The number of pods in each group of a LeaderWorkerSet, or 0 for other kinds."""
    replicas: int | None = None
    """The number of replicas that the spec asks for, or None for kinds without replicas.

    For a Job, it is the parallelism, and for a RayCluster the number of pods.
    """
    created: int | None = None
    """The number of pods that exist according to a Deployment, StatefulSet or RayCluster.

    It is None for other kinds, and if the status does not say it.
    """
    revision: str = ""
    """The newest revision of a StatefulSet that replaces pods in order, or "" for others."""
    clusters: tuple[Ref, ...] = ()
    """The RayClusters that the status of a RayJob or RayService names."""
    refused: str = ""
    """The message of a condition that says why pods can't be created, or ""."""
    refused_since: float | None = None
    """The time since which that condition holds, in seconds since 1970, or None if not known."""
    managed_by: str = ""
    """The controller in `spec.managedBy` if it is not the kind's own, otherwise ""."""
    jobs: tuple[ReplicatedJob, ...] = ()
    """The replicatedJobs of a JobSet, or () for other kinds."""
    rollout: Rollout | None = None
    """The update of its template that has not ended, or None."""
    unready: str = ""
    """Why a DynamoGraphDeployment or RayService is not ready, by its condition Ready, or "".

    For a RayJob, it says why the Ray job has not started.
    """
    unready_since: float | None = None
    """Since when it is not ready, in seconds since 1970, or None if that is not known."""
    has_error: bool = False
    """Whether the controller of a DynamoGraphDeployment can't create or change its objects."""
    retried: str = ""
    """Why the last attempt of a RayJob failed, if KubeRay makes another one, or ""."""
    suspended_groups: tuple[str, ...] = ()
    """The names of the suspended worker groups of a RayCluster."""


def read_workload_status(obj: JsonMap) -> WorkloadStatus:
    """Read the status of the workload `obj`, such as a Job or a RayJob."""
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
    elif ref.kind == DEPLOYMENT.kind and spec.get("paused") is True:
        # a ReplicaSet that was created before is still scaled
        is_rolled_out = _REVISION in map_at(obj, "metadata", "annotations")
        suspended = "" if is_rolled_out else "spec.paused"

    startup, group = "", 0
    if ref.kind == LEADER_WORKER_SET.kind:
        startup = text_at(spec, "startupPolicy") or _LEADER_CREATED
        group = int_of(map_at(spec, "leaderWorkerTemplate").get("size"), 1)
    elif ref.kind == JOB_SET.kind:
        startup = text_at(map_at(spec, "startupPolicy"), "startupPolicyOrder")
    elif ref.kind == "MPIJob":
        startup = text_at(spec, "launcherCreationPolicy")

    status = map_at(obj, "status")
    conditions = [item for item in maps_at(status, "conditions") if item.get("status") == "True"]
    ends = (item for item in conditions if text_at(item, "type") in _ENDS)
    end = next(ends, _NOTHING)
    ended = _ENDS.get(text_at(end, "type"), "")
    ended_at = end.get("lastTransitionTime")
    if not ended:
        state = text_at(status, "jobDeploymentStatus")
        if state in _FAILED_RAY:
            ended = FAILED
        elif state != _RETRYING:
            ended = _ENDS_OF_RAY.get(text_at(status, "jobStatus"), "")
        if ended:
            end, ended_at = status, status.get("endTime")
    replicas, created = _numbers(ref, spec, status)
    refusals = (item for item in conditions if item.get("type") == _REPLICA_FAILURE)
    refusal = next(refusals, _NOTHING)
    return WorkloadStatus(
        ref,
        ended,
        text_at(end, "reason"),
        text_at(end, "message"),
        seconds_since_1970(ended_at),
        suspended,
        queued,
        controller,
        startup,
        group,
        replicas,
        created,
        _revision(ref, spec, status),
        _clusters(ref, status),
        text_at(refusal, "message"),
        seconds_since_1970(refusal.get("lastTransitionTime")),
        _managed_by(spec),
        read_replicated_jobs(spec, status) if ref.kind == JOB_SET.kind else (),
        read_rollout(ref.kind, spec, status),
        *_unready(ref, status),
        _retried(ref, status),
        _suspended_groups(ref, spec),
    )


def _retried(ref: Ref, status: JsonMap) -> str:
    """Return why the last attempt of a RayJob failed if KubeRay makes another one, or ""."""
    if ref.kind != RAY_JOB.kind or text_at(status, "jobDeploymentStatus") != _RETRYING:
        return ""
    return text_at(status, "message") or text_at(status, "reason") or text_at(status, "jobStatus")


def _suspended_groups(ref: Ref, spec: JsonMap) -> tuple[str, ...]:
    """Return the names of the suspended worker groups of a RayCluster, or () for other kinds."""
    if ref.kind != RAY_CLUSTER.kind:
        return ()
    groups = maps_at(spec, "workerGroupSpecs")
    return tuple(text_at(group, "groupName") for group in groups if group.get("suspend") is True)


def _numbers(ref: Ref, spec: JsonMap, status: JsonMap) -> tuple[int | None, int | None]:
    """Return (the requested number of replicas, the number of existing pods), None if not known."""
    if ref.kind == JOB.kind:
        return int_of(spec.get("parallelism"), 1), None
    if ref.kind == RAY_CLUSTER.kind and "desiredWorkerReplicas" in status:
        # The head is in neither number.
        wanted = 1 + int_of(status.get("desiredWorkerReplicas"))
        return wanted, 1 + int_of(status.get("availableWorkerReplicas"))
    created = None
    if ref.kind in (DEPLOYMENT.kind, STATEFUL_SET.kind) and "observedGeneration" in status:
        created = int_of(status.get("replicas"))  # omitted if 0
    return int_of(spec.get("replicas"), 1) if ref.kind in _WITH_REPLICAS else None, created


_OWN_CONTROLLERS = {
    "jobset.sigs.k8s.io/jobset-controller",
    "kubeflow.org/mpi-operator",
    "kubeflow.org/training-operator",
    "kubernetes.io/job-controller",
    "ray.io/kuberay-operator",
    "trainer.kubeflow.org/trainjob-controller",
}
"""The values of `managedBy` that name the controller of the kind itself."""


def _managed_by(spec: JsonMap) -> str:
    """Return the controller in `managedBy`, which is in `runPolicy` for jobs of Kubeflow, or ""."""
    named = text_at(spec, "managedBy") or text_at(map_at(spec, "runPolicy"), "managedBy")
    return "" if named in _OWN_CONTROLLERS else named


def _revision(ref: Ref, spec: JsonMap, status: JsonMap) -> str:
    """Return the newest revision of a StatefulSet that replaces all its pods in order, or ""."""
    strategy = map_at(spec, "updateStrategy")
    in_order = text_at(spec, "podManagementPolicy") in ("", "OrderedReady")
    replaces = text_at(strategy, "type") in ("", "RollingUpdate")
    if ref.kind != STATEFUL_SET.kind or not in_order or not replaces:
        return ""
    is_partial = int_of(map_at(strategy, "rollingUpdate").get("partition")) > 0
    return "" if is_partial else text_at(status, "updateRevision")


def _unready(ref: Ref, status: JsonMap) -> tuple[str, float | None, bool]:
    """Return (why a workload is not ready by its own status, since when, whether it has an error).

    Sources: https://github.com/ai-dynamo/dynamo/pull/2710, and `ray-operator/apis/ray/v1` of
    KubeRay.
    """
    if ref.kind == RAY_JOB.kind:
        if text_at(status, "jobDeploymentStatus") == "Waiting":
            return NO_JOB_ID, None, False
        is_pending = text_at(status, "jobStatus") == "PENDING"
        return text_at(status, "message") if is_pending else "", None, False
    if ref.kind not in (DYNAMO_GRAPH.kind, RAY_SERVICE.kind):
        return "", None, False
    for item in maps_at(status, "conditions"):
        if (text_at(item, "type"), text_at(item, "status")) == ("Ready", "False"):
            since = seconds_since_1970(item.get("lastTransitionTime"))
            said = _of_applications(status) or text_at(item, "message") or text_at(item, "reason")
            return said, since, text_at(status, "state") == "failed"
    return "", None, False


def _of_applications(status: JsonMap) -> str:
    """Return the first message about a Serve application of a RayService, or ""."""
    for key in ("activeServiceStatus", "pendingServiceStatus"):
        for name, state in map_at(status, key, "applicationStatuses").items():
            message = text_at(map_of(state), "message")
            if message:
                return f"application {name} is {text_at(map_of(state), 'status')}: {message}"
    return ""


def _clusters(ref: Ref, status: JsonMap) -> tuple[Ref, ...]:
    """Return the RayClusters that the status of a RayJob or RayService names."""
    services = (map_at(status, key) for key in ("activeServiceStatus", "pendingServiceStatus"))
    names = [text_at(each, "rayClusterName") for each in (status, *services)]
    return tuple(Ref(RAY_CLUSTER.kind, ref.namespace, name) for name in names if name)


_WITH_REPLICAS = {DEPLOYMENT.kind, STATEFUL_SET.kind, LEADER_WORKER_SET.kind}
"""The kinds whose spec has a number of replicas."""
