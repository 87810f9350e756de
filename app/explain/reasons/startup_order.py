"""Report pods that do not exist yet because their controller creates other pods first.

A LeaderWorkerSet with startupPolicy LeaderReady creates the StatefulSet of a group's workers only
once the leader pod is ready (`pkg/controllers/pod_controller.go`). Until then, KAI needs only the
leader, so the group counts as placed.

JobSet creates or resumes the Jobs of a replicatedJob only once the replicatedJobs in its
`dependsOn` have reached their status, or with startupPolicyOrder InOrder, once the previous one has
started (`pkg/controllers/jobset_controller.go`). The MPI operator can create the launcher only once
the workers are ready (`pkg/controller/mpi_job_controller.go`).
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from app.base.groups import by_key
from app.base.sentences import lower_first
from app.base.value import Value
from app.explain.gangs.gang import Gang
from app.explain.reasons.gates import refs
from app.explain.reasons.messages import stalled_words
from app.explain.reasons.partial_gangs import MIN_MEMBER
from app.explain.reasons.queue import as_argument
from app.explain.reasons.reason import (
    Evidence,
    Reason,
    Reasons,
    Who,
    about,
    commands_to_describe,
    counted,
    listed,
    to_describe_pod,
    to_read_log,
)
from app.explain.state.index import Index
from app.explain.state.makers import refusals_about
from app.facts.identity import Ref
from app.facts.kinds import JOB_SET, TRAIN_JOB
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.replicated_jobs import COMPLETE, IN_ORDER, ReplicatedJob, unmet
from app.facts.kubernetes.workload_status import FAILED, LEADER_READY, WORKERS_READY, WorkloadStatus
from app.objects.resource import JOB

_MOST_STEPS = 4
"""The maximum number of replicatedJobs that a reason names."""
_SOON = 60.0
"""The seconds within which a controller has created the next pods if nothing is wrong."""


def workers_to_come(index: Index, pod: Pod) -> int:
    """Return how many workers a placed leader of a LeaderWorkerSet lacks, or 0.

    Return 0 if one of the workers exists, or if the controller says why it can't create them. Also
    return 0 for a leader that is younger than a minute, unless the leader is not ready and the
    startupPolicy is known to be LeaderReady.
    """
    made_by = pod.leader_worker_set
    if not pod.leads or not pod.node or not pod.is_alive or made_by is None:
        return 0
    # The names are found once for all leaders of the set, because there may be thousands.
    with_workers = index.remembered(
        ("leaders with workers", made_by),
        lambda: frozenset(
            other.name.rpartition("-")[0] for other in index.pods_made_for.get(made_by, ())
        ),
        ["pods"],
    )
    if pod.name in with_workers:
        return 0
    if any(refusals_about(index, made_by)):
        return 0
    status = index.workload_statuses.get(made_by)
    workers = max(0, (pod.leads.size or (status.group if status else 0)) - 1)
    age = index.facts.now - (pod.created or 0.0)
    waits = _policy(index, made_by) == LEADER_READY and not pod.leads.ready
    return workers if waits or age > _SOON else 0


def _policy(index: Index, made_by: Ref) -> str:
    """Return the startupPolicy of a LeaderWorkerSet, or "" if it is not known."""
    status = index.workload_statuses.get(made_by)
    return status.startup if status else ""


def pods_missing(gang: Gang) -> Reasons:
    """Report that placed leaders of LeaderWorkerSets have no workers."""
    index = gang.index
    leaders = [
        ((made_by, pod.leads.ready), (pod, workers))
        for pod in gang.placed
        if (workers := workers_to_come(index, pod))
        if pod.leads and (made_by := pod.leader_worker_set)
    ]
    for (made_by, is_ready), each in by_key(leaders).items():
        pods = sorted((pod for pod, _ in each), key=attrgetter("name"))
        yield _without_workers(index, made_by, pods, sum(count for _, count in each), is_ready)


def _without_workers(
    index: Index, made_by: Ref, leaders: Sequence[Pod], workers: int, is_ready: bool
) -> Reason:
    """Return the reason for placed leaders of a LeaderWorkerSet that have no workers."""
    names = listed(pod.name for pod in leaders)
    one = len(leaders) == 1
    do = "worker does" if workers == 1 else f"{workers:,} workers do"
    none = f"{'its' if one else 'their'} {do} not exist"
    objects = (made_by, *refs(leaders))
    policy = _policy(index, made_by)
    if is_ready or policy not in ("", LEADER_READY):
        text = f"{names} {'is' if one else 'are'} {'ready' if is_ready else 'placed'}, but {none}"
        remedy = (
            f"Read the events of {made_by}, which may say why there are no workers. If there are no"
            " events, ask the platform team whether lws-controller-manager runs"
        )
        return about(
            Evidence(made_by, "workers", "0"),
            "PodsMissing",
            text,
            remedy,
            "you",
            objects=objects,
            commands=commands_to_describe(made_by),
        )
    when = f" (startupPolicy: {policy})" if policy else ", if its startupPolicy is LeaderReady"
    text = (
        f"{names} {'is' if one else 'are'} not ready, and {none}. {made_by} creates the"
        f" workers of a group only once the leader is ready{when}"
    )
    stalled = next((pod for pod in leaders if pod.stalled), None)
    if stalled:
        words = lower_first(stalled_words(stalled.stalled[0], index.facts.now))
        text += f". In {stalled.name}, {words}"
    remedy = (
        f"Find out why {leaders[0].name} is not ready: its containers must run and pass their"
        " readiness probes. If the leader becomes ready only with its workers, create the"
        " LeaderWorkerSet again with startupPolicy: LeaderCreated, because leader and workers wait"
        " for each other"
    )
    return about(
        Evidence(leaders[0].ref, "status.conditions[Ready]", "False"),
        "PodsMissing",
        text,
        remedy,
        "you",
        objects=objects,
        commands=_commands(leaders[0]),
    )


def _commands(pod: Pod) -> tuple[str, ...]:
    """Return the commands that show why a pod is not ready."""
    return to_describe_pod(pod.ref), to_read_log(pod.ref)


class _Step(Value):
    """Pods that a controller creates only once other pods have reached a state."""

    pods: int
    """The number of pods to be created."""
    words: str
    """The rule, such as `creates the pod once all workers are ready`."""
    setting: str
    """The setting with the rule, such as `dependsOn`."""
    awaited: tuple[Pod, ...]
    """The pods that must reach the state, as far as they exist."""
    must_end: bool = False
    """Whether these pods must complete. Otherwise, they must be ready."""


def _steps(index: Index, status: WorkloadStatus) -> Iterator[_Step]:
    """Yield the pods of a workload that its controller has not created because of its order."""
    if status.ended or status.suspended:
        return
    if status.ref.kind == JOB_SET.kind:
        jobs = {job.name: job for job in status.jobs}
        for job in status.jobs:
            waits_for = unmet(job, jobs)
            if waits_for and job.pods and not job.has_started:
                yield _step_of_jobs(index, status, job, waits_for)
    elif status.startup == WORKERS_READY:
        pods = index.pods_made_for.get(status.ref, ())
        workers = tuple(pod for pod in pods if pod.controller == status.ref)
        ready = sum(pod.is_ready for pod in workers)
        if workers and len(workers) == len(pods) and ready < len(workers):
            so_far = f"so far {ready} of {len(workers)}"
            words = f"creates the launcher only once all workers are ready ({so_far})"
            setting = f"launcherCreationPolicy: {WORKERS_READY}"
            yield _Step(1, words, setting, workers)


def _step_of_jobs(
    index: Index,
    status: WorkloadStatus,
    job: ReplicatedJob,
    waits_for: Sequence[tuple[ReplicatedJob, str]],
) -> _Step:
    """Return the step of a replicatedJob that waits for others to reach their status."""
    once = listed(
        f"all Jobs of {needed.name} are {'complete' if target == COMPLETE else 'ready'}"
        f" (so far {needed.reached(target)} of {needed.jobs:,})"
        for needed, target in waits_for
    )
    first, target = waits_for[0]
    prefix = f"{status.ref.name}-{first.name}-"
    awaited = tuple(
        pod
        for pod in index.pods_made_for.get(status.ref, ())
        if any(_is_job(ref, prefix) for ref in pod.made_for)
    )
    return _Step(
        job.pods,
        f"creates the {counted(job.pods, 'pod')} of {job.name} only once {once}",
        f"startupPolicyOrder: {IN_ORDER}" if status.startup == IN_ORDER else "dependsOn",
        awaited,
        target == COMPLETE,
    )


def _is_job(ref: Ref, prefix: str) -> bool:
    """Return whether `ref` is a Job whose name is `prefix` with a number."""
    return (
        ref.kind == JOB.kind and ref.name.startswith(prefix) and ref.name[len(prefix) :].isdecimal()
    )


def _steps_of(gang: Gang) -> dict[Ref, list[_Step]]:
    """Return the steps of the workloads for which the pods of a gang were created."""
    statuses = filter(None, map(gang.index.workload_statuses.get, gang.made_for))
    return {status.ref: list(_steps(gang.index, status)) for status in statuses}


def later_pods_missing(gang: Gang) -> Reasons:
    """Report that a JobSet or MPIJob creates some pods only once others are ready or complete."""
    own = {pod.key for pod in gang.pods}
    for made_by, steps in _steps_of(gang).items():
        awaited = [pod.key for step in steps[:1] for pod in step.awaited]
        # If they are in another gang of the workload, that gang reports the same.
        if steps and (not awaited or not own.isdisjoint(awaited)):
            yield _later_pods(gang, made_by, steps)


def _later_pods(gang: Gang, made_by: Ref, steps: Sequence[_Step]) -> Reason:
    """Return the reason for the pods of `steps`, the first of which awaits existing pods."""
    step = steps[0]
    rules = " and ".join(each.words for each in steps[:_MOST_STEPS])
    text = f"With {step.setting}, {made_by} {rules}"
    alive = [pod for pod in step.awaited if pod.is_alive]
    unplaced = [pod for pod in alive if not pod.node]
    stalled = next((pod for pod in alive if pod.node and pod.stalled), None)
    unready = [pod for pod in alive if not pod.is_ready]
    failed = [pod for pod in step.awaited if pod.phase == FAILED]
    who: Who = "you"
    follows = False
    if stalled:
        words = lower_first(stalled_words(stalled.stalled[0], gang.facts.now))
        text += f". In {stalled.name}, {words}"
    commands: tuple[str, ...] = ()
    if unplaced and gang.is_of_kai and gang.lacks_required and not _places_next(gang):
        why, remedy, commands = _deadlock(gang, made_by, step, unplaced[0])
        text += f". This is a deadlock: KAI places {why}"
    elif unplaced:
        remedy = f"Find out why {unplaced[0].name} has no node"
        commands, follows = _commands(unplaced[0])[:1], True
    elif step.must_end and failed and not stalled:
        last = max(failed, key=lambda pod: pod.created or 0.0)
        container, how = last.ended
        text += f". Pod {last.name} has failed" + (f": {container} ended: {how}" if how else "")
        remedy = "Read the log of the failed pod, and correct the cause"
        commands = _commands(last)[1:]
    elif step.must_end and alive and not stalled:
        names = listed(pod.name for pod in alive)
        remedy = f"Wait until {names} {'has' if len(alive) == 1 else 'have'} completed"
        commands, who = _commands(alive[0])[1:], "wait"
    elif stalled or (unready and not step.must_end):
        pod = stalled or unready[0]
        remedy = (
            f"Find out why {pod.name} is not ready: its containers must run and pass their"
            f" readiness probes. If it becomes ready only with the other pods, create {made_by}"
            f" again without {step.setting}, because they wait for each other"
        )
        commands = _commands(pod)
    else:
        remedy = (
            f"Read the status and the events of {made_by}, which may say why there are no pods. If"
            " they don't, ask the platform team whether its controller runs"
        )
        commands = commands_to_describe(made_by)
    return about(
        Evidence(made_by, step.setting, "pods not created"),
        "PodsMissing",
        text,
        remedy,
        who,
        objects=(made_by, *refs(step.awaited)),
        commands=commands,
        follows=follows,
    )


def _places_next(gang: Gang) -> bool:
    """Return whether KAI places existing pods of a gang next, as soon as they have room."""
    return gang.whole.is_ready and bool(gang.whole.next_pods())


def _deadlock(gang: Gang, made_by: Ref, step: _Step, pod: Pod) -> tuple[str, str, tuple[str, ...]]:
    """Return (what KAI places before the awaited `pod`, the remedy, its commands).

    Since KAI 0.16, a JobSet has one PodGroup, which has a SubGroup for each replicatedJob. KAI
    places the first minSubGroup of them by name, also if they have no pods yet.
    """
    group = gang.pod_group
    together = f"{pod.name} only together with these pods"
    again = f"Create {made_by} again without {step.setting}"
    status = gang.index.workload_statuses.get(made_by)
    owner = status.controller if status else None
    if step.must_end and owner and owner.kind == TRAIN_JOB.kind:
        remedy = (
            f"Create {owner} again without initializers, and do their work in a separate workload"
            " before"
        )
        return together, remedy, ()
    if step.must_end:
        return (
            together,
            f"{again}, and run the Jobs that must come first in a separate workload",
            (),
        )
    if not group or group.needed is None:
        return together, again, ()

    parents = {subgroup.name: subgroup.parent for subgroup in group.subgroups}
    first = min(name for name, parent in parents.items() if not parent)
    own = parents.get(pod.subgroup) or pod.subgroup
    if own != first:
        before = f"SubGroup {first} first, because its name comes first, and it has no pods yet"
        names = (
            "rename the replicatedJobs so that their names sort in the order in which they start"
        )
        return before, f"{again}, or {names} in a new JobSet", ()
    remedy = (
        f'Set the annotation {MIN_MEMBER}: "1" on {made_by} and minSubGroup: 1 in its PodGroup, so'
        f" that KAI places {own} first"
    )
    name, namespace = shlex.quote(made_by.name), shlex.quote(made_by.namespace)
    patch = shlex.quote('{"spec":{"minSubGroup":1}}')
    commands = (
        f"kubectl annotate jobset {name} -n {namespace} {MIN_MEMBER}=1 --overwrite",
        f"kubectl patch {as_argument(group)} --type merge -p {patch}",
    )
    return together, remedy, commands


def pods_to_come(index: Index, ref: Ref, gangs: Iterable[Gang]) -> int:
    """Return how many pods of gangs are created later and are not expected by the gangs.

    They are the workers of placed leaders, and the pods of a JobSet or MPIJob that wait for others.
    The latter do not count if the explained object `ref` is one of the existing pods or Jobs.
    """
    gangs = {gang.ref: gang for gang in gangs}.values()
    to_come = sum(workers_to_come(index, pod) for gang in gangs for pod in gang.placed)
    if ref.kind not in (Pod.kind, JOB.kind):
        steps = {made_by: each for gang in gangs for made_by, each in _steps_of(gang).items()}
        to_come += sum(step.pods for each in steps.values() for step in each)
    counted_already = sum(gang.whole.expected - len(gang.pods) for gang in gangs)
    return max(0, to_come - counted_already)
