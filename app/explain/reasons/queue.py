"""Reasons in KAI's queues, and in what KAI itself says of a PodGroup."""

from collections.abc import Iterator

from app.explain.gang import Gang
from app.explain.index import Index
from app.explain.reason import Evidence, Reason
from app.explain.reasons.evictable import group_is_preemptible
from app.explain.words import amount, clock, gpus_of, listed, plain
from app.facts.kai.podgroup import KaiPodGroup, Said
from app.facts.kai.queue import Queue

CONDITION = "status.schedulingConditions[UnschedulableOnNodePool].reasons[]"


def _said(gang: Gang, reason: str) -> Said | None:
    group = gang.pod_group
    return next((said for said in group.said if said.reason == reason), None) if group else None


def chain(index: Index, name: str) -> Iterator[Queue]:
    """A queue and those above it, up to the root; a cycle ends where it closes."""
    seen: set[str] = set()
    while name in index.queues and name not in seen:
        seen.add(name)
        yield index.queues[name]
        name = index.queues[name].parent


def queue_missing(gang: Gang) -> Iterator[Reason]:
    """KAI places nothing in a queue that is not a leaf below a queue that exists."""
    group = gang.pod_group
    if group is None or not group.queue:
        return

    parents = {queue.parent for queue in gang.index.facts.queues}
    leaves = sorted(
        queue.name
        for queue in gang.index.facts.queues
        if queue.parent and queue.name not in parents and _is_whole(gang.index, queue)
    )
    wrong = _wrong_with(gang.index, group.queue, parents)
    if wrong:
        usable = f"there are {listed(leaves)}" if leaves else "there is no queue with a parent"
        evidence = (Evidence(group.ref, "spec.queue", group.queue),)
        remedy = "set the label kai.scheduler/queue of the workload to one of them"
        text = f"Queue {group.queue} {wrong}; {usable}"
        yield Reason("QueueMissing", (group.ref,), text, remedy, "you", evidence)


def _wrong_with(index: Index, name: str, parents: set[str]) -> str:
    """Why KAI places nothing in a queue; "" if it does."""
    queue = index.queues.get(name)
    if queue is None:
        return "does not exist"
    if not queue.parent:
        return "has no parent, and KAI places nothing in such a queue"
    if not _is_whole(index, queue):
        last = list(chain(index, name))[-1]
        return f"is below {last.parent}, which does not exist: KAI ignores it"
    if name in parents:
        return "has queues below it, and KAI places nothing in such a queue"
    return ""


def _is_whole(index: Index, queue: Queue) -> bool:
    """Whether all queues above it exist."""
    return not list(chain(index, queue.name))[-1].parent


def queue_limit(gang: Gang) -> Iterator[Reason]:
    """KAI's word for it, or the sum of what is allocated and asked, in the queue or one above
    it.
    """
    group = gang.pod_group
    said = _said(gang, "OverLimit")
    if group is None:
        return

    asked = asked_gpus(gang)
    remedy = "wait, ask for less, or have the limit raised"
    for queue in chain(gang.index, group.queue):
        if queue.limit is not None and asked and queue.allocated + asked > queue.limit:
            if asked > queue.limit:
                remedy = "ask for less, or have the limit raised"
            numbers = f"{plain(queue.allocated)} used, {plain(asked)} asked"
            text = f"Queue {queue.name}: limit {amount('/gpu', queue.limit)}, {numbers}"
            evidence = (
                Evidence(queue.ref, "spec.resources.gpu.limit", plain(queue.limit)),
                Evidence(queue.ref, "status.allocated", plain(queue.allocated)),
            )
            yield Reason(
                "QueueLimit",
                (queue.ref,),
                text,
                remedy,
                "you",
                evidence,
            )
            return

    if said is not None:
        yield _as_said(group, said, "QueueLimit", remedy)


def asked_gpus(gang: Gang) -> int:
    """What the gang still asks for, in thousandths of a GPU."""
    return sum(gpus_of(dict(shape.requests)) * count for shape, count in gang.places.demand.shapes)


def queue_quota(gang: Gang) -> Iterator[Reason]:
    """What is not preemptible is bound to the quota of its queue, and of those above it."""
    group = gang.pod_group
    if group is None:
        return
    said = _said(gang, "NonPreemptibleOverQuota")
    over = _over_quota(gang, group)
    if over is None and said is not None and gpus_of(said.quota):
        over = said.queue or group.queue, gpus_of(said.quota), gpus_of(said.allocated)
    if over is None and said is not None:
        over = _known_quota(gang, said.queue or group.queue)

    remedy = "make the workload preemptible, or use another queue"
    if over is not None:
        name, quota, used = over
        text = (
            f"The workload is not preemptible and so bound to the quota of queue {name}:"
            f" {amount('/gpu', quota)}, {plain(used)} used"
        )
        evidence = (Evidence(group.ref, CONDITION, said.reason if said is not None else name),)
        yield Reason("QueueQuota", (group.ref,), text, remedy, "you", evidence)
    elif said is not None:
        yield _as_said(group, said, "QueueQuota", remedy)


def _over_quota(gang: Gang, group: KaiPodGroup) -> tuple[str, int, int] | None:
    """(name, quota, used) of the first queue whose quota the gang would exceed, if it counts."""
    facts = gang.index.facts
    asked = asked_gpus(gang)
    if {"priorities", "queues"} & (facts.unseen.keys() | facts.skipped) or not asked:
        return None
    if group_is_preemptible(gang.index, group):
        return None
    for queue in chain(gang.index, group.queue):
        if queue.quota is not None and queue.allocated_fixed + asked > queue.quota:
            return queue.name, queue.quota, queue.allocated_fixed
    return None


def _known_quota(gang: Gang, name: str) -> tuple[str, int, int] | None:
    queue = gang.index.queues.get(name)
    if queue is None or not queue.quota:
        return None
    return name, queue.quota, queue.allocated_fixed


def fair_share(gang: Gang) -> Iterator[Reason]:
    """The queue is promised what the gang asks for, and a sibling holds more than its own
    promise.
    """
    group = gang.pod_group
    if group is None or gang.places.now.fits:
        return

    asked = asked_gpus(gang)
    for queue in chain(gang.index, group.queue):
        if queue.quota is None or not asked or queue.allocated + asked > queue.quota:
            continue
        siblings = [
            other
            for other in gang.index.facts.queues
            if other.parent == queue.parent and other != queue
        ]
        over = sorted(
            (
                other
                for other in siblings
                if other.quota is not None and other.allocated > other.quota
            ),
            key=lambda other: (-(other.allocated - (other.quota or 0)), other.name),
        )
        if over:
            holds = (
                f"{other.name} holds {plain(other.allocated)} of its {plain(other.quota or 0)}"
                for other in over
            )
            text = (
                f"{listed(holds)} GPUs; {queue.name} has {plain(queue.allocated)} of its"
                f" {plain(queue.quota)}"
            )
            evidence = tuple(
                Evidence(other.ref, "status.allocated", plain(other.allocated)) for other in over
            )
            remedy = (
                "wait: KAI reclaims them; if it takes long, see preemptionDelay and minimum"
                " runtimes of the queues"
            )
            yield Reason(
                "FairShare", tuple(other.ref for other in over), text, remedy, "wait", evidence
            )
            return


def preemption_delay(gang: Gang) -> Iterator[Reason]:
    group = gang.pod_group
    said = _said(gang, "PreemptionDelayNotElapsed")
    if group is None or said is None:
        return

    since = max((time for time in (group.created, group.evicted) if time is not None), default=None)
    when = clock(since + group.delay) if since is not None and group.delay else ""
    if since is not None and group.delay and since + group.delay <= gang.index.facts.now:
        return

    text = f"May push others out from {when} on" if when else "May not push others out yet"
    evidence = (Evidence(group.ref, CONDITION, said.reason),)
    yield Reason(
        "PreemptionDelay",
        (group.ref,),
        text,
        "wait",
        "wait",
        evidence,
    )


def _as_said(
    group: KaiPodGroup,
    said: Said,
    reason: str,
    remedy: str,
) -> Reason:
    """KAI's own words, if they have no numbers that could be put better."""
    evidence = (Evidence(group.ref, CONDITION, said.reason),)
    return Reason(
        reason, (group.ref,), f"KAI says: {said.message or said.reason}", remedy, "you", evidence
    )
