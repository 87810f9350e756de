"""Find the gangs that need a place: gangs that must move, and pending gangs."""

from collections.abc import Callable, Iterable, Iterator
from math import inf

from app.base.value import Value
from app.explain.answers.pending import workloads
from app.explain.answers.whatif.edited_snapshot import EditedSnapshot, set_ref
from app.explain.gangs.assembly import gang_of_pod, gang_of_pod_group, gangs_of_set
from app.explain.gangs.gang import Gang
from app.explain.gangs.planned import planned
from app.explain.queue_order.cycle import line_of
from app.explain.state.amounts import is_device
from app.explain.state.index import Index
from app.explain.state.queues import priority_of
from app.explain.state.snapshot import key_of
from app.facts.identity import Key, Ref
from app.facts.kinds import POD_CLIQUE_SET
from app.facts.kubernetes.pod import Pod
from app.objects.resource import POD

MOST_ALONE = 500
"""The maximum number of pods without a gang that are examined, as each takes as long as a gang.

It applies separately to pods that must move and to pending pods.
"""


Look = Callable[[Ref, Iterable[Gang]], None]
"""A function that gets each workload with its gangs."""


class GangToPlace(Value, dict=True):
    """A gang that must move, or that is pending."""

    gang: Gang
    workload: Ref
    """The PodCliqueSet, PodGroup or Pod to which the gang belongs."""
    lost: frozenset[Key] = frozenset()
    """Its pods that must leave their nodes. Empty for a pending gang."""

    @property
    def rank(self) -> tuple[float, int, float, Ref]:
        """Its sort key: its position in KAI's order, then priority and age.

        Gangs that must move have no position, so they are sorted by priority and age.
        """
        gang = self.gang
        turn = line_of(gang.index).get(gang.ref)
        if gang.pod_group:
            priority = priority_of(gang.index, gang.pod_group.priority_class)
        else:
            priority = max((pod.priority for pod in gang.pods), default=0)
        times = [pod.created for pod in gang.pods if pod.created is not None]
        order = turn.order if turn and not self.lost else inf
        return order, -priority, min(times, default=inf), gang.ref


def gangs_of(index: Index, workload: Ref) -> tuple[Gang, ...]:
    """Return the gangs of a PodCliqueSet, a PodGroup or a pod, or () if that doesn't exist."""
    key = workload.key
    if workload.kind == POD_CLIQUE_SET.kind:
        return gangs_of_set(index, index.sets[key]) if key in index.sets else ()
    if workload.kind == POD.kind:
        return (gang_of_pod(index, index.pods[key]),) if key in index.pods else ()
    return (gang_of_pod_group(index, index.pod_groups[key]),) if key in index.pod_groups else ()


def gangs_in(index: Index, look: Look) -> Iterator[tuple[Gang, Ref]]:
    """Yield all gangs with their workloads, and call `look` for each PodCliqueSet and PodGroup.

    Pods without a gang are yielded only if they request a device, because other pods hardly take
    room from gangs.
    """
    for workload in workloads(index):
        gangs = gangs_of(index, workload)
        look(workload, gangs)
        yield from ((gang, workload) for gang in gangs)

    for pod in sorted(index.facts.pods, key=key_of):
        if is_alone(index, pod) and any(is_device(name) for name, _ in pod.shape.requests):
            yield gang_of_pod(index, pod), pod.ref


def waiting_of(index: Index, workloads: Iterable[Ref]) -> list[GangToPlace]:
    """Return the pending gangs of some workloads, in KAI's order."""
    pairs = ((gang, ref) for ref in workloads for gang in gangs_of(index, ref))
    candidates = (GangToPlace(gang, ref) for gang, ref in pairs if gang.waits)
    return sorted(candidates, key=lambda candidate: candidate.rank)


class Line(Value):
    """Gangs in order of their rank, including at most MOST_ALONE pods without a gang."""

    candidates: tuple[GangToPlace, ...]
    cut: int
    """The number of further pods without a gang, which are omitted."""


def _limited(candidates: Iterable[GangToPlace]) -> Line:
    in_order = sorted(candidates, key=lambda candidate: candidate.rank)
    alone = [candidate for candidate in in_order if candidate.workload.kind == "Pod"]
    left_out = {candidate.gang.ref for candidate in alone[MOST_ALONE:]}
    kept = tuple(candidate for candidate in in_order if candidate.gang.ref not in left_out)
    return Line(kept, len(left_out))


def is_alone(index: Index, pod: Pod) -> bool:
    """Return whether a pod is alive, and belongs to no existing PodCliqueSet or PodGroup.

    KAI's helper pods do not count, because KAI deletes them by itself.
    """
    if not pod.is_alive or pod.is_helper:
        return False
    namespace = pod.namespace
    is_of_set = (namespace, pod.place.pcs) in index.sets
    return not is_of_set and (namespace, pod.group) not in index.pod_groups


def gangs_to_place(index: Index, edited: EditedSnapshot, look: Look) -> tuple[Line, Line]:
    """Return the gangs that must move, and the pending gangs, both sorted by rank.

    The gangs of applied PodCliqueSets count as pending. `look` is called with each PodCliqueSet and
    PodGroup and its gangs, because building the gangs again would take long.
    """
    made = set(map(set_ref, edited.made))
    moving = []
    waiting = []
    for gang, workload in gangs_in(index, look):
        lost = frozenset(pod.key for pod in gang.pods if pod.key in edited.moved)
        if lost:
            moving.append(GangToPlace(gang, workload, lost))
        elif gang.waits and workload not in made:
            waiting.append(GangToPlace(gang, workload))

    for document in edited.made:
        workload = set_ref(document)
        waiting += [GangToPlace(gang, workload) for gang in planned(index, document)]
    return _limited(moving), _limited(waiting)
