"""Report gangs that Kueue holds back or has evicted, in Kueue's words.

The states that Kueue's controllers write were read in kubernetes-sigs/kueue at commit ff69552
(https://github.com/kubernetes-sigs/kueue/tree/ff69552), below `pkg`:
`controller/core/workload_controller.go` (evictions, deactivation, stopped queues),
`controller/jobframework/reconciler.go` (back into the queue), `workload/evict/evict.go`,
`scheduler/scheduler.go` (quota) and `controller/admissionchecks`.
"""

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from app.explain.gangs.gang import Gang
from app.explain.reasons.gates import refs
from app.explain.reasons.kueue_words import Help, help_for, inactive_help
from app.explain.reasons.messages import one_line
from app.explain.reasons.reason import (
    Evidence,
    Reason,
    Reasons,
    Who,
    about,
    ago,
    clock,
    counted,
    listed,
    to_describe,
    with_age,
)
from app.explain.state.index import Index
from app.facts.kubernetes.kueue import OF_KUEUE, READY, KueueCheck, KueueCondition, KueueWorkload
from app.facts.kubernetes.pod import Pod
from app.objects.names import MAX_SUBDOMAIN

_LATE = 60.0
"""The seconds after an admission within which Kueue usually removes the gates of the pods."""
_BACKEND = "kueue"
"""Grove's name of Kueue as the backend of a PodGang."""
_NOT_YET = "pending evaluation"
"""Kueue's message about a Workload that it has not evaluated yet."""
_PREVIOUSLY = "Previously: "
"""The start of Kueue's message about a past eviction of a Workload that has quota again."""
_DEACTIVATED = "Deactivated"
"""The start of Kueue's reasons for evicting inactive Workloads, such as `DeactivatedDueTo...`."""


def in_kueue(gang: Gang) -> bool:
    """Return whether Kueue decides when a gang may start."""
    of_grove = gang.pod_gang is not None and gang.pod_gang.scheduler == _BACKEND
    if of_grove or any(pod.queued for pod in gang.pods):
        return True
    return bool(_held(gang)) or workload_of(gang) is not None


def kueue_holds(gang: Gang) -> Reasons:
    """Report that Kueue has not admitted the gang, has evicted it, or does not start its pods."""
    held = _held(gang)
    workload = workload_of(gang)
    if workload is None:
        if held:
            yield _without_workload(gang.index, held)
        return

    if told := list(_not_started(gang, workload, held)):
        yield from told
    elif not gang.pods:
        yield from _still_without_pods(gang, workload)


def workload_held(gang: Gang) -> Reasons:
    """Report that Kueue has not admitted or has evicted the gang, whose pods were not read."""
    workload = workload_of(gang)
    if workload:
        yield from _not_started(gang, workload, ())


def _not_started(gang: Gang, workload: KueueWorkload, held: Sequence[Pod]) -> Reasons:
    """Yield the reason for which Kueue holds a Workload, or nothing if it does not.

    `held` are the gang's pods with a gate of Kueue.
    """
    if workload.cluster and workload.holds("QuotaReserved"):
        yield _in_other_cluster(gang, workload)
        return
    told = state_of(gang.index, workload, held)
    if told is None:
        return
    words, helps = told
    # The text does not name the gang: each pod may be a gang, and equal reasons are merged.
    holds = f"Kueue holds {counted(held, 'pod') if held else 'the workload'} in"
    text = f"{holds} {_queue_of(gang.index, workload)}: {words}"
    see = f"kubectl describe workloads.kueue.x-k8s.io {_kubectl_name(workload)}"
    yield about(
        Evidence(workload.ref, "status.conditions", words),
        "KueueHolds",
        text,
        helps.remedy,
        helps.who,
        objects=refs(held) or (gang.ref,),
        commands=(*helps.commands, see),
    )


def _without_workload(index: Index, held: Sequence[Pod]) -> Reason:
    """Return the reason for pods that have a gate of Kueue and no Workload."""
    first = held[0]
    text = f"Kueue holds {counted(held, 'pod')}, but has no Workload for {_it(held)}"
    remedy = (
        "Check the label kueue.x-k8s.io/queue-name, which must name a LocalQueue in this"
        " namespace, and ask the platform team to read the log of Kueue's controller."
    )
    who: Who = "platform"
    if first.kueue_group is not None:
        name, size = first.kueue_group
        exist = _number_of_group(index, first.namespace, name)
        if exist < size:
            text += (
                f": it creates one once all {size} pods of the pod group {name} exist"
                f" (annotation kueue.x-k8s.io/pod-group-total-count), and {exist}"
                f" {'does' if exist == 1 else 'do'}"
            )
            remedy = (
                f"Create {counted(size - exist, 'more pod')} with the label"
                f" kueue.x-k8s.io/pod-group-name: {name}, or create the pods again with"
                f' kueue.x-k8s.io/pod-group-total-count: "{exist}".'
            )
            who = "you"
            maker = next(iter((*first.made_for, first.controller)), None)
            if maker:
                see = to_describe(maker)
                remedy = f"Find out why {maker} creates no more pods{f': {see}' if see else ''}."
    gate = next(gate for gate in first.gates if gate.startswith(OF_KUEUE))
    evidence = Evidence(first.ref, "spec.schedulingGates", gate)
    return about(evidence, "KueueHolds", text, remedy, who, objects=refs(held))


def _number_of_group(index: Index, namespace: str, name: str) -> int:
    """Return the number of pods in a pod group of Kueue, without failed and terminating pods."""

    def look() -> Mapping[tuple[str, str], int]:
        return Counter(
            (pod.namespace, pod.kueue_group[0])
            for pod in index.facts.pods
            if pod.kueue_group and pod.deleting is None and pod.phase != "Failed"
        )

    return index.remembered("pods in pod groups of Kueue", look, ["pods"]).get((namespace, name), 0)


def _in_other_cluster(gang: Gang, workload: KueueWorkload) -> Reason:
    """Return the reason for a workload that MultiKueue has sent to another cluster."""
    return about(
        Evidence(workload.ref, "status.clusterName", workload.cluster),
        "KueueHolds",
        f"MultiKueue has sent the workload to cluster {workload.cluster}, so its pods start there"
        " and not here",
        f"Explain it in that cluster: run the command again with --context for {workload.cluster}",
        "you",
        objects=(gang.ref,),
    )


def selector_of_kueue(gang: Gang) -> Help | None:
    """Return the remedy if the node or domain that Kueue chose for pending pods no longer exists.

    Kueue writes its choice into the nodeSelector of the pods (topology-aware scheduling), so
    correcting the pod template does not help.
    """
    workload = workload_of(gang)
    if "nodes" in gang.facts.unread:
        return None
    if workload is None or not workload.holds("Admitted"):
        return None
    chosen = {
        (item.key, item.values[0])
        for pod in gang.waiting
        for item in pod.shape.selector
        if item.key in workload.levels
    }
    there = {
        (key, node.labels[key])
        for node in gang.index.nodes
        for key in workload.levels
        if key in node.labels
    }
    gone = sorted(f"{key}={value}" for key, value in chosen - there)
    if not gone:
        return None
    return Help(
        f"Wait a minute: Kueue chose {listed(gone)} for these pods, but no node has"
        f" {'this label' if len(gone) == 1 else 'these labels'} any more, and some releases of"
        " Kueue choose again. If yours does not, let Kueue start the whole workload again: set"
        f" {_RESTART}",
        "you",
        _restart_commands(workload),
    )


_RESTART = "spec.active of its Workload to false, and to true once its pods are gone"


def _restart_commands(workload: KueueWorkload) -> tuple[str, ...]:
    """Return the commands with which Kueue starts a workload again."""
    named = f"workloads.kueue.x-k8s.io {_kubectl_name(workload)}"
    patches = (json.dumps({"spec": {"active": active}}) for active in (False, True))
    return tuple(f"kubectl patch {named} --type merge -p {shlex.quote(patch)}" for patch in patches)


def chosen_by_kueue(gang: Gang) -> tuple[KueueWorkload, frozenset[str]] | None:
    """Return (a gang's admitted Workload, the label keys by which Kueue chose nodes for its pods).

    Only pending pods count. Return None if Kueue has chosen no nodes for them (topology-aware
    scheduling).
    """
    workload = workload_of(gang)
    if workload is None or not workload.holds("Admitted"):
        return None
    selected = {item.key for pod in gang.waiting for item in pod.shape.selector}
    keys = selected.intersection(workload.levels)
    return (workload, frozenset(keys)) if keys else None


def choose_again(workload: KueueWorkload) -> tuple[str, tuple[str, ...]]:
    """Return the advice to let Kueue choose other nodes for pending pods, and the commands."""
    return (
        "Let Kueue choose other nodes, because room is free elsewhere: set"
        f" {_RESTART}. This restarts the whole workload",
        _restart_commands(workload),
    )


def flavor_words(gang: Gang) -> str:
    """Return a text such as `flavor h100` about an admitted gang's flavors, or ""."""
    workload = workload_of(gang)
    if workload is None or not workload.holds("Admitted") or not workload.flavors:
        return ""
    flavors = "flavor" if len(workload.flavors) == 1 else "flavors"
    return f"{flavors} {listed(workload.flavors)}"


def _still_without_pods(gang: Gang, workload: KueueWorkload) -> Reasons:
    """Yield a reason if Kueue admitted a workload over a minute ago, and it still has no pods."""
    admitted = workload.condition("Admitted")
    if admitted is None or not admitted.holds or workload.holds("Finished"):
        return
    if admitted.time is None or gang.facts.now - admitted.time < _LATE:
        return
    since = ago(gang.facts.now - admitted.time)
    see = to_describe(gang.ref)
    yield about(
        Evidence(workload.ref, "status.conditions[Admitted]", "True"),
        "KueueHolds",
        f"Kueue admitted {gang.ref} {since} ago, and it still has no pods",
        f"Find out whether {gang.ref} is suspended (spec.suspend), and ask the platform team to"
        " read the log of Kueue's controller, which should resume it.",
        "platform",
        objects=(gang.ref,),
        commands=(see,) if see else (),
    )


def waits_for_checks(gang: Gang) -> bool:
    """Return whether Kueue has reserved quota for a gang that still waits for AdmissionChecks."""
    workload = workload_of(gang)
    if workload is None or not workload.holds("QuotaReserved") or workload.holds("Admitted"):
        return False
    return any(check.state != READY for check in workload.checks)


def kueue_may_evict(gang: Gang) -> Reasons:
    """Report that Kueue has admitted the gang, and evicts it if its pods are not ready in time."""
    workload = workload_of(gang)
    if workload is None or not workload.holds("Admitted") or workload.holds("Evicted"):
        return
    ready = workload.condition("PodsReady")
    admitted = workload.condition("Admitted")
    if _held(gang) or ready is None or ready.holds or admitted is None:
        return

    since = with_age("Kueue admitted the workload", admitted.time, gang.facts.now)
    queue = _queue_of(gang.index, workload)
    text = f"{since} in {queue}, and evicts it if its pods are not all ready in time"
    before = _times(workload.requeues or workload.evictions)
    text += f"; Kueue has evicted it {before} before" if before else ""
    of_flavors = ""
    if workload.flavors:
        of_flavors = (
            f" Kueue has added the node labels of {flavor_words(gang)} to the"
            " nodeSelector of its pods."
        )
    yield about(
        Evidence(workload.ref, "status.conditions", one_line(ready.message) or ready.reason),
        "KueueMayEvict",
        text,
        f"Fix the other reasons first.{of_flavors} If its pods only need longer, ask the platform"
        " team to raise waitForPodsReady.timeout in Kueue's configuration.",
        "platform",
        objects=(gang.ref,),
        severity="warning" if before else "note",
    )


def _it(held: Sequence[Pod]) -> str:
    return "it" if len(held) == 1 else "them"


def _held(gang: Gang) -> list[Pod]:
    return [pod for pod in gang.waiting if any(gate.startswith(OF_KUEUE) for gate in pod.gates)]


def workload_of(gang: Gang) -> KueueWorkload | None:
    """Return Kueue's Workload of a gang, or None if none was found."""
    return next(_workloads_of(gang), None)


def _workloads_of(gang: Gang) -> Iterator[KueueWorkload]:
    """Yield Kueue's Workloads of a gang, the surest match first, possibly more than once."""
    if not gang.facts.kueue_workloads:
        return
    index = gang.index
    pods = gang.pods
    if not pods:
        yield from index.kueue_of_controller.get(gang.ref, ())
    uids = [known.uid for known in (gang.pod_gang, gang.pod_group, gang.pcs) if known]
    for uid in dict.fromkeys([*uids, *(uid for pod in pods for uid in (pod.uid, pod.owner))]):
        yield from index.kueue_of_owner.get((gang.namespace, uid), ())

    # The Workload of a pod group has its name.
    groups = dict.fromkeys(pod.kueue_group[0] for pod in pods if pod.kueue_group)
    for key in (gang.ref.key, *((gang.namespace, name) for name in groups)):
        if own := index.kueue_workloads.get(key):
            yield own
    owners = dict.fromkeys(
        owner.name for pod in pods for owner in (*pod.made_for, pod.controller) if owner
    )
    for name in owners:
        # Pods of JobSet NAME have the owner NAME-JOB-0, so the beginnings of the owner's name are
        # tried too. Tenants can write any name, but no object has one longer than MAX_SUBDOMAIN.
        while name and len(name) <= MAX_SUBDOMAIN:
            yield from index.kueue_of_name.get((gang.namespace, name), ())
            name = name.rpartition("-")[0]


def state_of(
    index: Index, workload: KueueWorkload, held: Sequence[Pod] = ()
) -> tuple[str, Help] | None:
    """Return (why Kueue holds a Workload, remedy), or None if it does not.

    `held` are the Workload's pods with a gate of Kueue.
    """
    evicted = workload.condition("Evicted")
    if not workload.active:
        return _not_active(workload, evicted, index.facts.now)
    if evicted and evicted.holds:
        return _evicted(index, workload, evicted)
    if not workload.holds("QuotaReserved"):
        return _without_quota(index, workload)
    if not workload.holds("Admitted"):
        return _unchecked(workload, index.facts.now)
    return _opening(workload, index.facts.now) if held else None


def _not_active(
    workload: KueueWorkload, evicted: KueueCondition | None, now: float
) -> tuple[str, Help]:
    words = "the Workload is not active (spec.active: false)"
    cause = ""
    if evicted and evicted.holds:
        words += f": {_said(evicted, now)}"
        rejected = [check for check in workload.checks if check.state == "Rejected"]
        said = listed(f"{c.name}: {one_line(c.message)}" for c in rejected if c.message)
        words += f". AdmissionCheck {said}" if said else ""
        cause = evicted.reason.removeprefix(_DEACTIVATED).removeprefix("DueTo")
    if any(check.state == "Rejected" for check in workload.checks):
        cause = "AdmissionCheck"
    first = {
        "AdmissionCheck": "Fix the cause of the AdmissionCheck's rejection, then set",
        "RequeuingLimitExceeded": "Find out why its pods were not ready in time, then set",
        "MaximumExecutionTimeExceeded": (
            "Raise the label kueue.x-k8s.io/max-exec-time-seconds of the workload, then set"
        ),
    }.get(cause, "Find out why it was deactivated, then set")
    patch = shlex.quote('{"spec":{"active":true}}')
    named = f"workloads.kueue.x-k8s.io {_kubectl_name(workload)}"
    command = f"kubectl patch {named} --type merge -p {patch}"
    return words, Help(f"{first} spec.active: true in the Workload.", "you", (command,))


def _evicted(index: Index, workload: KueueWorkload, evicted: KueueCondition) -> tuple[str, Help]:
    """Return the text and the remedy for a Workload that was evicted and not admitted again."""
    now = index.facts.now
    often = _times(workload.requeues)
    often = f", requeued {often}" if often else ""
    how, helps = _why_evicted(index, workload, evicted)
    words = f"Kueue evicted the Workload ({how}){often}: {_said(evicted, now)}"

    reserved = workload.condition("QuotaReserved")
    by_timeout = evicted.reason == "PodsReadyTimeout"
    if at := _next_try(workload, now):
        words += f"; Kueue does not try again before {at}"
        helps = helps if by_timeout else Help(f"Wait until {at}.", "wait")
    elif reserved and reserved.holds:
        words += "; Kueue is stopping its pods"
    elif reserved and reserved.message != evicted.message and _NOT_YET not in reserved.message:
        what, next_helps = _without_quota(index, workload)
        words += f"; now {what}"
        helps = helps if by_timeout else next_helps

    if workload.holds("WaitingForReplacementPods"):
        words += "; Kueue has deleted its pods, and waits for new ones"
        recreate = "If no controller recreates its pods, create them again."
        helps = replace(helps, remedy=f"{helps.remedy} {recreate}")
    return words, helps


def _why_evicted(
    index: Index, workload: KueueWorkload, evicted: KueueCondition
) -> tuple[str, Help]:
    """Return (cause of an eviction, remedy). The cause names the preempting Workload if known."""
    if evicted.reason.endswith("Stopped") and workload.holds("Requeued"):
        # The queue has been started again.
        return evicted.reason, help_for(index, workload, "Evicted ")
    preempted = workload.condition("Preempted")
    if evicted.reason != "Preempted" or preempted is None or not preempted.holds:
        return evicted.reason, help_for(index, workload, f"Evicted {evicted.reason}")
    by = _preemptor(index, evicted.message)
    why = f"Preempted, {preempted.reason}" + (f", by {by.ref}" if by else "")
    return why, help_for(index, workload, f"Evicted Preempted {preempted.reason}")


_UID = re.compile(r"\(UID: ([^\s,]{1,64}),")
"""Finds the uid of the preempting Workload in Kueue's message about an eviction."""


def _preemptor(index: Index, message: str) -> KueueWorkload | None:
    """Return the preempting Workload that Kueue's message names by its uid, or None."""
    named = _UID.search(message)
    by_uid = index.remembered(
        "Kueue's Workloads by uid",
        lambda: {known.uid: known for known in index.facts.kueue_workloads if known.uid},
        ["kueue_workloads"],
    )
    return by_uid.get(named[1]) if named else None


def _next_try(workload: KueueWorkload, now: float) -> str:
    """Return the time of day until which Kueue backs off from a Workload, or "" if it does not."""
    again = workload.again
    return clock(again) if again is not None and again > now > 0 else ""


def _without_quota(index: Index, workload: KueueWorkload) -> tuple[str, Help]:
    """Return the text and the remedy for a Workload without quota."""
    now = index.facts.now
    reserved = workload.condition("QuotaReserved")
    if reserved is None or not reserved.message:
        return "Kueue has not evaluated it yet", Help(
            "Wait a minute. If nothing changes, ask the platform team to read the log of Kueue's"
            " controller.",
            "wait",
        )

    said = one_line(reserved.message)
    queue = index.kueue_queues.get((workload.namespace, workload.queue))
    behind = index.cluster_queues.get(queue.cluster_queue) if queue else None
    if behind and behind.inactive and "ClusterQueue" in said:
        said += f" ({behind.inactive.reason}: {one_line(behind.inactive.message)})"
        helps = inactive_help(behind)
    else:
        helps = help_for(index, workload, f"{reserved.message} ({reserved.reason})")

    # The condition's time is when it became False, not when this message was written.
    lasts = f" for {ago(now - reserved.time)}" if reserved.time is not None and now else ""
    if helps.of_quota:
        return f"the Workload {'has waited' if lasts else 'waits'} for quota{lasts}: {said}", helps
    return f"the Workload {'has not been' if lasts else 'is not'} admitted{lasts}: {said}", helps


def _unchecked(workload: KueueWorkload, now: float) -> tuple[str, Help]:
    """Return the text and the remedy for a Workload that has quota and is not admitted yet."""
    checks = [check for check in workload.checks if check.state != READY]
    if not checks:
        admitted = workload.condition("Admitted")
        said = f": {_said(admitted, now)}" if admitted else ""
        return f"the Workload has quota, but is not admitted yet{said}", Help(
            "Wait a minute. If nothing changes, ask the platform team to read the log of Kueue's"
            " controller.",
            "platform",
        )

    names = " ".join(shlex.quote(check.name) for check in checks)
    words = f"the Workload has quota and waits for {listed(_check(each, now) for each in checks)}"
    words += f" (flavor {listed(workload.flavors)})" if workload.flavors else ""
    evicted = workload.condition("Evicted")
    if evicted and evicted.message.startswith(_PREVIOUSLY):
        words += f"; previously: {one_line(evicted.message.removeprefix(_PREVIOUSLY))}"
    if at := _next_try(workload, now):
        words += f"; Kueue does not try again before {at}"
    return words, Help(
        "Wait until the AdmissionChecks are Ready, or ask the platform team what delays them"
        " (for a ProvisioningRequest, the autoscaler).",
        "platform",
        (
            f"kubectl describe admissionchecks.kueue.x-k8s.io {names}",
            f"kubectl get provisioningrequests -n {shlex.quote(workload.namespace)}",
        ),
    )


def _check(check: KueueCheck, now: float) -> str:
    told = one_line(check.message)
    state = check.state or "Pending"
    if check.time is not None and now:
        state += f" for {ago(now - check.time)}"
    if check.retries:
        state += f" after {counted(check.retries, 'retry')}"
    words = f"AdmissionCheck {check.name} ({state})"
    return f"{words}: {told}" if told else words


def _opening(workload: KueueWorkload, now: float) -> tuple[str, Help]:
    admitted = workload.condition("Admitted")
    since = now - admitted.time if admitted and admitted.time is not None and now else 0.0
    if since < _LATE:
        words = "the Workload is admitted, and Kueue removes the gates within seconds"
        return words, Help("Wait a minute.", "wait")
    return (
        f"the Workload was admitted {ago(since)} ago, and the gates are still there",
        Help("Ask the platform team to read the log of Kueue's controller.", "platform"),
    )


def _queue_of(index: Index, workload: KueueWorkload) -> str:
    """Return a text such as `queue lab (ClusterQueue team-a, flavor h100)`.

    It has flavors only if the Workload is admitted.
    """
    queue = index.kueue_queues.get((workload.namespace, workload.queue))
    behind = workload.cluster_queue or (queue.cluster_queue if queue else "")
    more = [f"ClusterQueue {behind}"] if behind else []
    if workload.holds("Admitted") and workload.flavors:
        more.append(f"flavor {listed(workload.flavors)}")
    return f"queue {workload.queue or '(none)'}" + (f" ({', '.join(more)})" if more else "")


def _kubectl_name(workload: KueueWorkload) -> str:
    """Return `NAME -n NAMESPACE` for a command of kubectl."""
    return f"{shlex.quote(workload.name)} -n {shlex.quote(workload.namespace)}"


def _times(count: int) -> str:
    """Return `once` or `3 times`, or "" for none."""
    return "" if count < 1 else "once" if count == 1 else f"{count} times"


def _said(condition: KueueCondition, now: float) -> str:
    return with_age(one_line(condition.message) or condition.reason, condition.time, now)
