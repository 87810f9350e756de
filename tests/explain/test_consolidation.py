"""Running pods that KAI may move to other nodes to make room for a gang.

Tests `app/explain/reasons/consolidation.py`.
"""

from typing import Any

import pytest

from app.facts.kai.shard import read_shard
from tests.explain.small import Object, made, node, pod, pod_group, queues, told, topology

MOVES = "Wait: KAI may move running pods, such as those of PodGroup {} (1 pod), to other nodes"
TWO = [node("a"), node("b")]


def running(name: str, where: str, gpus: int = 4, **spec: Any) -> list[Object]:
    """A PodGroup with a running pod on a node."""
    return [pod_group(name, 1, **spec), pod(f"{name}-0", name, gpus, where)]


def halves(**spec: Any) -> list[Object]:
    """Two nodes, half of each in use."""
    return [*TWO, *queues(), *running("x", "a", **spec), *running("y", "b", **spec)]


def waiting(gpus: int = 8, **spec: Any) -> list[Object]:
    return [pod_group("w", 1, **spec), pod("w-0", "w", gpus)]


def shard(**spec: Any) -> Object:
    return made("kai.scheduler/v1", "SchedulingShard", "default", spec)


def remedy_of(*objects: Object) -> str:
    [reason] = [each for each in told(list(objects), "PodGroup", "w").reasons if each.remedy][:1]
    assert reason.id == "NoDomainFits"
    return reason.remedy


def test_a_pod_is_moved_if_it_fits_elsewhere() -> None:
    remedy = remedy_of(*halves(), *waiting())
    assert remedy.startswith(MOVES.format("x"))
    assert "Or wait until room for 1 more pod is free" in remedy


def test_only_the_pods_that_must_move_are_named() -> None:
    small = running("z", "a", 1)
    fixed = running("y", "b", 5, preemptibility="non-preemptible")
    objects = [*TWO, *queues(), *running("x", "a", 2), *small, *fixed]
    assert remedy_of(*objects, *waiting(7)).startswith(MOVES.format("x"))


def test_a_gang_that_needs_two_nodes_may_get_both() -> None:
    nodes = [node(name) for name in "abcd"]
    groups = [each for name in "abcd" for each in running(f"r{name}", name, 4)]
    gang = [pod_group("w", 2), pod("w-0", "w", 8), pod("w-1", "w", 8)]
    assert "KAI may move running pods" in remedy_of(*nodes, *queues(), *groups, *gang)


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param(
            [*halves(preemptibility="non-preemptible"), *waiting()], id="they are not preemptible"
        ),
        pytest.param([*halves(), *waiting(preemptibility="non-preemptible")], id="the gang is not"),
        pytest.param([*halves(), *waiting(), node("c", 1)][1:], id="nothing is free elsewhere"),
        pytest.param(
            [*TWO, *queues(), *running("x", "a"), *running("y", "b", 5), *waiting(7)],
            id="they fit nowhere else",
        ),
        pytest.param(
            [*halves(), *waiting(), shard(actions={"consolidation": {"enabled": False}})],
            id="the action is off",
        ),
        pytest.param(
            [*halves(), *waiting(), pod_group("n", 1), pod("n-0", "n", 2)],
            id="another gang gets a part of the room in this cycle",
        ),
        pytest.param(
            [
                *halves(),
                topology(),
                *waiting(topologyConstraint={"topology": "topo", "requiredTopologyLevel": "rack"}),
                *(node(n, 8, labels={"zone": "z", "rack": n}) for n in "ab"),
            ][2:],
            id="the gang has a level",
        ),
    ],
)
def test_nothing_is_said_of_moves(objects: list[Object]) -> None:
    answer = told(objects, "PodGroup", "w")
    assert not any("may move" in reason.remedy for reason in answer.reasons)


@pytest.mark.parametrize(
    ("spec", "consolidates"),
    [
        ({}, True),
        ({"placementStrategy": {"gpu": "binpack", "cpu": "binpack"}}, True),
        ({"placementStrategy": {"gpu": "spread"}}, False),
        (
            {
                "placementStrategy": {"gpu": "spread"},
                "actions": {"consolidation": {"enabled": True}},
            },
            True,
        ),
        ({"actions": {"consolidation": {"enabled": False}}}, False),
        ({"args": {"max-consolidation-preemptees": "0"}}, False),
        ({"args": {"max-consolidation-preemptees": "8"}}, True),
    ],
)
def test_a_shard_says_whether_it_moves_pods(spec: Object, consolidates: bool) -> None:
    assert read_shard(shard(**spec)).consolidates is consolidates


def test_a_gang_is_within_its_quota_only_in_vain_if_nothing_can_be_moved() -> None:
    for spec, ids in (({}, []), ({"preemptibility": "non-preemptible"}, ["WithinQuota"])):
        held = [each for each in halves(**spec) if each["kind"] != "Queue"]
        mine = queues(quota=16)
        other = made(
            "scheduling.run.ai/v2",
            "Queue",
            "other",
            {**mine[1]["spec"]},
        )
        for each in held:
            if each["kind"] == "PodGroup":
                each["spec"] = {**each["spec"], "queue": "other"}
        answer = told([*held, *mine, other, *waiting()], "PodGroup", "w")
        assert [each.id for each in answer.reasons if each.id == "WithinQuota"] == ids
