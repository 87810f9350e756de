"""Report workloads that have failed or are suspended, according to their status or events."""

import shlex

from msgspec.structs import replace

from app.explain.gangs.gang import Gang
from app.explain.reasons.messages import one_line
from app.explain.reasons.reason import (
    Evidence,
    Reasons,
    Who,
    about,
    commands_to_describe,
    counted,
    listed,
    to_read_log,
    with_age,
)
from app.explain.state.index import Index
from app.explain.state.workload_status import status_of
from app.facts.identity import Ref
from app.facts.kinds import JOB_SET, RAY_CLUSTER, RAY_JOB, TRAIN_JOB
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.replicated_jobs import unmet
from app.facts.kubernetes.workload_status import FAILED, WorkloadStatus
from app.facts.unit_owners import JOB_SET_NAME
from app.facts.workload_of_pod import WORKLOAD_KINDS
from app.objects.resource import JOB


def is_made_for_workload(gang: Gang) -> bool:
    """Return whether the gang stands for a workload such as a Job, or was created for one."""
    return bool(_workloads(gang))


def _status(gang: Gang) -> WorkloadStatus | None:
    """Return the first known status of the workloads of a gang, or None."""
    found = (status_of(gang.index, ref) for ref in _workloads(gang))
    return next(filter(None, found), None)


def _workloads(gang: Gang) -> list[Ref]:
    """Return the workloads that a gang stands for or was created for."""
    refs = [gang.ref, *(ref for pod in gang.pods[:1] for ref in pod.made_for)]
    refs += _made_for_group(gang.index, gang)
    return [ref for ref in refs if ref.kind in _KINDS]


_KINDS = {resource.kind for resource in WORKLOAD_KINDS}


def _made_for_group(index: Index, gang: Gang) -> tuple[Ref, ...]:
    """Return the workloads for which finished pods of a gang's PodGroup were created.

    Return () for a gang that has other pods or no PodGroup.
    """
    group = gang.pod_group
    if gang.pods or group is None:
        return ()
    return next((pod.made_for for pod in index.pods_of_group.get(group.key, ())), ())


def workload_failed(gang: Gang) -> Reasons:
    """Report that the workload has failed for good: its controller creates no more pods."""
    status = _status(gang)
    if status is None or status.ended != FAILED:
        return
    ref = status.ref
    why = one_line(status.message) or status.reason or "its status gives no reason"
    if status.reason and status.reason not in why:
        why += f" ({status.reason})"
    text = with_age(f"{ref} has failed: {why}", status.time, gang.facts.now)
    remedy = (
        f"Find out why, then delete {ref} and create it again. A failed workload creates no more"
        " pods"
    )
    commands = commands_to_describe(ref)
    made = gang.index.pods_made_for.get(ref, ())
    failed = sorted((pod for pod in made if pod.phase == FAILED), key=_age)
    if failed:
        container, how = failed[-1].ended
        if container:
            text += f". In pod {failed[-1].name}, container {container} ended: {how}"
        remedy = (
            f"Read the log of a failed pod, correct the cause, then delete {ref} and create it"
            " again. A failed workload creates no more pods"
        )
        if how == "OOMKilled":
            remedy = (
                f"Raise limits.memory of container {container}, because memory ran out, then delete"
                f" {ref} and create it again. A failed workload creates no more pods"
            )
        log = to_read_log(failed[-1].ref)
        commands = (log,)
    evidence = Evidence(ref, "status.conditions[Failed]", status.message)
    objects = tuple(dict.fromkeys((ref, gang.ref)))
    yield about(evidence, "WorkloadFailed", text, remedy, "you", objects=objects, commands=commands)


def job_retries(gang: Gang) -> Reasons:
    """Report that all pods of a Job have ended, some of them failed, and another one follows."""
    status = _status(gang)
    if status is None or status.ended or status.suspended or status.ref.kind != JOB.kind:
        return
    ref = status.ref
    pods = gang.index.pods_made_for.get(ref, ())
    failed = sorted((pod for pod in pods if pod.phase == FAILED), key=_age)
    if not failed or not all(pod.finished for pod in pods):
        return
    last = failed[-1]
    container, how = last.ended
    text = (
        f"{counted(failed, 'pod')} of {ref} failed. Kubernetes creates another one after a delay of"
        " up to 10 minutes, unless spec.backoffLimit is reached"
    )
    text += f". In pod {last.name}, container {container} ended: {how}" if container else ""
    remedy = "Read the log of a failed pod, and correct the cause"
    if how == "OOMKilled":
        remedy = f"Raise limits.memory of container {container}, because memory ran out"
    log = to_read_log(last.ref)
    yield about(
        Evidence(last.ref, "status.phase", FAILED),
        "WorkloadFailed",
        text,
        remedy,
        "you",
        objects=(ref,),
        commands=(log,),
        severity="warning",
    )


def ray_job_retries(gang: Gang) -> Reasons:
    """Report that an attempt of a RayJob failed, and KubeRay makes another one."""
    status = _status(gang)
    if status is None or not status.retried:
        return
    ref = status.ref
    yield about(
        Evidence(ref, "status.jobDeploymentStatus", "Retrying"),
        "WorkloadFailed",
        f"The last attempt of {ref} failed: {one_line(status.retried)}. KubeRay deletes its"
        " RayCluster and tries again with a new one, up to spec.backoffLimit times",
        "Find out why the attempt failed, and correct the cause",
        "you",
        objects=tuple(dict.fromkeys((ref, gang.ref))),
        commands=commands_to_describe(ref),
        severity="warning",
    )


def suspended_groups(gang: Gang) -> tuple[str, ...]:
    """Return the names of the suspended worker groups of a gang's RayCluster."""
    statuses = (gang.index.workload_statuses.get(ref) for ref in _workloads(gang))
    return next((each.suspended_groups for each in statuses if each and each.suspended_groups), ())


def groups_suspended(gang: Gang) -> Reasons:
    """Report that worker groups of a RayCluster are suspended, and so have no pods.

    KAI does not know that, and waits for their pods if its PodGroup has a SubGroup for them.
    """
    groups = suspended_groups(gang)
    cluster = next((ref for ref in _workloads(gang) if ref.kind == RAY_CLUSTER.kind), None)
    if not groups or not cluster:
        return
    short = {member.name for member in gang.members if len(member.pods) < member.minimum}
    awaited = tuple(name for name in groups if name in short)
    is_one = len(groups) == 1
    those = "group" if is_one else "groups"
    text = (
        f"Worker {those} {listed(groups)} of {cluster} {'is' if is_one else 'are'} suspended, so"
        f" KubeRay creates no pods for {'it' if is_one else 'them'}"
    )
    remedy = f"Set suspend: false in {'this' if is_one else 'these'} worker {those}"
    if awaited:
        text += f", but KAI waits for the pods of {listed(awaited)}"
        remedy += ", or set replicas and minReplicas to 0"
    else:
        remedy += " if the pods are needed"
    yield about(
        Evidence(cluster, "spec.workerGroupSpecs[].suspend", "true"),
        "WorkloadSuspended",
        text,
        remedy,
        "you",
        objects=tuple(dict.fromkeys((cluster, gang.ref))),
        commands=commands_to_describe(cluster),
        severity="problem" if awaited else "note",
        parts=awaited,
    )


def _age(pod: Pod) -> tuple[float, str]:
    return pod.created or 0.0, pod.name


def workload_suspended(gang: Gang) -> Reasons:
    """Report that the workload is suspended, and Kueue has no Workload for it.

    Yield nothing if Kueue manages a pod of the gang.
    """
    status = _status(gang)
    if status is None or status.ended:
        return
    namesake = _namesake(gang.index, status.ref)
    if not status.suspended and namesake and namesake.suspended and not namesake.ended:
        status = namesake
    ref = status.ref
    if gang.index.kueue_of_controller.get(ref) or any(pod.queued for pod in gang.pods):
        return
    if not status.suspended:
        yield from _suspended_jobs(gang, status)
        yield from _suspended_jobs(gang, namesake)
        return
    text = f"{ref} is suspended ({status.suspended}: true), so its controller creates no pods"
    remedy = f"Set {status.suspended} of {ref} to false"
    see = ref
    who: Who = "you"
    of_kueue = ""
    owner = status.controller
    if owner and owner.kind == RAY_JOB.kind and ref.kind == JOB.kind:
        text = f"{ref}, which submits the Ray job, is suspended ({status.suspended}: true)"
    if owner:
        see = owner
        text += f". {owner} created it, and may suspend it"
        remedy = (
            f"Resume {owner} if it is suspended too. Otherwise, set {status.suspended} of {ref} to"
            " false"
        )
        if gang.index.kueue_of_controller.get(owner):
            remedy = f"Ask the platform team to read the log of Kueue, which should resume {owner}"
            who = "platform"
    elif status.queued and "kueue_workloads" in gang.facts.unread:
        text += ". It has a label of Kueue, and Kueue starts it once there is quota"
        remedy = "Read in the status of Kueue's Workload what Kueue waits for"
        of_kueue = f"kubectl describe workloads.kueue.x-k8s.io -n {shlex.quote(ref.namespace)}"
    elif status.queued:
        who = "platform"
        text += ". Kueue has created no Workload for it, although it has a label of Kueue"
        remedy = (
            "Ask the platform team whether Kueue runs and manages this kind of workload in"
            f" namespace {ref.namespace}: Kueue starts it once there is quota"
        )
    evidence = Evidence(ref, status.suspended, "true")
    objects = tuple(dict.fromkeys((ref, gang.ref)))
    commands = (of_kueue,) if of_kueue else commands_to_describe(see)
    yield about(
        evidence,
        "WorkloadSuspended",
        text,
        remedy,
        who,
        objects=objects,
        commands=commands,
    )


def _namesake(index: Index, ref: Ref) -> WorkloadStatus | None:
    """Return the status of the object with the same name that a RayJob or TrainJob owns, or None.

    It is the Job that submits the Ray job, or the JobSet of the TrainJob.
    """
    kind = _NAMESAKES.get(ref.kind)
    status = index.workload_statuses.get(replace(ref, kind=kind)) if kind else None
    return status if status and status.controller == ref else None


_NAMESAKES = {RAY_JOB.kind: JOB.kind, TRAIN_JOB.kind: JOB_SET.kind}


def _suspended_jobs(gang: Gang, status: WorkloadStatus | None) -> Reasons:
    """Report that Jobs of a JobSet are suspended, although the JobSet is not.

    Jobs that wait for others may be suspended until then. `status` is that of the JobSet.
    """
    if status is None or status.suspended:
        return
    by_name = {job.name: job for job in status.jobs}
    suspended = [job for job in status.jobs if job.suspended and not unmet(job, by_name)]
    if not suspended:
        return
    ref = status.ref
    number = sum(job.suspended for job in suspended)
    be = "is" if number == 1 else "are"
    text = f"{counted(number, 'Job')} of {ref} {be} suspended, although {ref} is not"
    selected = shlex.quote(f"{JOB_SET_NAME}={ref.name}")
    yield about(
        Evidence(ref, "status.replicatedJobsStatus", listed(job.name for job in suspended)),
        "WorkloadSuspended",
        text,
        "Find out who suspends the Jobs, for example from their labels and events. If it is Kueue,"
        " ask the platform team whether its integrations.frameworks have jobset.x-k8s.io/jobset",
        "you",
        objects=tuple(dict.fromkeys((ref, gang.ref))),
        commands=(f"kubectl describe jobs -n {shlex.quote(ref.namespace)} -l {selected}",),
    )
