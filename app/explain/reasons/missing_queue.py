"""Report gangs whose queue KAI does not use, and find a queue or a node pool for them.

KAI uses only queues without child queues that are in the gang's node pool. Their parents must exist
in the same node pool, and must not form a cycle.
"""

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from app.base.groups import by_key
from app.base.sentences import lower_first
from app.base.spelling import MOST_ALIKE, MOST_COMPARED, alike
from app.base.value import Value
from app.explain.gangs.gang import Gang
from app.explain.placing.placements import Assumption
from app.explain.reasons.queue import as_argument, patch_to_queue, queue_of_pods
from app.explain.reasons.reason import (
    Evidence,
    Reasons,
    Who,
    about,
    listed,
    queue_setting,
)
from app.explain.state.index import Index
from app.explain.state.queues import INNER, chain, unusable_because
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kai.queue import Queue
from app.facts.labels import KAI_PROJECT, KAI_QUEUE, NODE_POOL

NOT_CHOSEN = "kai-unexisting-node-pool"
"""The node pool that KAI Resource Management writes until it has assigned one."""

_DEFAULT = "default-queue"
"""The queue that KAI's pod-grouper writes if neither the workload nor its pods have a queue label.

Source: `DefaultQueueName` in `pkg/podgrouper/podgrouper/plugins/constants` of KAI.
"""
_NO_LABEL = (
    f". KAI reads the queue only from the label {KAI_QUEUE}, not from an annotation or from the old"
    " label runai/queue"
)


def _another(gang: Gang, queue: str, create: str = "") -> str:
    """Return the remedy that moves a gang to another queue, or else creates the queue `create`."""
    words = (
        f"Set the {queue_setting(gang)} and spec.queue of its PodGroup to {queue}: KAI does not"
        " update a PodGroup that exists"
    )
    return f"{words}. Or ask the platform team to create queue {create}" if create else words


class _Help(Value):
    """The remedy for a gang whose queue cannot be used."""

    words: str
    """The remedy, as an instruction to a person."""
    who: Who
    """The party that can act."""
    commands: tuple[str, ...] = ()
    """Shell commands that help."""


def queue_missing(gang: Gang) -> Reasons:
    """Report that the gang's PodGroup names no queue, or one that KAI does not use.

    A PodGroup without a queue counts only if it is in a node pool.
    """
    group = gang.pod_group
    if not group:
        return
    if not group.queue:
        yield from _no_queue(gang, group)
        return

    index = gang.index
    wrong = unusable_because(index, group.queue, group.pool)
    if not wrong:
        return
    queue = index.queues.get(group.queue)
    text = f"Queue {group.queue} {wrong}"
    if not queue and group.queue == _DEFAULT:
        text = f"Queue {_DEFAULT}, which KAI uses for workloads without a queue label, {wrong}"
    if queue and queue.pool != group.pool:
        helps = _into_one_pool(gang, group, queue)
    else:
        usable = _usable(index, group.pool)
        others = "there is no usable queue"
        if usable:
            are = "the only usable queue is" if len(usable) == 1 else "usable queues are"
            others = f"{are} {listed(usable)}"
        of_pods = queue_of_pods(gang)
        meant = of_pods if of_pods in usable else _meant(index, group.queue, usable)
        likely = f'; did you mean "{meant}"?' if meant else ""
        text = f"{text}; {others}{likely}"
        helps = _other_queue(gang, group, meant, usable)
    evidence = Evidence(group.ref, "spec.queue", group.queue)
    yield about(evidence, "QueueMissing", text, helps.words, helps.who, commands=helps.commands)


def _no_queue(gang: Gang, group: KaiPodGroup) -> Reasons:
    """Yield a reason if KAI Resource Management has assigned a node pool but no queue."""
    if not group.pool or group.pool == NOT_CHOSEN:
        return
    text = (
        f"PodGroup {group.name} is in node pool {group.pool} and names no queue, so KAI does not"
        " place it"
    )
    remedy = (
        f"Ask the platform team whether the project of namespace {gang.namespace} (label"
        f" {KAI_PROJECT}) has a queue in node pool {group.pool}, and what the log of"
        " pod-group-assigner (KAI Resource Management) says"
    )
    evidence = Evidence(group.ref, "spec.queue", "absent")
    yield about(evidence, "QueueMissing", text, remedy, "platform")


def _meant(index: Index, name: str, usable: Sequence[str]) -> str:
    """Return the usable queue for which `name` is probably a typo, or "".

    Only the first MOST_COMPARED names are compared: comparing one with 300 queues takes 3 ms.
    """
    compared: dict[tuple[str, tuple[str, ...]], str] = index.remembered("queues meant", dict)
    key = name, tuple(usable)
    if key not in compared:
        if len(compared) >= MOST_COMPARED or len(name) > MOST_ALIKE:
            return ""
        compared[key] = next(iter(alike(name, usable)), "")
    return compared[key]


def _usable(index: Index, pool: str) -> list[str]:
    """Return the names of the queues in which the scheduler of a node pool places gangs, sorted."""
    names = sorted(queue.name for queue in index.facts.queues)
    return [name for name in names if not unusable_because(index, name, pool)]


def _other_queue(gang: Gang, group: KaiPodGroup, meant: str, usable: Sequence[str]) -> _Help:
    """Return the remedy for a queue of the gang's pool that KAI does not use, or that is missing.

    `meant` is the queue that is probably meant, or "".
    """
    index = gang.index
    queue = index.queues.get(group.queue)
    if queue and _is_below_itself(index, queue):
        words = (
            f"Ask the platform team to correct spec.parentQueue of queue {queue.name} and of its"
            " parents: until then, no other queue helps"
        )
        return _Help(words, "platform")
    if not usable or (queue and unusable_because(index, queue.name) != INNER):
        return _new_queue(index, group, queue)
    label = _NO_LABEL if not queue and group.queue == _DEFAULT else ""
    if meant or len(usable) == 1:
        name = meant or usable[0]
        words = _another(gang, name, "" if meant or queue or label else group.queue)
        return _Help(words + label, "you", (patch_to_queue(group, name),))
    words = _another(gang, "a usable queue (QUEUE)", "" if queue or label else group.queue) + label
    return _Help(words, "you", (patch_to_queue(group, "QUEUE"),))


def _new_queue(index: Index, group: KaiPodGroup, queue: Queue | None) -> _Help:
    """Return the remedy if the gang's node pool has no queue that KAI uses."""
    if not queue or unusable_because(index, queue.name) == INNER:
        wanted = f"a queue below {group.queue}" if queue else f"queue {group.queue}"
        of_pool = f", with the label {NODE_POOL}={group.pool}" if group.pool else ""
        return _Help(f"Ask the platform team to create {wanted}{of_pool}", "platform")

    above = [*chain(index, queue.name)][-1].parent
    if above not in index.queues:
        correct = f"or to correct spec.parentQueue of {queue.name}"
        return _Help(f"Ask the platform team to create queue {above}, {correct}", "platform")
    words = (
        f"Ask the platform team for another queue above {queue.name}: other workloads need {above}"
        " unchanged"
    )
    return _labelled(index, group, queue) or _Help(words, "platform")


def _is_below_itself(index: Index, queue: Queue) -> bool:
    """Return whether the parents of a queue form a cycle, which makes KAI hang."""
    above = [*chain(index, queue.name)][-1].parent
    parent = index.queues.get(above)
    return parent is not None and parent.pool == queue.pool


def _into_one_pool(gang: Gang, group: KaiPodGroup, queue: Queue) -> _Help:
    """Return the remedy for a gang whose queue is in another node pool."""
    index = gang.index
    moved, move = _moved(group, queue.pool)
    fits = _fits_in(gang, queue.pool)
    if not fits:
        there = f"in node pool {queue.pool}" if queue.pool else "on nodes without a pool"
        moved = f"{moved} (it does not fit {there} yet)"
    can_move = not unusable_because(index, queue.name) and not _lacks_nodes(gang, queue.pool)
    if can_move and queue.pool and not has_scheduler(index, queue.pool):
        shard = f"a SchedulingShard of node pool {queue.pool} (there is none)"
        words = f"Ask the platform team for {shard}, and {lower_first(moved)}"
        return _Help(words, "platform", (move,))
    if can_move and not group.pool:
        return _Help(moved, "you", (move,))
    if can_move and _lacks_nodes(gang, group.pool):
        return _Help(f"{moved}: node pool {group.pool} has no nodes", "you", (move,))

    usable = _usable(index, group.pool)
    if usable:
        name = usable[0] if len(usable) == 1 else "QUEUE"
        others = usable[0] if len(usable) == 1 else f"a usable queue (QUEUE: {listed(usable)})"
        return _Help(_another(gang, others), "you", (patch_to_queue(group, name),))

    labelled = _labelled(index, group, queue)
    if labelled:
        return labelled
    wanted = f"with the label {NODE_POOL}={group.pool}" if group.pool else "without a node pool"
    words = f"Ask the platform team for a queue {wanted}"
    if can_move and (fits or not _fits_in(gang, group.pool)):
        return _Help(f"{moved}, or {lower_first(words)}", "platform", (move,))
    return _Help(words, "platform")


def _fits_in(gang: Gang, pool: str) -> bool:
    """Return whether a gang has room in a node pool now, or True if that is not known."""
    return not gang.index.room_is_known or gang.placements.under(Assumption(pool=pool)).fits


def has_scheduler(index: Index, pool: str) -> bool:
    """Return whether a SchedulingShard serves a node pool, or no SchedulingShard is known."""
    return not index.facts.shards or any(shard.pool == pool for shard in index.facts.shards)


def _labelled(index: Index, group: KaiPodGroup, queue: Queue) -> _Help | None:
    """Return the remedy that moves a queue and its parents into the gang's node pool.

    Return None if other queues or workloads need one of them where it is, or if none has to move.
    """
    wrong = [each for each in _ancestry(index, queue) if each.pool != group.pool]
    if not wrong or not _are_free(index, group, wrong):
        return None
    names = [each.name for each in wrong]
    words = f"Label queue{'s' if names[1:] else ''} {listed(names, 8)} {NODE_POOL}={group.pool}"
    label = shlex.quote(f"{NODE_POOL}={group.pool}")
    if any(each.pool for each in wrong):
        label = f"{label} --overwrite"
    if not group.pool:
        words = f"Remove the label {NODE_POOL} from {listed(names, 8)}"
        label = f"{NODE_POOL}-"
    command = f"kubectl label queues.scheduling.run.ai {shlex.join(names)} {label}"
    return _Help(words, "platform", (command,))


def _lacks_nodes(gang: Gang, pool: str) -> bool:
    """Return whether no node is in a pool. Return False if nodes were not read."""
    facts = gang.facts
    if "nodes" in facts.unread:
        return False
    return pool not in gang.index.pools


def into_pool(gang: Gang, pool: str) -> tuple[str, tuple[str, ...]]:
    """Return (note on a queue in node pool `pool` or "", commands that move a gang there).

    KAI's pod-grouper keeps the queue and the node pool of a PodGroup that exists (`ignoreFields` in
    `pkg/podgrouper/podgroup/handler.go`), so the label of the workload alone changes nothing.
    """
    group = gang.pod_group
    if not group:
        return "", ()
    _, move = _moved(group, pool)
    index = gang.index
    if "queues" in gang.facts.unread:
        return "", (move,)
    if not group.queue or not unusable_because(index, group.queue, pool):
        return "", (move,)
    usable = _usable(index, pool)
    if not usable:
        return " (ask the platform team for one: there is none)", ()
    name = usable[0] if len(usable) == 1 else "QUEUE"
    others = "" if len(usable) == 1 else f" (QUEUE is one of {listed(usable)})"
    return others, (move, patch_to_queue(group, name))


def _moved(group: KaiPodGroup, pool: str) -> tuple[str, str]:
    """Return (remedy, command) to move a gang into `pool`, or out of any pool if that is ""."""
    if not pool:
        return (
            f"Remove the label {NODE_POOL} from the workload and its PodGroup",
            f"kubectl label {as_argument(group)} {NODE_POOL}-",
        )
    label = f"{NODE_POOL}={pool}"
    overwrite = " --overwrite" if group.pool else ""
    return (
        f"Label the workload and its PodGroup {label}",
        f"kubectl label {as_argument(group)} {shlex.quote(label)}{overwrite}",
    )


def _ancestry(index: Index, queue: Queue) -> Iterator[Queue]:
    """Yield a queue and the queues above it, in any node pool."""
    seen = {""}
    above: Queue | None = queue
    while above and above.name not in seen:
        seen.add(above.name)
        yield above
        above = index.queues.get(above.parent)


def _are_free(index: Index, group: KaiPodGroup, queues: Iterable[Queue]) -> bool:
    """Return whether no other queue or PodGroup needs these queues outside the gang's node pool."""
    names = {queue.name for queue in queues}
    below = (queue for queue in index.facts.queues if queue.name not in names)
    if any(queue.parent in names and queue.pool != group.pool for queue in below):
        return False

    def look() -> Mapping[str, Collection[str]]:
        pairs = {(other.queue, other.pool) for other in index.facts.pod_groups}
        return by_key(pairs)

    pools = index.remembered("pools of queues", look, ["pod_groups"])
    return all(pool == group.pool for name in names for pool in pools.get(name, ()))
