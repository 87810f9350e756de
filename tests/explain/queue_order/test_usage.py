"""What queues use: from their pods, or from their status if pods are not known."""

from typing import Any

import pytest

from app.explain.queue_order.usage import accounts_of, new_accounts
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kai.queue import Queue, Share
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.workload import PriorityClass
from app.facts.rows import ROOM
from tests.explain.fleet import shape

QUEUES = (
    Queue("root", allocated=9_000),
    Queue(
        "a",
        "root",
        allocated=7_000,
        allocated_fixed=3_000,
        cpu=Share(allocated=8_000, allocated_fixed=2_000),
    ),
    Queue("b", "root"),
    Queue("elsewhere", pool="other", allocated=1_000),
)
HAS = {"nvidia.com/gpu": 8_000, "cpu": 64_000, "memory": 10**15, "pods": 110_000}


def pod(group: str, number: int, gpus: int, node: str = "") -> Pod:
    return Pod(
        "ns",
        f"{group}-{number}",
        uid=f"uid-{group}-{number}",
        node=node,
        scheduler="kai-scheduler",
        shape=shape(gpus),
        group=group,
    )


def index(**more: Any) -> Index:
    """Queue `a` uses three GPUs, one of which is not preemptible, and wants two more."""
    groups = (
        KaiPodGroup("ns", "train", "uid-train", queue="a", priority_class="low"),
        KaiPodGroup("ns", "fixed", "uid-fixed", queue="a", priority_class="fixed"),
        KaiPodGroup("ns", "ended", "uid-ended", queue="a", given_up=True),
    )
    pods = (
        pod("train", 0, 2, "n1"),
        pod("train", 1, 2),
        pod("fixed", 0, 1, "n1"),
        pod("ended", 0, 4),
    )
    facts: dict[str, Any] = {
        "nodes": (Node("n1", {}, HAS),),
        "queues": QUEUES,
        "priorities": (PriorityClass("low", 50), PriorityClass("fixed", 200)),
        "pods": pods,
        "pod_groups": groups,
        **more,
    }
    return Index(Snapshot(**facts))


@pytest.mark.parametrize(
    ("name", "allocated", "fixed", "evictable", "requested"),
    [("a", 3, 1, 2, 5), ("root", 3, 1, 2, 5), ("b", 0, 0, 0, 0)],
)
def test_usage_of_pods(
    name: str, allocated: float, fixed: float, evictable: float, requested: float
) -> None:
    account = accounts_of(index(), "")[name]
    assert [account.allocated[0], account.fixed[0], account.evictable[0], account.requested[0]] == [
        allocated,
        fixed,
        evictable,
        requested,
    ]


@pytest.mark.parametrize("kind", [ROOM, "pods", "pod_groups", "nodes"])
def test_usage_is_from_the_status_if_pods_are_not_known(kind: str) -> None:
    accounts = accounts_of(index(unseen={kind: "no permission to list"}), "")
    account = accounts["a"]
    assert (account.allocated, account.fixed) == ((7.0, 8000.0, 0.0), (3.0, 2000.0, 0.0))
    assert account.requested == account.allocated
    assert account.evictable == (0.0, 0.0, 0.0)
    assert accounts["root"].allocated[0] == 9.0
    assert accounts["b"].allocated[0] == 0.0


def test_a_pool_has_its_own_queues() -> None:
    assert new_accounts(index(), "other").keys() == {"elsewhere"}
    assert new_accounts(index(), "").keys() == {"root", "a", "b"}
