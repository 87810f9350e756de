"""What the labels of nodes say about levels, and how much room they leave."""

from collections.abc import Iterator, Mapping

import pytest

from app.facts.grove.topology import Level
from app.facts.kubernetes.node import GPUS as ALLOCATABLE
from app.objects.conditions import Condition
from app.rules.topology.coverage import (
    MOST_RESULTS,
    Nodes,
    Room,
    coverage_condition,
    coverage_problems,
    right_order,
)

ZONE = Level("zone", "k/zone")
RACK = Level("rack", "k/rack")
HOST = Level("host", "kubernetes.io/hostname")
AWS_1 = Level("rack", "topology.k8s.aws/network-node-layer-1")
AWS_3 = Level("block", "topology.k8s.aws/network-node-layer-3")
LEVELS = (ZONE, RACK, HOST)
GPUS = "nvidia.com/gpu.count"
NVLINK = "nvidia.com/gpu.clique"


def nodes(*labelled: tuple[str, int]) -> Nodes:
    """Nodes from texts such as `zone=a rack=r`."""
    return Nodes(
        ({f"k/{key}": value for key, value in (item.split("=") for item in text.split())}, count)
        for text, count in labelled
    )


TREE = nodes(("zone=a rack=r1", 2), ("zone=a rack=r2", 1), ("zone=b rack=r3", 1))


@pytest.mark.parametrize(
    ("levels", "labelled", "expected"),
    [
        pytest.param(LEVELS, TREE, [], id="a tree"),
        pytest.param(LEVELS, [], [], id="no nodes"),
        pytest.param(
            LEVELS,
            nodes(("zone=a", 3)),
            [
                'NoNodeHasLevel: level "rack": no node has the label k/rack, so pods that require this level stay pending'
            ],
            id="a key on no node",
        ),
        pytest.param(
            LEVELS,
            nodes(("zone=a rack=r", 3), ("zone=a", 2)),
            [
                'NodesLackLevel: level "rack": only 3 of 5 nodes have the label k/rack; for pods with a constraint of this topology, KAI ignores the other nodes'
            ],
            id="some nodes lack it",
        ),
        pytest.param(
            LEVELS,
            nodes(("zone=a rack=r", 1), ("zone=a", 2)),
            [
                'NodesLackLevel: level "rack": only 1 of 3 nodes has the label k/rack; for pods with a constraint of this topology, KAI ignores the other nodes'
            ],
            id="all nodes but one lack it",
        ),
        pytest.param(
            (ZONE, RACK),
            nodes(("zone=a rack=r1", 1), ("zone=b rack=r1", 1), ("zone=b rack=r2", 1)),
            [
                'LevelsNotATree: levels "zone" and "rack" are not a tree: rack "r1" is in a and b; the scheduler treats such a rack as a separate domain in each zone'
            ],
            id="a rack in two zones",
        ),
        pytest.param(
            (RACK, ZONE),
            TREE,
            [
                'LevelsNotBroadestFirst: level "rack" is listed above "zone", but according to the node labels each rack is in one zone: list "zone" above "rack": [{domain: zone, key: k/zone}, {domain: rack, key: k/rack}]'
            ],
            id="the narrowest first",
        ),
        pytest.param(
            (ZONE, RACK),
            nodes(*((f"zone=z{zone} rack=r{rack}", 1) for zone in range(5) for rack in range(5))),
            [
                'LevelsNotATree: levels "zone" and "rack" are not a tree: rack "r0" is in z0 and z1 and z2 and 2 more, "r1" is in z0 and z1 and z2 and 2 more, "r2" is in z0 and z1 and z2 and 2 more and 2 more; the scheduler treats such a rack as a separate domain in each zone'
            ],
            id="many racks in many zones",
        ),
        pytest.param(
            (AWS_3, AWS_1),
            [],
            [
                'LevelsNotBroadestFirst: level "block" is listed above "rack", but the label topology.k8s.aws/network-node-layer-1 is documented as broader than topology.k8s.aws/network-node-layer-3: list "rack" above "block"'
            ],
            id="no nodes, and not the documented order",
        ),
        pytest.param((AWS_1, AWS_3), [], [], id="no nodes, and the documented order"),
    ],
)
def test_coverage(levels: tuple[Level, ...], labelled: Nodes, expected: list[str]) -> None:
    problems = coverage_problems(levels, lambda keys: labelled)
    assert [f"{problem.reason}: {problem.text}" for problem in problems] == expected


def test_the_condition_of_a_topology() -> None:
    problems = coverage_problems(LEVELS, lambda keys: Nodes([({}, 1)]))
    covered = Condition(
        "LevelsCovered", "True", "NodesHaveLevels", "Nodes have the labels of all levels", 3
    )
    assert coverage_condition([], 3) == covered
    condition = coverage_condition(problems, 4)
    assert (condition.status, condition.reason, condition.message.count("no node has")) == (
        "False",
        "NoNodeHasLevel",
        2,
    )


def in_racks(*groups: tuple[str, str, int]) -> Nodes:
    """Nodes of one zone: (the rack, the GPUs of a node, the number of nodes) of each group."""
    return Nodes(
        ({"k/zone": "a", "k/rack": rack, **({GPUS: gpus} if gpus else {})}, number)
        for rack, gpus, number in groups
    )


@pytest.mark.parametrize(
    ("domain", "labelled", "room"),
    [
        pytest.param("rack", TREE, None, id="no GPUs are known"),
        pytest.param("rack", nodes(("zone=a", 4)), None, id="no node has the label"),
        pytest.param(
            "rack", in_racks(("r", "8", 2), ("s", "", 3)), Room(({8: 2}, {0: 3})), id="two racks"
        ),
        pytest.param(
            "rack",
            in_racks(("r", "8", 2), ("s", "8", 2), ("t", "4", 1)),
            Room(({8: 2}, {4: 1})),
            id="equal racks are listed once",
        ),
        pytest.param(
            "zone",
            in_racks(("r", "8", 2), ("s", "4", 1)),
            Room(({8: 2, 4: 1},)),
            id="one zone of two racks",
        ),
        pytest.param(
            "host", in_racks(("r", "8", 2), ("s", "4", 1)), Room(({8: 1},)), id="the largest host"
        ),
        pytest.param("host", in_racks(("r", "eight", 2)), None, id="not a number"),
        pytest.param("host", in_racks(("r", "9" * 5000, 2)), None, id="too many digits"),
    ],
)
def test_the_room_at_a_level(domain: str, labelled: Nodes, room: Room | None) -> None:
    keys = [level.key for level in LEVELS]
    last = [level.domain for level in LEVELS].index(domain)
    assert labelled.room_at(tuple(keys[: last + 1])) == room


def test_how_many_pods_a_domain_can_hold() -> None:
    room = Room(({8: 1, 4: 2},))
    assert [room.pods(gpus) for gpus in (8, 4, 3, 0)] == [1, 4, 4, None]
    assert room.gpus == 16


def test_the_domain_with_the_most_gpus_is_not_the_one_for_large_pods() -> None:
    room = Room(({4: 18}, {8: 4}))
    assert [room.pods(gpus) for gpus in (4, 8)] == [18, 4]
    assert room.gpus == 72


def test_nodes_of_an_nvlink_domain() -> None:
    groups: list[tuple[dict[str, str], int]] = [
        ({NVLINK: "a", "k/rack": "r"}, 3),
        ({NVLINK: "b", "k/rack": "r"}, 1),
        ({"k/zone": "z"}, 9),
    ]
    labelled = Nodes(groups)
    assert labelled.most_with_equal(NVLINK) == 3
    assert labelled.most_with_equal("other") == 0
    assert labelled.is_within(RACK, NVLINK) is False
    assert Nodes(groups[:1]).is_within(RACK, NVLINK) is True
    assert labelled.is_within(ZONE, NVLINK) is None


def test_gpus_of_a_node() -> None:
    assert Nodes([({GPUS: "4"}, 1), ({GPUS: "8"}, 1), ({}, 1)]).most_gpus() == 8
    assert Nodes([({}, 1)]).most_gpus() == 0
    assert Nodes([({ALLOCATABLE: "4"}, 1), ({GPUS: "2", ALLOCATABLE: "8"}, 1)]).most_gpus() == 4


def test_what_is_computed_from_all_nodes_is_computed_once() -> None:
    class Counted(Nodes):
        walks = 0

        def __iter__(self) -> Iterator[tuple[Mapping[str, str], int]]:
            self.walks += 1
            return super().__iter__()

    labelled = Counted(nodes(("zone=a rack=r", 2), ("zone=a rack=s", 1)))
    keys = (ZONE.key, RACK.key)
    first = labelled.room_at(keys)
    walks = labelled.walks
    assert [labelled.room_at(keys) for _ in range(3)] == [first] * 3
    assert labelled.walks == walks


@pytest.mark.parametrize(
    ("labelled", "depth"),
    [
        pytest.param(nodes(), 0, id="no nodes"),
        pytest.param(TREE, 0, id="two zones"),
        pytest.param(nodes(("zone=a rack=r1", 2), ("zone=a rack=r2", 1)), 1, id="one zone"),
        pytest.param(nodes(("zone=a rack=r1", 2)), 2, id="one rack with two nodes"),
        pytest.param(nodes(("zone=a rack=r1", 1)), 3, id="one node"),
        pytest.param(nodes(("zone=a rack=r1", 1), ("zone=b", 5)), 3, id="one node with all labels"),
        pytest.param(
            nodes(("zone=a rack=r1", 1), ("zone=b rack=r1", 1)), 0, id="racks of one name"
        ),
    ],
)
def test_how_many_levels_all_nodes_share(labelled: Nodes, depth: int) -> None:
    assert labelled.shared_levels(tuple(level.key for level in LEVELS)) == depth


AWS = "topology.k8s.aws/network-node-layer-"


def spread(*labels: str) -> list[dict[str, str]]:
    """Nodes with the values of the AWS layers 1, 2 and 3, such as "top mid0 leaf0"."""
    return [
        {f"{AWS}{layer}": value for layer, value in enumerate(text.split(), 1)} for text in labels
    ]


FOUR = spread("t m0 l0", "t m0 l1", "t m1 l2", "t m1 l3")


@pytest.mark.parametrize(
    ("levels", "labels", "right"),
    [
        pytest.param("block=2 rack=3", FOUR, None, id="as documented"),
        pytest.param("block=3 rack=2", FOUR, "block=2 rack=3", id="two keys are swapped"),
        pytest.param("rack=3 block=2", FOUR, "block=2 rack=3", id="two levels are swapped"),
        pytest.param(
            "zone=3 block=2 rack=1", FOUR, "zone=1 block=2 rack=3", id="three keys are reversed"
        ),
        pytest.param(
            "leaf=3 top=1 mid=2", FOUR, "top=1 mid=2 leaf=3", id="names that have no usual order"
        ),
        pytest.param(
            "block=2 rack=3",
            spread("t m0 l0", "t m1 l0", "t m1 l1"),
            None,
            id="one leaf in two blocks is no order",
        ),
        pytest.param(
            "block=2 rack=3",
            spread("t m0 l0", "t m0 l1", "t m1 l0", "t m2 l1"),
            None,
            id="keys that are in no order form no tree",
        ),
        pytest.param("block=2 rack=1", FOUR, "block=1 rack=2", id="one value, but documented"),
        pytest.param("block=4 rack=2", FOUR, None, id="a key that no node has"),
        pytest.param("block=3 rack=2", [], None, id="no nodes"),
    ],
)
def test_the_right_order(levels: str, labels: list[dict[str, str]], right: str | None) -> None:
    def read(text: str) -> list[Level]:
        pairs = (word.split("=") for word in text.split())
        host = Level("host", "kubernetes.io/hostname")
        return [*(Level(name, f"{AWS}{layer}") for name, layer in pairs), host]

    assert right_order(read(levels), labels) == (None if right is None else read(right))


def test_one_name_of_a_rack_in_two_zones_is_no_order() -> None:
    labels = [{"k/zone": zone, "k/rack": "r1"} for zone in ("a", "b")]
    assert right_order([ZONE, RACK], labels) is None


def test_the_results_about_node_labels_are_bounded() -> None:
    """Tenants can ask about any label in an annotation of a Pod."""
    nodes = Nodes([({"k/rack": "r"}, 2)])
    asked = [nodes.most_with_equal(f"k/{number}") for number in range(3 * MOST_RESULTS)]
    assert set(asked) == {0}
    assert nodes.most_with_equal("k/rack") == 2
    assert len(nodes.results) <= MOST_RESULTS
