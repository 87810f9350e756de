"""Report gangs with too few pods, and quote the controllers that should create the pods."""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from app.base.groups import by_key
from app.base.sentences import upper_first
from app.explain.gangs.assembly import (
    outside_subgroups,
    pods_of_other_schedulers,
    pods_of_part,
)
from app.explain.gangs.gang import Gang, Member
from app.explain.reasons.blocking_workloads import finalizers_that_keep
from app.explain.reasons.constraints import min_above_replicas
from app.explain.reasons.creation import said_when
from app.explain.reasons.gates import GROVE_GATE, refs
from app.explain.reasons.messages import Words, maker_words, makers_of, words_of
from app.explain.reasons.partial_gangs import MIN_MEMBER
from app.explain.reasons.queue import as_argument
from app.explain.reasons.reason import (
    Evidence,
    Reasons,
    Who,
    about,
    ago,
    counted,
    listed,
    removal_of,
    repair_of,
    to_describe,
)
from app.explain.reasons.startup_order import later_pods_missing, pods_missing
from app.explain.reasons.uncreated_pods import advice_on, known_advice
from app.explain.reasons.workload_status import suspended_groups
from app.explain.state.index import Index
from app.explain.state.makers import refusals_about, refusals_of_uid
from app.facts.grove.status import LastError
from app.facts.identity import Ref
from app.facts.kinds import JOB_SET, LEADER_WORKER_SET
from app.facts.kubernetes.pod import Pod
from app.facts.labels import KAI_SCHEDULER, POD_GROUP_NAME, SKIP_PODGROUPER, SUBGROUP
from app.objects.resource import JOB, STATEFUL_SET


def gang_incomplete(gang: Gang) -> Reasons:
    """Report that fewer pods than the minimum exist.

    If some have Grove's gate, others may be about to be created, unless Grove says why not.
    """
    short = _short_of_pods(gang)
    if not short or not gang.waits or gang.whole.is_satisfied or gang.whole.is_ready:
        return

    needed = sum(member.minimum for member in gang.members)
    existing = sum(min(member.minimum, len(member.pods)) for member in gang.members)
    lacks = listed(
        f"{member.name} lacks {counted(member.minimum - len(member.pods), 'pod')}"
        for member in short
    )
    lacking = tuple(member.name for member in short)
    gone = _gone(gang, short)
    exist = "exists" if existing == 1 else "exist"
    text = f"{existing} of {counted(needed, 'required pod')} {exist}: {lacks}"
    if needed == 1:
        text = "The only required pod does not exist"
    evidence = Evidence(gang.ref, "minimum", str(needed))
    group = gang.pod_group
    elsewhere = pods_of_other_schedulers(gang.index, group, gang.pods) if group else []
    if elsewhere:
        text, remedy = _placed_elsewhere(elsewhere, text)
        yield about(evidence, "GangIncomplete", text, remedy, "you", parts=lacking)
        return

    outside = outside_subgroups(gang.index, group) if group else []
    if outside:
        names = listed(sorted(pod.name for pod in outside))
        exist = "exists, but is" if len(outside) == 1 else "exist, but are"
        text += f". {names} {exist} in no SubGroup, so KAI ignores"
        text += " it" if len(outside) == 1 else " them"
        remedy = (
            f"Set the label {SUBGROUP} of {names} to a SubGroup that lacks pods: {listed(lacking)}"
        )
        yield about(evidence, "GangIncomplete", text, remedy, "you", parts=lacking)
        return

    ended = _ended(gang)
    if ended:
        names = listed(f"{pod.name} ({pod.phase})" for pod in ended)
        text += f". {names} {'has' if len(ended) == 1 else 'have'} ended, and KAI does not count"
        text += " it" if len(ended) == 1 else " them"
    remedy = _remedy_for_gone(gang, gone)
    leaving = _leaving(gang)
    if leaving:
        text += f". {listed(pod.name for pod in leaving)} {'is' if len(leaving) == 1 else 'are'}"
        text += " terminating"
        remedy = f"{_ending_remedy(gang, leaving)}. Its controller then creates the missing pods"
    commands: tuple[str, ...] = ()
    if gone and all(pod.deleting is None for pod in gone):
        names = shlex.join(pod.name for pod in gone)
        commands = (f"kubectl delete pod -n {gang.namespace} {names}",)
    who: Who = "you"
    if not remedy:
        said, remedy, who = _creators_message(gang, short)
        text += said
        if not said:
            remedy += _last_errors(short, gang.facts.now)
        if not said and any(pod.phase == "Succeeded" for pod in ended):
            if not gang.waiting and group and group.stale is not None:
                return  # GangStale says what KAI does with the other pods.
            remedy, commands = _after_completed(gang)
    gated = [pod for pod in gang.pods if GROVE_GATE in pod.gates]
    objects = (gang.ref, *refs(gated))
    yield about(
        evidence,
        "GangIncomplete",
        text + _kept_gates(gated),
        remedy,
        who,
        objects=objects,
        commands=commands,
        parts=lacking,
    )


def _kept_gates(gated: list[Pod]) -> str:
    if not gated:
        return ""
    return f". Grove keeps its gate on {counted(gated, 'pod')} until the others exist"


def _leaving(gang: Gang) -> list[Pod]:
    """Return the terminating pods of a gang that its controller replaces only once they are gone.

    The pods of Grove are left out (`_gone`), and gangs whose controller is not known.
    """
    group = gang.pod_group
    if gang.is_of_grove or not group:
        return []
    of_group = gang.index.pods_of_group.get(group.key, ())
    return [pod for pod in of_group if pod.deleting is not None and pod.controller]


def _after_completed(gang: Gang) -> tuple[str, tuple[str, ...]]:
    """Return the remedy for a gang that lacks pods because some have completed, and its commands.

    KAI's pod-grouper takes the minimum of a Job from an annotation.
    """
    completed = "completed pods are not created again"
    if not gang.waiting:
        return f"Do nothing while the other pods run: {completed}", ()
    lower = "lower the number of pods that must run together"
    controllers = {pod.controller for pod in gang.pods}
    job = next(iter(controllers)) if len(controllers) == 1 else None
    group = gang.pod_group
    in_set = any(ref.kind == JOB_SET.kind for ref in gang.made_for)
    if not job or job.kind != JOB.kind or in_set or not group or group.subgroups:
        again = "delete the whole workload and create it again"
        return f"{upper_first(lower)}, or {again}: {completed}", ()
    number = len(gang.pods)
    remedy = (
        f'Set the annotation {MIN_MEMBER}: "{number}" on {job} and minMember: {number} in its'
        f" PodGroup: {completed}"
    )
    patch = shlex.quote(f'{{"spec":{{"minMember":{number}}}}}')
    name, namespace = shlex.quote(job.name), shlex.quote(job.namespace)
    return remedy, (
        f"kubectl annotate job {name} -n {namespace} {MIN_MEMBER}={number} --overwrite",
        f"kubectl patch {as_argument(group)} --type merge -p {patch}",
    )


def _ended(gang: Gang) -> list[Pod]:
    """Return the finished pods of a gang's PodGroup, sorted by name, or [] for a gang of Grove."""
    if gang.is_of_grove or gang.pod_group is None:
        return []
    of_group = gang.index.pods_of_group.get(gang.pod_group.key, ())
    return sorted((pod for pod in of_group if pod.finished), key=lambda pod: pod.name)


def _placed_elsewhere(pods: Sequence[Pod], text: str) -> tuple[str, str]:
    """Return `text` with a note that other schedulers place these pods, and the remedy."""
    names = listed(pod.name for pod in pods)
    schedulers = sorted({pod.scheduler for pod in pods})
    has = "has placed" if len(schedulers) == 1 else "have placed"
    if not all(pod.node for pod in pods):
        has = "places" if len(schedulers) == 1 else "place"
    one = len(pods) == 1
    exists = "exists" if one else "exist"
    it = "it" if one else "them"
    return (
        f"{text}. {names} {exists}, but {listed(schedulers)} {has} {it}, so KAI does not count"
        f" {it}",
        f"Set schedulerName: {KAI_SCHEDULER} in the pod template of {names}, and create {it} again",
    )


def _creators_message(gang: Gang, short: Sequence[Member]) -> tuple[str, str, Who]:
    """Return (message about a controller that creates the pods, remedy, who can act).

    Without such a message, a known error of Grove about the parts in `short` is quoted. Without
    either, the message is "".
    """
    told = next(maker_words(gang.index, gang.namespace, makers_of(gang, gang.pods)), None)
    told = told or next(_indirect_words(gang), None)
    if told is None:
        error = next(_errors(short), None)
        known = known_advice(error.text, gang.namespace) if error else None
        if error and known:
            return f". Grove said: {said_when(error, gang.facts.now)}", *known
        return "", _unexplained_remedy(gang, short), "you"

    maker, words = told
    meaning, remedy, who = advice_on(maker, words, of_kai=gang.is_of_kai)
    return f". About {maker}, {words.quoted(gang.facts.now)}{meaning}", remedy, who


def _indirect_words(gang: Gang) -> Iterator[tuple[Ref, Words]]:
    """Yield (object, message) for objects that can't create pods for the gang's workload.

    The objects may own no pod yet. The StatefulSets of other groups of a LeaderWorkerSet are left
    out: the workers' StatefulSet has the name of the leader.
    """
    leaders = {pod.name for pod in gang.pods}
    for workload in gang.made_for:
        for event in refusals_about(gang.index, workload):
            of_group = workload.kind == LEADER_WORKER_SET.kind and event.about.kind == "StatefulSet"
            if not of_group or event.about.name in {workload.name, *leaders}:
                yield event.about, words_of(event, "its controller")


def group_incomplete(gang: Gang) -> Reasons:
    """Report that a group of the Workload API needs more pods together than exist."""
    for (group, minimum), pods in by_key(_named_groups(gang)).items():
        alive = _numbers_in_groups(gang.index)[group]
        if minimum <= alive:
            continue
        has = counted(alive, "pod")
        text = f"{group} needs {minimum} pods together (minCount), but has only {has}"
        told = next(maker_words(gang.index, gang.namespace, [pod.owner for pod in pods]), None)
        if told:
            text += f". About {told[0]}, {told[1].quoted(gang.facts.now)}"
        workload = next((pod.made_for[0] for pod in pods if pod.made_for), None)
        number, in_steps = _SIZES.get(workload.kind if workload else "", _ANY_SIZE)
        more = f"run {minimum} pods" + (f" ({number} of {workload})" if workload else "")
        remedy = (
            f"Make the numbers agree if no more pods are created: {more}, or create {group} again"
            f" with minCount: {alive}.{in_steps}"
        )
        evidence = Evidence(group, "minCount", str(minimum))
        yield about(evidence, "GangIncomplete", text, remedy, "you", objects=refs(pods))


_ANY_SIZE = ("replicas or parallelism", "")
_SIZES = {
    "LeaderWorkerSet": (
        "spec.leaderWorkerTemplate.size",
        " If its startupPolicy is LeaderReady, use LeaderCreated instead: the workers are created"
        " only once the leader is ready, but the leader is placed only together with them.",
    ),
    "JobSet": (
        "replicas and parallelism",
        " If it has startupPolicyOrder: InOrder or dependsOn, create it again without this setting:"
        " some pods are created only once others run, but all pods are placed only together.",
    ),
    "Job": ("spec.parallelism", ""),
    "StatefulSet": ("spec.replicas", ""),
    "Deployment": ("spec.replicas", ""),
}
"""(Field with the number of pods, advice if pods are created in steps), by kind of workload."""


def _numbers_in_groups(index: Index) -> Counter[Ref]:
    """Return the number of living pods in each group of the Workload API."""

    def look() -> Counter[Ref]:
        named = (_named_group(index, pod) for pod in index.facts.pods if pod.is_alive)
        return Counter(group for group, _ in filter(None, named))

    return index.remembered("pods in groups", look, ["pods", "workloads", "workload_groups"])


def _named_groups(gang: Gang) -> Iterator[tuple[tuple[Ref, int], Pod]]:
    for pod in gang.waiting:
        named = _named_group(gang.index, pod)
        if named and pod.scheduler != KAI_SCHEDULER:
            yield named, pod


def _named_group(index: Index, pod: Pod) -> tuple[Ref, int] | None:
    """Return (a pod's group of the Workload API, its minimum number of pods).

    Return None if the pod is in no known group, or if its group has no minimum.
    """
    if pod.workload_group:
        group = index.workload_groups.get((pod.namespace, pod.workload_group))
        if group and group.minimum:
            return Ref("PodGroup", pod.namespace, pod.workload_group), group.minimum
    if pod.workload:
        workload = index.workloads.get((pod.namespace, pod.workload))
        minimum = workload.groups.get(pod.workload_part) if workload else None
        if minimum:
            name = f"{pod.workload}/{pod.workload_part}"
            return Ref("Workload", pod.namespace, name), minimum
    return None


def _gone(gang: Gang, members: Iterable[Member]) -> list[Pod]:
    """Return the finished and terminating pods of some parts of a gang of Grove.

    Grove does not replace these pods while they exist.
    """
    pod_gang = gang.pod_gang
    if not pod_gang:
        return []
    return [
        pod
        for member in members
        for pod in pods_of_part(gang.index, pod_gang, member.name)
        if not pod.is_alive
    ]


def _remedy_for_gone(gang: Gang, gone: Sequence[Pod]) -> str:
    """Return the remedy that replaces terminating or finished pods, or "" if there are none."""
    terminating = [pod for pod in gone if pod.deleting is not None]
    if terminating:
        return _ending_remedy(gang, terminating)
    if gone:
        failed = listed(f"{pod.name} ({pod.phase})" for pod in gone)
        return f"Delete the pods that have ended, so Grove creates new ones: {failed}"
    return ""


def _ending_remedy(gang: Gang, pods: Sequence[Pod]) -> str:
    """Return the remedy for pods that are terminating."""
    since = ago(gang.facts.now - (pods[0].deleted or 0.0))
    names = f"{listed(pod.name for pod in pods)}, terminating for {since}"
    held_by = finalizers_that_keep(pods, gang.facts.now)
    if held_by:
        return f"{removal_of(held_by)} from {names}"
    dead = sorted({pod.node for pod in pods} & gang.index.dead_nodes)
    if dead:
        return f"{repair_of(dead)}: Kubernetes then deletes {names}"
    return f"Wait until Kubernetes has deleted {names}"


def _short_of_pods(gang: Gang) -> list[Member]:
    """Return the parts with fewer pods than their minimum that no other reason explains.

    A part whose minimum exceeds its replicas counts only if no other part is short.
    """
    if any(pods_missing(gang)) or any(later_pods_missing(gang)):
        return []  # PodsMissing says when the other pods are created.
    if gang.pcs is not None and gang.pcs.deleted_at is not None:
        return []  # Grove creates no more pods, because the set is being deleted.
    suspended = suspended_groups(gang)
    short = [
        member
        for member in gang.members
        if len(member.pods) < member.minimum and member.name not in suspended
    ]
    if any(GROVE_GATE in pod.gates for pod in gang.pods):
        short = [member for member in short if _is_refused(gang, member)]
    possible = [member for member in short if member.minimum <= member.replicas]
    if any(min_above_replicas(gang)):
        return possible  # MinAboveReplicas says why the pods of other parts can't exist.
    return possible or short


def _is_refused(gang: Gang, member: Member) -> bool:
    """Return whether Grove says why it can't create the pods of a member."""
    clique = member.clique
    if clique is None:
        return False
    known = (known_advice(error.text, clique.namespace) for error in clique.errors)
    return any(known) or bool(refusals_of_uid(gang.index, clique.uid))


def _last_errors(members: Iterable[Member], now: float) -> str:
    """Return Grove's first error about the parts' PodCliques with its age, or "" without one."""
    first = next(_errors(members), None)
    return f"; Grove said: {said_when(first, now)}" if first else ""


def _errors(members: Iterable[Member]) -> Iterator[LastError]:
    cliques = (member.clique for member in members if member.clique)
    return (error for clique in cliques for error in clique.errors)


def _maker(gang: Gang) -> Ref | None:
    """Return the object that should create the missing pods of a gang, or None if none is known.

    For a Job or StatefulSet of another workload, it is that workload: another Job or StatefulSet
    may lack the pods.
    """
    pod = next((pod for pod in gang.pods if pod.controller), None)
    if pod is None:
        return None
    owned = pod.controller is not None and pod.controller.kind in {JOB.kind, STATEFUL_SET.kind}
    return next(iter(pod.made_for), pod.controller) if owned else pod.controller


def _unexplained_remedy(gang: Gang, short: Sequence[Member]) -> str:
    """Return the remedy for missing pods if no message says why they are missing.

    `short` has the parts that lack pods.
    """
    if gang.is_of_grove:
        return (
            "Find out why Grove creates no more pods: check status.lastErrors of the PodCliques"
            f" (kubectl describe podcliques -n {gang.namespace}) and the ResourceQuota (kubectl"
            f" describe resourcequota -n {gang.namespace})"
        )
    maker = _maker(gang)
    if maker:
        see = to_describe(maker)
        remedy = f"Find out why {maker} creates no more pods"
        if maker.kind == JOB_SET.kind:
            # The command is in parentheses, so that nobody copies the full stop.
            return f"{remedy}{f' ({see})' if see else ''}.{_SIZES[maker.kind][1]}"
        return f"{remedy}: {see}" if see else remedy
    if any(pod.workload or pod.workload_group for pod in gang.pods):
        return (
            "Find out why the owner of the Workload creates no more pods: check the owner's status"
            " and events"
        )
    create = "Create the missing pods"
    group = gang.pod_group
    if group and not group.owners and not gang.index.pods_of_group.get(group.key):
        of_parts = f", and the label {SUBGROUP}" if group.subgroups else ""
        return (
            f"Give the pods the annotations {POD_GROUP_NAME}: {group.name} and {SKIP_PODGROUPER}:"
            f' "true"{of_parts}, and create them again: no pod names this PodGroup'
        )
    if not all(member.pods for member in short):
        return create  # A minimum of 0 would start nothing.
    if gang.pod_group and gang.pod_group.subgroups:
        minimums = (f"minMember of SubGroup {own.name} to {len(own.pods)}" for own in short)
        return f"{create}, or lower {listed(minimums)} in PodGroup {gang.pod_group.name}"
    existing = sum(len(member.pods) for member in short)
    return f"{create}, or lower minMember of {gang.ref} to {existing}"
