"""Which pods KAI should evict for a gang of higher priority.

Tests `app/explain/reasons/victims.py`.
"""

from typing import Any

import pytest

from tests.explain.small import Object, made, node, pod, pod_group, queues, told


def group(name: str, pods: int, where: str, *, gpus: int = 4, **spec: Any) -> list[Object]:
    times = {"creationTimestamp": spec.pop("created", "2026-01-01T00:00:00Z")}
    own = pod_group(name, spec.pop("minimum", pods), **spec)
    own["metadata"] |= times
    return [own, *(pod(f"{name}-{at}", name, gpus, where, **times) for at in range(pods))]


def victims(held: list[Object], gpus: int = 4, **limit: int) -> str:
    classes = [
        {**made("scheduling.k8s.io/v1", "PriorityClass", name, {}), "value": value}
        for name, value in (("low", 10), ("train", 50), ("high", 90))
    ]
    wants = [pod_group("w", 1, priorityClassName="high"), pod("w-0", "w", gpus)]
    nodes = [node("a"), node("b")]
    answer = told([*nodes, *queues("", **limit), *classes, *held, *wants], "PodGroup", "w")
    return answer.reasons[0].remedy


ONE = "2026-01-02T00:00:00Z"
TWO = "2026-01-03T00:00:00Z"


@pytest.mark.parametrize(
    ("held", "gpus", "evicted"),
    [
        pytest.param(
            [*group("x", 2, "a"), *group("y", 2, "b", priorityClassName="low")],
            4,
            "2 pods of y",
            id="the lower class comes first, as a whole gang",
        ),
        pytest.param(
            [*group("x", 2, "a", created=ONE), *group("y", 2, "b", created=TWO)],
            4,
            "2 pods of y",
            id="the newest comes first",
        ),
        pytest.param(
            [*group("x", 2, "a", minimum=1), *group("y", 2, "b", created=TWO)],
            4,
            "1 pod of x",
            id="pods beyond a minimum come before whole gangs",
        ),
        pytest.param(
            [
                *group("x", 2, "a", created=ONE),
                *group("y", 1, "b", gpus=2, created=TWO),
                *group("z", 1, "b", gpus=6, priorityClassName="high"),
            ],
            8,
            "2 pods of x",
            id="pods that the gang does not need go on running",
        ),
    ],
)
def test_kai_evicts_no_more_than_it_must(held: list[Object], gpus: int, evicted: str) -> None:
    assert victims(held, gpus) == f"Wait: KAI may preempt {evicted}"


def test_the_victims_leave_enough_of_a_limit_and_of_a_node() -> None:
    held = [
        *group("x", 2, "a", created=ONE),
        *group("y", 1, "b", gpus=2, created=TWO),
        *group("z", 1, "b", gpus=6, priorityClassName="high"),
    ]
    assert victims(held, 8, limit=16) == "Wait: KAI may preempt 2 pods of x"
