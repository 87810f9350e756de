"""Reasons for which a pod is not handed to KAI yet: missing pods, gates, and pods that KAI has not taken up."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator

from app.explain.case import Case
from app.explain.facts.common import Ref
from app.explain.facts.grove import PodGang
from app.explain.facts.pods import Pod
from app.explain.gang import Member
from app.explain.index import Index
from app.explain.reason import Evidence, Reason
from app.explain.reasons.constraints import asked_of
from app.explain.words import counted, listed

GROVE_GATE = "grove.io/podgang-pending-creation"
KAI = "kai-scheduler"


def refs(pods: Iterable[Pod]) -> tuple[Ref, ...]:
    return tuple(sorted(Ref("Pod", pod.namespace, pod.name) for pod in pods))


def gang_incomplete(case: Case) -> Iterator[Reason]:
    """Fewer pods than the minimum exist, and no gate explains it."""
    gang = case.gang
    if gang is None or any(pod.gates for pod in gang.pods):
        return
    short = [member for member in gang.members if len(member.pods) < member.minimum <= member.replicas]
    if not short:
        return
    needed = sum(member.minimum for member in gang.members)
    existing = sum(min(member.minimum, len(member.pods)) for member in gang.members)
    lacks = listed(f"{member.name} lacks {member.minimum - len(member.pods)}" for member in short)
    verb = "exists" if existing == 1 else "exist"
    text = f"{existing} of {counted(needed, 'pod')} {verb}; {lacks}"
    errors = [error for member in short if member.clique for error in member.clique.errors]
    said = f"; Grove says: {errors[0]}" if errors else ""
    remedy = "see why the PodClique makes none: its status.lastErrors, and the quota of the namespace" + said
    evidence = [Evidence(gang.ref, "spec.podgroups[].minReplicas", str(needed))]
    evidence += [
        Evidence(Ref("PodClique", gang.ref.namespace, m.name), "status.lastErrors", e)
        for m in short
        for e in _errors(m)
    ]
    if gang.pod_group is not None:
        events = [event for event in case.index.events.get(gang.pod_group.uid, ()) if event.reason == "NotReady"]
        evidence += [Evidence(event.about, "event NotReady", event.message) for event in events[:1]]
    yield Reason("GangIncomplete", (gang.ref,), text, remedy, "you", tuple(evidence))


def _errors(member: Member) -> tuple[str, ...]:
    return member.clique.errors if member.clique is not None else ()


def gate_not_in_gang(case: Case) -> Iterator[Reason]:
    """A pod with Grove's gate that its PodGang does not refer to."""
    if case.gang is None or case.gang.pod_gang is None:
        return
    referenced = {name for part in case.gang.pod_gang.parts for name in part.pods}
    pods = [pod for pod in case.gang.pods if GROVE_GATE in pod.gates and pod.name not in referenced]
    if not pods:
        return
    text = f"Grove has not put {counted(len(pods), 'pod')} of {case.gang.ref.name} into the gang yet"
    remedy = "wait; if it lasts longer than a minute, see the log of Grove's operator"
    evidence = (Evidence(case.ref, "spec.podgroups[].podReferences", f"without {listed(pod.name for pod in pods)}"),)
    yield Reason("GateNotInGang", refs(pods), text, remedy, "wait", evidence)


def gate_base_gang(case: Case) -> Iterator[Reason]:
    """A pod with Grove's gate whose base gang has not reached its minimum."""
    gang = case.gang
    if gang is None or gang.pod_gang is None:
        return
    gated = [pod for pod in gang.pods if GROVE_GATE in pod.gates]
    bases = {member.clique.place.base_gang for member in gang.members if member.clique is not None}
    for name in sorted(bases - {"", gang.ref.name}):
        base = case.index.gangs.get((gang.ref.namespace, name))
        if base is None or not gated:
            continue
        short = list(_below_minimum(case.index, base))
        if short:
            text = f"Waits for gang {name}: {listed(f'{clique} has {has} of {needs}' for clique, has, needs in short)}"
            refs_of = tuple(Ref("PodClique", base.namespace, clique) for clique, _, _ in short)
            evidence = tuple(
                Evidence(ref, "status.scheduledReplicas", str(has))
                for ref, (_, has, _) in zip(refs_of, short, strict=True)
            )
            yield Reason("GateBaseGang", refs(gated), text, f"`explain podgang/{name}`", "wait", evidence)


def _below_minimum(index: Index, base: PodGang) -> Iterator[tuple[str, int, int]]:
    """(PodClique, scheduled, minimum), as Grove compares them."""
    for part in base.parts:
        clique = index.cliques.get((base.namespace, part.name))
        if clique is not None and clique.scheduled < part.minimum:
            yield part.name, clique.scheduled, part.minimum


def gate_foreign(case: Case) -> Iterator[Reason]:
    gated: dict[str, list[Pod]] = defaultdict(list)
    for pod in case.gang.pods if case.gang else ():
        for gate in pod.gates:
            if gate != GROVE_GATE:
                gated[gate].append(pod)
    for gate, pods in sorted(gated.items()):
        text = f"The gate {gate} holds {counted(len(pods), 'pod')}; it is neither ours nor Grove's"
        objects = refs(pods)
        evidence = (Evidence(objects[0], "spec.schedulingGates", gate),)
        yield Reason("GateForeign", objects, text, f"ask the owner of {gate}", "platform", evidence)


def workload_missing(case: Case) -> Iterator[Reason]:
    """A pod names a Workload, or a group of one, that doesn't exist."""
    yield from _missing(case, _missing_workload)


def pod_group_missing(case: Case) -> Iterator[Reason]:
    """A pod names a KAI PodGroup that doesn't exist."""
    yield from _missing(case, _missing_pod_group)


def _missing(case: Case, look: Callable[[Index, Pod], tuple[str, str, str] | None]) -> Iterator[Reason]:
    missing: dict[tuple[str, str, str], list[Pod]] = defaultdict(list)
    for pod in case.gang.waiting if case.gang else ():
        named = look(case.index, pod)
        if named is not None:
            missing[named].append(pod)
    for (kind, name, field), pods in sorted(missing.items()):
        verb = "waits" if len(pods) == 1 else "wait"
        text = f"{counted(len(pods), 'pod')} {verb} for {kind} {name}, which does not exist"
        objects = refs(pods)
        yield Reason(
            "WorkloadMissing",
            objects,
            text,
            "create it, or correct the name",
            "you",
            (Evidence(objects[0], field, name),),
        )


def _missing_workload(index: Index, pod: Pod) -> tuple[str, str, str] | None:
    """(kind, name, field) of what is missing."""
    facts = index.facts
    groups = {(group.namespace, group.name): group for group in facts.workload_groups}
    workloads = {(workload.namespace, workload.name) for workload in facts.workloads}
    if pod.workload_group:
        group = groups.get((pod.namespace, pod.workload_group))
        if group is None:
            return "PodGroup", pod.workload_group, "spec.schedulingGroup.podGroupName"
        if group.workload and (pod.namespace, group.workload) not in workloads:
            return "Workload", group.workload, "spec.podGroupTemplateRef"
    if pod.workload and (pod.namespace, pod.workload) not in workloads:
        return "Workload", pod.workload, "spec.workloadRef.name"
    return None


def _missing_pod_group(index: Index, pod: Pod) -> tuple[str, str, str] | None:
    if pod.group and (pod.namespace, pod.group) not in index.pod_groups:
        return "KAI PodGroup", pod.group, "metadata.annotations[pod-group-name]"
    return None


def not_grouped(case: Case) -> Iterator[Reason]:
    """A pod for KAI that KAI's pod-grouper has not taken up, and that nothing else holds back."""
    pods = [
        pod
        for pod in (case.gang.waiting if case.gang else ())
        if pod.scheduler == KAI and not pod.group and not pod.gates and not pod.workload and not pod.workload_group
    ]
    said: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        events = (event.message for event in case.index.events.get(pod.uid, ()) if event.reason == "PodGrouperWarning")
        said[next(events, "")].append(pod)
    for words, group in sorted(said.items()):
        objects = refs(group)
        text = f"KAI has not taken up {counted(len(group), 'pod')}" + (f": {words}" if words else "")
        evidence = (Evidence(objects[0], "metadata.annotations[pod-group-name]", "absent"),)
        remedy = (
            "correct what KAI's words name"
            if words
            else "wait; if it lasts longer than a minute, see KAI's pod-grouper"
        )
        yield Reason("NotGrouped", objects, text, remedy, "you" if words else "platform", evidence)


def wrong_scheduler(case: Case) -> Iterator[Reason]:
    """There are constraints, and the pods go to a scheduler that knows none of them."""
    gang = case.gang
    asked = [constraint for _, constraint in asked_of(case.pcs)] if case.pcs else []
    asks = any(constraint.required or constraint.preferred for constraint in asked)
    if gang is None or not (gang.constrained or asks):
        return
    others = Counter(pod.scheduler for pod in gang.pods if pod.scheduler != KAI)
    for name, count in sorted(others.items()):
        pods = [pod for pod in gang.pods if pod.scheduler == name]
        verb = "is" if count == 1 else "are"
        text = f"{counted(count, 'pod')} with a topology constraint {verb} placed by {name}, which knows no gangs"
        objects = refs(pods)
        evidence = (Evidence(objects[0], "spec.schedulerName", name),)
        remedy = f"set schedulerName: {KAI} in the pod templates"
        yield Reason("WrongScheduler", objects, text, remedy, "you", evidence)
