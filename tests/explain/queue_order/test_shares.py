"""Fair shares as KAI divides them between queues."""

from functools import cmp_to_key
from typing import NamedTuple

import pytest

from app.explain.queue_order.shares import (
    NOTHING,
    Account,
    Quantities,
    divide,
    quantities,
    quantities_of,
)
from app.facts.kai.queue import Queue
from app.facts.kubernetes.gpu_sharing import GpuPart
from app.facts.kubernetes.pod import Shape

WANTS = (10.0, 0.0, 0.0)


def account(
    name: str,
    *,
    parent: str = "",
    wants: Quantities = WANTS,
    **bounds: float | None,
) -> Account:
    """Return the account of a queue that asks for so much; bounds are in whole GPUs."""
    scaled = {
        key: value
        if key in ("weight", "priority", "created") or value is None
        else int(value * 1000)
        for key, value in bounds.items()
    }
    made = Account(Queue(name, parent, **{"quota": 0, **scaled}))  # type: ignore[arg-type]
    made.requested = wants
    return made


class Case(NamedTuple):
    title: str
    accounts: list[Account]
    total: float
    shares: dict[str, float]


CASES = (
    Case(
        "what is promised comes first", [account("a", quota=6), account("b")], 8, {"a": 7, "b": 1}
    ),
    Case("by weight", [account("a", weight=3), account("b")], 8, {"a": 6, "b": 2}),
    Case("in whole GPUs", [account("a", weight=2), account("b")], 8, {"a": 5, "b": 3}),
    Case(
        "what one does not want, others get",
        [account("a", wants=(1.0, 0, 0)), account("b")],
        8,
        {"a": 1, "b": 7},
    ),
    Case("a limit", [account("a", limit=2), account("b")], 8, {"a": 2, "b": 6}),
    Case("no weight", [account("a", weight=0.0), account("b")], 12, {"a": 0, "b": 10}),
    Case("by priority", [account("a", priority=50), account("b")], 12, {"a": 2, "b": 10}),
    Case("a quota without bounds", [account("a", quota=None), account("b")], 8, {"a": 8, "b": 0}),
    Case(
        "queues below a queue divide its share",
        [account("top", wants=(4.0, 0, 0)), account("a", parent="top"), account("b", parent="top")],
        10,
        {"top": 4, "a": 2, "b": 2},
    ),
)


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
def test_the_fair_share(case: Case) -> None:
    accounts = list(map(copied, case.accounts))
    divide(accounts, (case.total, 0.0, 0.0))
    assert {each.queue.name: each.fair[0] for each in accounts} == case.shares


def copied(known: Account) -> Account:
    made = Account(known.queue)
    made.requested = known.requested
    return made


def ranked(*accounts: Account, asked: float = 1.0) -> list[str]:
    """Return the queues in KAI's order, if the next gang of each asks for so many GPUs."""
    total = (10.0, 0.0, 0.0)
    divide(accounts, total)
    asks = (asked, 0.0, 0.0)

    def compare(one: Account, other: Account) -> int:
        return -1 if one.comes_before(asks, other, asks, total) else 1

    return [each.queue.name for each in sorted(accounts, key=cmp_to_key(compare))]


def having(has: float, made: Account) -> Account:
    made.take((has, 0.0, 0.0), preemptible=False)
    return made


def test_the_order_of_queues() -> None:
    assert ranked(having(5, account("a", quota=5)), having(1, account("b", quota=5))) == ["b", "a"]
    assert ranked(account("a"), account("b", quota=5)) == ["b", "a"]
    assert ranked(account("a"), account("b", priority=200)) == ["b", "a"]
    assert ranked(account("a", weight=0.0), account("b")) == ["b", "a"]
    assert ranked(having(2, account("a")), having(1, account("b"))) == ["b", "a"]
    assert ranked(account("a", created=2.0), account("b", created=1.0)) == ["b", "a"]


@pytest.mark.parametrize("preemptible", [True, False])
def test_only_what_is_not_preemptible_is_bound_to_the_quota(preemptible: bool) -> None:
    made = having(4, account("a", quota=5, limit=8))
    assert made.exceeds((2.0, 0.0, 0.0), NOTHING, preemptible=preemptible) is not preemptible
    assert made.exceeds((5.0, 0.0, 0.0), NOTHING, preemptible=preemptible)
    assert not made.exceeds((1.0, 0.0, 0.0), NOTHING, preemptible=preemptible)


def test_what_is_evicted_counts_in_no_limit_and_in_the_quota() -> None:
    made = having(4, account("a", quota=5, limit=8))
    evicted = (2.0, 0.0, 0.0)
    assert not made.exceeds((6.0, 0.0, 0.0), evicted, preemptible=True)
    assert made.exceeds((7.0, 0.0, 0.0), evicted, preemptible=True)
    assert made.exceeds((2.0, 0.0, 0.0), evicted, preemptible=False)


def test_very_many_pods_with_a_part_of_a_gpu_are_counted() -> None:
    """A minimum may be any number: one by one, this would take ten minutes."""
    part = Shape((("nvidia.com/gpu", 500),), (), (), (), GpuPart(0.5))
    assert quantities_of([(part, 2**31 - 1)])[0] == (2**31 - 1) * 0.5


@pytest.mark.parametrize(
    ("name", "gpus"),
    [("mig-2g.10gb", 2), ("mig-" + "9" * 400 + "g.1gb", 0), ("mig-" + "9" * 5000 + "g.1gb", 0)],
)
def test_the_gpus_of_a_mig_device(name: str, gpus: float) -> None:
    assert quantities({f"nvidia.com/{name}": 1000}) == (gpus, 0, 0)
