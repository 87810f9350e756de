"""Reasons about pods that Kueue holds with its scheduling gates, in Kueue's words."""

import shlex
from collections.abc import Iterator

from app.explain.gangs.gang import Gang
from app.explain.reasons.gates import refs
from app.explain.reasons.messages import one_line
from app.explain.reasons.reason import Evidence, Reasons, Who, about, ago, clock, counted, with_age
from app.facts.kubernetes.kueue import GATES, KueueCondition, KueueWorkload
from app.facts.kubernetes.pod import Pod

_NOT_READY = "PodsReadyTimeout"
"""Kueue's reason for what `waitForPodsReady` evicts."""
_LATE = 60.0
"""Seconds after which Kueue has opened the gates of what it has admitted."""


def is_held(gang: Gang) -> bool:
    return any(_held(gang))


def _held(gang: Gang) -> list[Pod]:
    return [pod for pod in gang.waiting if any(gate.startswith(GATES) for gate in pod.gates)]


def kueue_holds(gang: Gang) -> Reasons:
    """Kueue has not admitted the pods of a gang, and says why."""
    held = _held(gang)
    if not held:
        return
    objects = refs(held)
    pods = counted(held, "pod")
    gate = next(gate for gate in held[0].gates if gate.startswith(GATES))
    workload = next(_workloads_of(gang, held), None)
    evidence = Evidence(objects[0], "spec.schedulingGates", gate)
    if workload is None:
        text = f"Kueue holds {pods}, but has no Workload for {_it(held)}"
        remedy = (
            "Check the label kueue.x-k8s.io/queue-name, which must name a LocalQueue in this"
            " namespace, and ask the platform team to read the log of Kueue's controller."
        )
        yield about(evidence, "KueueHolds", text, remedy, "platform", objects=objects)
        return

    words, remedy, who = _state_of(workload, gang.facts.now)
    text = f"Kueue holds {pods} in queue {workload.queue or '(none)'}: {words}"
    see = f"kubectl describe workloads.kueue.x-k8s.io {shlex.quote(workload.name)}"
    see += f" -n {shlex.quote(workload.namespace)}"
    evidence = Evidence(workload.ref, "status.conditions", words)
    yield about(evidence, "KueueHolds", text, remedy, who, objects=objects, commands=(see,))


def _it(held: list[Pod]) -> str:
    return "it" if len(held) == 1 else "them"


def _workloads_of(gang: Gang, held: list[Pod]) -> Iterator[KueueWorkload]:
    """Yield the Workloads of a gang: by owner, by its name, or by the name of what owns its pods.

    Kueue calls a Workload KIND-NAME-HASH, after the object that it admits.
    """
    uids = {pod.uid for pod in held} | {pod.owner for pod in held}
    uids |= {known.uid for known in (gang.pod_gang, gang.pod_group, gang.pcs) if known}
    uids -= {""}
    names = {gang.ref.name}
    owners = {pod.controller for pod in held if pod.controller}
    in_namespace = [
        workload for workload in gang.facts.kueue_workloads if workload.namespace == gang.namespace
    ]
    yield from (each for each in in_namespace if uids.intersection(each.owners))
    yield from (each for each in in_namespace if each.name in names)
    for each in in_namespace:
        rest = each.name.partition("-")[2]
        name = rest.rpartition("-")[0]
        if name and any(
            owner.name == name or owner.name.startswith(f"{name}-") for owner in owners
        ):
            yield each


def _state_of(workload: KueueWorkload, now: float) -> tuple[str, str, Who]:
    """Return what Kueue says of a Workload, what helps, and who can do it."""
    by_type = {condition.type: condition for condition in workload.conditions}
    queue = workload.queue or "NAME"
    see_queue = f"kubectl describe localqueue {queue} -n {workload.namespace}"
    more = (
        "Request less, or ask the platform team for more quota in the ClusterQueue behind"
        f" LocalQueue {queue}: {see_queue}. Don't change schedulerName."
    )
    evicted = by_type.get("Evicted")
    if not workload.active:
        why = f": {_said(evicted, now)}" if evicted and evicted.holds else ""
        return (
            f"the Workload is not active (spec.active: false){why}",
            "Set spec.active: true in the Workload once the cause is fixed.",
            "you",
        )

    reserved = by_type.get("QuotaReserved")
    admitted = by_type.get("Admitted")
    if evicted and evicted.holds and not (admitted and admitted.holds):
        again = f", put back {workload.requeues} times" if workload.requeues > 1 else ""
        words = f"Kueue evicted it ({evicted.reason}){again}: {_said(evicted, now)}"
        waits = workload.again is not None and workload.again > now > 0
        if waits:
            words += f"; it does not try it again before {clock(workload.again or 0.0)}"
        elif reserved and not reserved.holds and reserved.message:
            words += f"; now it waits for quota: {_said(reserved, now)}"
        if evicted.reason == _NOT_READY:
            return words, "Find out why its pods were not ready in time. Kueue tries again.", "you"
        return words, "Wait until then." if waits else more, "wait" if waits else "you"

    if not reserved or not reserved.holds:
        said = _said(reserved, now) if reserved else "Kueue has not looked at it yet"
        if reserved and "doesn't exist" in reserved.message:
            return f"it is not admitted: {said}", f"Correct the queue name: {see_queue}", "you"
        return f"it waits for quota: {said}", more, "you"

    if not admitted or not admitted.holds:
        said = _said(admitted, now) if admitted else "its admission checks are not done"
        return (
            f"its quota is reserved, and it is not admitted yet: {said}",
            "Ask the platform team for the state of Kueue's AdmissionChecks (such as"
            " ProvisioningRequest).",
            "platform",
        )

    since = now - admitted.time if admitted.time is not None and now else 0.0
    if since < _LATE:
        return "it is admitted, and Kueue opens its gates within seconds", "Wait a minute.", "wait"
    return (
        f"it was admitted {ago(since)} ago, and the gates are still there",
        "Ask the platform team to read the log of Kueue's controller.",
        "platform",
    )


def _said(condition: KueueCondition, now: float) -> str:
    return with_age(one_line(condition.message) or condition.reason, condition.time, now)
