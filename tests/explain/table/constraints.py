"""Reasons in what was asked for, and in what of it reached the scheduler."""

from msgspec.structs import replace

from app.facts.constraint import SchedulerConstraint
from app.facts.grove.podcliqueset import UserConstraint
from app.facts.kai.podgroup import SubGroup
from tests.explain import fleet
from tests.explain.fleet import (
    GROUP,
    HOST,
    RACK,
    ROUTER,
    WORKERS,
    ZONE,
    cliques,
    gang,
    pcs,
    pod_group,
)
from tests.explain.table.row import Row, event

CONSTRAINTS = (
    Row(
        "LevelUnknown",
        "the set asks for a level that is not there",
        {"sets": (pcs(asked=UserConstraint("block", field="packDomain")),)},
        '"block" is not a level of ClusterTopology grove-topology, whose levels are zone, rack and host',
        "you",
        {"sets": (pcs(),)},
        ("design",),
    ),
    Row(
        "LevelUnknown",
        "the set prefers a level that is not there",
        {"sets": (pcs(asked=UserConstraint("zone", "block", "grove-topology", "pack.required")),)},
        '"block" is not a level of ClusterTopologyBinding grove-topology, whose levels are zone, rack and host',
        "you",
        {"sets": (pcs(asked=UserConstraint("zone", "host", "grove-topology")),)},
        ("today",),
    ),
    Row(
        "LevelUnknown",
        "the set names a topology that does not exist",
        {
            "sets": (pcs(asked=UserConstraint("zone", "", "other", "pack.required")),),
            "gangs": (gang(topology=""),),
        },
        "PodCliqueSet llm names topology other, which does not exist",
        "you",
        {},
        ("today",),
        ("TopologyUnnamed",),
    ),
    Row(
        "LevelUnknown",
        "only the condition of the set says so",
        {
            "sets": (
                pcs(
                    conditions=(
                        fleet.condition(
                            "TopologyLevelsUnavailable", "True", "ClusterTopologyNotFound", "gone"
                        ),
                    )
                ),
            )
        },
        "The constraints of llm cannot be satisfied: gone",
        "you",
        {
            "sets": (
                pcs(
                    conditions=(
                        fleet.condition("TopologyLevelsUnavailable", "False", "AllAvailable"),
                    )
                ),
            )
        },
        ("today",),
    ),
    Row(
        "LevelUnknown",
        "only our condition of the set says so",
        {
            "sets": (
                pcs(
                    conditions=(
                        fleet.condition("TopologyConstraintSatisfied", "False", "TopologyDisabled"),
                    )
                ),
            )
        },
        "The constraints of llm cannot be satisfied: TopologyDisabled",
        "you",
        {
            "sets": (
                pcs(
                    conditions=(
                        fleet.condition("TopologyConstraintSatisfied", "True", "AllSatisfied"),
                    )
                ),
            )
        },
        ("design",),
    ),
    Row(
        "LevelUnknown",
        "the scheduler is told a label that KAI's Topology does not have",
        {
            "gangs": (
                gang(
                    groups=(
                        replace(gang().groups[0], told=SchedulerConstraint("example.com/block")),
                    )
                ),
            )
        },
        "example.com/block is not a level of KAI's Topology grove-topology, whose levels are topology.kubernetes.io/zone, example.com/rack and kubernetes.io/hostname",
        "platform",
        {},
        also=("GangUnconstrained",),
    ),
    Row(
        "TopologyUnnamed",
        "the PodGang has constraints and no annotation",
        {
            "gangs": (gang(topology=""),),
            "events": (event(f"uid-{ROUTER}-0", "PodGrouperWarning", "no topology"),),
        },
        "The PodGang has constraints but does not name a topology, so KAI can't group its pods",
        "platform",
        {"gangs": (gang(topology="", told=SchedulerConstraint(), groups=()),)},
    ),
    Row(
        "GangUnconstrained",
        "the PodGang lacks the constraint of the set",
        {"gangs": (gang(told=SchedulerConstraint()),)},
        "The PodCliqueSet requests zone, but PodGang llm-0 does not, so the scheduler does not apply this request",
        "platform",
        {
            "gangs": (gang(told=SchedulerConstraint(RACK)),),
            "pod_groups": (pod_group(told=SchedulerConstraint(RACK)),),
        },
    ),
    Row(
        "GangUnconstrained",
        "the replica of the scaling group is told a broader level",
        {"gangs": (gang(groups=(replace(gang().groups[0], told=SchedulerConstraint(ZONE)),)),)},
        "The PodCliqueSet requests rack, but PodGang llm-0 does not, so the scheduler does not apply this request",
        "platform",
        {
            "gangs": (gang(groups=(replace(gang().groups[0], told=SchedulerConstraint(HOST)),)),),
            "pod_groups": (pod_group(subgroups=()),),
        },
    ),
    Row(
        "GangUnconstrained",
        "KAI's PodGroup lacks the constraint of the PodGang",
        {"pod_groups": (pod_group(subgroups=(SubGroup(GROUP), SubGroup(WORKERS, GROUP, 3))),)},
        "The PodGang requests rack, but PodGroup llm-0 does not, so the scheduler does not apply this request",
        "platform",
        {
            "pod_groups": (
                pod_group(
                    subgroups=(
                        SubGroup(GROUP, told=SchedulerConstraint(HOST)),
                        SubGroup(WORKERS, GROUP, 3),
                    )
                ),
            )
        },
    ),
    Row(
        "MinAboveReplicas",
        "a clique of the set can never reach its minimum",
        {"sets": (pcs(cliques=(replace(pcs().cliques[0], replicas=4, minimum=6),)),)},
        "Clique router needs 6 pods, but at most 4 can exist, so this minimum is never reached",
        "you",
        {"sets": (pcs(cliques=(replace(pcs().cliques[0], replicas=6, minimum=6),)),)},
    ),
    Row(
        "MinAboveReplicas",
        "the PodGang needs more pods than its PodClique makes",
        {"cliques": (cliques()[0], replace(cliques()[1], replicas=2))},
        f"{WORKERS} needs 3 pods, but at most 2 can exist, so this minimum is never reached",
        "you",
        {"cliques": (cliques()[0], replace(cliques()[1], replicas=3))},
        also=("MinAboveReplicas",),
    ),
    Row(
        "MinAboveReplicas",
        "KAI's PodGroup needs more pods than the PodCliques make",
        {"pod_groups": (pod_group(minimum=5),)},
        "The gang needs 5 pods, but at most 4 can exist, so this minimum is never reached",
        "you",
        {"pod_groups": (pod_group(minimum=4),)},
    ),
)
