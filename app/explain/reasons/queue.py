"""Reasons in KAI's queues, and in what KAI itself says of a PodGroup."""

from collections.abc import Iterator

from app.explain.facts.kai import KaiPodGroup, Queue, Said
from app.explain.gang import Gang
from app.explain.index import Index
from app.explain.reason import Evidence, Reason
from app.explain.words import amount, clock, gpus_of, listed, plain

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
    group = gang.pod_group
    if group is None or not group.queue:
        return
    queue = gang.index.queues.get(group.queue)
    if queue is not None and queue.parent:
        return
    leaves = {queue.name for queue in gang.index.facts.queues if queue.parent}
    leaves -= {queue.parent for queue in gang.index.facts.queues}
    usable = f"there are {listed(sorted(leaves))}" if leaves else "there is no queue with a parent"
    if queue is None:
        text = f"Queue {group.queue} does not exist; {usable}"
    else:
        text = (
            f"Queue {group.queue} has no parent, and KAI places nothing in such a queue; {usable}"
        )
    evidence = (Evidence(group.ref, "spec.queue", group.queue),)
    remedy = "set the label kai.scheduler/queue of the workload to one of them"
    yield Reason(
        "QueueMissing",
        (group.ref,),
        text,
        remedy,
        "you",
        evidence,
    )


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
    group = gang.pod_group
    said = _said(gang, "NonPreemptibleOverQuota")
    if group is None or said is None:
        return
    remedy = "make the workload preemptible, or use another queue"
    quota = gpus_of(said.quota)
    used = gpus_of(said.allocated)
    name = said.queue or group.queue
    if not quota and name in gang.index.queues:
        queue = gang.index.queues[name]
        quota = queue.quota or 0
        used = queue.allocated_fixed
    if not quota:
        yield _as_said(group, said, "QueueQuota", remedy)
        return
    text = (
        f"The workload is not preemptible and so bound to the quota of queue {name}:"
        f" {amount('/gpu', quota)}, {plain(used)} used"
    )
    evidence = (Evidence(group.ref, CONDITION, said.reason),)
    yield Reason(
        "QueueQuota",
        (group.ref,),
        text,
        remedy,
        "you",
        evidence,
    )


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
