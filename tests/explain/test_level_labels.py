"""What is said of nodes that lack labels of levels, and of levels that are no tree.

Tests `app/explain/reasons/topology.py`.
"""

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import explain
from app.facts.constraint import SchedulerConstraint
from app.facts.identity import Ref
from app.facts.kai.podgroup import SubGroup
from app.facts.kai.topology import KaiTopology
from app.facts.kubernetes.node import Node
from app.facts.labels import NVLINK_DOMAIN
from app.facts.rows import ROOM
from app.objects.owners import OwnerRef
from tests.explain.fleet import (
    GPU,
    HOST,
    KEYS,
    RACK,
    RACKS,
    ZONE,
    answer,
    facts,
    fill,
    gang,
    node,
    nodes,
    occupant,
    pcs,
    pod_group,
    pods,
    today,
)
from tests.explain.queue_order.test_cycle import Gangs
from tests.explain.queue_order.test_cycle import node as bare
from tests.explain.table.recorded import Asking
from tests.explain.table.row import Changes, without

FULL = {"pods": (*pods(), *fill(*RACKS))}
OF_ZONE: Changes = {
    "gangs": (gang(told=SchedulerConstraint(ZONE), groups=()),),
    "sets": (pcs(groups=()),),
    "pod_groups": (pod_group(told=SchedulerConstraint(ZONE), subgroups=()),),
}
SWAPPED = tuple(
    replace(n, labels={**n.labels, ZONE: n.labels[RACK], RACK: n.labels[ZONE]}) for n in nodes()
)


def in_racks(*places: str) -> tuple[Node, ...]:
    """The nodes, and more nodes, each at `ZONE/RACK`."""
    more = (place.split("/") for place in places)
    return (*nodes(), *(node(16 + at, zone, rack) for at, (zone, rack) in enumerate(more)))


def unlabelled(*keys: str, **allocatable: int) -> tuple[Node, ...]:
    """The nodes, and one more that lacks labels."""
    bare = node(16, "zone-b", "rack-b2")
    labels = {key: value for key, value in bare.labels.items() if key not in keys}
    has = {**bare.allocatable, **allocatable}
    return (*nodes(), replace(bare, labels=labels, allocatable=has))


def owned_by(*owners: OwnerRef) -> tuple[KaiTopology, ...]:
    return (KaiTopology("grove-topology", KEYS, owners),)


MORE = tuple(f"zone-a/rack-d{number}" for number in range(5))
CASES: dict[str, tuple[Changes, str]] = {
    "a name in two zones, for racks of different sizes": (
        {
            "nodes": in_racks(
                "zone-a/rack-c", "zone-b/rack-c", "zone-b/rack-c", "zone-b/rack-d"
            )
        },
        "rack-c is in zone-a and zone-b, so KAI counts 2 racks of 1 and 2 nodes",
    ),
    "two names of eleven, each in two zones": (
        {
            "nodes": in_racks(
                "zone-b/rack-c2", "zone-a/rack-c2", "zone-a/rack-c1", "zone-b/rack-c1", *MORE
            )
        },
        "rack-c1 is in zone-a and zone-b, so KAI counts 2 racks of 1 node",
    ),
    "a fifth of the names": (
        {"nodes": in_racks("zone-a/rack-c", "zone-b/rack-c")},
        "1 of 5 rack names occurs in more than one zone, such as rack-c. KAI counts a separate rack in each of them",
    ),
    "all names": (
        {
            "nodes": tuple(
                replace(n, labels={**n.labels, RACK: n.labels[RACK].replace("-b", "-a")})
                for n in nodes()
            )
        },
        "2 of 2 rack names occur in more than one zone, such as rack-a1. KAI counts a separate rack in each of them",
    ),
    "the levels of a Topology without a ClusterTopology are swapped": (
        {"nodes": SWAPPED, "topologies": ()},
        f"The levels zone and rack are swapped: by the labels of the nodes, {RACK} is broader than {ZONE}, which is listed above it. KAI counts each rack several times",
    ),
    "a node without GPUs lacks its rack": (
        {"nodes": unlabelled(RACK, **{GPU: 0}), **FULL},
        "Node gpu-16 (no GPUs) lacks the label example.com/rack, so KAI ignores it for every gang with a constraint",
    ),
    "a node that is too small for each pod lacks its rack": (
        {"nodes": unlabelled(RACK, cpu=999), **FULL},
        "No rack has room for any of 3 pods of 8 GPUs",
    ),
    "a node that is just large enough for the router lacks its rack": (
        {"nodes": unlabelled(RACK, cpu=1000), **FULL},
        "Node gpu-16 (8 GPUs) lacks the label example.com/rack, so KAI ignores it for every gang with a constraint",
    ),
    "a node lacks its rack and its zone": (
        {"nodes": unlabelled(ZONE, RACK), **FULL},
        "Node gpu-16 (8 GPUs) lacks the labels topology.kubernetes.io/zone and example.com/rack, so KAI ignores it for every gang with a constraint",
    ),
    "nodes at the borders of racks lack theirs": (
        {"nodes": without(RACK, "gpu-03", "gpu-04"), **FULL},
        "2 nodes (16 GPUs) lack the label example.com/rack, so KAI ignores them for every gang with a constraint",
    ),
    "a node of each of two racks lacks its label, and with both the gang fits": (
        {
            "nodes": without(RACK, "gpu-05", "gpu-13"),
            "pods": (
                *pods(),
                *fill("rack-a1", "rack-b1"),
                *fill("rack-b2", but=("gpu-13",)),
                occupant("gpu-04"),
            ),
        },
        "Node gpu-05 (8 GPUs) lacks the label example.com/rack, so KAI ignores it for every gang with a constraint. Once all such nodes are labelled, this gang fits",
    ),
    "the labels would not be enough": (
        {"nodes": without(RACK, "gpu-13"), **FULL},
        "Node gpu-13 (8 GPUs) lacks the label example.com/rack, so KAI ignores it for every gang with a constraint",
    ),
    "no node has a rack": (
        {"nodes": without(RACK, *(n.name for n in nodes()))},
        "No node has the label example.com/rack (level rack), so KAI ignores all 16 nodes for every gang with a constraint",
    ),
    "no node has a rack, which the gang does not need, and one lacks its zone": (
        {
            **OF_ZONE,
            "nodes": tuple(
                replace(n, labels={key: n.labels[key] for key in keys})
                for n in nodes()
                if (keys := (HOST,) if n.name == "gpu-03" else (ZONE, HOST))
            ),
        },
        "Node gpu-03 (8 GPUs) lacks the label topology.kubernetes.io/zone, so KAI ignores it for every gang with a constraint",
    ),
    "nodes lack labels, and the gang has room without them": (
        {"nodes": without(RACK, "gpu-03", "gpu-04")},
        "2 nodes lack the label of a level, so KAI ignores them for gangs with a constraint. This gang has room without them",
    ),
    "nodes lack labels, and pods of other namespaces are not known": (
        {"nodes": without(RACK, "gpu-03", "gpu-04"), "unseen": {ROOM: "no permission to list"}},
        "2 nodes lack the label of a level, so KAI ignores them for gangs with a constraint",
    ),
    "KAI's Topology has no owner": (
        {"kai_topologies": owned_by()},
        "Topology grove-topology is owned by nobody, not by ClusterTopology grove-topology, so grove-admission does not update it",
    ),
    "KAI's Topology of a binding has no owner": (
        {**today(), "kai_topologies": owned_by()},
        "Topology grove-topology is owned by nobody, not by ClusterTopologyBinding grove-topology, so Grove does not update it",
    ),
    "KAI's Topology has other owners": (
        {
            "kai_topologies": owned_by(
                OwnerRef("ClusterTopology", "other", "uid-other"),
                OwnerRef("ConfigMap", "grove-topology", "uid-map"),
            )
        },
        "Topology grove-topology is owned by ClusterTopology other and ConfigMap grove-topology, not by ClusterTopology grove-topology, so grove-admission does not update it",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "text"), CASES.values(), ids=CASES)
def test_labels_of_levels(changes: Changes, text: str, answered: Asking) -> None:
    assert text in [reason.text for reason in answered(facts(**changes)).reasons]


def test_a_missing_label_comes_before_what_follows_from_it() -> None:
    """With its label, the second of three nodes would complete the only rack."""
    three = without(RACK, "gpu-01")[:3]
    first, second, *_ = answer(facts(nodes=three)).reasons
    assert (first.id, first.severity, first.follows) == ("LevelLabelMissing", "problem", False)
    assert (second.id, second.follows) == ("NeverFits", True)
    assert "gpu-01 example.com/rack=rack-a1" in first.commands[0]

    others = answer(facts(nodes=three[:2])).reasons
    assert [reason.follows for reason in others if reason.id == "NeverFits"] == [False]


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        (("n1",), "label on n1."),
        (("n0",), "label on n0."),
        (("n0", "n1", "n2"), "label on all nodes."),
    ],
)
def test_nobody_is_told_to_set_the_label_of_nvlink_domains(
    missing: tuple[str, ...], named: str
) -> None:
    """It is missing because the GPUs have not joined the NVLink fabric."""
    domain = SchedulerConstraint(NVLINK_DOMAIN)
    gangs = Gangs()
    gangs.add(
        "w", 8, 8, 8, minimum=3, subgroups=(SubGroup("w", minimum=3, told=domain, topology="nvl"),)
    )
    gangs.pods = [replace(pod, subgroup="w") for pod in gangs.pods]
    own = [
        replace(
            bare(name), labels={HOST: name, **({} if name in missing else {NVLINK_DOMAIN: "u.1"})}
        )
        for name in ("n0", "n1", "n2")
    ]
    index = gangs.index(*own, kai_topologies=(KaiTopology("nvl", (NVLINK_DOMAIN, HOST)),))
    found = explain(index, Ref("PodGroup", "ns", "w"))
    assert found
    (reason,) = (each for each in found.reasons if each.id == "LevelLabelMissing")
    assert named in reason.remedy
    assert "fabric" in reason.remedy
    assert not reason.commands
