"""Keep the usage of queues, compute their fair shares, and compare queues, as KAI does.

See `pkg/scheduler/plugins/proportion` of KAI: `proportion.go`, `resource_division` and
`resource_share`. This module ignores past usage, which KAI can be configured to take into account.
"""

import math
import re
from collections.abc import Iterable, Sequence

from app.base.groups import by_key
from app.base.value import Value
from app.explain.placing.demand import MOST_ONE_BY_ONE, Run, by_shape
from app.facts.kai.queue import Queue
from app.facts.kubernetes.pod import Shape
from app.facts.quantity import Amounts

Quantities = tuple[float, float, float]
"""Amounts as KAI counts them in queues: (GPUs, thousandths of CPUs, bytes of memory)."""

NOTHING: Quantities = (0.0, 0.0, 0.0)
UNITS = (1000, 1, 1000)
"""The factors that turn `Quantities` into thousandths of GPUs, CPUs and bytes."""
_WITHOUT_SHARE = 1000
"""The factor by which KAI multiplies the usage of a resource if the queue may use none of it."""
_MIG = re.compile(r"nvidia\.com/mig-([0-9]{1,18})g\.[0-9]+gb", re.ASCII)


class GpuMemory(Value):
    """The smallest and the largest memory of a GPU on the nodes of a pool, in MiB.

    Both values are None if the memory is not known. See `capacity_policy.go` and
    `allocation_info.go` of KAI for their use.
    """

    least: int | None = None
    """The smallest memory. To order queues, KAI divides requests for GPU memory by this value."""
    most: int | None = None
    """The largest memory. To check limits and quotas, KAI divides requests by this value."""


UNKNOWN_MEMORY = GpuMemory()


def quantities(amounts: Amounts) -> Quantities:
    """Return amounts of resources as KAI counts them in queues."""
    return _gpus(amounts), amounts.get("cpu", 0), amounts.get("memory", 0) / 1000


def _gpus(amounts: Amounts) -> float:
    """Return the number of GPUs. As in KAI, a MIG device with N slices counts as N GPUs."""
    total = 0.0
    for name, amount in amounts.items():
        mig = _MIG.fullmatch(name)
        if mig:
            total += int(mig[1]) * amount / 1000
        elif name.endswith("gpu"):
            total += amount / 1000
    return total


def quantities_of(runs: Iterable[Run], memory_of_gpu: int | None = None) -> Quantities:
    """Return the total request of pods.

    Up to MOST_ONE_BY_ONE equal pods with GPU fractions are added one by one as KAI does, so that
    the total has KAI's rounding errors: 0.1 + 0.2 is more than 0.3. A pod that requests GPU memory
    counts by `memory_of_gpu`, or as no GPU if that is not known.
    """
    total = NOTHING
    for shape, count in by_shape(runs):
        one = quantities_of_pod(shape, memory_of_gpu)
        if one[0].is_integer():
            total = added(total, one, count)
        else:
            for _ in range(min(count, MOST_ONE_BY_ONE)):
                total = added(total, one)
            total = added(total, one, max(0, count - MOST_ONE_BY_ONE))
    return total


def quantities_of_pod(shape: Shape, memory_of_gpu: int | None = None) -> Quantities:
    """Return the amounts that KAI counts for a pod of this shape before it has a node."""
    gpus, cpus, memory = quantities(dict(shape.requests))
    part = shape.part
    if part and part.memory and memory_of_gpu:
        gpus = part.devices * (part.memory / memory_of_gpu)
    return gpus, cpus, memory


def added(some: Sequence[float], more: Sequence[float], times: int = 1) -> Quantities:
    """Return `some` plus `more` multiplied by `times`."""
    # Written out by position, because this is called for each pod.
    return (
        some[0] + times * more[0],
        some[1] + times * more[1],
        some[2] + times * more[2],
    )


class Above(Value):
    """How much more a queue uses than it may keep if other queues request more."""

    bound: str
    """What it exceeds: `fair share` or `quota`."""
    excesses: tuple[tuple[str, int], ...]
    """The resources that it uses too much of, each with the excess in thousandths."""


class Account:
    """The quota, limit, usage, requests and fair share of a queue.

    Each has the resources and units of `Quantities`.
    """

    def __init__(self, queue: Queue) -> None:
        shares = queue.shares.values()
        self.queue = queue
        self.quota = _bounds(share.quota for share in shares)
        self.limit = _bounds(share.limit for share in shares)
        self.weights = [share.weight for share in shares]
        """The weights by which resources beyond all quotas are divided."""
        self.allocated = NOTHING
        """The usage of its pods and of the pods in queues below it."""
        self.fixed = NOTHING
        """The part of `allocated` that is not preemptible."""
        self.evictable = NOTHING
        """The part of `allocated` that is preemptible."""
        self.requested = NOTHING
        """The usage, plus the requests of pending pods."""
        self.fair = [0.0, 0.0, 0.0]
        """Its fair share, which `divide` computes."""

    def take_from_status(self) -> None:
        """Take the usage from the status of the queue, and count no requests of pending pods."""
        shares = self.queue.shares.values()
        self.allocated = _status(share.allocated for share in shares)
        self.fixed = _status(share.allocated_fixed for share in shares)
        self.requested = self.allocated

    def take(self, asked: Quantities, *, preemptible: bool) -> None:
        """Add `asked`, the request of placed pods, to the usage."""
        self.allocated = added(self.allocated, asked)
        if preemptible:
            self.evictable = added(self.evictable, asked)
        else:
            self.fixed = added(self.fixed, asked)

    def over_limit(self, asked: Quantities, evicted: Quantities = NOTHING) -> list[int]:
        """Return the positions of the resources whose limit would be exceeded.

        `evicted` is the usage of pods that KAI would evict first.
        """
        left = [max(0.0, has) for has in added(self.allocated, evicted, -1)]
        return _exceeded(self.limit, left, asked)

    def over_quota(self, asked: Quantities, evicted: Quantities = NOTHING) -> list[int]:
        """Return the positions of the resources whose quota would be exceeded.

        Only usage that is not preemptible counts. `evicted` is the part of it that would be gone.
        """
        left = [max(0.0, has) for has in added(self.fixed, evicted, -1)]
        return _exceeded(self.quota, left, asked)

    def exceeds(self, asked: Quantities, evicted: Quantities, *, preemptible: bool) -> bool:
        """Return whether a request exceeds the limit or, unless it is preemptible, the quota."""
        over = self.over_limit(asked, evicted)
        return bool(over or (not preemptible and self.over_quota(asked)))

    def may_reclaim(self, asked: Quantities) -> bool:
        """Return whether a request would keep the queue within its fair share of each resource."""
        pairs = zip(added(self.allocated, asked), self.fair, strict=True)
        return all(has <= fair for has, fair in pairs)

    def stays_within_quota(self, asked: Quantities) -> bool:
        """Return whether a request would keep the queue within its quota of each resource."""
        pairs = zip(added(self.allocated, asked), self.quota, strict=True)
        return all(has <= quota for has, quota in pairs)

    @property
    def above(self) -> "Above | None":
        """The resources of which the queue uses more than `may_have`, or None without any."""
        return self._above("fair share", self.may_have)

    @property
    def above_quota(self) -> "Above | None":
        """The resources of which the queue uses more than its quota, or None without any."""
        return self._above("quota", self.quota)

    def _above(self, bound: str, amounts: Sequence[float]) -> "Above | None":
        rows = zip(self.queue.shares, self.allocated, amounts, UNITS, strict=True)
        over = ((name, round((has - most) * unit)) for name, has, most, unit in rows if has > most)
        excesses = tuple(over)
        return Above(bound, excesses) if excesses else None

    @property
    def may_have(self) -> list[float]:
        """The amounts that the queue may use even if other queues request more.

        For each resource, this is the larger of its quota and its fair share, up to its limit.
        """
        bounds = zip(self.quota, self.limit, self.fair, strict=True)
        return [min(limit, max(quota, fair)) for quota, limit, fair in bounds]

    def comes_before(
        self, asked: Quantities, other: "Account", others: Quantities, total: Quantities
    ) -> bool:
        """Return whether KAI considers this queue before the sibling `other`.

        `asked` is the request of the next gang of this queue, and `others` that of `other`. See
        `GetQueueOrderResult` in `plugins/proportion/queue_order/queue_order.go` of KAI.
        """
        own = self._rank(asked, total)
        its = other._rank(others, total)
        if own != its:
            return own < its
        may_have = self.may_have
        others_may_have = other.may_have
        if may_have != others_may_have:
            pairs = list(zip(may_have, others_may_have, strict=True))
            if all(mine <= its for mine, its in pairs):
                return True
            if all(mine >= its for mine, its in pairs):
                return False
        # KAI takes either of two queues that were created in the same second. Here, names decide.
        ages = ((each.queue.created or 0.0, each.queue.name) for each in (self, other))
        own_age, other_age = ages
        return own_age < other_age

    def _rank(self, asked: Quantities, total: Quantities) -> tuple[object, ...]:
        after = added(self.allocated, asked)
        may_have = self.may_have
        return (
            all(fair < has for fair, has in zip(self.fair, self.allocated, strict=True)),
            any(quota < has for quota, has in zip(self.quota, after, strict=True)),
            -self.queue.priority,
            any(has > 0 and not most for most, has in zip(may_have, after, strict=True)),
            _dominant(after, may_have, total),
            _dominant(self.allocated, may_have, total),
        )

    def requestable(self, resource: int) -> float:
        """Return the queue's usage and pending requests of a resource, up to its limit."""
        return min(self.limit[resource], self.requested[resource])

    def wants(self, resource: int) -> float:
        """Return how much of `requestable` is beyond the queue's fair share, or 0."""
        return max(0.0, self.requestable(resource) - self.fair[resource])


def _exceeded(bounds: Sequence[float], used: Sequence[float], asked: Sequence[float]) -> list[int]:
    rows = enumerate(zip(bounds, used, asked, strict=True))
    return [position for position, (bound, has, ask) in rows if ask and bound < has + ask]


def _status(allocated: Iterable[int]) -> Quantities:
    gpus, cpus, memory = (amount / unit for amount, unit in zip(allocated, UNITS, strict=True))
    return gpus, cpus, memory


def _bounds(bounds: Iterable[int | None]) -> list[float]:
    pairs = zip(bounds, UNITS, strict=True)
    return [math.inf if bound is None else bound / unit for bound, unit in pairs]


def _dominant(has: Quantities, may_have: Sequence[float], total: Quantities) -> float:
    """Return the dominant share: the largest fraction of any resource that a queue uses.

    Fractions are of the amounts that the queue may use, or of `total` if they are unlimited.
    """
    parts = []
    for amount, most, of_all in zip(has, may_have, total, strict=True):
        known = of_all if most == math.inf else most
        parts.append(amount / known if known else amount * _WITHOUT_SHARE)
    return max(0.0, *parts)


def divide(accounts: Iterable[Account], total: Quantities) -> None:
    """Give each queue its fair share.

    Top-level queues get shares of `total`, and queues below them get shares of their parent's
    share.
    """
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
    """Give a queue its request, up to its quota and limit, and return that amount.

    `total` is the amount that an unlimited quota stands for.
    """
    quota = account.quota[resource]
    promised = min(total if quota == math.inf else quota, account.requestable(resource))
    account.fair[resource] += promised
    return promised


def _divide_rest(accounts: Iterable[Account], resource: int, left: float) -> None:
    """Divide the rest of a resource after all quotas, by priority and then by weight.

    Shares are rounded down to whole numbers. At the end, queues that lost by rounding get up to 1
    more each, while something is left: higher priorities first, then the queues that lost most. See
    `divideOverQuotaResource` in `plugins/proportion/resource_division` of KAI.
    """
    by_priority = by_key((-account.queue.priority, account) for account in accounts)
    rounded: list[dict[str, float]] = []
    ordered = [equal for _, equal in sorted(by_priority.items())]
    for equal in ordered:
        left, lost = _divide_among(equal, resource, left)
        rounded.append(lost)

    for equal, lost in zip(ordered, rounded, strict=True):
        losers = (account for account in equal if account.queue.name in lost)
        for account in sorted(
            losers,
            key=lambda own: (-lost[own.queue.name], own.queue.created or 0.0, own.queue.name),
        ):
            if left <= 0:
                return
            more = min(1.0, left)
            account.fair[resource] += more
            left -= more


def _divide_among(
    accounts: Sequence[Account], resource: int, left: float
) -> tuple[float, dict[str, float]]:
    """Divide an amount of a resource in rounds between queues of one priority.

    Return the remaining amount, and how much each unsatisfied queue lost by rounding, by name.
    """
    lost: dict[str, float] = {}
    again = True
    while again and left:
        again = False
        amount = left
        wanting = [own for own in accounts if own.wants(resource) > 0]
        weights = sum(own.weights[resource] for own in wanting)
        for own in wanting if weights else ():
            weight = own.weights[resource]
            if not left or not weight:
                continue
            wants = own.wants(resource)
            share = amount * weight / weights
            gets = wants if wants <= share else float(math.floor(share))
            if wants <= share:
                lost.pop(own.queue.name, None)
            elif share > gets:
                lost[own.queue.name] = share - gets
            own.fair[resource] += gets
            left -= gets
            again = again or (gets > 0 and wants < share)
    return left, lost
