"""What each queue is promised, may have and has, and how KAI divides the rest between queues.

See `pkg/scheduler/plugins/proportion` of KAI: `proportion.go`, `resource_division` and
`resource_share`. Usage in the past, which an administrator may have KAI read, is not known here.
"""

import math
from collections.abc import Iterable, Sequence

from app.base.groups import by_key
from app.explain.known.amounts import gpus_of
from app.explain.placing.demand import Run, by_shape
from app.facts.kai.queue import Queue
from app.facts.quantity import Amounts

Quantities = tuple[float, float, float]
"""GPUs, thousandths of CPUs and bytes, as KAI counts them."""

NOTHING: Quantities = (0.0, 0.0, 0.0)
_UNITS = (1000, 1, 1000)
"""How many thousandths a unit of each has."""
_WITHOUT_SHARE = 1000
"""What KAI multiplies with that a queue has without any share."""


def quantities(amounts: Amounts) -> Quantities:
    """Return amounts of any resources as KAI counts them for queues."""
    return gpus_of(amounts) / 1000, amounts.get("cpu", 0), amounts.get("memory", 0) / 1000


def quantities_of(runs: Iterable[Run]) -> Quantities:
    """Return what pods ask for together."""
    total = NOTHING
    for shape, count in by_shape(runs):
        total = added(total, quantities(dict(shape.requests)), count)
    return total


def added(some: Sequence[float], more: Sequence[float], times: int = 1) -> Quantities:
    first, second, third = (one + times * other for one, other in zip(some, more, strict=True))
    return first, second, third


class Account:
    """What a queue may have of each resource, and has."""

    def __init__(self, queue: Queue) -> None:
        shares = queue.shares.values()
        self.queue = queue
        self.quota = _bounds(share.quota for share in shares)
        self.limit = _bounds(share.limit for share in shares)
        self.weights = [share.weight for share in shares]
        self.allocated = NOTHING
        self.fixed = NOTHING
        self.evictable = NOTHING
        """What of `allocated` is preemptible, with the minimum of what is semi-preemptible."""
        self.requested = NOTHING
        self.fair = [0.0, 0.0, 0.0]

    def take(self, asked: Quantities, *, preemptible: bool) -> None:
        """Count what was allocated."""
        self.allocated = added(self.allocated, asked)
        if preemptible:
            self.evictable = added(self.evictable, asked)
        else:
            self.fixed = added(self.fixed, asked)

    def exceeds(self, asked: Quantities, evicted: Quantities, *, preemptible: bool) -> bool:
        """Return whether the limit would be exceeded, or the quota by what is not preemptible.

        What is `evicted` first no longer counts towards the limit.
        """
        bounds = [(self.limit, added(self.allocated, evicted, -1))]
        if not preemptible:
            bounds.append((self.quota, self.fixed))
        return any(
            ask and bound < used + ask
            for bound_of, used_of in bounds
            for bound, used, ask in zip(bound_of, used_of, asked, strict=True)
        )

    def may_reclaim(self, asked: Quantities) -> bool:
        """Return whether with so much more, it has no more of anything than its fair share."""
        pairs = zip(added(self.allocated, asked), self.fair, strict=True)
        return all(has <= fair for has, fair in pairs)

    @property
    def above(self) -> tuple[str, int] | None:
        """A resource of which it has more than it may have: how much, in thousandths."""
        rows = zip(self.queue.shares, self.allocated, self.may_have, _UNITS, strict=True)
        over = ((name, round((has - most) * unit)) for name, has, most, unit in rows if has > most)
        return next(over, None)

    @property
    def may_have(self) -> list[float]:
        """What it may have, also if others ask for more."""
        bounds = zip(self.quota, self.limit, self.fair, strict=True)
        return [min(limit, max(quota, fair)) for quota, limit, fair in bounds]

    def rank(self, asked: Quantities, total: Quantities) -> tuple[object, ...]:
        """Return the place of the queue among its siblings if its next gang asks for so much.

        See `queue_order/queue_order.go`. If queues differ in nothing but what they may have, each
        more of something else, KAI takes the older one, and here it is the one with fewer GPUs.
        """
        after = added(self.allocated, asked)
        may_have = self.may_have
        return (
            all(fair < has for fair, has in zip(self.fair, self.allocated, strict=True)),
            any(quota < has for quota, has in zip(self.quota, after, strict=True)),
            -self.queue.priority,
            any(has and not most for most, has in zip(may_have, after, strict=True)),
            _dominant(after, may_have, total),
            _dominant(self.allocated, may_have, total),
            may_have,
            self.queue.created or 0.0,
            self.queue.name,
        )

    def requestable(self, resource: int) -> float:
        return min(self.limit[resource], self.requested[resource])

    def wants(self, resource: int) -> float:
        """Return what it asks for beyond its share."""
        return max(0.0, self.requestable(resource) - self.fair[resource])


def _bounds(bounds: Iterable[int | None]) -> list[float]:
    pairs = zip(bounds, _UNITS, strict=True)
    return [math.inf if bound is None else bound / unit for bound, unit in pairs]


def _dominant(has: Quantities, may_have: Sequence[float], total: Quantities) -> float:
    """Return the largest part of what a queue may have that it has."""
    parts = []
    for amount, most, of_all in zip(has, may_have, total, strict=True):
        known = of_all if most == math.inf else most
        parts.append(amount / known if known else amount * _WITHOUT_SHARE)
    return max(0.0, *parts)


def divide(accounts: Iterable[Account], total: Quantities) -> None:
    """Give each queue its fair share: to those at the top of all there is, and so on below them."""
    below = by_key((account.queue.parent, account) for account in accounts)
    shares: list[tuple[str, Sequence[float]]] = [("", total)]
    for parent, share in shares:
        siblings = sorted(below.get(parent, ()), key=lambda account: account.queue.name)
        for resource, amount in enumerate(share):
            left = amount - sum(_promise(account, resource, amount) for account in siblings)
            if left > 0:
                _divide_rest(siblings, resource, left)
        shares += ((account.queue.name, account.fair) for account in siblings)


def _promise(account: Account, resource: int, total: float) -> float:
    """Give a queue what it asks for of its quota."""
    quota = account.quota[resource]
    promised = min(total if quota == math.inf else quota, account.requestable(resource))
    account.fair[resource] += promised
    return promised


def _divide_rest(accounts: Iterable[Account], resource: int, left: float) -> None:
    """Divide what is beyond all quotas: by priority, then by weight."""
    by_priority = by_key((-account.queue.priority, account) for account in accounts)
    for _, equal in sorted(by_priority.items()):
        given = left
        while given and left > 0:
            given = _round(equal, resource, left)
            left -= given


def _round(accounts: Iterable[Account], resource: int, left: float) -> float:
    """Divide an amount once, and return what was given: some may want less than their share."""
    wanting = [account for account in accounts if account.wants(resource) > 0]
    weights = sum(account.weights[resource] for account in wanting)
    given = 0.0
    for account in wanting if weights else ():
        wants = account.wants(resource)
        share = left * account.weights[resource] / weights
        gets = wants if wants <= share else round(share)
        account.fair[resource] += gets
        given += gets
    return given
