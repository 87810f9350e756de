"""Advise how to restart pods, so that they are placed again."""

import shlex
from collections.abc import Iterable

from app.explain.gangs.gang import Gang
from app.explain.reasons.kueue import workload_of
from app.explain.reasons.reason import listed
from app.facts.kubernetes.pod import Pod

MOST_NAMED = 50
"""The maximum number of pods or nodes in a command."""
_JOB = "Job"
_FAILING = {_JOB, "Workflow", "TaskRun"}
"""The kinds of controllers that count a deleted pod as a failure."""


def deletion_of(gang: Gang, pods: Iterable[Pod]) -> tuple[str, ...]:
    """Return the command that deletes some pods of a gang, so that they are created again.

    Return () if there are no pods, or more than MOST_NAMED, or if not all would be created
    again.
    """
    pods = list(pods)
    if not 0 < len(pods) <= MOST_NAMED:
        return ()
    if not are_replaced(gang, pods):
        return ()
    names = shlex.join(sorted(pod.name for pod in pods))
    return (f"kubectl delete pod -n {shlex.quote(gang.namespace)} {names}",)


def are_replaced(gang: Gang, pods: Iterable[Pod]) -> bool:
    """Return whether controllers create all these pods again if somebody deletes them."""
    return all(
        (gang.is_of_grove or pod.controller is not None) and not fails_if_deleted(pod)
        for pod in pods
    )


def fails_if_deleted(pod: Pod) -> bool:
    """Return whether the pod's controller counts its deletion as a failure."""
    return pod.controller is not None and pod.controller.kind in _FAILING


def restart_of(
    gang: Gang, pods: Iterable[Pod], which: str, *, has_new_template: bool = False
) -> str:
    """Return how to delete some pods of a gang together, so that they are created again.

    `which` names the pods, such as "all of its pods". `has_new_template` says whether the new pods
    need another pod template, which can't be changed in a Job. A Job counts a deleted pod as a
    failure (backoffLimit, podFailurePolicy), except while the Job is suspended.
    """
    pods = list(pods)
    failing = [pod for pod in pods if fails_if_deleted(pod)]
    if failing:
        names = dict.fromkeys(
            str(pod.made_for[0] if pod.made_for else pod.controller) for pod in failing
        )
        owners = listed(names)
        is_of_jobs = all(pod.controller and pod.controller.kind == _JOB for pod in failing)
        if has_new_template or not is_of_jobs:
            return f"delete {owners} and create {'it' if len(names) == 1 else 'them'} again"
        if workload_of(gang) or any(pod.queued for pod in failing):
            return (
                f"set spec.active of Kueue's Workload for {owners} to false, and back to true once"
                " the pods are gone"
            )
        created, it = ("object that created it", "it")
        if len(names) > 1:
            created, it = ("objects that created them", "them")
        return f"suspend {owners} (or the {created}), and resume {it} once the pods are gone"

    is_created_again = gang.is_of_grove or all(pod.controller for pod in pods)
    return f"delete {which} together{'' if is_created_again else ' and create them again'}"
