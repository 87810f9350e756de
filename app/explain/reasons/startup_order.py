"""Report placed leaders of LeaderWorkerSets whose workers do not exist.

A LeaderWorkerSet with startupPolicy LeaderReady creates the StatefulSet of a group's workers only
once the leader pod is ready (`pkg/controllers/pod_controller.go`). Until then, KAI needs only the
leader, so the group counts as placed.
"""

import shlex
from collections.abc import Iterable, Sequence
from operator import attrgetter

from app.base.groups import by_key
from app.explain.gangs.gang import Gang
from app.explain.reasons.gates import refs
from app.explain.reasons.messages import stalled_words
from app.explain.reasons.reason import (
    Evidence,
    Reason,
    Reasons,
    about,
    listed,
    lower_first,
    to_describe,
)
from app.explain.state.index import Index
from app.explain.state.makers import refusals_about
from app.facts.identity import Ref
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.workload_status import LEADER_READY

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
            commands=tuple(filter(None, (to_describe(made_by),))),
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
    named = f"-n {shlex.quote(pod.namespace)} {shlex.quote(pod.name)}"
    return f"kubectl describe pod {named}", f"kubectl logs {named}"


def pods_to_come(index: Index, gangs: Iterable[Gang]) -> int:
    """Return how many workers of placed leaders do not exist and are not expected by the gangs."""
    gangs = {gang.ref: gang for gang in gangs}.values()
    workers = sum(workers_to_come(index, pod) for gang in gangs for pod in gang.placed)
    counted_already = sum(gang.whole.expected - len(gang.pods) for gang in gangs)
    return max(0, workers - counted_already)
