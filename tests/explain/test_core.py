"""What KAI protects of a semi-preemptible PodGroup, and what it evicts.

Tests `app/explain/gangs/core.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.gangs.assembly import gang_of_pod, gang_of_pod_group
from app.explain.gangs.core import asks_for_quota, surplus_of
from app.explain.queue_order.cycle import line_of
from app.explain.queue_order.usage import accounts_of
from app.facts.kai.podgroup import SubGroup
from tests.explain.queue_order.test_cycle import Gangs, node

SEMI = {"preemptibility": "semi-preemptible"}
FOUR = tuple(SubGroup(f"r{number}", minimum=2) for number in range(4))


def tree(*sizes: int, **more: Any) -> Gangs:
    """A PodGroup `g` with SubGroups of so many pods with one GPU each, all placed."""
    gangs = Gangs()
    names = [f"r{number}" for number, size in enumerate(sizes) for _ in range(size)]
    gangs.add("g", *(1 for _ in names), nodes=["n1"] * len(names), **SEMI | more)
    gangs.pods = [
        replace(pod, subgroup=name, created=float(at))
        for at, (pod, name) in enumerate(zip(gangs.pods, names, strict=True))
    ]
    return gangs


def surplus(gangs: Gangs) -> list[str]:
    index = gangs.index(node("n1"))
    return sorted(pod.name for pod in surplus_of(index, gangs.groups[0]))


@pytest.mark.parametrize(
    ("gangs", "expected"),
    [
        pytest.param(tree(4, minimum=2), ["g-2", "g-3"], id="the youngest beyond the minimum"),
        pytest.param(tree(2, minimum=2), [], id="just the minimum"),
        pytest.param(tree(2, minimum=0), ["g-0", "g-1"], id="no minimum"),
        pytest.param(
            tree(2, 2, 2, 2, subgroups=FOUR, needed=2),
            ["g-4", "g-5", "g-6", "g-7"],
            id="whole SubGroups beyond minSubGroup, by name",
        ),
        pytest.param(
            tree(1, 2, 2, subgroups=FOUR, needed=2),
            ["g-0"],
            id="a SubGroup below its minimum has no place in the core",
        ),
        pytest.param(
            tree(3, 2, 2, 2, subgroups=FOUR),
            ["g-2"],
            id="all SubGroups are needed, and one has a pod more",
        ),
        pytest.param(
            tree(1, 1, subgroups=FOUR, needed=2),
            [],
            id="below the minimum, everything is protected",
        ),
        pytest.param(
            tree(
                2,
                2,
                2,
                subgroups=(
                    SubGroup("all", needed=1),
                    *(replace(sub, parent="all") for sub in FOUR[:2]),
                    FOUR[2],
                ),
            ),
            ["g-2", "g-3"],
            id="surplus inside of a part of the core",
        ),
    ],
)  # fmt: skip
def test_pods_outside_of_the_core(gangs: Gangs, expected: list[str]) -> None:
    if not gangs.groups[0].subgroups:
        gangs.pods = [replace(pod, subgroup="") for pod in gangs.pods]
    assert surplus(gangs) == expected


def test_pods_that_end_are_not_in_the_core() -> None:
    gangs = tree(3, minimum=2)
    gangs.pods = [replace(pod, subgroup="") for pod in gangs.pods]
    gangs.pods[0] = replace(gangs.pods[0], deleting=1.0)
    assert surplus(gangs) == []


def test_only_the_core_counts_against_the_quota() -> None:
    gangs = tree(2, 2, 2, 2, subgroups=FOUR, needed=2)
    account = accounts_of(gangs.index(node("n1")), "")["a"]
    held = (account.allocated, account.fixed, account.evictable)
    assert [resources[0] for resources in held] == [8.0, 4.0, 4.0]


@pytest.mark.parametrize(
    ("placed", "preemptibility", "asks"),
    [
        (1, "semi-preemptible", True),
        (2, "semi-preemptible", False),
        (2, "non-preemptible", True),
        (1, "preemptible", False),
    ],
)
def test_pods_beyond_the_minimum_need_no_quota(
    placed: int, preemptibility: str, asks: bool
) -> None:
    """KAI places them above it, also when it chooses whom to place next."""
    gangs = Gangs()
    nodes = ["n1"] * placed
    gangs.add("g", 1, 1, 1, minimum=2, nodes=nodes, preemptibility=preemptibility)
    bound = replace(gangs.index(node("n1")).queues["a"], quota=placed * 1000)
    index = gangs.index(node("n1"), queues=(replace(bound, parent=""),))
    assert asks_for_quota(gang_of_pod_group(index, gangs.groups[0])) is asks
    (turn,) = line_of(index).values()
    assert bool(turn.used) is not asks


def test_a_pod_without_a_group_needs_no_quota() -> None:
    gangs = Gangs()
    gangs.add("g", 1)
    assert not asks_for_quota(gang_of_pod(gangs.index(node("n1")), gangs.pods[0]))
