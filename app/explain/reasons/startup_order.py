"""Report pods that do not exist yet, because their workload creates its pods in steps.

- A LeaderWorkerSet with startupPolicy LeaderReady creates the StatefulSet of a group's workers only
  once the leader pod is ready (`pkg/controllers/pod_controller.go`). Until then, KAI needs only the
  leader, so it counts as placed.
- A StatefulSet creates one pod after the other, unless its podManagementPolicy is Parallel.
- A StatefulSet with Parallel, or a Deployment, creates all pods at once, unless something keeps its
  controller from it.
- A JobSet creates replicated jobs with dependsOn, or with startupPolicyOrder InOrder, only once
  earlier ones are ready or complete.
"""

import shlex
from collections.abc import Iterable, Sequence
from operator import attrgetter

from app.base.groups import by_key
from app.base.value import Value
from app.explain.gangs.gang import Gang
from app.explain.reasons.gates import refs
from app.explain.reasons.messages import stalled_words
from app.explain.reasons.reason import (
    Evidence,
    Reason,
    Reasons,
    about,
    counted,
    listed,
    lower_first,
    to_describe,
)
from app.explain.state.index import Index
from app.explain.state.makers import refusals_about
from app.facts.identity import Ref
from app.facts.kinds import LEADER_WORKER_SET
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.workload_status import LEADER_READY, Step
from app.objects.shape import integer_in

_SOON = 60.0
"""The seconds within which a controller has created the next pods if nothing is wrong."""


# Leaders of LeaderWorkerSets.


def workers_to_come(index: Index, pod: Pod) -> int:
    """Return how many workers a placed leader of a LeaderWorkerSet waits for, or 0.

    Return 0 if one of the workers exists, or if their controller says why it can't create them.
    Also return 0 for a leader that is younger than a minute, unless the leader is not ready and the
    startupPolicy is known to be LeaderReady.
    """
    made_by = _set_of(pod)
    if not pod.leads or not pod.node or not pod.is_alive or made_by is None:
        return 0
    others = index.pods_made_for.get(made_by, ())
    if any(other.name.startswith(f"{pod.name}-") for other in others):
        return 0
    if any(refusals_about(index, made_by)):
        return 0
    status = index.workload_statuses.get(made_by)
    workers = max(0, (pod.leads.size or (status.group if status else 0)) - 1)
    age = index.facts.now - (pod.created or 0.0)
    waits = _policy(index, made_by) == LEADER_READY and not pod.leads.ready
    return workers if waits or age > _SOON else 0


def _set_of(pod: Pod) -> Ref | None:
    return next((ref for ref in pod.made_for if ref.kind == LEADER_WORKER_SET.kind), None)


def _policy(index: Index, made_by: Ref) -> str:
    """Return the startupPolicy of a LeaderWorkerSet, or "" if it is not known."""
    status = index.workload_statuses.get(made_by)
    return status.startup if status else ""


def pods_missing(gang: Gang) -> Reasons:
    """Report that pods do not exist yet, because their workload creates them after earlier ones.

    Also report that a controller is late. The steps of a StatefulSet or JobSet are reported only
    once all existing pods have nodes, because other reasons say why existing pods are pending.
    """
    index = gang.index
    leaders = [
        ((made_by, pod.leads.ready), (pod, workers))
        for pod in gang.placed
        if (workers := workers_to_come(index, pod)) and pod.leads and (made_by := _set_of(pod))
    ]
    for (made_by, is_ready), each in by_key(leaders).items():
        pods = sorted((pod for pod, _ in each), key=attrgetter("name"))
        yield _without_workers(index, made_by, pods, sum(count for _, count in each), is_ready)
    if not gang.waiting:
        for made_by in dict.fromkeys(ref for pod in gang.pods for ref in pod.made_for):
            yield from _in_steps(index, made_by)


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
            f"Find out why {made_by} creates no workers: read its events. If it has none, ask the"
            " platform team whether its controller (lws-controller-manager) runs"
        )
        return about(
            Evidence(made_by, "workers", "0"),
            "PodsMissing",
            text,
            remedy,
            "you",
            objects=objects,
            commands=tuple(filter(None, (to_describe(made_by),))),
        )
    when = f" (startupPolicy: {policy})" if policy else ", if its startupPolicy is LeaderReady"
    text = (
        f"{names} {'is' if one else 'are'} not ready, and {none}. {made_by} creates the"
        f" workers of a group only once its leader is ready{when}"
    )
    stalled = next((pod for pod in leaders if pod.stalled), None)
    if stalled:
        words = lower_first(stalled_words(stalled.stalled[0], index.facts.now))
        text += f". In {stalled.name}, {words}"
    remedy = (
        f"Find out why {leaders[0].name} is not ready: {_CHECKS}. If the leader becomes ready only"
        " with its workers, create the LeaderWorkerSet again with startupPolicy: LeaderCreated,"
        " because leader and workers wait for each other"
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


_CHECKS = "its containers must run and pass their readiness probes"


def _commands(pod: Pod) -> tuple[str, ...]:
    """Return the commands that show why a pod is not ready."""
    named = f"-n {shlex.quote(pod.namespace)} {shlex.quote(pod.name)}"
    return f"kubectl describe pod {named}", f"kubectl logs {named}"


# Steps of StatefulSets and JobSets.


class Missing(Value):
    """The pods of a step, some of which do not exist."""

    step: Step
    """The step."""
    exist: tuple[Pod, ...]
    """The existing pods of the step, in the order of their creation.

    For a step of groups, these are the leaders of the groups.
    """

    @property
    def count(self) -> int:
        """The number of pods, or of groups of pods, that do not exist."""
        return self.step.pods - len(self.exist)


def missing_in_steps(index: Index, made_by: Ref) -> list[Missing]:
    """Return the pods that a workload has not created yet, by step.

    Return [] if its steps are not known, if it has ended or is suspended, or if its controller says
    why it creates no pods.
    """
    status = index.workload_statuses.get(made_by)
    if status is None or not status.steps or status.ended or status.suspended:
        return []
    if any(refusals_about(index, made_by)):
        return []
    pods = index.pods_made_for.get(made_by, ())
    steps = (Missing(step, _of_step(pods, step)) for step in status.steps)
    now = index.facts.now
    return [missing for missing in steps if missing.count > 0 and _waits(missing, now)]


def _of_step(pods: Iterable[Pod], step: Step) -> tuple[Pod, ...]:
    """Return the pods of a step, or the leaders of its groups, in the order of their creation."""
    found = (pod for pod in pods if pod.name.startswith(step.prefix))
    if step.each:
        found = (pod for pod in found if pod.leads)
    return tuple(sorted(found, key=lambda pod: (len(pod.name), pod.name)))


def _waits(missing: Missing, now: float) -> bool:
    """Return whether pods are still to come after those of their own or of another step.

    Pods that are created at once count as late a minute after the newest one.
    """
    if missing.step.after:
        return not missing.exist
    newest = max((pod.created or 0.0 for pod in missing.exist), default=now)
    return bool(missing.exist) and (bool(missing.step.setting) or now - newest > _SOON)


def _is_row(missing: Missing) -> bool:
    """Return whether the existing pods of a StatefulSet have consecutive numbers.

    Only then does the missing pod wait for the last one. A missing pod in between, for example one
    that is being replaced, waits for no other.
    """
    ends = [pod.name.removeprefix(missing.step.prefix) for pod in missing.exist]
    numbers = [integer_in(end) for end in ends]
    first = numbers[0]
    return first is not None and numbers == list(range(first, first + len(numbers)))


def _in_steps(index: Index, made_by: Ref) -> Reasons:
    """Yield the reason for pods that a workload has not created yet."""
    for missing in missing_in_steps(index, made_by):
        step = missing.step
        if not step.setting or not (step.after or _is_row(missing)):
            of_all = counted(step.pods, "group" if step.each else "pod")
            text = f"{made_by} has {len(missing.exist)} of {of_all}"
            remedy = f"Find out why {made_by} creates no more pods: read its events"
            commands = tuple(filter(None, (to_describe(made_by),)))
        elif not step.after:
            last = missing.exist[-1]
            text = (
                f"{made_by} has {len(missing.exist)} of {counted(step.pods, 'pod')}. It creates the"
                f" next one only once {last.name} is ready ({step.setting})"
            )
            remedy = f"If it takes long, find out why {last.name} is not ready: {_CHECKS}"
            commands = _commands(last)
        else:
            text = (
                f"{made_by} has none of the {counted(step.pods, 'pod')} of {step.part} yet: it"
                f" creates them only once {step.after} ({step.setting})"
            )
            remedy = (
                f"Find out why that takes long, or create {made_by} again without {step.setting} if"
                " all of its pods may start together"
            )
            commands = tuple(filter(None, (to_describe(made_by),)))
        yield about(
            Evidence(made_by, "spec", step.setting),
            "PodsMissing",
            text,
            remedy,
            "you",
            objects=(made_by, *refs(missing.exist)),
            commands=commands,
        )


def pods_to_come(index: Index, gangs: Iterable[Gang]) -> int:
    """Return how many pods of the gangs' workloads are still to come.

    Pods that the gangs themselves lack are left out. While a pod is pending, only the workers of
    placed leaders count.
    """
    gangs = {gang.ref: gang for gang in gangs}.values()
    if any(gang.waiting for gang in gangs):
        steps: list[Ref] = []
    else:
        steps = [ref for gang in gangs for pod in gang.pods for ref in pod.made_for]
    missing = sum(workers_to_come(index, pod) for gang in gangs for pod in gang.placed)
    for made_by in dict.fromkeys(steps):
        late = missing_in_steps(index, made_by)
        missing += sum(each.count * (each.step.each or 1) for each in late)
    counted_already = sum(gang.whole.expected - len(gang.pods) for gang in gangs)
    return max(0, missing - counted_already)
