"""Report pods that KAI cannot consider, such as pods with gates or without a PodGroup."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from app.base.groups import by_key
from app.explain.gangs.assembly import gang_of, is_outside_subgroups, leaves_of
from app.explain.gangs.bases import Bases, bases_of
from app.explain.gangs.gang import Gang
from app.explain.reasons.messages import (
    DEFAULT_SCHEDULER,
    Advice,
    advice_for,
    did_you_mean,
    is_of_kai,
    not_running,
    one_line,
    schedulers,
)
from app.explain.reasons.reason import (
    Evidence,
    Reason,
    Reasons,
    Who,
    about,
    ago,
    counted,
    listed,
    queue_setting,
    with_age,
)
from app.explain.state.index import Index
from app.facts.grove.podgang import PodGang
from app.facts.identity import Ref
from app.facts.kubernetes.kueue import OF_KUEUE
from app.facts.kubernetes.pod import Pod
from app.facts.labels import KAI_SCHEDULER, POD_GROUP_NAME, SKIP_PODGROUPER, SUBGROUP

GROVE_GATE = "grove.io/podgang-pending-creation"
QUEUE_GATE = "kai.scheduler/queue-admission"
"""KAI's own gate, from a design: https://github.com/kai-scheduler/KAI-Scheduler/pull/1932."""
_CHECKED_WITHIN = 180.0
"""The seconds within which Grove checks the gates of pods again.

Pods that are added to a replica of a scaling group may wait this long:
https://github.com/ai-dynamo/grove/issues/847.
"""
K = TypeVar("K", str, tuple[str, str, str])
V = TypeVar("V")


def refs(pods: Iterable[Pod]) -> tuple[Ref, ...]:
    """Return sorted references to pods."""
    return tuple(sorted(pod.ref for pod in pods))


def pods_in_words(gang: Gang, pods: Sequence[Pod]) -> str:
    """Return a text such as `2 pods of llm-0`, or `Pod a` if the gang is this pod alone."""
    if refs(pods) == (gang.ref,):
        return f"Pod {gang.ref.name}"
    return f"{counted(pods, 'pod')} of {gang.ref.name}"


def grouped(pairs: Iterable[tuple[K, V]]) -> list[tuple[K, list[V]]]:
    """Return each key with its values, sorted by key."""
    return sorted(by_key(pairs).items(), key=lambda group: group[0])


def gate_not_in_gang(gang: Gang) -> Reasons:
    """Report that pods have Grove's gate, and the PodGang does not refer to them."""
    _, pods = _gated(gang)
    if pods:
        age = _since_gated(gang, pods)
        to_gang = f"{pods_in_words(gang, pods)} to the gang"
        text = f"Grove has not added {to_gang}{f' for {ago(age)}' if age else ' yet'}"
        without = f"without {listed(pod.name for pod in pods)}"
        evidence = Evidence(gang.ref, "spec.podgroups[].podReferences", without)
        yield _of_operator(evidence, "GateNotInGang", text, pods, is_late=age > 0)


def _since_gated(gang: Gang, pods: Iterable[Pod]) -> float:
    """Return the seconds for which gated pods and their PodGang have all existed.

    Return 0 if Grove's operator may not have checked them yet, or if a time is not known.
    """
    times = [pod.created for pod in pods]
    times.append(gang.pod_gang.created if gang.pod_gang else None)
    known = [time for time in times if time is not None]
    age = gang.facts.now - max(known) if len(known) == len(times) else 0.0
    return age if age > _CHECKED_WITHIN else 0.0


def _of_operator(
    evidence: Evidence, id: str, text: str, pods: Iterable[Pod], *, is_late: bool
) -> Reason:
    """Return the reason for pods whose gates Grove's operator has not removed yet."""
    if not is_late:
        remedy = (
            "Wait up to three minutes, until Grove checks again. If it takes longer, ask the"
            " platform team to read the log of Grove's operator"
        )
        return about(evidence, id, text, remedy, "wait", objects=refs(pods))
    remedy = (
        "Ask the platform team to read the log of Grove's operator, which should check these pods"
        " every three minutes"
    )
    return about(evidence, id, text, remedy, "platform", objects=refs(pods))


def gate_base_missing(gang: Gang) -> Reasons:
    """Report that pods have Grove's gate, and a needed PodGangMap entry or PodGang is missing."""
    gated = _all_gated(gang)
    bases = bases_of(gang)
    for missing in bases.missing if gated else ():
        evidence = Evidence(gang.ref, "PodGangMap spec.entries[].dependsOn", missing)
        remedy = (
            "Ask the platform team to read the log of Grove's operator, which creates the"
            " PodGangMap and the PodGangs"
        )
        text = f"The gang waits for {missing}, which does not exist"
        yield about(evidence, "GateBaseMissing", text, remedy, "platform", objects=gated)


def gate_base_gang(gang: Gang) -> Reasons:
    """Report that pods have Grove's gate, and Grove does not consider an earlier gang scheduled."""
    gated = _all_gated(gang)
    bases = bases_of(gang)
    for base in bases.gangs if gated else ():
        lacking = list(_lacking(gang.index, base, bases))
        if lacking:
            text = f"The gang waits for gang {base.name}: {listed(words for words, _ in lacking)}"
            remedy = f"Find out why gang {base.name} is pending"
            if lacking[0][0] == _NOT_RECORDED:
                remedy = (
                    "Wait up to three minutes, until Grove checks again. If it takes longer, ask"
                    " the platform team to read the log of Grove's operator"
                )
            yield about(
                lacking[0][1],
                "GateBaseGang",
                text,
                remedy,
                "wait",
                objects=gated,
                commands=(f"grove-admission explain podgang/{base.name} -n {base.namespace}",),
            )


_NOT_RECORDED = "Grove has not recorded yet that it is scheduled"


def _all_gated(gang: Gang) -> tuple[Ref, ...]:
    return refs(pod for pods in _gated(gang) for pod in pods)


def _lacking(index: Index, base: PodGang, bases: Bases) -> Iterator[tuple[str, Evidence]]:
    """Yield (cause, evidence) if Grove does not consider the gang of a PodGang scheduled."""
    if not bases.noted:
        yield from _below_minimum(index, base)
    elif not base.scheduled:
        evidence = Evidence(base.ref, "status.lastScheduled", "absent")
        members = gang_of(index, base).members
        short = [member for member in members if not member.is_satisfied]
        for member in short:
            yield _scheduled(member.name, len(member.placed), member.minimum), evidence
        if not short:
            yield _NOT_RECORDED, evidence


def _below_minimum(index: Index, base: PodGang) -> Iterator[tuple[str, Evidence]]:
    """Yield (cause, evidence) for each PodClique with fewer scheduled pods than its minimum.

    If all of them have enough pods on nodes and only Grove's record is missing, yield one cause.
    """
    placed = {member.name: len(member.placed) for member in gang_of(index, base).members}
    short: list[tuple[str, Evidence]] = []
    unrecorded: list[tuple[str, Evidence]] = []
    for part in base.parts:
        clique = index.cliques.get((base.namespace, part.name))
        if clique and clique.scheduled < part.minimum:
            evidence = Evidence(clique.ref, "status.scheduledReplicas", str(clique.scheduled))
            if placed.get(part.name, 0) < part.minimum:
                text = _scheduled(part.name, clique.scheduled, part.minimum)
                short.append((text, evidence))
            else:
                unrecorded.append((_NOT_RECORDED, evidence))
    yield from short or unrecorded[:1]


def _scheduled(name: str, count: int, minimum: int) -> str:
    """Return a text such as `1 of the 2 required pods of llm-0-workers is scheduled`."""
    if minimum == 1:
        return f"the required pod of {name} is not scheduled"
    required = counted(minimum, "required pod")
    return f"{count} of the {required} of {name} {'is' if count == 1 else 'are'} scheduled"


def gate_opens(gang: Gang) -> Reasons:
    """Report that pods still have Grove's gate although its conditions are met."""
    gated, others = _gated(gang)
    if others or not gated or any(gate_base_gang(gang)) or any(gate_base_missing(gang)):
        return

    # The base gangs may have been scheduled just now.
    age = 0.0 if bases_of(gang).gangs else _since_gated(gang, gated)
    has = "has" if len(gated) == 1 else "have"
    state = f"{has} had Grove's scheduling gate for {ago(age)}"
    if not age:
        state = f"still {has} Grove's scheduling gate"
    text = f"{counted(gated, 'pod')} {state} although its conditions are met"
    evidence = Evidence(gated[0].ref, "spec.schedulingGates", GROVE_GATE)
    yield _of_operator(evidence, "GateOpens", text, gated, is_late=age > 0)


def _gated(gang: Gang) -> tuple[list[Pod], list[Pod]]:
    """Return (pods that the PodGang refers to, other pods), all of them with Grove's gate.

    Both lists are empty without a PodGang.
    """
    if not gang.pod_gang:
        return [], []
    named = {name for part in gang.pod_gang.parts for name in part.pods}
    gated = [pod for pod in gang.pods if GROVE_GATE in pod.gates]
    return [pod for pod in gated if pod.name in named], [
        pod for pod in gated if pod.name not in named
    ]


def gate_foreign(gang: Gang) -> Reasons:
    """Report that pods have a scheduling gate that is neither Grove's nor Kueue's."""
    foreign = (
        (gate, pod)
        for pod in gang.pods
        for gate in pod.gates
        if gate != GROVE_GATE and not gate.startswith(OF_KUEUE)
    )
    for gate, pods in grouped(foreign):
        who: Who = "platform"
        have = counted(pods, "pod has", "pods have")
        text = f"{have} the scheduling gate {gate}, which some other controller must remove"
        remedy = f"Ask the owner of {gate} why the gate is still there"
        if gate == QUEUE_GATE:
            text = (
                f"{have} KAI's scheduling gate {gate}, which KAI removes once the gang is within"
                " the quota and limits of its queue"
            )
            who = "wait"
            remedy = (
                "Wait until KAI removes the gate, request less, or ask the platform team for a"
                " higher quota. KAI does not remove it from pods that have other gates"
            )
        evidence = Evidence(refs(pods)[0], "spec.schedulingGates", gate)
        yield about(evidence, "GateForeign", text, remedy, who, objects=refs(pods))


def workload_missing(gang: Gang) -> Reasons:
    """Report that pods name a Workload, a group of it, or a PodGroup that does not exist.

    The PodGroup is that of Kubernetes. Pods in an existing KAI PodGroup don't count, because they
    no longer need the Workload.
    """
    named = (
        (_missing_workload(gang.index, pod), pod)
        for pod in gang.waiting
        if (pod.namespace, pod.group) not in gang.index.pod_groups
    )
    yield from _missing((missing, pod) for missing, pod in named if missing is not None)


_GROUP_FIELD = f"metadata.annotations[{POD_GROUP_NAME}]"


def pod_group_missing(gang: Gang) -> Reasons:
    """Report that pods name a KAI PodGroup that does not exist.

    Pods that KAI's pod-grouper skips don't count.
    """
    pods = [
        pod
        for pod in gang.waiting
        if pod.group and (pod.namespace, pod.group) not in gang.index.pod_groups
        if not pod.skipped
    ]
    said = backend_warning(gang) if pods else ""
    for reason in _missing((("KAI PodGroup", pod.group, _GROUP_FIELD), pod) for pod in pods):
        if not said:
            yield reason
            continue
        remedy = "Fix the problem that Grove's message describes"
        if "KAI queue" in said:
            remedy = f"Set one queue for the whole set: the {queue_setting(gang)}"
        yield replace(reason, text=f"{reason.text}; Grove says: {said}", remedy=remedy)


def backend_warning(gang: Gang) -> str:
    """Return the newest warning of Grove's backend for KAI about a PodGang, or "".

    The backend creates the PodGroup of a PodGang (`operator/internal/scheduler/kai/backend.go`).
    """
    found = gang.pod_gang
    events = gang.index.events_about(found.namespace, found.uid) if found else ()
    warnings = [event for event in events if event.reason == "KAIBackendMappingFailed"]
    newest = max(warnings, key=lambda event: event.time or 0.0, default=None)
    return with_age(one_line(newest.message), newest.time, gang.facts.now) if newest else ""


def subgroup_missing(gang: Gang) -> Reasons:
    """Report that pods name a SubGroup that their KAI PodGroup does not have, or name none."""
    index = gang.index
    groups = index.pod_groups
    outside = (
        ((*group.key, pod.subgroup), pod)
        for pod in gang.waiting
        if (group := groups.get((pod.namespace, pod.group)))
        if is_outside_subgroups(index, group, pod)
    )
    for (namespace, name, named), pods in grouped(outside):
        objects = refs(pods)
        names = listed(ref.name for ref in objects)
        label = f"the label {SUBGROUP}={named}" if named else f"no label {SUBGROUP}"
        leaves = leaves_of(index, groups[namespace, name])
        known = listed(leaves)
        are = "only SubGroup of" if len(leaves) == 1 else "SubGroups of"
        text = (
            f"{names} {'has' if len(pods) == 1 else 'have'} {label}, and the {are} PodGroup {name}"
            f" {'is' if len(leaves) == 1 else 'are'} {known}, so KAI ignores"
            f" {'this pod' if len(pods) == 1 else 'these pods'}"
        )
        to = "" if len(leaves) == 1 else "one of "
        remedy = f"Set the label {SUBGROUP} of the pods and of their template to {to}{known}"
        evidence = Evidence(objects[0], f"metadata.labels[{SUBGROUP}]", named or "absent")
        yield about(evidence, "WorkloadMissing", text, remedy, "you", objects=objects)


def opt_out_without_effect(gang: Gang) -> Reasons:
    """Report that pods opt out of the Workload API, but an annotation keeps KAI from grouping them.

    Our leader normally removes the annotation. Pods in an existing PodGroup need it and don't
    count.
    """
    skipped = [
        pod
        for pod in gang.waiting
        if pod.skipped and (pod.namespace, pod.group) not in gang.index.pod_groups
    ]
    if not skipped:
        return
    objects = refs(skipped)
    text = (
        f"{counted(skipped, 'pod opts', 'pods opt')} out of the Workload API, but the annotation"
        f" {SKIP_PODGROUPER} still keeps KAI from grouping {'them' if skipped[1:] else 'it'}"
    )
    first = objects[0]
    remedy = (
        "Ask the platform team whether grove-admission's leader runs, or remove the annotations"
        f" {SKIP_PODGROUPER} and {POD_GROUP_NAME}"
    )
    names = shlex.join(ref.name for ref in objects)
    marks = f"{SKIP_PODGROUPER}- {POD_GROUP_NAME}-"
    commands = (f"kubectl annotate pod -n {first.namespace} {names} {marks}",)
    evidence = Evidence(first, f"metadata.annotations[{SKIP_PODGROUPER}]", "true")
    yield about(
        evidence, "OptOutWithoutEffect", text, remedy, "you", objects=objects, commands=commands
    )


def _missing(named: Iterable[tuple[tuple[str, str, str], Pod]]) -> Reasons:
    """Yield a reason for each missing object, from ((kind, name, field), pod that names it)."""
    for (kind, name, field), pods in grouped(named):
        objects = refs(pods)
        wait = counted(pods, "pod waits", "pods wait")
        text = f"{wait} for {kind} {name}, which does not exist"
        evidence = Evidence(objects[0], field, name)
        remedy = f"Create {kind} {name}, or correct the name in {field}"
        if field == _GROUP_FIELD and any(pod.place.podgang for pod in pods):
            remedy = (
                "Ask the platform team to read the logs of KAI's pod-grouper and Grove's operator,"
                f" one of which should have created PodGroup {name}"
            )
        yield about(evidence, "WorkloadMissing", text, remedy, "you", objects=objects)


def _missing_workload(index: Index, pod: Pod) -> tuple[str, str, str] | None:
    """Return (kind, name, field with the name) of a missing object that a pod needs, or None.

    A PodGroup needs its Workload, but not the template in the Workload: the template may have
    changed since, or be nested.
    """
    if pod.workload_group:
        group = index.workload_groups.get((pod.namespace, pod.workload_group))
        if not group:
            return "PodGroup", pod.workload_group, "spec.schedulingGroup.podGroupName"
        return _missing_part(index, pod.namespace, group.workload, "", "the spec of the PodGroup")
    return _missing_part(index, pod.namespace, pod.workload, pod.workload_part, "spec.workloadRef")


def _missing_part(
    index: Index, namespace: str, name: str, part: str, field: str
) -> tuple[str, str, str] | None:
    workload = index.workloads.get((namespace, name))
    if name and not workload:
        return "Workload", name, field
    if workload and part and part not in workload.groups:
        return f"group {part} of Workload", name, field
    return None


def not_grouped(gang: Gang) -> Reasons:
    """Report that KAI's pod-grouper has not created a PodGroup for a pod that needs one."""
    untaken = (
        pod
        for pod in gang.waiting
        if pod.scheduler == KAI_SCHEDULER and pod.deleting is None
        if not (pod.group or pod.gates or pod.workload or pod.workload_group or pod.skipped)
    )
    now = gang.facts.now
    for words, pods in grouped(
        (next(iter(grouper_warnings(gang.index, pod)), ""), pod) for pod in untaken
    ):
        objects = refs(pods)
        evidence = Evidence(objects[0], f"metadata.annotations[{POD_GROUP_NAME}]", "absent")
        of_them = "this pod" if len(pods) == 1 else f"these {len(pods)} pods"
        text = f"KAI's pod-grouper has not created a PodGroup for {of_them}"
        times = [pod.created for pod in pods if pod.created is not None]
        age = now - min(times) if times and now else 0.0
        if words:
            remedy, who = next(advice_for(words, _GROUPING), _AS_DESCRIBED)
            yield about(evidence, "NotGrouped", f"{text}: {words}", remedy, who, objects=objects)
        elif age < _GROUPED_WITHIN:
            remedy = (
                "Wait a minute: the pod-grouper usually needs seconds. If nothing changes, ask the"
                " platform team to read its log. Find its pod: kubectl get pods -A | grep grouper"
            )
            yield about(evidence, "NotGrouped", f"{text} yet", remedy, "wait", objects=objects)
        else:
            remedy = (
                "Ask the platform team to read the log of KAI's pod-grouper. Find its pod: kubectl"
                " get pods -A | grep grouper"
            )
            text = f"For {ago(age)}, {text}{not_running(gang.index, 'pod-grouper-')}"
            yield about(evidence, "NotGrouped", text, remedy, "platform", objects=objects)


_GROUPING: Advice = (
    (
        ("denied the request",),
        "Ask the platform team why the webhook in the message denies a PodGroup that KAI's"
        " pod-grouper creates. If the webhook is KAI's own, update KAI",
        "platform",
    ),
    (
        ("cannot create", "cannot get", "cannot list", "cannot patch", "cannot update"),
        "Ask the platform team to give the account of KAI's pod-grouper the permission that the"
        " message names",
        "platform",
    ),
    (
        ("doesn't allow for 0 ",),
        "Remove the replica type with 0 replicas from the workload, or set its replicas to at least"
        " 1",
        "you",
    ),
    (
        ("can't be less than minReplicas",),
        "Set replicas of this worker group to at least its minReplicas",
        "you",
    ),
    (
        ("topology annotation (",),
        "Add this annotation, with the name of a Topology, to the pod template that the message"
        " names",
        "you",
    ),
)
"""Advice on messages of KAI's pod-grouper. The first row that applies counts."""

_AS_DESCRIBED: tuple[str, Who] = ("Fix the problem that KAI's message describes", "you")
"""Advice on other messages of KAI's pod-grouper."""

_GROUPED_WITHIN = 120.0
"""The seconds within which KAI's pod-grouper usually creates a PodGroup, even after a restart."""


def grouper_warnings(index: Index, pod: Pod) -> list[str]:
    """Return the messages of KAI's pod-grouper about a pod, newest first."""
    return [
        event.message
        for event in index.events_about(pod.namespace, pod.uid)
        if event.reason == "PodGrouperWarning" and is_of_kai(event)
    ]


def wrong_scheduler(gang: Gang) -> Reasons:
    """Report that constrained pods use a scheduler that ignores constraints or is unknown."""
    if gang.pod_gang and gang.pod_gang.scheduler not in ("", KAI_SCHEDULER, DEFAULT_SCHEDULER):
        return  # Another backend of Grove, such as Kueue, may read constraints.
    others = (
        (pod.scheduler, pod)
        for pod in gang.pods
        if pod.scheduler != KAI_SCHEDULER
        if not any(gate.startswith(OF_KUEUE) for gate in pod.gates)
    )
    for name, pods in grouped(others):
        if name != DEFAULT_SCHEDULER and name in schedulers(gang.index):
            continue  # Grove may have a profile for it, which may read constraints.
        objects = refs(pods)
        constraint = "with a topology constraint"
        use = counted(pods, f"pod {constraint} uses", f"pods {constraint} use")
        text = f'{use} scheduler "{name}", which ignores the constraint'
        if name not in schedulers(gang.index):
            text = f'{use} scheduler "{name}", which no component here answers to'
        meant = did_you_mean(name, {KAI_SCHEDULER})
        text += meant
        evidence = Evidence(objects[0], "spec.schedulerName", name)
        of_new = " of a new PodCliqueSet" if gang.is_of_grove else ""  # Grove rejects a change
        remedy = f"Set schedulerName: {KAI_SCHEDULER} in the pod templates{of_new}"
        if not meant and name != DEFAULT_SCHEDULER:
            remedy = (
                f"Ask the platform team whether {name} runs, and whether Grove has a profile for"
                " it. If not, set schedulerName in the pod templates to a scheduler that runs"
            )
        yield about(evidence, "WrongScheduler", text, remedy, "you", objects=objects)


def several_schedulers(gang: Gang) -> Reasons:
    """Report that KAI doesn't count required pods of a PodGang, which use another scheduler.

    Grove rejects a new PodCliqueSet with several schedulers, but some releases did not. For a gang
    with constraints, `wrong_scheduler` reports these pods.
    """
    of_kai = any(pod.scheduler == KAI_SCHEDULER for pod in gang.waiting)
    if not gang.is_of_grove or not of_kai or gang.is_constrained():
        return
    others = [
        pod
        for member in gang.members
        if sum(pod.scheduler == KAI_SCHEDULER for pod in member.pods) < member.minimum
        for pod in member.pods
        if pod.scheduler != KAI_SCHEDULER
    ]
    if not others:
        return
    names = listed(sorted({pod.scheduler for pod in others}))
    use = counted(others, "required pod of the gang uses", "required pods of the gang use")
    them = "it" if len(others) == 1 else "them"
    text = f"{use} {names}. KAI does not count {them}, and places none of the other pods"
    evidence = Evidence(others[0].ref, "spec.schedulerName", others[0].scheduler)
    remedy = (
        f"Create the PodCliqueSet again with schedulerName: {KAI_SCHEDULER} in all pod templates,"
        " because Grove allows no change of schedulerName"
    )
    objects = (gang.ref, *refs(others))
    yield about(evidence, "WrongScheduler", text, remedy, "you", objects=objects)
