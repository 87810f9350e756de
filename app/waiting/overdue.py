"""Find the gangs that have been pending for too long, and the first reason for each."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import field

from app.base.value import Value
from app.explain.gangs.assembly import gang_to_come, gangs_of_pods, gangs_of_set
from app.explain.gangs.gang import Gang
from app.explain.reasons.messages import words_of_kai
from app.explain.reasons.queue_order import ALONE
from app.explain.reasons.reason import Reason, Who
from app.explain.reasons.table import EFFECTS, POSITIONS, examine
from app.explain.state.index import Index
from app.facts.identity import Key, Ref
from app.facts.kubernetes.pod import Pod
from app.facts.labels import KAI_SCHEDULER

_AGE = re.compile(
    r", there for [0-9]{1,9} [a-z]{1,9}| \((?:created )?[0-9]{1,9} [a-z]{1,9} ago\)"
    r"| for (?:another |at least |up to )?[0-9]{1,9} (?:second|minute|hour|day)s?\b"
    r"|\AFor [0-9]{1,9} (?:second|minute|hour|day)s?,? "
    r"|(?:, last)? [0-9]{1,9} (?:second|minute|hour|day)s? ago\b"
    r"|, although the PodGroup is [0-9]{1,9} [a-z]{1,9} old"
)
"""Matches the ages in the texts of reasons."""

UNEXPLAINED = "Unexplained"
"""The reason if all reasons of the table were checked and none applies."""
NOT_KNOWN = "NotKnown"
"""The reason if none applies, but some could not be checked.

It is only counted in metrics, and not reported.
"""

MOST_MESSAGE = 1000
"""The maximum length of a message, in characters."""

_ORDER = {id: (id in EFFECTS, position) for id, position in POSITIONS.items()}
_LAST = (True, max(POSITIONS.values()) + 1)
_HELPERS: Mapping[Who, str] = {
    "you": " (the owner of the workload can do that)",
    "platform": " (the platform team can do that)",
    "wait": "",
}


class Blocked(Value):
    """A gang or a workload that has been pending for too long, and the first reason."""

    ref: Ref
    """The object that stands for the gang, or the workload itself."""
    since: float
    """The time at which it became pending, in seconds since 1970."""
    reason: str
    """The id of a reason of the table, UNEXPLAINED or NOT_KNOWN."""
    message: str
    """The reason as text for people."""
    who: str
    """The party that can act (a `Who`), or "" if it is not known."""
    queue: str
    """The name of the gang's KAI queue, or "" if it has no PodGroup or there is no such queue."""


class Overdue(Value):
    """The gangs and workloads that have been pending for too long."""

    gangs: tuple[Blocked, ...] = ()
    """The gangs that have been pending for too long."""
    workloads: tuple[Blocked, ...] = ()
    """The workloads of `gangs`, longest pending first."""
    next_at: float | None = None
    """When the next gang will have been pending for too long, in seconds since 1970.

    None if all pending gangs are in `gangs`.
    """
    first_seen: Mapping[Ref, float] = field(default_factory=dict)
    """The times at which gangs without pending pods were first seen, in seconds since 1970."""


def overdue(
    index: Index, after: float, first_seen: Mapping[Ref, float], told: Collection[Ref] = frozenset()
) -> Overdue:
    """Return the gangs that have been pending for at least `after` seconds.

    `first_seen` comes from the previous result. `told` are the workloads that have been reported,
    perhaps by an earlier leader. Their gangs without pending pods are included at once, although
    this leader does not know since when they have been pending.
    """
    now = index.facts.now
    seen: dict[Ref, float] = {}
    gangs: list[Blocked] = []
    of_workload: dict[Ref, list[Blocked]] = {}
    next_at: float | None = None

    for gang, workload in waiting_gangs(index):
        # a second earlier, so that rounding can't make a reported gang too young
        first = now - after - 1 if workload in told else now
        since = _since(gang, first_seen, seen, first)
        if now - since < after:
            next_at = min(since + after, next_at or since + after)
            continue
        blocked = _blocked(gang, since)
        gangs.append(blocked)
        of_workload.setdefault(workload, []).append(blocked)

    workloads = (_of_workload(ref, own) for ref, own in of_workload.items())
    in_order = sorted(workloads, key=lambda blocked: (blocked.since, blocked.ref))
    return Overdue(tuple(gangs), tuple(in_order), next_at, seen)


def waiting_gangs(index: Index) -> Iterator[tuple[Gang, Ref]]:
    """Yield the gangs that have pods without a node, or too few pods, each with its workload.

    A PodCliqueSet with replicas but without PodGangs is one gang. Outside PodCliqueSets, only gangs
    that KAI schedules and that have a pod without a node count.
    """
    pods = list(filter(_waits, index.facts.pods))
    sets = {(pod.namespace, pod.place.pcs) for pod in pods} | set(_incomplete(index))
    for key in sorted(sets):
        pcs = index.sets.get(key)
        if not pcs:
            continue
        gangs = gangs_of_set(index, pcs)
        if not gangs and pcs.replicas:
            yield gang_to_come(index, pcs), pcs.ref
        yield from ((gang, pcs.ref) for gang in gangs if gang.waits)

    others = [pod for pod in pods if (pod.namespace, pod.place.pcs) not in index.sets]
    yield from _without_set(index, others)


def _waits(pod: Pod) -> bool:
    return not pod.node and pod.is_alive


def _incomplete(index: Index) -> Iterator[Key]:
    """Yield the keys of sets without PodGangs, and of sets with PodCliques that lack pods."""
    for pcs in index.facts.sets:
        if not index.gangs_of_set.get(pcs.key):
            yield pcs.key
    for clique in index.facts.cliques:
        if len(index.pods_of_clique(clique.namespace, clique.name)) < clique.replicas:
            yield clique.namespace, clique.place.pcs


def _without_set(index: Index, pods: Iterable[Pod]) -> Iterator[tuple[Gang, Ref]]:
    """Yield the gangs of `pods` that KAI schedules, each with its workload.

    A KAI PodGroup is one gang, and so is each pod without a PodGroup.
    """
    of_kai = (
        pod
        for pod in pods
        if pod.scheduler == KAI_SCHEDULER or (pod.namespace, pod.group) in index.pod_groups
    )
    for gang, pod in gangs_of_pods(index, of_kai):
        yield gang, workload_of(index, pod, gang.ref)


def workload_of(index: Index, pod: Pod, alone: Ref) -> Ref:
    """Return the existing PodCliqueSet or Workload that a pod names, otherwise `alone`."""
    pcs = index.sets.get((pod.namespace, pod.place.pcs))
    if pcs:
        return pcs.ref
    key = index.workload_of(pod)
    return Ref("Workload", *key) if key in index.workloads else alone


def _since(
    gang: Gang, first_seen: Mapping[Ref, float], seen: dict[Ref, float], first: float
) -> float:
    """Return when `gang` became pending, in seconds since 1970.

    This is the creation time of the gang's oldest pending pod. For a gang without pending pods, it
    is the time in `first_seen`, or else `first`, and is also added to `seen`.
    """
    times = [pod.created for pod in gang.waiting if pod.created is not None]
    if times:
        return min(times)
    seen[gang.ref] = first_seen.get(gang.ref, first)
    return seen[gang.ref]


def _blocked(gang: Gang, since: float) -> Blocked:
    """Return `gang` with the first problem that applies, or else UNEXPLAINED or NOT_KNOWN."""
    examined = examine([gang])
    said = words_of_kai(gang)
    words = f" KAI says: {said}" if said else ""
    why = (UNEXPLAINED, f"Nothing we check is blocking it.{words}", "")
    if examined.problems:
        first = examined.problems[0]
        why = (first.id, message(first), first.who)
    elif examined.unknown:
        needs = sorted({need for unknown in examined.unknown for need in unknown.needs})
        why = (NOT_KNOWN, f"Facts are missing: {', '.join(needs)}", "")

    queue = gang.pod_group.queue if gang.pod_group else ""
    # anybody can name a queue that does not exist, and the name may have any length
    return Blocked(gang.ref, since, *why, queue if queue in gang.index.queues else "")


def message(reason: Reason) -> str:
    """Return `reason` as text for people: what blocks the gang, the remedy, and who can act.

    Ages and the names of gangs ahead of this gang are left out, because they would soon be wrong.
    """
    words, remedy = reason.text, reason.remedy
    if reason.id == "AfterOthers" and reason.who == "wait":
        words, remedy = ALONE, "Wait: other gangs are ahead of it in KAI's order"
    fix = "" if remedy.startswith("Wait") else "Fix: "
    text = f"{words}. {fix}{remedy}{_HELPERS[reason.who]}"
    text = _AGE.sub("", text)
    return text if len(text) <= MOST_MESSAGE else f"{text[: MOST_MESSAGE - 1]}…"


def _of_workload(ref: Ref, gangs: list[Blocked]) -> Blocked:
    """Return a workload with the reason of its `gangs` that comes first in the table.

    The workload has been pending for as long as the gang that has been pending longest.
    """
    in_order = sorted(gangs, key=lambda blocked: (blocked.since, blocked.ref))
    first = min(in_order, key=lambda blocked: _ORDER.get(blocked.reason, _LAST))
    return Blocked(ref, in_order[0].since, first.reason, first.message, first.who, first.queue)
