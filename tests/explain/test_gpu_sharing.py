"""The GPUs of a node that pods share, counted as KAI counts them.

Tests `app/explain/state/gpu_sharing.py`.
"""

from typing import Any

import pytest

from app.explain.state.gpu_sharing import (
    Choice,
    Group,
    Shares,
    attracts,
    capacity_for,
    choice_of,
    fitting,
    is_possible,
    postponed,
    shares_of,
)
from app.facts.kubernetes.gpu_sharing import MEMORY_LABEL, GpuPart
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod, Shape

HALF = GpuPart(0.5)
ENDS = Group(60, 60, 60)
"""All pods of the GPU are terminating."""


def shares(*groups: Group, memory: int = 100, is_labelled: bool = False) -> Shares:
    return Shares(memory, is_labelled, groups)


def used(amount: int) -> Group:
    return Group(amount, amount, 0)


THREE = shares(used(60), used(40), used(0), used(70))


@pytest.mark.parametrize(
    ("of", "available", "most"),
    [
        pytest.param(shares(), 0, 0.0, id="no GPU is shared"),
        pytest.param(THREE, 1300, 0.6, id="a GPU without pods does not count"),
        pytest.param(shares(Group(80, 80, 30), used(100)), 500, 0.5, id="what ends is free"),
        pytest.param(shares(Group(120, 120, 0), used(90)), 100, 0.1, id="more than there is"),
        pytest.param(shares(used(1), memory=3), 666, 2 / 3, id="rounded down"),
    ],
)
def test_what_is_left_of_shared_gpus(of: Shares, available: int, most: float) -> None:
    assert (of.available, of.most_left) == (available, most)


@pytest.mark.parametrize(
    ("of", "part", "positions"),
    [
        pytest.param(THREE, GpuPart(0.3), [3, 0, 1], id="the fullest first"),
        pytest.param(THREE, GpuPart(0.4), [0, 1], id="just enough"),
        pytest.param(THREE, GpuPart(0.61), [], id="too much"),
        pytest.param(shares(used(60), used(60)), GpuPart(0.2), [0, 1], id="equally full"),
        pytest.param(shares(ENDS, used(60)), GpuPart(0.2), [1], id="a GPU becomes free as a whole"),
        pytest.param(shares(Group(60, 60, 50)), GpuPart(0.9), [0], id="a part of it ends"),
    ],
)
def test_the_shared_gpus_with_room_for_a_part(
    of: Shares, part: GpuPart, positions: list[int]
) -> None:
    assert fitting(of, part) == positions


@pytest.mark.parametrize(
    ("of", "attractive"),
    [
        (shares(), False),
        (shares(used(0)), False),
        (shares(used(100)), True),
        (shares(used(101)), False),
        (shares(ENDS), False),
        (shares(ENDS, used(10)), True),
    ],
)
def test_a_node_with_shared_gpus_attracts_pods_without_gpus(of: Shares, attractive: bool) -> None:
    assert attracts(of) is attractive


@pytest.mark.parametrize(
    ("part", "is_labelled", "possible"),
    [
        (GpuPart(2.5), False, True),
        (GpuPart(0.0, 50), True, True),
        (GpuPart(0.0, 50), False, False),
        (GpuPart(0.0, 100), True, True),
        (GpuPart(0.0, 150), True, False),
        (GpuPart(0.0, 200), True, True),
    ],
)
def test_a_part_that_gpus_of_a_size_can_provide(
    part: GpuPart, is_labelled: bool, possible: bool
) -> None:
    assert is_possible(shares(is_labelled=is_labelled), part) is possible


TWO = GpuPart(0.5, devices=2)
CHOICES = {
    "a shared GPU": (
        (THREE, HALF, 0, True),
        Choice(shares(used(60), used(90), used(0), used(70)), 0, False),
    ),
    "a whole GPU, because none has room": (
        (shares(used(60)), HALF, 1, True),
        Choice(shares(used(60), used(50)), 1, False),
    ),
    "one of each": (
        (shares(used(60), used(50)), TWO, 1, True),
        Choice(shares(used(60), used(100), used(50)), 1, False),
    ),
    "two whole GPUs": (
        (shares(), TWO, 2, True),
        Choice(shares(used(50), used(50)), 2, False),
    ),
    "too few whole GPUs": ((shares(), TWO, 1, True), None),
    "no more shared GPUs than it asks for": (
        (shares(used(50), used(40)), HALF, 0, True),
        Choice(shares(used(100), used(40)), 0, False),
    ),
    "it waits for a pod that ends": (
        (shares(Group(80, 80, 50)), HALF, 0, True),
        Choice(shares(Group(130, 80, 0)), 0, True),
    ),
    "it need not wait if there is just enough": (
        (shares(Group(50, 50, 20)), HALF, 0, True),
        Choice(shares(Group(100, 100, 20)), 0, False),
    ),
    "it waits for another resource": (
        (shares(used(50)), TWO, 1, False),
        Choice(shares(Group(100, 50, -50), Group(50, 0, -50)), 1, True),
    ),
    "memory on GPUs whose size is not known": ((shares(used(50)), GpuPart(0.0, 10), 8, True), None),
    "memory on GPUs of a known size": (
        (shares(used(3000), memory=8000, is_labelled=True), GpuPart(0.0, 5000), 0, True),
        Choice(shares(used(8000), memory=8000, is_labelled=True), 0, False),
    ),
}


@pytest.mark.parametrize(("asked", "choice"), CHOICES.values(), ids=CHOICES)
def test_the_gpus_that_a_pod_gets(
    asked: tuple[Shares, GpuPart, int, bool], choice: Choice | None
) -> None:
    of, part, whole, is_idle = asked
    assert choice_of(of, part, whole, is_idle=is_idle) == choice


@pytest.mark.parametrize(
    ("of", "part", "whole", "most", "count"),
    [
        pytest.param(shares(), HALF, 2, 9, 4, id="two on each whole GPU"),
        pytest.param(shares(), HALF, 2, 3, 3, id="no more than are asked for"),
        pytest.param(shares(used(50)), HALF, 1, 9, 3, id="one on a shared GPU"),
        pytest.param(shares(), TWO, 3, 9, 2, id="two parts each, and a third GPU is left over"),
        pytest.param(shares(Group(80, 80, 50)), HALF, 1, 9, 0, id="the first one would wait"),
        pytest.param(shares(), GpuPart(0.0, 10), 1, 9, 0, id="impossible"),
        pytest.param(shares(), GpuPart(0.5, devices=0), 0, 7, 7, id="no GPU"),
        pytest.param(shares(memory=100_000), GpuPart(0.0001), 1, 5000, 1000, id="a bounded number"),
    ],
)
def test_how_many_pods_with_a_part_fit_now(
    of: Shares, part: GpuPart, whole: int, most: int, count: int
) -> None:
    assert capacity_for(of, part, whole, most) == count


def test_pods_that_were_placed_since_wait_for_room() -> None:
    before = shares(used(40), Group(60, 60, 10))
    after = shares(used(90), Group(60, 60, 10), used(30))
    assert postponed(before, after) == shares(
        Group(90, 40, -50), Group(60, 60, 10), Group(30, 0, -30)
    )


def sharing(name: str, portion: float, *groups: str, **more: Any) -> Pod:
    shape = Shape(part=GpuPart(portion, devices=len(groups)))
    return Pod("ns", name, shape=shape, gpu_groups=groups, **more)


def test_the_pods_of_a_node_share_its_gpus() -> None:
    pods = [
        sharing("a", 0.5, "g2", "g1"),
        sharing("b", 0.2, "g1"),
        sharing("c", 0.9, "g1", background=True),
        Pod("ns", "d", gpu_groups=("g3",)),
    ]
    found = shares_of(Node("n"), pods, lambda pod: pod.name == "b")
    assert found == shares(Group(70, 70, 20), Group(50, 50, 0))
    labelled = shares_of(Node("n", {MEMORY_LABEL: "81920"}), pods[:1], lambda pod: False)
    assert (labelled.memory, labelled.is_labelled) == (81_900, True)
    assert labelled.groups == (used(40_950), used(40_950))
