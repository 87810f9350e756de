"""The order in which KAI takes up what waits: the next queue, and the next gang in it.

See `pkg/scheduler/actions/utils/job_order_by_queue.go` of KAI, `plugins/priority` and
`plugins/elastic`. Queues are compared anew after each gang, by what they have then.
"""

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from operator import itemgetter

from app.base.groups import by_key
from app.base.value import Value
from app.explain.gangs.gang import Gang
from app.explain.known.index import Index
from app.explain.known.queues import (
    SEMI_PREEMPTIBLE,
    chain,
    group_is_preemptible,
    priority_of,
    unusable_because,
)
from app.explain.known.snapshot import PODS_OF_GROUP
from app.explain.line.shares import NOTHING, Account, Quantities, added, divide, quantities_of
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kai.queue import Queue
from app.facts.kubernetes.pod import Pod

Rank = tuple[int, int, float, str, str]


class Waiter(Value, dict=True):
    """A gang that waits for KAI, with what KAI places of it next."""

    gang: Gang
    group: KaiPodGroup
    rank: Rank
    asked: Quantities
    preemptible: bool

    def __lt__(self, other: "Waiter") -> bool:
        return self.rank < other.rank


def waiter(gang: Gang, group: KaiPodGroup) -> Waiter:
    """Return a gang with its place in its queue: by priority, then what has least, then by age."""
    index = gang.index
    placed = [len(member.placed) - member.minimum for member in gang.members]
    state = 0 if min(placed) < 0 else 1 if max(placed) == 0 else 2
    priority = priority_of(index, group.priority_class)
    rank = (-priority, state, group.created or 0.0, group.name, gang.namespace)
    asked = quantities_of(gang.demand.shapes)
    return Waiter(gang, group, rank, asked, group_is_preemptible(index, group))


def _placed_and_waiting(pods: Iterable[Pod]) -> tuple[Quantities, Quantities]:
    """Return what pods ask for that have a node, and those that KAI could place."""
    alive = [pod for pod in pods if pod.is_alive]
    placed = quantities_of((pod.shape, 1) for pod in alive if pod.node)
    return placed, quantities_of((pod.shape, 1) for pod in alive if not pod.node and not pod.gates)


class Queues:
    """The queues of a node pool with what waits in them.

    `total` is what the ready nodes of the pool have.
    """

    def __init__(
        self, index: Index, pool: str, total: Quantities, waiters: Iterable[Waiter]
    ) -> None:
        self._total = total
        self._accounts = {name: Account(queue) for name, queue in index.queues.items() if name}
        self._above = {
            name: [self._accounts[queue.name] for queue in chain(index, name)]
            for name in {group.queue for group in index.facts.pod_groups}
        }
        self._count(index, pool)
        divide(self._accounts.values(), total)
        usable = (own for own in waiters if not unusable_because(index, own.group.queue))
        self.waiting = by_key((own.group.queue, own) for own in sorted(usable))
        """What waits in each queue: heaps, which are in order at first."""
        self._below = by_key((account.queue.parent, account) for account in self._accounts.values())
        self._best: dict[str, tuple[tuple[object, ...], Waiter] | None] = {}
        self._changed = set(self.waiting)

    def _count(self, index: Index, pool: str) -> None:
        """Count what each queue has and asks for; KAI leaves out what it has given up."""
        of_groups = index.lookup(PODS_OF_GROUP).each(_placed_and_waiting)
        for group in index.facts.pod_groups:
            if group.given_up or group.pool != pool or group.queue not in self._accounts:
                continue
            placed, waiting = of_groups.get(group.key, (NOTHING, NOTHING))
            preemptible = group_is_preemptible(index, group)
            for account in self._above[group.queue]:
                account.take(placed, preemptible=preemptible)
                account.requested = added(account.requested, added(placed, waiting))
                if group.preemptibility == SEMI_PREEMPTIBLE:
                    account.evictable = added(account.evictable, placed)

    def pop(self) -> Waiter | None:
        """Take out the gang that KAI takes up next."""
        for queue in self._changed:
            self._rank(queue)
        best = self._best_below("")
        if best:
            heappop(self.waiting[best.group.queue])
            self._changed = {best.group.queue}
        return best

    def push(self, own: Waiter) -> None:
        """Put the gang back that was taken out, because it has more pods to place."""
        heappush(self.waiting[own.group.queue], own)

    def _rank(self, queue: str) -> None:
        """Rank a queue and those above it, each by the next gang of it or of those below it."""
        for account in self._above[queue]:
            name = account.queue.name
            waiting = self.waiting.get(name)
            own = waiting[0] if waiting else self._best_below(name)
            self._best[name] = (account.rank(own.asked, self._total), own) if own else None

    def _best_below(self, parent: str) -> Waiter | None:
        ranked = (self._best.get(account.queue.name) for account in self._below.get(parent, ()))
        return min(filter(None, ranked), key=itemgetter(0), default=(None, None))[1]

    def full(self, own: Waiter, evicted: Quantities = NOTHING) -> str:
        """Return the queue whose limit or quota keeps a gang out, "" if there is none.

        `evicted` is what KAI would take before from other queues below the same limits.
        """
        for account in self._above[own.group.queue]:
            if account.exceeds(own.asked, evicted, preemptible=own.preemptible):
                return account.queue.name
        return ""

    def reclaimed(self, own: Waiter) -> Mapping[Queue, tuple[str, int]]:
        """Return the queues that KAI may reclaim from for a gang, and how much each has too much.

        That is a resource, and thousandths of it. The queues are beside the gang's own queue and
        those above it, up to one that would then have more than its fair share, as one at its limit
        would. There are none if a limit would be exceeded even without all preemptible pods of the
        queues beside them. See `plugins/proportion/reclaimable` of KAI.
        """
        found: dict[Queue, tuple[str, int]] = {}
        evicted = NOTHING
        for account in self._above[own.group.queue]:
            if not account.may_reclaim(own.asked):
                break
            for other in self._below[account.queue.parent]:
                above = other.above
                if above and any(other.evictable):
                    found[other.queue] = above
                if other is not account:
                    evicted = added(evicted, other.evictable)
        return {} if self.full(own, evicted) else found

    def take(self, own: Waiter) -> None:
        """Count what was allocated to a gang."""
        for account in self._above[own.group.queue]:
            account.take(own.asked, preemptible=own.preemptible)
