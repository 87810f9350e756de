"""Reasons in KAI's queues, and in what KAI itself says of a PodGroup.

They look at what a gang asks of its queue and of those above it, whether they have it to give, and
whom KAI evicts. See `pkg/scheduler/actions/preempt` of KAI.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from app.base.groups import by_key
from app.base.value import Value
from app.explain.gangs.gang import Gang
from app.explain.known.amounts import gpus_of, requests
from app.explain.known.index import Index
from app.explain.known.queues import (
    SEMI_PREEMPTIBLE,
    chain,
    group_is_preemptible,
    priority_of,
    unusable_because,
)
from app.explain.line.cycle import line_of
from app.explain.placing.placements import Assumption
from app.explain.reasons.reason import (
    Evidence,
    Reason,
    Reasons,
    Who,
    about,
    ago,
    amount,
    counted,
    listed,
    plain,
)
from app.facts.kai.podgroup import KaiPodGroup, Said
from app.facts.kai.queue import Queue, Share
from app.facts.kubernetes.pod import Pod
from app.facts.labels import KAI_QUEUE

# Shares: what queues have to give, and whom KAI evicts.


class Excess(Value):
    """A bound of a queue that a gang would exceed, in thousandths of a resource."""

    queue: Queue
    resource: str
    bound: int
    used: int
    asked: int

    @property
    def words(self) -> str:
        """`8 GPUs, 2 used, 16 asked`."""
        used = _number(self.resource, self.used)
        asked = _number(self.resource, self.asked)
        return f"{amount(self.resource, self.bound)}, {used} used, {asked} asked"


def _number(resource: str, thousandths: int) -> str:
    return amount(resource, thousandths) if resource == "memory" else plain(thousandths)


def over_limits(gang: Gang, name: str, evicted: Iterable[Pod] = ()) -> Iterator[Excess]:
    """Yield the limits that the gang would exceed, in a queue or in one above it.

    Pods that are `evicted` from the queue don't count. Its status may lack some of them.
    """
    less = requests(evicted)

    def bound_of(resource: str, share: Share) -> tuple[int | None, int]:
        return share.limit, max(0, share.allocated - less.get(resource, 0))

    return _exceeded(gang, name, bound_of)


def over_quota(gang: Gang, name: str) -> Excess | None:
    """Return the first quota that the gang would exceed, if it is bound to quotas."""
    group = gang.pod_group
    surplus = group and group.preemptibility == SEMI_PREEMPTIBLE and gang.whole.is_satisfied
    if not group or surplus or group_is_preemptible(gang.index, group):
        return None
    return next(_exceeded(gang, name, lambda _, share: (share.quota, share.allocated_fixed)), None)


def _exceeded(
    gang: Gang, name: str, bound_of: Callable[[str, Share], tuple[int | None, int]]
) -> Iterator[Excess]:
    """Yield the bounds that the gang would exceed; `bound_of` gives each, and what is used."""
    for queue in chain(gang.index, name):
        for resource, share in queue.shares.items():
            bound, used = bound_of(resource, share)
            asked = gang.demand.asks(resource)
            if bound is not None and asked and used + asked > bound:
                yield Excess(queue, resource, bound, used, asked)


def use_words(index: Index, queue: Queue) -> str:
    """`used 16`, as the status of a queue says, unless pods show that it lacks them."""
    if queue.allocated or not _has_placed(index, queue.name):
        return f"used {plain(queue.allocated)}"
    return "use unknown"


def _has_placed(index: Index, name: str) -> bool:
    """Return whether a pod with GPUs is placed in a queue."""

    def look() -> bool:
        groups = (group.key for group in index.facts.pod_groups if group.queue == name)
        pods = (pod for group in groups for pod in index.pods_of_group.get(group, ()))
        return any(pod.node and gpus_of(dict(pod.shape.requests)) for pod in pods)

    return index.remembered(("placed in", name), look, of=("pod_groups", "pods"))


def losing_against(gang: Gang) -> list[Pod]:
    """Return the placed pods in the same queue that KAI evicts for a gang.

    There are none for a gang above the quota, or if the PriorityClasses are not known.
    """
    index = gang.index
    group = gang.pod_group
    unknown = "priorities" in index.facts.unseen.keys() | index.facts.skipped
    if not group or unknown or over_quota(gang, group.queue):
        return []
    own = priority_of(index, group.priority_class)
    return [
        pod
        for other in index.facts.pod_groups
        if other.queue == group.queue and priority_of(index, other.priority_class) < own
        for pod in _preemptible_pods(index, other)
    ]


def _reclaimed(index: Index, queue: str) -> Assumption:
    """Return the assumption that what KAI may evict in all other queues is gone."""

    def look() -> Assumption:
        groups = (group for group in index.facts.pod_groups if group.queue != queue)
        pods = (pod for group in groups for pod in _preemptible_pods(index, group))
        return Assumption(gone=frozenset(pod.key for pod in pods))

    return index.remembered(("reclaimed", queue), look)


def _preemptible_pods(index: Index, group: KaiPodGroup) -> list[Pod]:
    """Return the placed pods of a PodGroup that KAI evicts for others.

    Of a semi-preemptible one, these are the last of each part beyond its minimum. Whole SubGroups
    beyond `minSubGroup`, which KAI evicts too, are left out.
    """
    placed = [pod for pod in index.pods_of_group.get(group.key, ()) if pod.node]
    if group.preemptibility != SEMI_PREEMPTIBLE:
        return placed if group_is_preemptible(index, group) else []

    minima = {sub.name: sub.minimum for sub in group.subgroups}
    placed.sort(key=lambda pod: pod.created or 0.0)
    parts = by_key((pod.subgroup, pod) for pod in placed)
    return [pod for name, pods in parts.items() for pod in pods[minima.get(name, group.minimum) :]]


# Reasons.


_WORDS_OF_KAI = "status.schedulingConditions[UnschedulableOnNodePool].reasons[]"


def _said(gang: Gang, reason: str) -> Said | None:
    group = gang.pod_group
    return next((said for said in group.said if said.reason == reason), None) if group else None


def queue_missing(gang: Gang) -> Reasons:
    """KAI places nothing in a queue that is not a leaf below a queue that exists."""
    group = gang.pod_group
    if not group or not group.queue:
        return

    wrong = unusable_because(gang.index, group.queue)
    if wrong:
        names = sorted(queue.name for queue in gang.facts.queues)
        usable = [name for name in names if not unusable_because(gang.index, name)]
        others = f"there are {listed(usable)}" if usable else "there is no queue without others"
        evidence = Evidence(group.ref, "spec.queue", group.queue)
        remedy = f"set the label {KAI_QUEUE} of the workload to one of them"
        text = f"Queue {group.queue} {wrong}; {others}"
        yield about(evidence, "QueueMissing", text, remedy, "you")


def given_up(gang: Gang) -> Reasons:
    """KAI tries once to place the gang, as its PodGroup asks, and has no place for it then."""
    group = gang.pod_group
    turn = line_of(gang.index).get(gang.ref)
    if not group or not group.tries_once or not (group.given_up or (turn and not turn.used)):
        return

    text = f"KAI tries only once to place {group.name}: its schedulingBackoff is 1"
    evidence = Evidence(group.ref, "spec.schedulingBackoff", "1")
    patch = shlex.quote('{"spec":{"schedulingBackoff":-1}}')
    named = f"podgroups.scheduling.run.ai {shlex.quote(group.name)} -n {group.namespace}"
    commands = (f"kubectl patch {named} --type merge -p {patch}",)
    remedy = "let KAI try again in each cycle"
    yield about(evidence, "GivenUp", text, remedy, "you", commands=commands)


def queue_limit(gang: Gang) -> Reasons:
    """The queue, or one above it, has reached a limit: each that has.

    This is KAI's word for it, or the sum of what is allocated and asked. Until KAI says so, it may
    evict others to keep within the limit.
    """
    group = gang.pod_group
    if not group:
        return

    remedy = "ask for less, or have the limit raised"
    waiting = f"wait until others of the queue end, {remedy}"
    exceeded = list(over_limits(gang, group.queue))
    said = _said(gang, "OverLimit")
    if exceeded and not any((*lower_priority(gang), *fair_share(gang))):
        own = requests(gang.placed)
        for over in exceeded:
            alone = own.get(over.resource, 0) + over.asked
            yield _at_limit(over, "QueueLimit", remedy if alone > over.bound else waiting, "you")
    elif said:
        yield _as_said(group, said, "QueueLimit", waiting)


def lower_priority(gang: Gang) -> Reasons:
    """Pods in the gang's own queue hold what a limit leaves, and KAI may evict them for it.

    If KAI says that the limit is reached, it has tried.
    """
    group = gang.pod_group
    over = next(over_limits(gang, group.queue), None) if group else None
    if not group or not over or _said(gang, "OverLimit"):
        return

    losing = losing_against(gang)
    if not any(over_limits(gang, group.queue, losing)):
        yield _at_limit(over, "LowerPriority", evicting(losing), "wait")


def _at_limit(over: Excess, reason: str, remedy: str, who: Who) -> Reason:
    field = f"spec.resources.{over.resource.rpartition('/')[2]}.limit"
    evidence = Evidence(over.queue.ref, field, plain(over.bound))
    text = f"Queue {over.queue.name}: limit {over.words}"
    return about(evidence, reason, text, remedy, who)


def evicting(pods: Iterable[Pod]) -> str:
    """Return that KAI may evict pods, as advice; "" without pods."""
    groups = Counter(pod.group for pod in pods)
    if not groups:
        return ""
    holders = (f"{counted(count, 'pod')} of {group}" for group, count in sorted(groups.items()))
    return f"wait: KAI may evict {listed(holders)}, which can be preempted"


def queue_quota(gang: Gang) -> Reasons:
    """What is not preemptible is bound to the quota of its queue, and of those above it."""
    group = gang.pod_group
    if not group:
        return
    said = _said(gang, "NonPreemptibleOverQuota")
    bound = _binding_quota(gang, group, said)
    remedy = (
        "make the workload preemptible, or use a queue with so much quota left, if there is one"
    )
    if bound is not None:
        name, words = bound
        semi = group.preemptibility == SEMI_PREEMPTIBLE
        what = "minimum of the workload" if semi else "workload"
        text = f"The {what} is not preemptible and so bound to the quota of queue {name}: {words}"
        evidence = Evidence(group.ref, _WORDS_OF_KAI, said.reason if said else name)
        yield about(evidence, "QueueQuota", text, remedy, "you")
    elif said:
        yield _as_said(group, said, "QueueQuota", remedy)


def _binding_quota(gang: Gang, group: KaiPodGroup, said: Said | None) -> tuple[str, str] | None:
    """Return the name of the queue whose quota stands in the way, and its numbers.

    These are ours, else KAI's, else those of its status.
    """
    over = over_quota(gang, group.queue)
    if over:
        return over.queue.name, over.words
    if not said:
        return None

    name = said.queue or group.queue
    quota = gpus_of(said.quota)
    used = gpus_of(said.allocated)
    queue = gang.index.queues.get(name)
    if not quota and queue:
        quota = queue.quota or 0
        used = queue.allocated_fixed
    return (name, f"{amount('/gpu', quota)}, {plain(used)} used") if quota else None


def fair_share(gang: Gang) -> Reasons:
    """KAI may reclaim for the gang what other queues have above their fair shares.

    All that it may evict there must make room for the gang. If KAI says that a limit is reached, it
    has tried.
    """
    turn = line_of(gang.index).get(gang.ref)
    if not turn or not turn.above or _said(gang, "OverLimit") or over_quota(gang, turn.queue):
        return

    if not gang.placements.under(_reclaimed(gang.index, turn.queue)).fits:
        return

    over = (
        f"{queue.name} is {amount(*more)} above its fair share"
        for queue, more in turn.above.items()
    )
    first, *_ = turn.above
    evidence = Evidence(first.ref, "status.allocated", plain(first.allocated))
    remedy = (
        "wait: KAI may reclaim them; if it takes long, see preemptionDelay and minimum"
        " runtimes of the queues"
    )
    queues = tuple(queue.ref for queue in turn.above)
    yield about(evidence, "FairShare", listed(over), remedy, "wait", objects=queues)


def preemption_delay(gang: Gang) -> Reasons:
    group = gang.pod_group
    said = _said(gang, "PreemptionDelayNotElapsed")
    if not group or not said:
        return

    lasts = max(group.created or 0.0, group.evicted or 0.0) + group.delay - gang.facts.now
    if group.delay and lasts <= 0:
        return
    text = f"May not push others out {f'for {ago(lasts)}' if group.delay else 'yet'}"

    evidence = Evidence(group.ref, _WORDS_OF_KAI, said.reason)
    yield about(evidence, "PreemptionDelay", text, "wait", "wait")


def _as_said(group: KaiPodGroup, said: Said, reason: str, remedy: str) -> Reason:
    """KAI's own words, if they have no numbers that could be put better."""
    evidence = Evidence(group.ref, _WORDS_OF_KAI, said.reason)
    return about(evidence, reason, f"KAI says: {said.message or said.reason}", remedy, "you")
