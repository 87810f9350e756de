"""List KAI's queues, with quota, limit, usage, fair share and pending gangs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from msgspec.structs import replace

from app.base.groups import by_key
from app.base.value import Value
from app.explain.answers.answer import explain
from app.explain.answers.branch import AS_JSON
from app.explain.answers.gpu_users import GpuUser, gpu_users
from app.explain.answers.positions import InLine, Next
from app.explain.queue_order.cycle import Turn, line_of, unread_for_line
from app.explain.queue_order.shares import Account
from app.explain.queue_order.usage import accounts_with_shares, pods_are_known
from app.explain.state.index import Index
from app.explain.state.queues import INNER, chain, unusable_because
from app.facts.identity import Ref
from app.facts.kai.queue import Queue
from app.facts.rows import ROOM

MOST_IN_FRONT = 3
"""The maximum number of gangs that are named for each queue."""
MOST_USERS = 10
"""The maximum number of workloads that are named for each queue as users of its GPUs."""
_SCHEDULER = "kai-scheduler"
"""The scheduler that is assumed for a node pool if no pod names one."""


class InFront(Value, rename=AS_JSON):
    """A gang at the front of a queue."""

    ref: Ref
    number: int
    """Its position in the queue, from 1."""
    count: int
    """The number of gangs in the queue that KAI considers in its next cycle."""
    next: Next | None = None
    """The prediction for the next cycle, or None if it was not examined."""
    where: tuple[str, ...] = ()
    """The domains, or nodes outside domains, in which KAI should place it next."""


class QueueRow(Value, rename={"in_line": "inLine"}):
    """A queue of KAI, or a queue that PodGroups name but that does not exist.

    Amounts are GPUs in thousandths. All of them are None for a queue that does not exist.
    """

    name: str
    parent: str
    """The name of its parent, or "" if it has none."""
    depth: int
    """Its depth in the tree, from 1.

    It is also 1 if the parent is not in the node pool, or if the chain of parents has a cycle.
    """
    pool: str
    quota: int | None = None
    """Its quota, or None for unlimited."""
    limit: int | None = None
    """Its limit, or None for unlimited."""
    used: int | None = None
    """The usage of pods in the queue and in queues below it, or None if not known."""
    fixed: int | None = None
    """The part of `used` that is not preemptible, or None if not known."""
    fair: int | None = None
    """Its current fair share of the GPUs of its node pool, or None if not known."""
    unset: tuple[str, ...] = ()
    """The bounds that are not set, such as `limit of CPUs`. KAI reads them as 0."""
    unusable: str = ""
    """Why KAI can't use the queue, or "" if nothing is wrong."""
    waiting: int | None = None
    """The number of PodGroups in the queue and below it that have pods without a node.

    None if it is not known.
    """
    in_line: int | None = None
    """The number of gangs in the queue and below it that KAI considers in its next cycle.

    None if it is not known.
    """
    front: tuple[InFront, ...] = ()
    """The first gangs of the queue in KAI's order."""
    exists: bool = True
    """Does the queue exist in the node pool?"""
    users: tuple[GpuUser, ...] | None = None
    """The workloads in the queue itself that use the most GPUs, or None if not known.

    At most MOST_USERS are listed.
    """

    @property
    def amounts(self) -> tuple[int | None, ...]:
        """The GPUs in use, the part that is not preemptible, and the fair share, in thousandths.

        Each is None if it is not known.
        """
        return self.used, self.fixed, self.fair


def queue_rows(index: Index, known: Mapping[Ref, InLine] | None = None) -> list[QueueRow]:
    """Return the queues in the order of their tree, one node pool after the other.

    After the queues of a pool come queues that PodGroups of the pool name but that do not exist
    there. `known` has the predictions for gangs. If it is None, the gangs at the front of each
    queue are explained to get them. Return [] if queues were not read.
    """
    made = index.remembered("queues", lambda: list(_rows(index)))
    becomes = _examined(index, made) if known is None else known
    return [_with_next(row, becomes) for row in made]


def queues_are_known(index: Index) -> bool:
    """Return whether the queues were read."""
    return "queues" not in index.facts.unread


def _rows(index: Index) -> Iterator[QueueRow]:
    if not queues_are_known(index):
        return
    counts = _Counts(index)
    pools = {queue.pool for queue in index.facts.queues} | {pool for pool, _ in counts.named}
    for pool in sorted(pools):
        accounts = accounts_with_shares(index, pool)
        for depth, queue in _in_tree_order(index, pool):
            yield _row(index, queue, depth, accounts[queue.name], counts)
        for of_pool, name in sorted(counts.named):
            if of_pool == pool and name not in accounts:
                yield _missing(index, pool, name, counts)


def _in_tree_order(index: Index, pool: str) -> Iterator[tuple[int, Queue]]:
    """Yield the queues of a pool with their depth. Child queues follow their parent."""
    queues = sorted(
        (queue for queue in index.facts.queues if queue.pool == pool), key=lambda queue: queue.name
    )
    names = {queue.name for queue in queues}
    below = by_key((queue.parent if queue.parent in names else "", queue) for queue in queues)
    seen: set[str] = set()

    def under(parent: str, depth: int) -> Iterator[tuple[int, Queue]]:
        for queue in below.get(parent, ()):
            if queue.name not in seen:
                seen.add(queue.name)
                yield depth, queue
                yield from under(queue.name, depth + 1)

    yield from under("", 1)
    # queues whose parents form a cycle are below no top-level queue
    yield from ((1, queue) for queue in queues if queue.name not in seen)


class _Counts:
    """The pending gangs, the gangs in KAI's next cycle, and the GPU users of each queue."""

    def __init__(self, index: Index) -> None:
        facts = index.facts
        self.line_is_known = not unread_for_line(index)
        self.known = not {"pods", "pod_groups", ROOM} & facts.unread
        groups = [group for group in facts.pod_groups if group.queue]
        self.named = {(group.pool, group.queue) for group in groups}
        self.waiting: Counter[tuple[str, str]] = Counter()
        for group in groups:
            pods = index.pods_of_group.get(group.key, ())
            if any(not pod.node and pod.is_alive for pod in pods):
                self.waiting.update(_queues_above(index, group.pool, group.queue))

        line = line_of(index).values()
        self.in_line = Counter(
            place for turn in line for place in _queues_above(index, turn.pool, turn.queue)
        )
        self.line = by_key(((turn.pool, turn.queue), turn) for turn in line)
        self.users = by_key((user.queue, user) for user in gpu_users(index))


def _queues_above(index: Index, pool: str, name: str) -> set[tuple[str, str]]:
    """Return (pool, name) of a queue, which may not exist, and of the pool's queues above it."""
    return {(pool, name), *((pool, queue.name) for queue in chain(index, name, pool))}


def _row(index: Index, queue: Queue, depth: int, account: Account, counts: _Counts) -> QueueRow:
    place = (queue.pool, queue.name)
    is_known = pods_are_known(index) and not _lacks_claims(index)
    has_priorities = "priorities" not in index.facts.unread
    unusable = unusable_because(index, queue.name)
    if unusable == INNER and place not in counts.named:
        unusable = ""
    return QueueRow(
        queue.name,
        queue.parent,
        depth,
        queue.pool,
        queue.quota,
        queue.limit,
        round(account.allocated[0] * 1000) if is_known else None,
        round(account.fixed[0] * 1000) if is_known and has_priorities else None,
        round(account.fair[0] * 1000) if is_known else None,
        tuple(_unset(queue)),
        unusable,
        counts.waiting[place] if counts.known else None,
        counts.in_line[place] if counts.line_is_known else None,
        _front(counts.line.get(place, ())),
        users=tuple(counts.users.get(queue.name, ())[:MOST_USERS]) if is_known else None,
    )


def _unset(queue: Queue) -> Iterator[str]:
    """Yield the bounds that a queue does not set, such as `limit of CPUs`."""
    for name, share in zip(("GPUs", "CPUs", "memory"), queue.shares.values(), strict=True):
        yield from (f"{bound} of {name}" for bound in share.unset)


def _lacks_claims(index: Index) -> bool:
    """Return whether pods may have GPUs by claims that could not be read."""
    unread = index.facts.unread
    has_claims = any(pod.claims for pod in index.facts.pods)
    return has_claims and not unread.isdisjoint({"claims", "claim_templates"})


def _missing(index: Index, pool: str, name: str, counts: _Counts) -> QueueRow:
    return QueueRow(
        name,
        "",
        1,
        pool,
        unusable=unusable_because(index, name, pool),
        waiting=counts.waiting[pool, name] if counts.known else None,
        in_line=0 if counts.line_is_known else None,
        exists=False,
    )


def _front(turns: Iterable[Turn]) -> tuple[InFront, ...]:
    in_order = sorted(turns, key=lambda turn: turn.number)
    return tuple(
        InFront(turn.gang, turn.number, turn.count) for turn in islice(in_order, MOST_IN_FRONT)
    )


def _examined(index: Index, rows: Iterable[QueueRow]) -> Mapping[Ref, InLine]:
    """Return the predictions for the gangs at the front of the queues, by gang."""
    answers = (explain(index, gang.ref, folded=True) for row in rows for gang in row.front)
    return {own.ref: own for answer in answers if answer for own in answer.line}


def _with_next(row: QueueRow, known: Mapping[Ref, InLine]) -> QueueRow:
    front = tuple(
        replace(gang, next=known[gang.ref].next, where=known[gang.ref].where)
        if gang.ref in known
        else gang
        for gang in row.front
    )
    return replace(row, front=front)
