"""Report limits, quotas and fair shares of KAI's queues that keep a gang pending.

This module also finds the pods that KAI may evict for a gang.
"""

import json
import math
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from app.base.groups import by_key
from app.base.sentences import lower_first, upper_first
from app.base.value import Value
from app.explain.gangs.core import asks_for_quota, surplus_of
from app.explain.gangs.gang import Gang
from app.explain.placing.demand import Demand
from app.explain.placing.placements import Assumption
from app.explain.queue_order.cycle import line_of
from app.explain.queue_order.shares import (
    NOTHING,
    UNITS,
    Above,
    Account,
    Quantities,
    quantities,
    quantities_of,
    quantities_of_pod,
)
from app.explain.queue_order.usage import (
    accounts_of,
    accounts_with_shares,
    gpus_of_claims,
    memory_in_pool,
    nodes_of_pool,
    pods_are_known,
    total_of,
)
from app.explain.reasons.consolidation import moved_for
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
from app.explain.reasons.victims import fewest
from app.explain.state.amounts import counts_as_gpu, gpus_of
from app.explain.state.index import Index
from app.explain.state.min_runtimes import spared_from_preemption, spared_from_reclaim
from app.explain.state.queues import (
    NOT_PREEMPTIBLE,
    SEMI_PREEMPTIBLE,
    chain,
    group_is_preemptible,
    priority_of,
    unusable_because,
)
from app.facts.identity import Key
from app.facts.kai.podgroup import KaiPodGroup, Said
from app.facts.kai.queue import BOUND_UNITS, Queue
from app.facts.kubernetes.gpus import GPU
from app.facts.kubernetes.pod import Pod, Shape
from app.facts.labels import KAI_PREEMPTIBILITY, KAI_SCHEDULER

TRAIN = "train"
"""KAI's own PriorityClass for workloads that it may preempt."""

# Limits and quotas, and the pods that KAI may evict.


def _or_other_queue(gang: Gang, group: KaiPodGroup, reason: Reason) -> Reason:
    """Add the queue in the pods' labels to a reason, if the PodGroup names another queue.

    KAI takes the queue from the workload when it creates the PodGroup, and never changes it later.
    """
    name = queue_of_pods(gang)
    if name in ("", group.queue) or unusable_because(gang.index, name, group.pool):
        return reason
    other = (
        f"If queue {name} is meant, which the label of the pods names, set spec.queue of PodGroup"
        f" {group.name} too: KAI does not update a PodGroup that exists"
    )
    return replace(
        reason,
        remedy=f"{reason.remedy}. {other}",
        commands=(*reason.commands, patch_to_queue(group, name)),
    )


def queue_of_pods(gang: Gang) -> str:
    """Return the queue that the labels of all pending pods name, or "" if there is not just one."""
    named = {pod.queue for pod in gang.waiting}
    return named.pop() if len(named) == 1 else ""


def patch_to_queue(group: KaiPodGroup, name: str) -> str:
    """Return the command that moves a PodGroup to the queue `name`."""
    patch = shlex.quote(f'{{"spec":{{"queue":"{name}"}}}}')
    return f"kubectl patch {as_argument(group)} --type merge -p {patch}"


class Excess(Value):
    """A limit or quota of a queue that a gang would exceed. Amounts are in thousandths."""

    queue: Queue
    """The queue that has the limit or quota."""
    resource: str
    """The name of the resource."""
    bound: int
    """The limit or quota."""
    used: int
    """The amount in use that counts against the bound."""
    asked: int
    """The amount requested by the pods that KAI places next."""
    use: str = "used"
    """The words after the amount in use, which say which pods count."""
    is_unset: bool = False
    """Is the limit or quota not set in the queue? KAI then reads it as 0."""

    @property
    def words(self) -> str:
        """The amounts as text, such as `8 GPUs, 2 used, 16 requested`."""
        used = _number(self.resource, self.used)
        asked = _number(self.resource, self.asked)
        return f"{amount(self.resource, self.bound)}, {used} {self.use}, {asked} requested"

    @property
    def is_exact(self) -> bool:
        """Would the gang fit if KAI's arithmetic did not round?"""
        return self.used + self.asked <= self.bound


def _number(resource: str, thousandths: int) -> str:
    return amount(resource, thousandths) if resource == "memory" else plain(thousandths)


def over_limits(gang: Gang, name: str, evicted: Iterable[Pod] = ()) -> Iterator[Excess]:
    """Yield the limits of the queue `name` and the queues above it that the gang would exceed.

    The `evicted` pods don't count.
    """
    less = _quantities(evicted)
    asked = _asked(gang)
    for account in _accounts(gang, name):
        for at in account.over_limit(asked, less):
            yield _excess(account, "limit", at, account.allocated, asked)


def over_quotas(gang: Gang, name: str) -> Iterator[Excess]:
    """Yield the quotas of the queue `name` and the queues above it that the gang would exceed.

    Yield nothing if the pods that KAI places next need not fit in a quota.
    """
    if not asks_for_quota(gang):
        return
    asked = _asked(gang)
    for account in _accounts(gang, name):
        for at in account.over_quota(asked):
            yield _excess(account, "quota", at, account.fixed, asked)


def over_quota(gang: Gang, name: str) -> Excess | None:
    """Return the first quota that the gang would exceed, or None if there is none."""
    return next(over_quotas(gang, name), None)


def bound_below(gang: Gang, demand: Demand) -> str:
    """Return the limit or quota that a demand would exceed if the gang's placed pods were gone.

    The result is a text such as `limit on queue q`, or "" if there is none.
    """
    group = gang.pod_group
    if not group:
        return ""
    asked = quantities_of(demand.shapes, memory_in_pool(gang.index, gang.pool).most)
    own = [pod for pod in gang.placed if pod.is_alive]
    is_semi = group.preemptibility == SEMI_PREEMPTIBLE
    surplus = {pod.key for pod in surplus_of(gang.index, group)} if is_semi else set()
    binds = not group_is_preemptible(gang.index, group)
    core = _quantities(pod for pod in own if pod.key not in surplus)
    for account in _accounts(gang, group.queue):
        if account.over_limit(asked, _quantities(own)):
            return f"limit on queue {account.queue.name}"
        if binds and account.over_quota(asked, core):
            return f"quota on queue {account.queue.name}"
    return ""


def _quantities(pods: Iterable[Pod]) -> Quantities:
    return quantities_of((pod.shape, 1) for pod in pods)


def _accounts(gang: Gang, name: str) -> Iterator[Account]:
    """Yield the accounts of a queue and its parents, in the gang's node pool.

    Yield nothing if KAI does not use the queue.
    """
    if unusable_because(gang.index, name, gang.pool):
        return iter(())
    accounts = accounts_of(gang.index, gang.pool)
    queues = (queue.name for queue in chain(gang.index, name, gang.pool))
    return (accounts[queue] for queue in queues if queue in accounts)


def _asked(gang: Gang) -> Quantities:
    """Return the request of the pods that KAI places next, as it counts for limits and quotas."""
    return quantities_of(gang.demand.shapes, memory_in_pool(gang.index, gang.pool).most)


def _excess(account: Account, bound: str, at: int, used: Quantities, asked: Quantities) -> Excess:
    resource, share = list(account.queue.shares.items())[at]
    unit = UNITS[at]
    return Excess(
        queue=account.queue,
        resource=resource,
        bound=getattr(share, bound) or 0,
        used=round(used[at] * unit),
        asked=round(asked[at] * unit),
        use=_BY_FIXED if bound == "quota" else "used",
        is_unset=bound in share.unset,
    )


_BY_FIXED = "used by non-preemptible pods"
"""The words for use that counts against a quota."""


def use_words(index: Index, queue: Queue) -> str:
    """Return the GPUs in use in a queue, as a text such as `used 8`, or `usage unknown`."""
    account = accounts_of(index, queue.pool).get(queue.name)
    return f"used {plain(round(account.allocated[0] * 1000))}" if account else "usage unknown"


def losing_against(gang: Gang) -> list[Pod]:
    """Return the placed pods of lower priority in the same queue that KAI may evict for a gang.

    Return [] if the gang has no PodGroup or would exceed a quota, or if PriorityClasses were not
    read. Source: `pkg/scheduler/actions/preempt` of KAI.
    """
    index = gang.index
    group = gang.pod_group
    unknown = "priorities" in index.facts.unread
    if not group or unknown or over_quota(gang, group.queue):
        return []
    return _preemptible_below(index, group.queue, priority_of(index, group.priority_class))


def _preemptible_below(index: Index, queue: str, priority: int) -> list[Pod]:
    """Return the placed pods of a queue that have a lower priority and that KAI may evict."""

    def look() -> list[Pod]:
        return [
            pod
            for group in index.facts.pod_groups
            if group.queue == queue and priority_of(index, group.priority_class) < priority
            for pod in _preemptible_pods(index, group)
        ]

    # Thousands of gangs in one queue may share the result.
    return index.remembered(("preemptible below", queue, priority), look)


def _reclaimed(index: Index, queue: str) -> Assumption:
    """Return the assumption that the pods of other queues that KAI may evict are gone."""

    def look() -> Assumption:
        groups = (group for group in index.facts.pod_groups if group.queue != queue)
        pods = (pod for group in groups for pod in _preemptible_pods(index, group))
        return Assumption(gone=frozenset(pod.key for pod in pods))

    return index.remembered(("reclaimed", queue), look)


def _preemptible_pods(index: Index, group: KaiPodGroup) -> list[Pod]:
    """Return the placed pods of a PodGroup that KAI may evict for other gangs."""
    if group.preemptibility == SEMI_PREEMPTIBLE:
        return list(surplus_of(index, group))
    if not group_is_preemptible(index, group):
        return []
    pods = index.pods_of_group.get(group.key, ())
    return [pod for pod in pods if pod.node and pod.is_alive]


_WORDS_OF_KAI = "status.schedulingConditions[UnschedulableOnNodePool].reasons[]"


def _said(gang: Gang, reason: str) -> Said | None:
    group = gang.pod_group
    return next((said for said in group.said if said.reason == reason), None) if group else None


def as_argument(group: KaiPodGroup) -> str:
    """Return the arguments of kubectl for a PodGroup: its resource, name and namespace."""
    return f"podgroups.scheduling.run.ai {shlex.quote(group.name)} -n {group.namespace}"


def given_up(gang: Gang) -> Reasons:
    """Report that KAI tries to place the PodGroup only once, and has failed or would fail now."""
    group = gang.pod_group
    turn = line_of(gang.index).get(gang.ref)
    if not group or not group.tries_once or not (group.given_up or (turn and not turn.used)):
        return

    text = f"KAI tries to place {group.name} only once, because its schedulingBackoff is 1"
    evidence = Evidence(group.ref, "spec.schedulingBackoff", "1")
    patch = shlex.quote('{"spec":{"schedulingBackoff":-1}}')
    commands = (f"kubectl patch {as_argument(group)} --type merge -p {patch}",)
    remedy = "Set spec.schedulingBackoff of the PodGroup to -1, so that KAI tries in every cycle"
    yield about(evidence, "GivenUp", text, remedy, "you", commands=commands)


def queue_limit(gang: Gang) -> Reasons:
    """Report that the gang's queue, or one above it, would exceed a limit.

    Yield a reason for each limit that the pods of the queue and the gang exceed together, unless
    KAI may evict other pods for the gang. If there is none, quote KAI's message that a limit is
    reached, unless KAI should place the gang in its next cycle.
    """
    group = gang.pod_group
    if not group:
        return

    exceeded = list(over_limits(gang, group.queue))
    said = _said(gang, "OverLimit")
    if exceeded and not any((*lower_priority(gang), *fair_share(gang))):
        yield from _without_bound(exceeded, "limit", "QueueLimit")
        for over in exceeded:
            if _in_wrong_unit(over):
                yield _in_units(over, "limit", "QueueLimit")
            elif not over.is_unset:
                reason = _at_limit(gang, over, "QueueLimit", _below_limit(gang, over), "you")
                yield _or_other_queue(gang, group, reason)
    elif said and not exceeded and not _is_next(gang):
        remedy = "Wait until other workloads in the queue end, or ask for a higher limit"
        yield _as_said(group, said, "QueueLimit", remedy)


def _is_next(gang: Gang) -> bool:
    """Return whether KAI should place the gang in its next cycle, as far as is known."""
    turn = line_of(gang.index).get(gang.ref)
    return bool(turn and turn.used)


def _below_limit(gang: Gang, over: Excess) -> str:
    """Return the remedy for a limit that the gang would exceed."""
    own = sum(dict(shape.requests).get(over.resource, 0) for shape in _shapes_placed(gang))
    raised = f"Ask for a higher limit on queue {over.queue.name}"
    if over.is_exact:
        return f"{raised}: slightly more is enough, because KAI's arithmetic rounds"
    most = over.bound - own
    if most <= 0:
        return raised

    surging = _in_place(gang, over, "limit")
    if surging:
        return f"{surging}. Or {lower_first(raised)}"

    steps = []
    if over.asked > most:
        least = f"request at most {amount(over.resource, most, down=True)}"
        if _as_slices(gang, over):
            least = f"request MIG devices of at most {counted(most // 1000, 'slice')} in total"
        steps.append(least)
    holders = list(_holders(gang, over))
    if holders:
        frees = f"PodGroup {holders[0]} frees"
        if len(holders) > 1:
            frees = f"PodGroups {listed(holders, 3)} free"
        steps.append(f"wait until {frees} enough of the limit")
    return upper_first(", or ".join(filter(None, (" and ".join(steps), lower_first(raised)))))


def _in_place(gang: Gang, over: Excess, bound: str) -> str:
    """Return the advice to end old pods of a Deployment first, if they use what the gang lacks.

    Return "" otherwise. A rolling update ends them only once new pods are ready.
    """
    made_for = (ref for pod in gang.waiting for ref in pod.made_for if ref.kind == "Deployment")
    deployment = next(made_for, None)
    if deployment is None:
        return ""
    new = {pod.owner for pod in gang.waiting}
    of_deployment = gang.index.pods_made_for.get(deployment, ())
    old = [pod for pod in of_deployment if pod.node and pod.is_alive and pod.owner not in new]
    frees = sum(dict(pod.shape.requests).get(over.resource, 0) for pod in old)
    if not frees or over.used - frees + over.asked > over.bound:
        return ""
    pods = counted(
        old, "pod of its previous revision takes up", "pods of its previous revision take up"
    )
    return (
        f"Set spec.strategy.type: Recreate, or maxSurge: 0, in {deployment}: {pods} the {bound}"
        " until new pods are ready"
    )


def _shapes_placed(gang: Gang) -> Iterator[Shape]:
    return (pod.shape for pod in gang.placed if pod.is_alive)


def _holders(gang: Gang, over: Excess) -> Iterator[str]:
    """Yield the other PodGroups in a queue, or in queues below it, that use a resource."""
    index = gang.index
    own = gang.pod_group.key if gang.pod_group else None

    def look() -> list[KaiPodGroup]:
        below = (
            group
            for group in sorted(index.facts.pod_groups, key=lambda group: group.key)
            if over.queue in chain(index, group.queue, group.pool)
        )
        return [group for group in below if _is_user(index, group, over.resource)]

    # Thousands of gangs in one queue may share the result.
    for group in index.remembered(("holders", over.queue.name, over.resource), look):
        if group.key != own:
            yield f"{group.namespace}/{group.name}"


def _is_user(index: Index, group: KaiPodGroup, resource: str) -> bool:
    """Return whether a placed pod of a PodGroup uses a resource."""
    pods = index.pods_of_group.get(group.key, ())
    return any(pod.node and pod.is_alive and _uses(index, pod, resource) for pod in pods)


def _uses(index: Index, pod: Pod, resource: str) -> bool:
    if resource in dict(pod.shape.requests):
        return True
    return counts_as_gpu(resource) and bool(
        quantities_of_pod(pod.shape)[0] + gpus_of_claims(index, pod)
    )


def _without_bound(exceeded: Iterable[Excess], bound: str, reason: str) -> Reasons:
    """Yield a reason for each queue that does not set a bound, which KAI reads as 0."""
    of_queues = by_key((over.queue, over) for over in exceeded if over.is_unset)
    kai = f"which KAI reads as a {bound} of 0"
    for queue, unset in of_queues.items():
        names = [over.resource.rpartition("/")[2] for over in unset]
        asked = listed(amount(over.resource, over.asked) for over in unset)
        text = (
            f"Queue {queue.name} sets no {bound} of {listed(names)}, {kai}; the gang requests"
            f" {asked}"
        )
        # A quota that is set stays as it is.
        to_set = [
            queue.shares[over.resource].unset if bound == "limit" else (bound,) for over in unset
        ]
        fields = listed(
            f"{listed(same)} of {listed(resources)}"
            for same, resources in by_key(zip(to_set, names, strict=True)).items()
        )
        bounds = {name: dict.fromkeys(each, -1) for name, each in zip(names, to_set, strict=True)}
        yield about(
            Evidence(queue.ref, f"spec.resources.{names[0]}.{bound}", "absent"),
            reason,
            text,
            f"Ask the platform team to set {fields} in queue {queue.name} to -1 (unlimited)",
            "platform",
            commands=(_patch_of_bounds(queue, bounds),),
        )


def _patch_of_bounds(queue: Queue, bounds: Mapping[str, Mapping[str, int]]) -> str:
    """Return the command that sets limits and quotas of a queue, by resource."""
    patch = shlex.quote(json.dumps({"spec": {"resources": bounds}}, separators=(",", ":")))
    named = f"queues.scheduling.run.ai {shlex.quote(queue.name)}"
    return f"kubectl patch {named} --type merge -p {patch}"


def _in_wrong_unit(over: Excess) -> bool:
    """Return whether the bound was probably meant in CPUs or gigabytes.

    It is then below 1 CPU or 1 GB for the whole queue, and less than the gang alone requests.
    """
    unit = BOUND_UNITS.get(over.resource)
    return bool(unit and unit.is_mistaken(over.bound) and over.asked > over.bound)


def _in_units(over: Excess, bound: str, reason: str) -> Reason:
    """Return the reason for a bound that is probably in the wrong unit."""
    unit = BOUND_UNITS[over.resource]
    number = over.bound // unit.thousandths
    queue = over.queue
    text = (
        f"Queue {queue.name}: {bound} {over.words}. KAI reads spec.resources.{over.resource} of a"
        f" queue in {unit.name}"
    )
    remedy = (
        f"Ask the platform team whether {number} {unit.assumed} were meant: the {bound} of"
        f" {over.resource} in queue {queue.name} must then be {1000 * number}"
    )
    # The other bound of the queue was probably written with the same unit in mind.
    share = queue.shares[over.resource]
    given = {"limit": share.limit, "quota": share.quota}
    meant = {
        name: value // unit.thousandths * 1000
        for name, value in given.items()
        if value and unit.is_mistaken(value)
    }
    evidence = Evidence(queue.ref, f"spec.resources.{over.resource}.{bound}", str(number))
    command = _patch_of_bounds(queue, {over.resource: meant})
    return about(evidence, reason, text, remedy, "platform", commands=(command,))


def queue_status_stale(gang: Gang) -> Reasons:
    """Report that a queue's status reaches a limit or quota, but the queue's pods do not.

    KAI's scheduler counts the pods. The status is from KAI's queue controller, which also counts
    background pods.
    """
    group = gang.pod_group
    if not group or not pods_are_known(gang.index):
        return
    asked = _asked(gang)
    bound_to_quota = asks_for_quota(gang)
    for account in _accounts(gang, group.queue):
        by_status = Account(account.queue)
        by_status.take_from_status()
        if account.exceeds(asked, NOTHING, preemptible=not bound_to_quota):
            return
        over = [*by_status.over_limit(asked), *(by_status.over_quota(asked) * bound_to_quota)]
        if over and _has_background(gang.index, account.queue):
            return
        for at in over[:1]:
            resource = list(account.queue.shares)[at]
            says, uses = (
                amount(resource, round(own.allocated[at] * UNITS[at]))
                for own in (by_status, account)
            )
            text = (
                f"The status of queue {account.queue.name} reports {says} in use, but the queue's"
                f" pods use {uses}. KAI counts the pods, so the queue has room"
            )
            remedy = (
                "Ask the platform team to read the log of KAI's queue-controller, which writes the"
                " status"
            )
            evidence = Evidence(account.queue.ref, "status.allocated", says)
            yield about(evidence, "QueueStatusStale", text, remedy, "platform", severity="warning")


def _has_background(index: Index, queue: Queue) -> bool:
    """Return whether a queue or one below it has background pods, which only its status counts."""

    def look() -> bool:
        return any(
            pod.background and pod.node
            for group in index.facts.pod_groups
            if any(above is queue for above in chain(index, group.queue, queue.pool))
            for pod in index.pods_of_group.get(group.key, ())
        )

    return index.remembered(("has background", queue.name), look)


def lower_priority(gang: Gang) -> Reasons:
    """Report that a limit would be exceeded, but KAI may evict pods in the gang's own queue.

    Yield nothing if KAI says that a limit is reached, because KAI has then tried to evict pods,
    unless a minimum runtime has kept it from that.
    """
    group = gang.pod_group
    over = next(over_limits(gang, group.queue), None) if group else None
    if not group or not over:
        return

    losing = losing_against(gang)
    if _said(gang, "OverLimit") and not any(_spared(gang.index, losing)):
        return
    victims = gang.index.one_of_few_of(
        "evicted at limit",
        (gang.placements, losing),  # equal gangs of equal queue and priority share both
        lambda: fewest(gang.index, losing, _makes_way_for(gang, group, losing)),
    )
    if victims:
        yield _at_limit(gang, over, "LowerPriority", evicting(gang.index, victims), "wait")


def _makes_way_for(
    gang: Gang, group: KaiPodGroup, losing: Sequence[Pod]
) -> Callable[[Sequence[Pod]], bool]:
    """Return a function that says whether KAI can place a gang without some of the pods `losing`.

    The gang must be within its limits. It must also have room, unless it lacks room even without
    all of `losing`.
    """

    def fits_without(pods: Sequence[Pod]) -> bool:
        gone = Assumption(gone=frozenset(pod.key for pod in pods))
        return gang.placements.under(gone).fits

    lacks_room = not fits_without(losing)

    def is_enough(pods: Sequence[Pod]) -> bool:
        within = not any(over_limits(gang, group.queue, pods))
        return within and (lacks_room or fits_without(pods))

    return is_enough


def _at_limit(gang: Gang, over: Excess, reason: str, remedy: str, who: Who) -> Reason:
    field = f"spec.resources.{over.resource.rpartition('/')[2]}.limit"
    evidence = Evidence(over.queue.ref, field, plain(over.bound))
    text = f"Queue {over.queue.name}: limit {over.words}{_as_slices(gang, over)}"
    return about(evidence, reason, text, remedy, who)


def _as_slices(gang: Gang, over: Excess) -> str:
    """Return a note on how KAI counts the MIG devices of a gang as GPUs, or "" without these."""
    names = {name for shape, _ in gang.demand.shapes for name, _ in shape.requests}
    counts = {name: quantities({name: 1000})[0] for name in sorted(names) if "/mig-" in name}
    if not counts or not counts_as_gpu(over.resource):
        return ""
    each = (f"{name.rpartition('/')[2]} as {round(count)}" for name, count in counts.items())
    return f"; KAI counts each {listed(each)}"


def evicting(index: Index, pods: Sequence[Pod]) -> str:
    """Return the remedy to wait because KAI may evict these pods, or "" if there are none."""
    groups = Counter(pod.group for pod in pods)
    if not groups:
        return ""
    spared = {group.name: left for group, left in _spared(index, pods)}
    holders = []
    for group, count in sorted(groups.items()):
        left = spared.get(group)
        later = f", but not for another {ago(left)} ({_PREEMPT_AFTER})" if left else ""
        holders.append(f"{counted(count, 'pod')} of {group}{later}")
    return f"Wait: KAI may preempt {listed(holders)}"


RECLAIM_AFTER = "reclaimMinRuntime"
"""The field of queues with the time for which KAI reclaims nothing from a gang that it started."""
_PREEMPT_AFTER = "preemptMinRuntime of its queue"


def _spared(index: Index, pods: Iterable[Pod]) -> Iterator[tuple[KaiPodGroup, float]]:
    """Yield (PodGroup, seconds for which a minimum runtime still spares it) for PodGroups of pods.

    Only PodGroups that would run below their minimum without these pods count.
    """
    keys = {pod.key for pod in pods}
    for name in dict.fromkeys((pod.namespace, pod.group) for pod in pods):
        group = index.pod_groups.get(name)
        left = spared_from_preemption(index, group) if group else 0.0
        if group and left and _loses_minimum(index, group, keys):
            yield group, left


def _loses_minimum(index: Index, group: KaiPodGroup, keys: Collection[Key]) -> bool:
    """Return whether a PodGroup would run below its minimum without these pods."""
    beyond = {pod.key for pod in surplus_of(index, group)}
    own = index.pods_of_group.get(group.key, ())
    lost = [pod.key for pod in own if pod.node and pod.is_alive and pod.key in keys]
    return len(lost) > len(beyond)


def queue_quota(gang: Gang) -> Reasons:
    """Report that a gang that is not preemptible exceeds the quota of its queue or of a parent."""
    group = gang.pod_group
    if not group:
        return
    said = _said(gang, "NonPreemptibleOverQuota")
    exceeded = list(over_quotas(gang, group.queue))
    yield from _without_bound(exceeded, "quota", "QueueQuota")
    over = next((over for over in exceeded if not over.is_unset), None)
    remedy = _beyond_quota(gang, group)
    semi = group.preemptibility == SEMI_PREEMPTIBLE
    what = "minimum of the workload" if semi else "workload"
    because = _because_of_class(gang, group)
    binds = f"The {what} is not preemptible{because}, so it must fit in the quota of queue"
    evidence = Evidence(group.ref, _WORDS_OF_KAI, said.reason if said else "")
    if over and over.is_exact:
        exact = "it fits exactly, but KAI's arithmetic rounds"
        text = f"{binds} {over.queue.name}: {over.words}; {exact}"
        remedy = (
            f"Ask for a slightly higher quota on queue {over.queue.name}, or {lower_first(remedy)}"
        )
        yield about(evidence, "QueueQuota", text, remedy, "you")
    elif over and _in_wrong_unit(over):
        yield _in_units(over, "quota", "QueueQuota")
    elif over:
        text = f"{binds} {over.queue.name}: {over.words}{_as_slices(gang, over)}"
        surging = _in_place(gang, over, "quota")
        remedy = f"{surging}. Or {lower_first(remedy)}" if surging else remedy
        reason = about(evidence, "QueueQuota", text, remedy, "you")
        yield _or_other_queue(gang, group, reason)
    elif said and not exceeded and not _is_next(gang) and not _asks_to_be_preemptible(gang, group):
        numbers = _numbers_said(gang, group, said)
        if numbers:
            yield about(evidence, "QueueQuota", f"{binds} {numbers}", remedy, "you")
        else:
            yield _as_said(group, said, "QueueQuota", remedy)


def _asks_to_be_preemptible(gang: Gang, group: KaiPodGroup) -> bool:
    """Return whether a PodGroup is preemptible by its own field or its PriorityClass.

    KAI's message that a non-preemptible workload exceeds a quota is then outdated.
    """
    is_set = bool(group.preemptibility or group.priority_class)
    return is_set and group_is_preemptible(gang.index, group)


def _because_of_class(gang: Gang, group: KaiPodGroup) -> str:
    """Return a note about what makes a PodGroup non-preemptible: its own field, or its class.

    Return "" for a semi-preemptible PodGroup, or if the PodGroup sets neither.
    """
    if group.preemptibility:
        semi = group.preemptibility == SEMI_PREEMPTIBLE
        return "" if semi else f" (spec.preemptibility of its PodGroup is {group.preemptibility})"
    if not group.priority_class:
        return ""
    value = priority_of(gang.index, group.priority_class)
    return (
        f" (PriorityClass {group.priority_class} has the value {value}; it must be below"
        f" {NOT_PREEMPTIBLE} to be preemptible)"
    )


def _beyond_quota(gang: Gang, group: KaiPodGroup) -> str:
    """Return the remedy for a workload that must fit in a quota."""
    preemptible = "Make the workload preemptible"
    below = sorted(each.name for each in gang.facts.priorities if 0 <= each.value < NOT_PREEMPTIBLE)
    if group.preemptibility:
        preemptible += f": label it {KAI_PREEMPTIBILITY}=preemptible"
    else:
        name = below[-1] if below and TRAIN not in below else TRAIN
        preemptible += f": label it priorityClassName={name}"
    return f"{preemptible}, or use a queue with enough quota left"


def _numbers_said(gang: Gang, group: KaiPodGroup, said: Said) -> str:
    """Return a queue's quota and usage as text, from KAI's message, or else from the queue.

    Return "" if the quota is 0, unlimited or unknown.
    """
    name = said.queue or group.queue
    quota = gpus_of(said.quota)
    used = gpus_of(said.allocated)
    queue = gang.index.queues.get(name)
    if not quota and queue:
        quota = queue.quota or 0
        used = queue.allocated_fixed
    return f"{name}: {amount('/gpu', quota)}, {plain(used)} {_BY_FIXED}" if quota else ""


def within_quota(gang: Gang) -> Reasons:
    """Report that the gang stays within its queue's quota, but KAI can reclaim nothing for it.

    KAI reclaims nothing from queues within their quotas, and no pods that are not preemptible.
    """
    turn = line_of(gang.index).get(gang.ref)
    group = gang.pod_group
    if not group or not turn or turn.used or turn.full or gang.placed:
        return
    asks = _asked(gang)
    if not asks[0] or gang.placements.now.fits:
        return
    accounts = accounts_of(gang.index, gang.pool)
    own = accounts.get(group.queue)
    if not own or own.quota[0] < own.allocated[0] + asks[0] or own.quota[0] == math.inf:
        return

    leaves = [
        each for each in accounts.values() if each is not own and not _children(each, accounts)
    ]
    holding = [each for each in leaves if each.allocated[0] > 0]
    if not holding:
        yield from _held_by_other_schedulers(gang)
        return
    above = [each for each in holding if each.allocated[0] > each.quota[0]]
    if any(each.evictable[0] for each in above) or moved_for(gang):
        return
    held = listed(
        f"queue {each.queue.name} uses {_gpus(each.allocated[0])}"
        + ("" if each.evictable[0] else " for non-preemptible pods")
        + f", {'above' if each in above else 'within'} its {_quota_words(each.quota[0])}"
        for each in holding
    )
    promised = sum(each.quota[0] for each in (own, *leaves))
    has = sum(gpus_of(node.allocatable) for node in nodes_of_pool(gang.index, gang.pool)) / 1000
    more = ""
    if has < promised < math.inf:
        than = f"more than the {_gpus(has)} of the nodes"
        more = f". The quotas of all queues add up to {_gpus(promised)}, {than}"
    text = f"KAI reclaims nothing for this gang: {held}{more}"
    # A lower quota helps only if KAI may evict the pods that it no longer covers.
    evictable = [each for each in holding if each.evictable[0]]
    of = "quotas of these queues"
    if len(evictable) == 1:
        of = f"quota of queue {evictable[0].queue.name}"
    remedy = f"Ask the platform team to lower the {of}, or to add nodes"
    if above or not evictable:
        lasting = above or holding
        names = listed(each.queue.name for each in lasting)
        preemptible = ", or to make their workloads preemptible" if above else ""
        remedy = (
            f"Ask the users of queue{'s' if lasting[1:] else ''} {names} to scale"
            f" down{preemptible}. Or ask the platform team for more nodes"
        )
    evidence = Evidence(
        holding[0].queue.ref, "spec.resources.gpu.quota", _quota_value(holding[0].quota[0])
    )
    yield about(evidence, "WithinQuota", text, remedy, "platform", severity="warning")


def _held_by_other_schedulers(gang: Gang) -> Reasons:
    """Yield a reason if pods hold the room that KAI did not place and therefore does not evict."""
    index = gang.index

    def look() -> list[Pod]:
        pods = (pod for pod in index.facts.pods if pod.node and pod.is_alive and not pod.reserves)
        others = (pod for pod in pods if pod.scheduler != KAI_SCHEDULER and not pod.group)
        return [pod for pod in others if _uses(index, pod, GPU)]

    holding = index.remembered("held by other schedulers", look)
    gone = frozenset(pod.key for pod in holding)
    if not holding or not gang.placements.under(Assumption(gone=gone)).fits:
        return
    names = listed(sorted({pod.scheduler for pod in holding}), 3)
    hold = "holds" if len(holding) == 1 else "hold"
    text = (
        "KAI reclaims nothing for this gang, although it is within the quota of its queue:"
        f" {counted(holding, 'pod')} of {names} {hold} GPUs, and KAI evicts only pods that it has"
        " placed"
    )
    remedy = (
        f"Ask the owners of these pods to scale down, or to use schedulerName: {KAI_SCHEDULER} and"
        " a queue"
    )
    first = min(holding, key=lambda pod: pod.key)
    evidence = Evidence(first.ref, "spec.schedulerName", first.scheduler)
    yield about(evidence, "WithinQuota", text, remedy, "platform", severity="warning")


def _children(account: Account, accounts: Mapping[str, Account]) -> bool:
    return any(other.queue.parent == account.queue.name for other in accounts.values())


def _gpus(count: float) -> str:
    return amount("/gpu", round(count * 1000))


def _quota_value(quota: float) -> str:
    return "unlimited GPUs" if quota == math.inf else _gpus(quota)


def _quota_words(quota: float) -> str:
    return "unlimited quota" if quota == math.inf else f"quota of {_gpus(quota)}"


def fair_share(gang: Gang) -> Reasons:
    """Report that KAI may reclaim resources for the gang from queues above their fair shares.

    The gang must fit without the pods that KAI may evict in other queues, and must be within its
    quotas. Yield nothing if KAI says that a limit is reached, because KAI has then tried to evict
    pods.
    """
    turn = line_of(gang.index).get(gang.ref)
    if not turn or not turn.above or _said(gang, "OverLimit") or over_quota(gang, turn.queue):
        return

    if not gang.placements.under(_reclaimed(gang.index, turn.queue)).fits:
        return
    if not _frees_enough(gang, turn.above):
        return

    over = (
        f"queue {queue.name} uses {amount(*above.excesses[0])} more than its {above.bound}"
        for queue, above in turn.above.items()
    )
    first, *_ = turn.above
    used = accounts_of(gang.index, gang.pool)[first.name].allocated[0]
    evidence = Evidence(first.ref, "GPUs of its pods", plain(round(used * 1000)))
    remedy = (
        "Wait: KAI may reclaim the excess for this gang. If that takes long, check preemptionDelay"
        " of the PodGroup and reclaimMinRuntime of the queues"
    )
    words = listed(over)
    queues = tuple(queue.ref for queue in turn.above)
    text = upper_first(words)
    left = reclaims_after(gang)
    if left:
        its = "its" if len(queues) == 1 else "their"
        text += f", but {RECLAIM_AFTER} keeps KAI from evicting {its} pods for another {ago(left)}"
        remedy = (
            f"Wait: KAI may reclaim the excess for this gang in {ago(left)} at the earliest, or ask"
            f" the platform team to lower {RECLAIM_AFTER} of the queues"
        )
    yield about(evidence, "FairShare", text, remedy, "wait", objects=queues)


def within_share(gang: Gang) -> str:
    """Return the advice to request no more GPUs than KAI may reclaim for the gang, or "".

    KAI reclaims from a queue above its fair share only while the gang's queue stays within its own.
    """
    turn = line_of(gang.index).get(gang.ref)
    if not turn or turn.used or turn.full or turn.above or gang.placed:
        return ""
    accounts = accounts_with_shares(gang.index, gang.pool)
    own = accounts.get(turn.queue)
    asks = _asked(gang)[0]
    left = math.floor(own.fair[0] - own.allocated[0] + _ROUNDED) if own else 0
    if not own or not 0 < left < asks:
        return ""
    above = [
        each.queue.name
        for each in accounts.values()
        if each.queue.parent == own.queue.parent
        and each.allocated[0] > each.may_have[0]
        and each.evictable[0]
    ]
    if not above:
        return ""
    queues = f"queue{'s' if above[1:] else ''} {listed(above, 3)}"
    used = plain(round(own.allocated[0] * 1000))
    return (
        f"Request at most {_gpus(left)} in total, because KAI reclaims from {queues} only while"
        f" queue {turn.queue} stays within its fair share of {_gpus(own.fair[0])} ({used} used)"
    )


def _frees_enough(gang: Gang, above: Mapping[Queue, Above]) -> bool:
    """Return whether KAI can evict enough GPUs from queues that use too many for a gang.

    KAI evicts pods of a queue only while the queue uses too much. It evicts the pods beyond the
    minimum of a gang one by one, and the others together. Return True also if the queues use too
    much of another resource too, or if their pods have GPUs by claims.
    """
    index = gang.index
    most = 0.0
    for queue, each in above.items():
        units = _units_of(index, queue)
        names = [name for name, _ in each.excesses]
        if names != [GPU] or units is None:
            return True
        if units:
            excess = each.excesses[0][1] / 1000
            before_last = math.ceil(excess / min(units) - _ROUNDED) - 1
            most += min(sum(units), before_last * min(units) + max(units))
    nodes = nodes_of_pool(index, gang.pool)
    total = total_of(index, nodes, {pod.scheduler for pod in gang.pods})
    accounts = accounts_of(index, gang.pool).values()
    used = sum(each.allocated[0] for each in accounts if not each.queue.parent)
    return _asked(gang)[0] <= total[0] - used + most + _ROUNDED


_ROUNDED = 1e-6
"""More than the errors by which sums of parts of GPUs are off."""


def _units_of(index: Index, queue: Queue) -> Sequence[float] | None:
    """Return the GPUs that KAI evicts together from a queue and the queues below it.

    Return None if they are not known, because pods have claims.
    """

    def look() -> Sequence[float] | None:
        units = []
        for group in index.facts.pod_groups:
            if queue not in chain(index, group.queue, group.pool):
                continue
            pods = _preemptible_pods(index, group)
            if any(pod.claims for pod in pods):
                return None
            beyond = {pod.key for pod in surplus_of(index, group)} if pods else set()
            units += [_quantities([pod])[0] for pod in pods if pod.key in beyond]
            units.append(_quantities(pod for pod in pods if pod.key not in beyond)[0])
        return [unit for unit in units if unit]

    return index.remembered(("units", queue.name, queue.pool), look)


def reclaims_after(gang: Gang) -> float:
    """Return the seconds for which minimum runtimes keep KAI from reclaiming enough for a gang.

    Return 0 if they do not keep KAI from it. Only queues above their fair share count.
    """
    turn = line_of(gang.index).get(gang.ref)
    if not turn:
        return 0.0
    index = gang.index
    above = frozenset(queue.name for queue in turn.above)

    def look() -> tuple[frozenset[Key], float]:
        gone: set[Key] = set()
        lefts = []
        for group in index.facts.pod_groups:
            queues = {queue.name for queue in chain(index, group.queue, group.pool)}
            if group.queue == turn.queue or above.isdisjoint(queues):
                continue
            pods = _preemptible_pods(index, group)
            left = spared_from_reclaim(index, group, turn.queue) if pods else 0.0
            gone |= {pod.key for pod in (surplus_of(index, group) if left else pods)}
            lefts += [left] if left else []
        return frozenset(gone), min(lefts, default=0.0)

    # Thousands of gangs in one queue may share the result.
    gone, left = index.remembered(("reclaims after", turn.queue, above), look)
    return left if left and not gang.placements.under(Assumption(gone=gone)).fits else 0.0


def preemption_delay(gang: Gang) -> Reasons:
    """Report that KAI says that the preemptionDelay of the PodGroup is not over."""
    group = gang.pod_group
    said = _said(gang, "PreemptionDelayNotElapsed")
    if not group or not said:
        return

    lasts = max(group.created or 0.0, group.evicted or 0.0) + group.delay - gang.facts.now
    if group.delay and lasts <= 0:
        return
    until = f"for another {ago(lasts)}" if group.delay else "yet"
    text = f"The gang may not preempt other workloads {until}"

    evidence = Evidence(group.ref, _WORDS_OF_KAI, said.reason)
    remedy = f"Wait until the preemptionDelay of PodGroup {group.name} is over"
    yield about(evidence, "PreemptionDelay", text, remedy, "wait")


def _as_said(group: KaiPodGroup, said: Said, reason: str, remedy: str) -> Reason:
    """Return a reason with `said` as its text: KAI's message, or KAI's reason if there is none."""
    evidence = Evidence(group.ref, _WORDS_OF_KAI, said.reason)
    return about(evidence, reason, f"KAI says: {said.message or said.reason}", remedy, "you")
