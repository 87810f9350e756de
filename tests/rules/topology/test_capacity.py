"""Warnings about domains that are too small, counted as KAI counts."""

from typing import Any

import pytest

from app.facts.grove.template import read_template
from app.facts.grove.topology import Level
from app.rules.topology.capacity import capacity_warnings
from app.rules.topology.coverage import Nodes
from tests.rules.mnnvl.test_grove_groups import clique, pcs

LEVELS = (Level("zone", "k/zone"), Level("rack", "k/rack"), Level("host", "kubernetes.io/hostname"))
OF_SET = ("set", "")


def node(
    number: int = 1, zone: str = "z", rack: str = "r", **labels: str
) -> tuple[dict[str, str], int]:
    return {
        "k/zone": zone,
        "k/rack": rack,
        **{f"nvidia.com/gpu.{key}": value for key, value in labels.items()},
    }, number


RACK = {OF_SET: "rack"}
POOLED = pcs(
    clique("w", replicas=2),
    clique("l", replicas=1),
    groups=[{"name": "pool", "cliqueNames": ["l"], "replicas": 9, "minAvailable": 2}],
)
SOME = clique("some", replicas=5)
SOME["spec"]["minAvailable"] = 2
TWO_OF_THREE = clique("more", replicas=3)
TWO_OF_THREE["spec"]["minAvailable"] = 2
ELASTIC = pcs(
    SOME,
    TWO_OF_THREE,
    clique("one", replicas=1),
    groups=[{"name": "both", "cliqueNames": ["more", "one"], "replicas": 1}],
)


@pytest.mark.parametrize(
    ("required", "nodes", "warnings"),
    [
        pytest.param({}, [node(1, count="8")], [], id="nothing required"),
        pytest.param(RACK, [], [], id="no nodes"),
        pytest.param(
            RACK,
            [node(1)],
            [
                "cannot check capacity: no node reports GPUs (checked: label nvidia.com/gpu.count, status.allocatable, ResourceSlices)"
            ],
            id="nobody knows the GPUs",
        ),
        pytest.param({}, [node(1)], [], id="nobody knows the GPUs, and nothing is required"),
        pytest.param(RACK, [node(4, count="8")], [], id="enough"),
        pytest.param({OF_SET: "galaxy"}, [node(1, count="8")], [], id="an unknown level"),
        pytest.param(
            {("clique", "absent"): "rack"}, [node(1, count="8")], [], id="an unknown clique"
        ),
        pytest.param(
            {("group", "pool"): "rack"}, [node(1, count="8")], [], id="a replica of a group fits"
        ),
        pytest.param(
            RACK,
            [node(3, count="8")],
            [
                'a replica of the PodCliqueSet must fit into one "rack", but it needs 32 GPUs, and no "rack" has more than 24 GPUs: all of its pods will stay pending unless nodes are added'
            ],
            id="the minAvailable replicas of a group count",
        ),
        pytest.param(
            {("clique", "w"): "host"},
            [node(3, count="8")],
            [
                'clique "w" must fit into one "host", but it has 2 pods with 8 GPUs each, and no "host" has GPUs for more than 1 of them: all of its pods will stay pending unless nodes are added'
            ],
            id="two pods on a node for one",
        ),
        pytest.param(
            {("group", "pool"): "rack"},
            [node(3, count="4")],
            [
                'a replica of scaling group "pool" must fit into one "rack", but clique "l" has 1 pod with 8 GPUs, and no "rack" has GPUs for one of them: all of its pods will stay pending unless nodes are added'
            ],
            id="larger pods than nodes",
        ),
        pytest.param(
            {("clique", "some"): "rack"},
            [node(3, count="8")],
            [
                'clique "some" must fit into one "rack", but it has 5 pods with 8 GPUs each, and no "rack" has GPUs for more than 3 of them: some of its pods will stay pending unless nodes are added'
            ],
            id="room for the pods that must be scheduled together",
        ),
        pytest.param(
            {("group", "both"): "rack"},
            [node(3, count="8")],
            [
                'a replica of scaling group "both" must fit into one "rack", but it needs 32 GPUs, and no "rack" has more than 24 GPUs: some of its pods will stay pending unless nodes are added'
            ],
            id="room for the pods of two cliques that must be scheduled together",
        ),
    ],
)
def test_capacity(required: dict[tuple[str, str], str], nodes: Nodes, warnings: list[str]) -> None:
    obj = ELASTIC if {("clique", "some"), ("group", "both")} & set(required) else POOLED
    assert capacity_warnings(read_template(obj), required, [], LEVELS, Nodes(nodes)) == warnings


MIXED = pcs(
    clique("w", replicas=4, gpus=1),
    clique("l", replicas=1),
    clique("cpu", replicas=1, gpus=0),
    groups=[{"name": "pool", "cliqueNames": ["w", "l"], "replicas": 1}],
)
OF_POOL = 'a replica of scaling group "pool"'
COUNTED = f"{OF_POOL} has pods with 8 and 1 GPUs under one topology constraint: for the pods that must be scheduled together, KAI looks for 5 x 8 = 40 free GPUs instead of 12"


@pytest.mark.parametrize(
    ("owners", "warnings"),
    [
        pytest.param([], [], id="no constraint"),
        pytest.param([("group", "pool")], [COUNTED], id="d2-rack: GPUs differ"),
        pytest.param([("group", "pool")] * 2, [COUNTED], id="once for each owner"),
        pytest.param([OF_SET], [], id="some have no GPUs, and KAI adds up"),
        pytest.param([("clique", "w")], [], id="pods of one clique are equal"),
        pytest.param([("clique", "absent")], [], id="an unknown clique"),
    ],
)
def test_pods_of_different_sizes_under_one_constraint(
    owners: list[tuple[str, str]], warnings: list[str]
) -> None:
    assert capacity_warnings(read_template(MIXED), {}, owners, LEVELS, Nodes()) == warnings


def test_kai_looks_for_room_for_the_pods_that_must_start_together() -> None:
    """`w` starts with one of its four pods. KAI adds the others one by one."""
    workers = clique("w", replicas=4, gpus=1)
    workers["spec"]["minAvailable"] = 1
    groups = [{"name": "pool", "cliqueNames": ["w", "l"], "replicas": 1}]
    template = read_template(pcs(workers, clique("l", replicas=1), groups=groups))
    pool = ("group", "pool")
    of_sizes = capacity_warnings(template, {}, [pool], LEVELS, Nodes())
    assert of_sizes[0].endswith("KAI looks for 2 x 8 = 16 free GPUs instead of 9")
    assert (
        capacity_warnings(template, {pool: "rack"}, [], LEVELS, Nodes([node(2, count="8")])) == []
    )


@pytest.mark.parametrize(
    ("nodes", "warnings"),
    [
        pytest.param([node(5, count="8")], [], id="enough for five of the largest"),
        pytest.param(
            [node(4, count="8")],
            [
                f'{OF_POOL} must fit into one "rack", but KAI counts the pods that must be scheduled together as 5 pods with 8 GPUs each, and no "rack" has room for them: all of its pods will stay pending unless nodes are added'
            ],
            id="enough for all pods, but not for five of the largest",
        ),
        pytest.param(
            [node(20, rack="r", count="4"), node(5, rack="s", count="8")],
            [],
            id="enough in the rack with fewer GPUs",
        ),
    ],
)
def test_room_is_counted_as_kai_counts_it(nodes: Any, warnings: list[str]) -> None:
    required = {("group", "pool"): "rack"}
    assert capacity_warnings(read_template(MIXED), required, [], LEVELS, Nodes(nodes)) == warnings


@pytest.mark.parametrize(
    ("nodes", "warnings"),
    [
        pytest.param([node(2, count="8")], [], id="enough for either clique"),
        pytest.param(
            [node(1, count="8")],
            [
                'clique "w" must fit into one "rack", but it has 2 pods with 8 GPUs each, and no "rack" has GPUs for more than 1 of them: all of its pods will stay pending unless nodes are added'
            ],
            id="too small for one of them",
        ),
    ],
)
def test_kueue_needs_room_for_each_clique_and_not_for_all_of_them(
    nodes: Any, warnings: list[str]
) -> None:
    """A constraint becomes a request of each PodSet, and replicas of groups have their own."""
    obj = pcs(
        clique("w", replicas=2),
        clique("l", replicas=1, gpus=4),
        groups=[{"name": "pool", "cliqueNames": ["l"], "replicas": 9, "minAvailable": 9}],
    )
    for each in obj["spec"]["template"]["cliques"]:
        each["spec"]["podSpec"]["schedulerName"] = "kueue"
    found = capacity_warnings(read_template(obj), RACK, [OF_SET], LEVELS, Nodes(nodes))
    assert found == warnings
