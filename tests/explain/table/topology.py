"""Reasons in the labels of nodes and in the topology."""

from msgspec.structs import replace

from app.facts.constraint import SchedulerConstraint
from app.facts.grove.podcliqueset import UserConstraint
from app.facts.grove.topology import ClusterTopology
from app.facts.kai.topology import KaiTopology
from tests.explain.fleet import (
    HOST,
    KEYS,
    LEVELS,
    RACK,
    ZONE,
    fill,
    gang,
    node,
    nodes,
    occupant,
    pcs,
    pods,
)
from tests.explain.table.row import Row, kai, labelled, without

TOPOLOGY = (
    Row(
        "LevelLabelMissing",
        "two nodes lack the rack of the nodes before and after them, and with them the gang fits",
        {
            "nodes": without(RACK, "gpu-13", "gpu-14"),
            "pods": (*pods(), *fill("rack-a1", "rack-a2", "rack-b1")),
        },
        "2 nodes of rack-b2 (16 GPUs) lack the label example.com/rack, so KAI ignores them for every gang with a constraint. Once they are labelled, this gang fits",
        "platform",
        {"pods": (*pods(), *fill("rack-a1", "rack-a2", "rack-b1"))},
        also=("NoDomainFits",),
    ),
    Row(
        "LevelLabelMissing",
        "one node at the border of two racks lacks its rack: no value is guessed",
        {
            "nodes": without(RACK, "gpu-03"),
            "pods": (*pods(), *fill("rack-a2", "rack-b1", "rack-b2"), occupant("gpu-02")),
        },
        "Node gpu-03 (8 GPUs) lacks the label example.com/rack, so KAI ignores it for every gang with a constraint",
        "platform",
        {
            "nodes": without(RACK, "gpu-03"),
            "pods": (*pods(), *fill("rack-a2", "rack-b1", "rack-b2"), occupant("gpu-02")),
            "gangs": (gang(told=SchedulerConstraint(), groups=()),),
            "sets": (pcs(asked=UserConstraint(), groups=()),),
        },
        also=("NoDomainFits",),
    ),
    Row(
        "LevelLabelMissing",
        "the gang has a place without the node: a note",
        {"nodes": without(RACK, "gpu-03")},
        "1 node lacks the label of a level, so KAI ignores it for gangs with a constraint. This gang has room without it",
        "platform",
        {
            "nodes": without(RACK, "gpu-03"),
            "gangs": (gang(told=SchedulerConstraint(), groups=()),),
            "sets": (pcs(asked=UserConstraint(), groups=()),),
        },
    ),
    Row(
        "NotATree",
        "one rack of six is in two zones",
        {
            "nodes": (
                *nodes(),
                node(16, "zone-a", "rack-c"),
                node(17, "zone-b", "rack-c"),
                node(18, "zone-b", "rack-d"),
            )
        },
        "rack-c is in zone-a and zone-b, so KAI counts 2 racks of 1 node",
        "platform",
        {"nodes": (*nodes(), node(16, "zone-a", "rack-c"), node(17, "zone-a", "rack-c"))},
    ),
    Row(
        "NotATree",
        "zones and racks have each other's keys: swapped",
        {
            "nodes": tuple(
                replace(n, labels={**n.labels, ZONE: n.labels[RACK], RACK: n.labels[ZONE]})
                for n in nodes()
            )
        },
        "The levels zone and rack are swapped: by the labels of the nodes, example.com/rack is broader than topology.kubernetes.io/zone, which is listed above it. KAI counts each rack several times",
        "platform",
        {},
    ),
    Row(
        "NotATree",
        "most names of racks repeat: a habit, one note",
        {"nodes": labelled(("gpu-08", "gpu-09", "gpu-10", "gpu-11"), rack="rack-a1")},
        "1 of 3 rack names occurs in more than one zone, such as rack-a1. KAI counts a separate rack in each of them",
        "platform",
        {},
    ),
    Row(
        "TopologyDiffers",
        "KAI lacks a level",
        {
            "kai_topologies": kai((ZONE, HOST)),
            "gangs": (gang(told=SchedulerConstraint(ZONE), groups=()),),
        },
        "KAI's Topology has the levels topology.kubernetes.io/zone and kubernetes.io/hostname, but the ClusterTopology has topology.kubernetes.io/zone, example.com/rack and kubernetes.io/hostname",
        "platform",
        {"kai_topologies": kai(KEYS)},
        ("design",),
        ("GangUnconstrained",),
    ),
    Row(
        "TopologyDiffers",
        "KAI has another order",
        {"kai_topologies": kai((RACK, ZONE, HOST), "today")},
        "KAI's Topology has the levels example.com/rack, topology.kubernetes.io/zone and kubernetes.io/hostname, but the ClusterTopologyBinding has topology.kubernetes.io/zone, example.com/rack and kubernetes.io/hostname",
        "platform",
        {"kai_topologies": kai(KEYS, "today")},
        ("today",),
        ("NotATree",),
    ),
    Row(
        "TopologyDiffers",
        "KAI has no Topology",
        {"kai_topologies": ()},
        "KAI has no Topology grove-topology, so it cannot place gangs by zone, rack and host",
        "platform",
        {},
    ),
    Row(
        "TopologyDiffers",
        "the KAI Topology belongs to a former ClusterTopology",
        {"kai_topologies": kai(KEYS, owner="uid-former")},
        "Topology grove-topology is owned by a previous ClusterTopology grove-topology, not by ClusterTopology grove-topology, so grove-admission does not update it",
        "platform",
        {"kai_topologies": kai(KEYS)},
        ("design",),
    ),
    Row(
        "TopologyDiffers",
        "Grove reports drift",
        {
            "topologies": (
                ClusterTopology(
                    "ClusterTopologyBinding",
                    "grove-topology",
                    "uid-ctb",
                    LEVELS,
                    "grove-topology",
                    True,
                    "levels differ",
                ),
            )
        },
        "Grove reports that Topology grove-topology differs: levels differ",
        "platform",
        {
            "topologies": (
                ClusterTopology(
                    "ClusterTopologyBinding",
                    "grove-topology",
                    "uid-ctb",
                    LEVELS,
                    "grove-topology",
                    True,
                ),
            ),
            "kai_topologies": (KaiTopology("grove-topology", KEYS),),
        },
        ("today",),
    ),
)
