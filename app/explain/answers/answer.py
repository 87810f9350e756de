"""Answer the question about one object: is it placed as requested, and if not, why?"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from msgspec.structs import replace

from app.base.sentences import upper_first
from app.base.value import Value
from app.explain.answers.branch import AS_JSON, Branch, State, together
from app.explain.answers.positions import InLine, in_line
from app.explain.answers.tree import grow
from app.explain.gangs.gang import Gang
from app.explain.gangs.subject import USED, Subject, subject
from app.explain.placing.room import DomainRoom
from app.explain.reasons.blocking_workloads import pod_of_consumer
from app.explain.reasons.messages import one_line, said_of, silence
from app.explain.reasons.reason import (
    Reason,
    ago,
    counted,
    finalizers_of,
    listed,
    to_describe,
    with_age,
)
from app.explain.reasons.startup_order import pods_to_come
from app.explain.reasons.table import Unknown, examine
from app.explain.state.index import Index
from app.explain.state.workload_status import status_of
from app.facts.grove.podcliqueset import SetWithStatus
from app.facts.identity import Ref
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.workload_status import FAILED
from app.facts.workload_of_pod import WORKLOAD_KINDS
from app.objects.resource import JOB, STATEFUL_SET

_WORKLOADS = {resource.kind for resource in WORKLOAD_KINDS}
"""The kinds of workloads that are found through their pods, such as Job."""
_WHOLE = {
    "PodCliqueSet",
    "PodGang",
    "PodGroup",
    "Workload",
    *_WORKLOADS,
}
"""The kinds of objects that consist of whole gangs.

For objects of other kinds, the headline counts the pods of their gang or set.
"""


_IF_NOT = "If no pod is placed within a minute, ask the platform team whether KAI's scheduler runs."


class Answer(Value, rename=AS_JSON):
    """The explanation of one object."""

    ref: Ref
    state: State
    headline: str
    """The answer in one line."""
    placed: int | None
    """How many of the `total` pods have a node, or None if that is not known."""
    total: int | None
    """The number of its pods, or of its gang's pods, including missing ones. None if not known."""
    reasons: tuple[Reason, ...]
    tree: Branch
    unknown: tuple[Unknown, ...]
    """The reasons that can't be ruled out, because facts they need could not be read."""
    unseen: Mapping[str, str]
    """The unreadable kinds of facts that a reason or the tree needs, with the cause."""
    absent: tuple[str, ...]
    """The kinds of facts whose API is not installed."""
    skipped: tuple[str, ...]
    """The ids of reasons that were not checked, because they need facts that are `lacking`."""
    lacking: tuple[str, ...]
    """The kinds of facts that were not requested, or are missing from the files."""
    said: tuple[str, ...]
    """KAI's own messages about pending gangs."""
    silence: str
    """Words about KAI's silence, or about Grove's. The `outlook` needs them if `said` is empty."""
    room: tuple[DomainRoom, ...]
    """The room of each domain for the first part that does not fit, most room first.

    Empty if all pending gangs fit, or if free capacity is not known.
    """
    line: tuple[InLine, ...]
    """The positions in KAI's order of its pending gangs, and of base gangs that they wait for."""

    @property
    def causes(self) -> tuple[Reason, ...]:
        """The reasons, without notes if the object is pending, because notes block nothing."""
        if self.state != "waits":
            return self.reasons
        return tuple(reason for reason in self.reasons if reason.severity != "note")

    @property
    def outlook(self) -> str:
        """The conclusion about a pending object without `causes`, or "" for any other object."""
        if self.causes or self.state != "waits":
            return ""
        if not self.total and (self.ref.kind in _WORKLOADS or "pods" in self.lacking):
            see = to_describe(self.ref)
            words = (
                "Its controller has created no pods yet. If it creates none within a minute, find"
                " out"
            )
            if "pods" in self.lacking:
                words = "If it has no pods, find out"
            return f"{words} why: {see}" if see else f"{words} why."
        if self.ref.kind in _WORKLOADS and self.placed == self.total:
            return _pods_follow(self.ref)
        if self.skipped or self.unknown:
            words = "Nothing that we could check is blocking it. The other checks are listed below."
            silence = "" if self.said else f" {upper_first(self.silence)}."
            return f"{words}{silence}"
        found = next((own for own in self.line if own.next == "next"), None)
        if found:
            where = f", in {listed(found.where)}" if found.where else ""
            checked = "we check " if found.may_differ else ""
            words = f"Nothing {checked}blocks it now; KAI should place it in its next cycle{where}"
            words = f"{words}{found.unless}."
            return f"{words} {_IF_NOT}" if self.said else words
        notes = " The notes above do not block it." if self.reasons else ""
        if self.said:
            return f"Nothing we check is blocking it.{notes}"
        return f"Nothing we check is blocking it, and {self.silence}.{notes}"

    @property
    def said_earlier(self) -> bool:
        """Whether KAI spoke about an older state: all was checked, and nothing blocks it now."""
        is_next = any(own.next == "next" for own in self.line)
        return is_next and not (self.causes or self.skipped or self.unknown)

    @property
    def exit_code(self) -> int:
        """The exit code: 2 if facts are missing, 1 if it is pending or has remarks, otherwise 0.

        Facts are missing if a reason or the tree needs facts that could not be read, if it is not
        known whether pods are placed, or if reasons were skipped and no other reason explains why
        the object is pending.
        """
        unexplained = self.state == "waits" and not self.causes and bool(self.skipped)
        if self.unknown or self.unseen or unexplained or self.state == "unknown":
            return 2
        return 1 if self.reasons or self.state in ("waits", "warning") else 0

    @property
    def lacks_room(self) -> bool:
        """Was room for pending pods not examined, because facts about room were not requested?"""
        return "NoDomainFits" in self.skipped


def _pods_follow(ref: Ref) -> str:
    """Return the outlook of a workload whose pods are all placed, and that lacks other pods."""
    words = "Its controller has not created the other pods yet."
    if ref.kind == STATEFUL_SET.kind:
        words += (
            " Unless podManagementPolicy is Parallel, it creates each pod once the previous pods"
            " are ready."
        )
    see = to_describe(ref)
    return f"{words} If none follows, find out why" + (f": {see}" if see else ".")


def explain(index: Index, ref: Ref, *, folded: bool = False) -> Answer | None:
    """Return the explanation of an object, or None if the facts have no such object.

    With `folded`, the tree shows gangs without their parts.
    """
    about = subject(index, ref)
    if not about:
        return None

    gangs = about.with_bases
    examined = examine(gangs)
    tree = grow(about, examined.reasons, folded=folded)
    unseen = _unseen(index, examined.unknown)
    of = _part_asked_about(about, tree)
    to_come = pods_to_come(index, ref, about.gangs) or _replicas_to_come(about)
    state = _state(about, of.state, examined.reasons, to_come=to_come, unseen=bool(unseen))

    return Answer(
        ref=ref,
        state=state,
        headline=_headline(
            about,
            of,
            state,
            to_come=to_come,
            is_looked_at="RequiredViolated" not in examined.skipped,
        ),
        placed=of.placed,
        total=of.total,
        reasons=examined.reasons,
        tree=tree,
        unknown=examined.unknown,
        unseen=unseen,
        absent=tuple(sorted(index.facts.absent)),
        skipped=examined.skipped,
        lacking=examined.lacking,
        said=said_of(gangs),
        silence=_silence(about),
        room=_room(gangs) if index.room_is_known else (),
        line=in_line(gangs, examined.reasons),
    )


def _silence(about: Subject) -> str:
    """Return words about KAI's silence, or about Grove's if only replicas of a set are missing."""
    missing = _missing_replicas(about)
    if not missing or any(gang.waits for gang in about.gangs):
        return silence(about.gangs, _asked_at(about))
    return (
        f"Grove has not created {counted(missing, 'replica')} yet: if this takes more than a"
        " minute, ask the platform team whether its operator runs"
    )


def _room(gangs: Iterable[Gang]) -> tuple[DomainRoom, ...]:
    """Return the room of each domain for the first part that does not fit, or () if all fit."""
    outcomes = (gang.placements.now for gang in gangs if gang.waits)
    return next((outcome.rooms for outcome in outcomes if not outcome.fits), ())


def _unseen(index: Index, unknown: Iterable[Unknown]) -> dict[str, str]:
    """Return the unread kinds of facts that the tree or a reason needs, with the cause."""
    needed = {need for reason in unknown for need in reason.needs}
    needed |= {"sets", "gangs", "cliques", "pods"}
    causes = sorted(index.facts.unseen.items())
    return {kind: cause for kind, cause in causes if kind in needed}


def _part_asked_about(about: Subject, tree: Branch) -> Branch:
    """Return the tree with the counts and the state of only the gangs of the object.

    For a PodCliqueSet, an object without gangs, or a tree of one gang, return the tree unchanged.
    """
    refs = {gang.ref for gang in about.gangs}
    gangs = [branch for branch in tree.children if branch.ref in refs]
    if about.is_set or not gangs:
        return tree
    placed, total, state, _ = together(gangs)
    return replace(tree, placed=placed, total=total, state=state)


def _state(
    about: Subject, placement: State, reasons: Sequence[Reason], *, to_come: int, unseen: bool
) -> State:
    """Return the state of the object.

    `placement` is the state of its pods in the tree, `to_come` the number of pods to be created
    later, and `unseen` whether facts that it needs could not be read.
    """
    missing = _missing_replicas(about) or to_come
    if _is_scaled_to_zero(about):
        return "well"
    if missing or (placement == "waits" and not _has_ended(about)):
        return "waits"
    if any(reason.severity == "problem" for reason in reasons):
        return "problem"
    if unseen or placement == "unknown":
        return "unknown"
    if not reasons and _has_succeeded(about):
        return "well"
    return "warning" if reasons or _how_it_ends(about) else placement


def _is_scaled_to_zero(about: Subject) -> bool:
    """Return whether the requested workload has 0 replicas and no pods."""
    status = about.index.workload_statuses.get(about.ref)
    return status is not None and status.replicas == 0 and not about.gangs


def _has_ended(about: Subject) -> bool:
    """Return whether the requested workload has ended, by its status or an event."""
    status = status_of(about.index, about.ref) if about.ref.kind in _WORKLOADS else None
    return status is not None and bool(status.ended)


def _has_succeeded(about: Subject) -> bool:
    """Return whether the requested pod or workload, or all its pods, ended without a failure."""
    index = about.index
    status = status_of(index, about.ref) if about.ref.kind in _WORKLOADS else None
    if status and status.ended:
        return status.ended != FAILED
    itself = index.pods.get(about.ref.key) if about.ref.kind == Pod.kind else None
    pods = [itself] if itself else index.pods_made_for.get(about.ref, ())
    return bool(pods) and all(pod.phase == "Succeeded" and pod.deleting is None for pod in pods)


def _how_it_ends(about: Subject) -> str:
    """Return how the requested object has ended or is being deleted, or ""."""
    if about.ref.kind in _WORKLOADS:
        return _how_workload_ends(about)
    if about.ref.kind in USED:
        return _how_used_ends(about.index, about.ref)
    if about.ref.kind != "Pod":
        return ""
    pod = about.index.pods.get(about.ref.key)
    if not pod:
        return ""
    # KubeletRefuses quotes a kubelet's own message.
    why = f": {one_line(pod.disrupted)}" if pod.disrupted and not pod.failure else ""
    container, how = pod.ended
    if container and not (why or pod.failure):
        why = f": container {container} ended: {how}"
    if pod.deleting is not None:
        held_by = f", blocked by {finalizers_of(pod.finalizers)}" if pod.finalizers else ""
        return f"is being deleted{held_by}{why}"
    return f"has ended ({pod.phase}){why}" if pod.finished else ""


def _how_used_ends(index: Index, ref: Ref) -> str:
    """Return that a claim or ComputeDomain is being deleted, and which pods keep it, or ""."""
    claim = index.claims.get(ref.key)
    domain = index.compute_domains.get(ref.key)
    users: list[Pod] = []
    if ref.kind == "ResourceClaim" and claim and claim.deleting is not None:
        named = (pod_of_consumer(index, claim, user) for user in claim.consumers)
        users = [pod for pod in named if pod]
    elif ref.kind == "ComputeDomain" and domain and domain.held_by:
        pods = (pod for pod in index.facts.pods if pod.namespace == domain.namespace)
        users = [
            pod for pod in pods if any(each.template == domain.template for each in pod.claims)
        ]
    else:
        return ""
    if not users:
        return "is being deleted"
    waits_for = listed(_leaving_words(index, pod) for pod in sorted(users, key=attrgetter("name")))
    return f"is being deleted, and kept until these pods have ended: {waits_for}"


def _leaving_words(index: Index, pod: Pod) -> str:
    """Return the name of a pod, and what keeps the pod if it is being deleted."""
    if pod.key in index.stuck_on_dead:
        return f"{pod.name} (terminating on {pod.node}, which must be repaired or deleted)"
    return f"{pod.name} (terminating)" if pod.deleting is not None else pod.name


def _how_workload_ends(about: Subject) -> str:
    """Return how a workload has ended, by its status or else by its pods, or "" if it has not."""
    now = about.index.facts.now
    status = status_of(about.index, about.ref)
    if status and status.ended:
        words = "has failed" if status.ended == FAILED else "has completed"
        return with_age(words, status.time, now)
    pods = about.index.pods_made_for.get(about.ref, ())
    if pods and all(pod.finished for pod in pods):
        phases = Counter(pod.phase for pod in pods)
        each = listed(f"{count} {phase}" for phase, count in sorted(phases.items()))
        return f"has no running or pending pods: {counted(pods, 'pod')} ended ({each})"
    return ""


def _missing_replicas(about: Subject) -> int:
    """Return how many replicas of a set have neither a PodClique nor a pod yet.

    Return 0 for objects other than sets, and if PodCliques or PodGangs were not read.
    """
    pcs = about.pcs
    index = about.index
    if not pcs or not about.is_set or {"cliques", "gangs"} & index.facts.unread:
        return 0
    made = {clique.place.replica for clique in index.cliques_of_set.get(pcs.key, ())}
    made |= {pod.place.replica for pod in index.pods_of_set.get(pcs.key, ())}
    return max(0, pcs.replicas - len(made))


def _replicas_to_come(about: Subject) -> int:
    """Return how many pods of a Deployment, StatefulSet or RayCluster with pods do not exist yet.

    Its status and its pods must both show that, because files may have only some of the pods.
    Otherwise, return 0.
    """
    index = about.index
    status = index.workload_statuses.get(about.ref)
    if not about.gangs or status is None or status.created is None or "pods" in index.facts.unread:
        return 0
    alive = [pod for pod in index.pods_made_for.get(about.ref, ()) if pod.is_alive]
    expected = sum(gang.whole.expected - len(gang.pods) for gang in about.gangs)
    return max(0, (status.replicas or 0) - max(status.created, len(alive)) - expected)


def _headline(about: Subject, of: Branch, state: State, *, to_come: int, is_looked_at: bool) -> str:
    """Return the answer in one line. `to_come` is the number of pods to be created later.

    `is_looked_at` is false if the constraints of placed pods were not checked.
    """
    name = about.ref.name
    if of.total is None:
        return f"It is not known whether {name} is placed"
    if not of.total and not about.gangs and not about.pcs:
        return _headline_without_pods(about)
    if not of.total and about.pcs and about.is_set:
        return _headline_of_empty_set(about, about.pcs, of)

    since = _asked_since(about)
    pods = _pods_words(about, of, to_come)
    is_alone = about.ref.kind == Pod.kind and [gang.ref for gang in about.gangs] == [about.ref]
    how_many = "" if is_alone and not to_come else f": {pods}"
    ends = _how_it_ends(about)
    if ends:
        is_gang = all(gang.ref == about.ref for gang in about.gangs)
        is_whole = is_gang or about.ref.kind in _WORKLOADS
        return f"{name} {ends}" if is_whole else f"{name} {ends}; {pods}"
    if state == "well" and not is_looked_at:
        return f"{name} is placed{how_many}; its constraints were not checked"

    words = {
        "waits": f"{name} is pending{how_many}{since}",
        "well": f"{name} is placed as requested{how_many}",
        "warning": f"{name} is placed, with remarks{how_many}",
        "problem": f"{name} is placed, with problems{how_many}",
        "unknown": f"{name}: {pods}; it is not known whether its constraints hold",
    }
    return words[state]


def _headline_without_pods(about: Subject) -> str:
    """Return the headline of an object outside PodCliqueSets without gangs."""
    name = about.ref.name
    if _has_ended(about):
        return f"{name} {_how_it_ends(about)}"
    if _is_scaled_to_zero(about):
        lacks = "parallelism 0" if about.ref.kind == JOB.kind else "no replicas"
        return f"{name} has {lacks}, so there is nothing to place"
    if "pods" in about.index.facts.unread:
        has = f"a pod uses {name}" if about.ref.kind in USED else f"{name} has pods"
        return f"It is not known whether {has}"
    if about.ref.kind in USED:
        return f"No pod uses {name}{_what_makes_ready(about)}"
    return f"{name} is pending: it has no pods yet"


def _headline_of_empty_set(about: Subject, pcs: SetWithStatus, tree: Branch) -> str:
    """Return the headline of a PodCliqueSet that has no pods and whose existing parts need none."""
    if not pcs.replicas:
        return f"{pcs.name} has no replicas, so there is nothing to place"
    if not about.index.facts.unread.isdisjoint(("pods", "cliques", "gangs")):
        return f"It is not known whether {pcs.name} has pods"
    missing = "it has no pods" if tree.children else "none of its objects exist"
    if pcs.deleted_at is not None:
        return f"{pcs.name} is being deleted: {missing} any more"
    return f"{pcs.name} is pending: {missing} yet{_asked_since(about)}"


def _what_makes_ready(about: Subject) -> str:
    """Return how the nodes of a ComputeDomain without pods become ready, or "" if not known."""
    domain = about.index.compute_domains.get(about.ref.key)
    if about.ref.kind != "ComputeDomain" or not domain or not domain.template:
        return ""
    if domain.held_by:
        keep = "keeps" if len(domain.held_by) == 1 else "keep"
        words = f". It is being deleted, and {finalizers_of(domain.held_by)} {keep} it"
        return (
            f"{words}. If it stays, ask the platform team to read the log of NVIDIA's"
            " compute-domain controller"
        )
    pods = f"pods with ResourceClaimTemplate {domain.template}"
    return f"; nodes become ready when {pods} are bound to them"


def _pods_words(about: Subject, of: Branch, to_come: int) -> str:
    """Return how many pods are placed, and how many pods or replicas are not created yet."""
    of_gang = " of its set"
    if about.gangs:
        of_gang = " of its gangs" if len(about.gangs) > 1 else " of its gang"
    if about.ref.kind in _WHOLE:
        of_gang = ""
    pods = f"{of.placed} of {counted(of.total or 0, 'pod')}{of_gang} placed"

    if to_come:
        return f"{pods}, {counted(to_come, 'pod')} not created yet"
    missing = _missing_replicas(about)
    if about.pcs and missing:
        return f"{pods}, {missing} of {counted(about.pcs.replicas, 'replica')} not created yet"
    return pods


def _asked_since(about: Subject) -> str:
    asked = _asked_at(about)
    now = about.index.facts.now
    return f", requested {ago(now - asked)} ago" if asked is not None and now else ""


def _asked_at(about: Subject) -> float | None:
    times = [gang.pod_gang.created for gang in about.gangs if gang.pod_gang]
    times += [pod.created for gang in about.gangs for pod in gang.pods if not gang.pod_gang]
    known = [time for time in times if time is not None]
    return min(known, default=about.pcs.created if about.pcs else None)
