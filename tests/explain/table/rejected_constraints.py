"""Constraints that KAI never keeps, or keeps in another way than one would think."""

from msgspec.structs import replace

from app.facts.constraint import UNBOUND, SchedulerConstraint
from app.facts.kubernetes.node import Node
from tests.explain.fleet import (
    RACK,
    RACKS,
    ROUTER,
    WORKERS,
    ZONE,
    fill,
    gang,
    nodes,
    pcs,
    placed,
    pod,
    pod_group,
    pods,
    shape,
)
from tests.explain.table.row import Row, without


def racks(*names: str) -> tuple[Node, ...]:
    """The nodes, all in these racks of one zone, which are repeated in turn."""
    return tuple(
        replace(n, labels={**n.labels, ZONE: "zone-a", RACK: names[number % len(names)]})
        for number, n in enumerate(nodes())
    )


def named(zone: str, rack: str) -> tuple[object, ...]:
    """The nodes, those of rack-b2 with other names."""
    other = {ZONE: zone, RACK: rack}
    return tuple(
        replace(n, labels={**n.labels, **other}) if n.labels[RACK] == "rack-b2" else n
        for n in nodes()
    )


def dotted(zone: str, rack: str) -> tuple[object, ...]:
    """Nodes with rack-a1 called a.1 in zone-a, and rack-b2 as given."""
    called = {"rack-a1": {RACK: "a.1"}, "rack-b2": {ZONE: zone, RACK: rack}}
    return tuple(replace(n, labels={**n.labels, **called.get(n.labels[RACK], {})}) for n in nodes())


SIZES = (pod(ROUTER, 0), *(pod(WORKERS, n, shape=shape(size)) for n, size in enumerate((8, 1, 1))))
OF_ZONE = {"gangs": (gang(told=SchedulerConstraint(ZONE), groups=()),), "sets": (pcs(groups=()),)}
IGNORED = {
    "pod_groups": (pod_group(told=SchedulerConstraint(), unnamed=SchedulerConstraint(RACK)),),
    "pods": placed("gpu-00", "gpu-00", "gpu-04", "gpu-05"),
}
BUSY = fill(*RACKS, but=("gpu-00", "gpu-01", "gpu-12"))

REFUSED = (
    Row(
        "LevelUnknown",
        "the PodGroup names a topology and no level of it",
        {"pod_groups": (pod_group(told=UNBOUND, without_level=("llm-0",)),)},
        "The constraint of llm-0 names a topology but no level of it, so KAI never places the gang",
        "you",
        {"pod_groups": (pod_group(),)},
        also=("GangUnconstrained",),
    ),
    Row(
        "PreferredBroader",
        "a replica requires a rack and prefers a zone",
        {
            "gangs": (
                gang(groups=(replace(gang().groups[0], told=SchedulerConstraint(RACK, ZONE)),)),
            )
        },
        "llm-0-pool-0 requires rack but prefers the broader level zone, so KAI never places it",
        "you",
        {
            "gangs": (
                gang(groups=(replace(gang().groups[0], told=SchedulerConstraint(RACK, RACK)),)),
            )
        },
    ),
    Row(
        "SharedNarrowerDomain",
        "a zone is required, and all nodes are in one rack",
        {**OF_ZONE, "nodes": racks("rack-a1")},
        "llm-0 requires zone, and all usable nodes are in one domain of a narrower level, so KAI never places the gang (a defect of KAI)",
        "you",
        {**OF_ZONE, "nodes": racks("rack-a1", "rack-a2")},
    ),
    Row(
        "SizesDiffer",
        "a pod of 8 GPUs and two of 1 fit, three of 8 do not",
        {
            "pods": (
                *SIZES,
                *fill("rack-a2", "rack-b1", "rack-b2"),
                *fill("rack-a1", but=("gpu-00", "gpu-01")),
            )
        },
        "The pods of llm-0-pool-0 differ in size. KAI counts each like the largest, so KAI needs room in one rack for 3 x 8 GPUs, although the pods request 10 in total",
        "you",
        {
            "pods": (
                *SIZES,
                *fill("rack-a2", "rack-b1", "rack-b2"),
                *fill("rack-a1", but=("gpu-00", "gpu-01", "gpu-02")),
            )
        },
        also=("NoDomainFits",),
    ),
    Row(
        "LevelWithoutTopology",
        "the PodGroup names a level and no topology, and the pods are in two racks",
        IGNORED,
        "llm-0 requests level example.com/rack but names no topology, so KAI ignores the level",
        "you",
        {**IGNORED, "pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")},
        also=("RequiredViolated", "GangUnconstrained"),
    ),
    Row(
        "DomainsJoined",
        "rack a.1 of zone-a and rack 1 of zone-a.a",
        {"nodes": dotted("zone-a.a", "1"), "pods": (*pods(), *BUSY)},
        "KAI joins names with dots, so it treats zone-a.a/1 and zone-a/a.1 as one rack (8 nodes)",
        "platform",
        {"nodes": dotted("zone-a.b", "1"), "pods": (*pods(), *BUSY)},
    ),
    Row(
        "DomainsJoined",
        "workers that require a rack run in both",
        {"nodes": dotted("zone-a.a", "1"), "pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-12")},
        "KAI joins names with dots, so it treats zone-a.a/1 and zone-a/a.1 as one rack (8 nodes)",
        "platform",
        {"nodes": dotted("zone-a.a", "1")},
        also=("RequiredViolated",),
    ),
    Row(
        "RequiredViolated",
        "workers that require a rack are in two",
        {"pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-04")},
        "replica llm-0-pool-0 must stay in one rack, but its 3 pods are in 2 racks (zone-a/rack-a1 and zone-a/rack-a2)",
        "you",
        {"pods": placed("gpu-04", "gpu-00", "gpu-01", "gpu-02")},
    ),
    Row(
        "RequiredViolated",
        "one of the workers that require a rack is on a node without its label",
        {
            "nodes": without(RACK, "gpu-02"),
            "pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-02"),
        },
        "replica llm-0-pool-0 must stay in one rack, but its 3 pods are in rack zone-a/rack-a1 and on gpu-02, which lacks the rack label",
        "platform",
        {"pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")},
    ),
)
