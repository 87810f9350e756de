"""Sort the pending gangs of a node pool in the order in which KAI considers them.

See `pkg/scheduler/actions/utils/job_order_by_queue.go`, `plugins/proportion/queue_order`,
`plugins/priority` and `plugins/elastic` of KAI. The queues are a tree of heaps. After each gang,
KAI moves only the first queue of a heap to its new position, and only when it next uses that heap.
Until then, a parent queue is compared by the best gang of the child queue that was first before.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Generic, TypeVar

from app.base.groups import by_key
from app.base.value import Value
from app.explain.gangs.core import asks_for_quota
from app.explain.gangs.gang import Gang
from app.explain.queue_order.shares import (
    NOTHING,
    Above,
    Account,
    Quantities,
    added,
    divide,
    quantities_of,
)
from app.explain.queue_order.usage import memory_in_pool, new_accounts
from app.explain.state.index import Index
from app.explain.state.queues import chain, priority_of, unusable_because
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kai.queue import Queue

T = TypeVar("T")
Rank = tuple[int, int, float, str, str]


class Waiter(Value, dict=True):
    """A pending gang, with the pods that KAI places next."""

    gang: Gang
    """The gang, without pods that have scheduling gates or do not exist yet."""
    group: KaiPodGroup
    """Its PodGroup."""
    rank: Rank
    """Its sort key in its queue."""
    asked: Quantities
    """The request of these pods, as KAI counts it to order queues."""
    bounded: Quantities
    """The request of these pods, as KAI counts it against limits and quotas.

    It differs from `asked` only for pods that request GPU memory.
    """
    preemptible: bool
    """May KAI evict the pods that it places next? If so, they need not fit in a quota."""

    def __lt__(self, other: "Waiter") -> bool:
        return self.rank < other.rank


def waiter(gang: Gang, group: KaiPodGroup) -> Waiter:
    """Return a pending gang with its rank in its queue.

    The highest priority comes first. Of equal priority, gangs with a part below its minimum come
    first, then gangs with all parts exactly at their minimum, then all others. Each group is sorted
    by age, oldest first, and by name.
    """
    index = gang.index
    placed = [len(member.placed) - member.minimum for member in gang.members]
    state = 0 if min(placed) < 0 else 1 if max(placed) == 0 else 2
    priority = priority_of(index, group.priority_class)
    rank = (-priority, state, group.created or 0.0, group.name, gang.namespace)
    memory = memory_in_pool(index, group.pool)
    shapes = gang.demand.shapes
    asked = quantities_of(shapes, memory.least)
    bounded = quantities_of(shapes, memory.most) if memory.most != memory.least else asked
    return Waiter(gang, group, rank, asked, bounded, not asks_for_quota(gang))


class Heap(Generic[T]):
    """A binary heap that moves its items exactly as Go's `container/heap` does.

    The result of `less` for two items may change over time. Such items stay in place until an
    operation such as `put_first_right` compares them. Python's heapq would leave equal or changed
    items in another order.
    """

    def __init__(self, less: Callable[[T, T], bool]) -> None:
        self.items: list[T] = []
        self._less = less

    @property
    def first(self) -> T:
        return self.items[0]

    def push(self, item: T) -> None:
        self.items.append(item)
        place = len(self.items) - 1
        while place > 0:
            above = (place - 1) // 2
            if not self._less(self.items[place], self.items[above]):
                break
            self._swap(place, above)
            place = above

    def pop(self) -> T:
        last = len(self.items) - 1
        self._swap(0, last)
        item = self.items.pop()
        self.put_first_right()
        return item

    def put_first_right(self) -> None:
        """Move the first item down to its right position."""
        place = 0
        while (below := 2 * place + 1) < len(self.items):
            if below + 1 < len(self.items) and self._less(self.items[below + 1], self.items[below]):
                below += 1
            if not self._less(self.items[below], self.items[place]):
                break
            self._swap(place, below)
            place = below

    def _swap(self, one: int, other: int) -> None:
        self.items[one], self.items[other] = self.items[other], self.items[one]


class _Place:
    """A queue with pending gangs, in itself or in queues below it."""

    def __init__(self, account: Account, before: "Callable[[_Place, _Place], bool]") -> None:
        self.account = account
        self.gangs: Heap[Waiter] = Heap(lambda one, other: one < other)
        self.below: Heap[_Place] = Heap(before)
        self.above: _Place | None = None
        self.is_changed = False

    @property
    def is_empty(self) -> bool:
        return not (self.gangs.items or self.below.items)

    @property
    def best(self) -> Waiter:
        """The gang by which this queue is compared with its siblings."""
        place = self
        while place.below.items:
            place = place.below.first
        return place.gangs.first


class Queues:
    """The queues of a node pool with their pending gangs.

    `total` is the capacity of the pool for KAI's pods, as `total_of` returns it.
    """

    def __init__(
        self, index: Index, pool: str, total: Quantities, waiters: Iterable[Waiter]
    ) -> None:
        self._total = total
        self._accounts = new_accounts(index, pool)
        divide(self._accounts.values(), total)
        usable = [own for own in waiters if not unusable_because(index, own.group.queue, pool)]
        self._above = {
            name: [self._accounts[queue.name] for queue in chain(index, name)]
            for name in {own.group.queue for own in usable}
        }
        self._above_before = {name: [*map(copy, own)] for name, own in self._above.items()}
        self.waiting = by_key((own.group.queue, own) for own in sorted(usable))
        """The pending gangs before the cycle by queue name, each list in order."""
        self._siblings = by_key(
            (account.queue.parent, account) for account in self._accounts.values()
        )
        self._places: dict[str, _Place] = {}
        self._top: Heap[_Place] = Heap(self._comes_before)
        for own in sorted(usable):
            self.push(own)

    def _comes_before(self, one: _Place, other: _Place) -> bool:
        if one.is_empty or other.is_empty:
            return one.is_empty
        return one.account.comes_before(
            one.best.asked, other.account, other.best.asked, self._total
        )

    def pop(self) -> Waiter | None:
        """Remove and return the gang that KAI considers next, or None if no gang is left."""
        heap = self._top
        if not heap.items:
            return None
        while True:
            place = heap.first
            if place.is_changed:
                heap.put_first_right()
                place.is_changed = False
            elif place.below.items:
                heap = place.below
            else:
                break
        own = place.gangs.pop()
        self._leave(place)
        return own

    def _leave(self, place: _Place) -> None:
        """Remove a queue and its parents while they are empty, and mark the others as changed.

        Each removed queue must be the first of its heap.
        """
        while place.is_empty:
            siblings = place.above.below if place.above else self._top
            siblings.pop()
            del self._places[place.account.queue.name]
            if not place.above:
                return
            place = place.above
        self._mark(place)

    def _mark(self, place: _Place | None) -> None:
        while place:
            place.is_changed = True
            place = place.above

    def push(self, own: Waiter) -> None:
        """Put a gang into its queue, for the first time or because it has more pods to place."""
        accounts = self._above[own.group.queue]
        known = self._places.get(own.group.queue)
        place = known or self._new_place(accounts[0])
        place.gangs.push(own)
        if not known:
            self._link(place, accounts[1:])
        self._mark(place)

    def _new_place(self, account: Account) -> _Place:
        place = self._places[account.queue.name] = _Place(account, self._comes_before)
        return place

    def _link(self, place: _Place, above: Iterable[Account]) -> None:
        """Put a new queue below its parent. Do the same with each parent that is new."""
        for account in above:
            known = self._places.get(account.queue.name)
            place.above = known or self._new_place(account)
            place.above.below.push(place)
            if known:
                return
            place = place.above
        self._top.push(place)

    def full(self, own: Waiter, evicted: Quantities = NOTHING) -> str:
        """Return the name of the queue whose limit or quota keeps a gang out, or "" if none does.

        `evicted` is the usage that KAI would first evict from other queues below the same limits.
        """
        asked = own.bounded
        return _full(self._above[own.group.queue], asked, evicted, preemptible=own.preemptible)

    def may_have_been_full(self, own: Waiter) -> bool:
        """Return whether a limit or quota may have kept a gang out before the cycle.

        Pods that request GPU memory count by the smallest GPU of the pool, because they may get it.
        """
        accounts = self._above_before[own.group.queue]
        return bool(_full(accounts, own.asked, NOTHING, preemptible=own.preemptible))

    def reclaimed(self, own: Waiter) -> Mapping[Queue, Above]:
        """Return the queues from which KAI may reclaim for a gang, as in `Turn.above`.

        These queues are siblings of the gang's queue or of its parents, use more than they may, and
        have pods that KAI may evict. The search goes up from the gang's queue and ends at the first
        queue that would exceed its fair share with the gang. If this queue would stay within its
        quotas too, it is enough that its siblings exceed theirs: fair shares below different
        parents may add up to more than the capacity. The result is empty if a limit or quota would
        be exceeded even without the preemptible pods of all these queues. See
        `plugins/proportion/reclaimable` of KAI.
        """
        found: dict[Queue, Above] = {}
        evicted = NOTHING
        for account in self._above[own.group.queue]:
            if not account.may_reclaim(own.asked):
                break
            deserves = account.stays_within_quota(own.asked)
            for other in self._siblings[account.queue.parent]:
                above = other.above or (other.above_quota if deserves else None)
                if above and any(other.evictable):
                    found[other.queue] = above
                    evicted = added(evicted, other.evictable)
        return {} if self.full(own, evicted) else found

    def take(self, queue: str, gets: Quantities, *, preemptible: bool) -> None:
        """Count an allocation in a queue and its parents."""
        for account in self._above[queue]:
            account.take(gets, preemptible=preemptible)


def _full(
    accounts: Iterable[Account], asked: Quantities, evicted: Quantities, *, preemptible: bool
) -> str:
    for account in accounts:
        if account.exceeds(asked, evicted, preemptible=preemptible):
            return account.queue.name
    return ""
