"""List workloads: one row for each, pending workloads first, in KAI's order.

A workload is one of these, whichever scheduler places its pods:

- a PodCliqueSet
- a KAI PodGroup that no PodGang owns and that has live pods, none of them of a PodCliqueSet
- the outermost workload of other pods with GPUs or claims that are pending or do not start on their
  node; without such a workload, the pod itself
- a LeaderWorkerSet whose leader waits for its workers
- a workload that has no pods because Kueue holds it, or because its controller can't create them

Other pending pods, such as pods without GPUs and claims, are in no row.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import inf

from msgspec.structs import replace

from app.base.groups import by_key
from app.base.value import Value
from app.explain.answers.answer import Answer, explain
from app.explain.answers.branch import State
from app.explain.answers.positions import InLine
from app.explain.reasons.pod_starts import MOST_STARTING
from app.explain.reasons.reason import Who
from app.explain.reasons.startup_order import workers_to_come
from app.explain.state.amounts import counts_as_gpu
from app.explain.state.index import Index
from app.explain.state.makers import without_pods
from app.explain.state.snapshot import Snapshot, key_of
from app.facts.grove.podcliqueset import SetWithStatus
from app.facts.identity import Ref
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kubernetes.pod import Pod
from app.facts.rows import ROOM

_ORDER: dict[State, int] = {"waits": 0, "problem": 1, "unknown": 2, "warning": 3, "well": 4}


class WorkloadRow(Value):
    """One workload in the list, with its first reason."""

    ref: Ref
    state: State
    since: float | None
    """When it was requested, in seconds since 1970, or None if that is not known."""
    placed: int | None
    """How many of the `total` pods have a node, or None if that is not known."""
    total: int | None
    """The number of its pods, including missing ones, or None if that is not known."""
    reason: str = ""
    """The text of the first reason.

    Without a reason, it is the prediction, a message of KAI, or a text that says that the cause is
    not known. It is "" for a placed workload without reasons.
    """
    id: str = ""
    """The id of the first reason, or "" if none is known."""
    who: Who | str = ""
    """The party that can act on the first reason, or "" if none is known."""
    remedy: str = ""
    """The remedy for the first reason."""
    commands: tuple[str, ...] = ()
    """The commands of the remedy."""
    actors: frozenset[Who] = frozenset()
    """The parties that can act on at least one of its reasons."""
    more: int = 0
    """The number of further reasons, or of further messages of KAI if `reason` is a message."""
    line: tuple[InLine, ...] = ()
    """The positions of its gangs in KAI's order."""

    @property
    def turn(self) -> InLine | None:
        """Its first position in KAI's order, or None if it has none."""
        return next(iter(self.line), None)


def workloads(index: Index, namespaces: Collection[str] = ()) -> list[Ref]:
    """Return the PodCliqueSets, and the KAI PodGroups that belong to no PodGang and no set.

    PodGroups without live pods are left out. The list is sorted. Without `namespaces`, it has the
    workloads of all namespaces.
    """
    gangs = {(gang.namespace, gang.uid) for gang in index.facts.gangs if gang.uid}
    refs = [pcs.ref for pcs in index.facts.sets]
    refs += [
        group.ref
        for group in index.facts.pod_groups
        if gangs.isdisjoint((group.namespace, uid) for uid in group.owners)
        and _stands_alone(index, group)
    ]
    return sorted(ref for ref in refs if not namespaces or ref.namespace in namespaces)


def waiting_alone(index: Index, namespaces: Collection[str] = ()) -> Mapping[Ref, Sequence[Pod]]:
    """Return the pods that `_waits_alone` selects, by the object of their row.

    The object is the outermost workload that the pods were created for, or else the pod itself.
    Without `namespaces`, the pods of all namespaces are returned.
    """
    pods = (pod for pod in index.facts.pods if not namespaces or pod.namespace in namespaces)
    return by_key((_made_for(pod), pod) for pod in pods if _waits_alone(index, pod))


def waiting_without_pods(index: Index, namespaces: Collection[str] = ()) -> list[Ref]:
    """Return the workloads of `without_pods` in these namespaces, by default in all, sorted."""
    found = without_pods(index)
    return sorted(ref for ref in found if not namespaces or ref.namespace in namespaces)


def waiting_unlisted(rows: Iterable["WorkloadRow"], facts: Snapshot, namespace: str) -> list[Pod]:
    """Return the pending pods of a namespace that are in none of the rows, sorted.

    "" stands for all namespaces. KAI's helper pods and the daemons of ComputeDomains are left out.
    """
    listed = {row.ref for row in rows}
    pods = (
        pod
        for pod in facts.pods
        if pod.is_alive and not pod.node and namespace in ("", pod.namespace)
        if not (pod.is_helper or pod.daemon_of)
    )
    return sorted((pod for pod in pods if listed.isdisjoint(_rows_of(pod))), key=key_of)


def _rows_of(pod: Pod) -> Iterator[Ref]:
    """Yield the objects whose rows may contain a pod."""
    yield pod.ref
    yield from pod.made_for
    yield Ref("PodCliqueSet", pod.namespace, pod.place.pcs)
    yield Ref("PodGroup", pod.namespace, pod.group)


def _waits_alone(index: Index, pod: Pod) -> bool:
    """Return whether a pod belongs to the list, but to no row of a PodCliqueSet or PodGroup.

    A pod with GPUs or claims belongs to the list if it has no node or starts late. So does the
    leader of a LeaderWorkerSet that waits for workers. KAI's helper pods and the daemons of
    ComputeDomains never belong to it.
    """
    if not pod.is_alive or (pod.namespace, pod.place.pcs) in index.sets:
        return False
    if pod.is_helper or pod.daemon_of:
        return False
    leads = workers_to_come(index, pod) > 0
    if pod.node and not (leads or _starts_late(index, pod)):
        return False
    has_gpus = any(counts_as_gpu(name) for name, _ in pod.shape.requests) or bool(pod.claims)
    return (has_gpus or leads) and (pod.namespace, pod.group) not in index.pod_groups


def _starts_late(index: Index, pod: Pod) -> bool:
    return pod.bound is not None and index.facts.now - pod.bound > MOST_STARTING


def _made_for(pod: Pod) -> Ref:
    return pod.made_for[0] if pod.made_for else pod.ref


def _stands_alone(index: Index, group: KaiPodGroup) -> bool:
    """Return whether a PodGroup has live pods and none of them belongs to a PodCliqueSet."""
    pods = index.pods_of_group.get(group.key, ())
    alive = [pod for pod in pods if pod.is_alive]
    return bool(alive) and not any(pod.place.pcs for pod in alive)


def rows(index: Index, refs: Iterable[Ref]) -> list[WorkloadRow]:
    """Return the rows of some workloads: pending ones first, in KAI's order."""
    answers = filter(None, (explain(index, ref, folded=True) for ref in refs))
    return sorted((row_of(index, answer) for answer in answers), key=place)


def row_of(index: Index, answer: Answer) -> WorkloadRow:
    """Return the row of a workload that has been explained."""
    row = WorkloadRow(
        answer.ref,
        answer.state,
        _since(index, answer.ref),
        answer.placed,
        answer.total,
        line=answer.line,
    )
    if answer.causes:
        first = answer.causes[0]
        more = len(answer.reasons) - 1
        actors = frozenset(cause.who for cause in answer.causes)
        return replace(
            row,
            reason=first.text,
            id=first.id,
            who=first.who,
            remedy=first.remedy,
            commands=first.commands,
            actors=actors,
            more=more,
        )

    if any(own.next == "next" for own in answer.line) and not answer.unknown:
        return replace(row, reason="nothing blocks it now: KAI should place it next")
    if answer.said:
        return replace(row, reason=f"KAI says: {answer.said[0]}", more=len(answer.said) - 1)
    if answer.state == "waits":
        return replace(row, reason=_why_not_known(answer))

    return row


def _why_not_known(answer: Answer) -> str:
    if answer.unknown:
        return "not known: objects that decide it could not be read"
    if answer.lacks_room and {ROOM, "nodes", "pods"}.intersection(answer.lacking):
        return "room was not examined"
    if answer.skipped:
        return "not known: the files lack some kinds of objects"
    return "nothing we check is blocking it"


def _since(index: Index, ref: Ref) -> float | None:
    """Return when the first gang of a workload was created, or None if that is not known.

    For a PodGroup, or a PodCliqueSet without gangs, return its own creation time. For a workload
    that is known only from its pods, return the creation time of its first pod.
    """
    key = ref.key
    gangs = index.gangs_of_set.get(key, ()) if ref.kind == "PodCliqueSet" else ()
    times = [gang.created for gang in gangs if gang.created is not None]
    workload: SetWithStatus | KaiPodGroup | None = None
    if ref.kind == "PodCliqueSet":
        workload = index.sets.get(key)
    elif ref.kind == "PodGroup":
        workload = index.pod_groups.get(key)
    if workload is None:
        itself = index.pods.get(key) if ref.kind == Pod.kind else None
        of_it = [*index.pods_made_for.get(ref, ()), *filter(None, (itself,))]
        times += [pod.created for pod in of_it if pod.created is not None]
    return min(times, default=None if workload is None else workload.created)


def place(row: WorkloadRow) -> tuple[int, float, float, Ref]:
    """Return the sort key of a row.

    Pending workloads come first: those with a position in KAI's order, then the rest, oldest first.
    Other workloads follow by state and name.
    """
    since = row.since if row.state == "waits" and row.since is not None else inf
    return _ORDER[row.state], row.turn.order if row.turn else inf, since, row.ref
