"""Reasons in the room on nodes."""

from typing import Any

from msgspec.structs import replace

from app.facts.constraint import SchedulerConstraint
from app.facts.grove.podcliqueset import UserConstraint
from app.facts.grove.podgang import GangPart
from app.facts.kai.podgroup import SubGroup
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Shape
from app.facts.kubernetes.selectors import Requirement, Taint, Toleration
from app.facts.labels import KAI_CORDONS
from tests.explain.fleet import (
    NOW,
    RACK,
    RACKS,
    ROUTER,
    WORKERS,
    ZONE,
    cliques,
    fill,
    gang,
    nodes,
    occupant,
    pcs,
    placed,
    pod,
    pod_group,
    pods,
    shape,
)
from tests.explain.table.row import Row, changed, event, without

OWN = ("gpu-00", "gpu-01")
RUNNING = placed("gpu-00", *OWN)
MIG = "nvidia.com/mig-1g.10gb"
DIVIDED = tuple(
    replace(n, allocatable={**n.allocatable, "nvidia.com/gpu": 0, MIG: 56_000}) for n in nodes()
)
ONE_PART = replace(shape(), requests=((MIG, 1000),))
ONE_RUNS = (*placed("gpu-01", "gpu-00"), pod(WORKERS, 1), pod(WORKERS, 2))


def with_nics() -> tuple[Node, ...]:
    """The first node has a network card in place of its GPUs."""
    first, *others = nodes()
    without_gpus = {**first.allocatable, "nvidia.com/gpu": 0, "example.com/nic": 1000}
    return (replace(first, allocatable=without_gpus), *others)


def with_nic(gpus: int) -> Shape:
    requests = {**dict(shape(gpus).requests), "example.com/nic": 1000}
    return replace(shape(gpus), requests=tuple(sorted(requests.items())))


FIVE_WORKERS = {
    "cliques": (cliques()[0], replace(cliques()[1], replicas=5)),
    "gangs": (gang(parts=(gang().parts[0], GangPart(WORKERS, 5))),),
}
ONE_OF_FIVE_RUNS = (*placed("gpu-01", "gpu-00"), *(pod(WORKERS, number) for number in range(1, 5)))
ELASTIC = {
    "gangs": (
        gang(told=SchedulerConstraint(), groups=(), parts=(gang().parts[0], GangPart(WORKERS, 2))),
    ),
    "sets": (pcs(asked=UserConstraint(), groups=()),),
    "pod_groups": (
        pod_group(
            told=SchedulerConstraint(),
            minimum=3,
            subgroups=(SubGroup(ROUTER, minimum=1), SubGroup(WORKERS, minimum=2)),
        ),
    ),
}
"""A gang that runs with two of three workers, anywhere."""

HANGING = tuple(
    replace(pod, phase="Pending", waiting=("ContainerCreating",), bound=NOW - 840)
    if pod.name.endswith(("workers-1", "workers-2"))
    else pod
    for pod in placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")
)
"""The gang has its nodes, and two of its pods were never started there."""


def tolerating(key: str) -> tuple[Any, ...]:
    """The pods of the gang, which tolerate a taint."""
    tolerations = (Toleration(key, "Exists", "", ""),)
    return tuple(replace(p, shape=replace(p.shape, tolerations=tolerations)) for p in pods())


PLACEMENT = (
    Row(
        "NeverFits",
        "one rack is too small",
        {
            "cliques": (cliques()[0], replace(cliques()[1], replicas=5)),
            "gangs": (gang(parts=(gang().parts[0], GangPart(WORKERS, 5))),),
            "pods": (pods()[0], *(pod(WORKERS, n) for n in range(5))),
        },
        "The rack with the most room (zone-a/rack-a1) has 32 GPUs, but llm-0-pool-0 needs 40 GPUs",
        "you",
        {
            "cliques": (cliques()[0], replace(cliques()[1], replicas=4)),
            "gangs": (gang(parts=(gang().parts[0], GangPart(WORKERS, 4))),),
            "pods": (pods()[0], *(pod(WORKERS, n) for n in range(4))),
        },
    ),
    Row(
        "NeverFits",
        "no node offers a GPU, though all have some",
        {
            "nodes": tuple(
                replace(
                    n,
                    allocatable={**n.allocatable, "nvidia.com/gpu": 0},
                    labels={**n.labels, "nvidia.com/gpu.count": "8"},
                )
                for n in nodes()
            )
        },
        "No node offers nvidia.com/gpu, which a pod requests, although 16 nodes have GPUs according to the labels",
        "platform",
        {},
    ),
    Row(
        "NeverFits",
        "the GPUs of all nodes are divided into MIG devices",
        {"nodes": DIVIDED},
        "No node offers nvidia.com/gpu, which a pod requests; 16 nodes offer nvidia.com/mig-1g.10gb",
        "you",
        {},
    ),
    Row(
        "NeverFits",
        "a pod requests a MIG device, and no GPU is divided",
        {"pods": (pods()[0], *(pod(WORKERS, n, shape=ONE_PART) for n in range(3)))},
        "No node offers nvidia.com/mig-1g.10gb, which a pod requests; 16 nodes offer nvidia.com/gpu",
        "you",
        {},
    ),
    Row(
        "NeverFits",
        "one node is too small",
        {"pods": (pods()[0], *(pod(WORKERS, n, shape=shape(16)) for n in range(3)))},
        "No node has 16 GPUs, which a pod requests; the largest has 8 GPUs",
        "you",
        {"pods": (pods()[0], *(pod(WORKERS, n, shape=shape(8)) for n in range(3)))},
    ),
    Row(
        "NeverFits",
        "each resource is on some node, and no node has both",
        {
            "nodes": with_nics(),
            "pods": (pods()[0], *(pod(WORKERS, n, shape=with_nic(8)) for n in range(3))),
        },
        "No node has everything that a pod requests: 1 node has 1 example.com/nic and 15 nodes have 8 nvidia.com/gpu, and no node has both",
        "you",
        {
            "nodes": tuple(
                replace(n, allocatable={**n.allocatable, "example.com/nic": 1000}) for n in nodes()
            ),
            "pods": (pods()[0], *(pod(WORKERS, n, shape=with_nic(8)) for n in range(3))),
        },
    ),
    Row(
        "NeverFits",
        "GPUs by sum would do, but pods of 5 leave 3 over on each node",
        {
            "cliques": (cliques()[0], replace(cliques()[1], replicas=5)),
            "gangs": (gang(parts=(gang().parts[0], GangPart(WORKERS, 5))),),
            "pods": (pods()[0], *(pod(WORKERS, n, shape=shape(5)) for n in range(5))),
        },
        "Even empty, no rack has room for 5 pods of 5 GPUs; zone-a/rack-a1 would have room for 4",
        "you",
        {"pods": (pods()[0], *(pod(WORKERS, n, shape=shape(5)) for n in range(3)))},
    ),
    Row(
        "NeverFits",
        "no node is in the topology",
        {"nodes": without(ZONE, *(n.name for n in nodes()))},
        "No rack exists, because no node has the labels of all levels",
        "you",
        {"nodes": without(ZONE, *(n.name for n in nodes()[4:]))},
        also=("LevelLabelMissing",),
    ),
    Row(
        "NoDomainFits",
        "no rack has three free nodes, one has two",
        {
            "pods": (
                *pods(),
                *fill("rack-a1", "rack-a2", "rack-b2"),
                *fill("rack-b1", but=("gpu-08", "gpu-09")),
            )
        },
        "No rack has room for 3 pods of 8 GPUs; zone-b/rack-b1 has room for 2",
        "wait",
        {
            "pods": (
                *pods(),
                *fill("rack-a1", "rack-a2", "rack-b2"),
                *fill("rack-b1", but=("gpu-08", "gpu-09", "gpu-10")),
            )
        },
    ),
    Row(
        "NoDomainFits",
        "no rack has three free nodes, a zone has",
        {"pods": (*pods(), *fill(*RACKS, but=("gpu-00", "gpu-01", "gpu-04", "gpu-05")))},
        "No rack has room for 3 pods of 8 GPUs; zone-a/rack-a1 has room for 2",
        "you",
        {"pods": (*pods(), *fill(*RACKS, but=("gpu-00", "gpu-01", "gpu-02", "gpu-05")))},
    ),
    Row(
        "NoDomainFits",
        "4+4 free GPUs are no room for 8",
        {
            "pods": (
                *pods(),
                *fill("rack-a2", "rack-b1", "rack-b2"),
                *(occupant(f"gpu-0{n}", gpus=4) for n in range(4)),
            )
        },
        "No rack has room for any of 3 pods of 8 GPUs",
        "wait",
        {"pods": (*pods(), *fill("rack-a2", "rack-b1", "rack-b2"), occupant("gpu-00", gpus=4))},
    ),
    Row(
        "NoDomainFits",
        "without a constraint, the cluster is full",
        {
            "pods": (
                *pods(),
                *fill("rack-a1", "rack-a2", "rack-b1", "rack-b2", but=("gpu-00", "gpu-15")),
            ),
            "gangs": (gang(told=SchedulerConstraint(), groups=()),),
            "sets": (pcs(asked=UserConstraint(), groups=()),),
        },
        "The nodes have no room for 1 pod without GPUs and 3 pods of 8 GPUs, only for 3 of these pods",
        "wait",
        {
            "pods": (
                *pods(),
                *fill(
                    "rack-a1", "rack-a2", "rack-b1", "rack-b2", but=("gpu-00", "gpu-08", "gpu-15")
                ),
            ),
            "gangs": (gang(told=SchedulerConstraint(), groups=()),),
            "sets": (pcs(asked=UserConstraint(), groups=()),),
        },
    ),
    Row(
        "NoDomainFits",
        "the minimum runs without a constraint, and the cluster is full",
        {**ELASTIC, "pods": (*RUNNING, pod(WORKERS, 2), *fill(*RACKS, but=OWN))},
        "The nodes have no room for 1 pod of 8 GPUs",
        "wait",
        {**ELASTIC, "pods": (*RUNNING, pod(WORKERS, 2), *fill(*RACKS, but=(*OWN, "gpu-15")))},
        also=("GangSplit",),
    ),
    Row(
        "BoundToDomain",
        "two of three workers run in a rack that is full",
        {
            "pods": (
                *placed("gpu-00", "gpu-01", "gpu-02"),
                pod(WORKERS, 2),
                occupant("gpu-00"),
                occupant("gpu-03"),
            )
        },
        "2 of 3 pods of llm-0-pool-0 run in zone-a/rack-a1, and the rest must join them, but zone-a/rack-a1 has no room for 1 pod of 8 GPUs",
        "you",
        {"pods": (*placed("gpu-00", "gpu-01", "gpu-02"), pod(WORKERS, 2), occupant("gpu-00"))},
    ),
    Row(
        "BoundToDomain",
        "one of three workers runs on a node that has lost its label",
        {"nodes": without(RACK, "gpu-00"), "pods": ONE_RUNS},
        "1 of 3 pods of llm-0-pool-0 runs on gpu-00, outside every rack that KAI knows, and the rest must join it",
        "you",
        {"pods": ONE_RUNS},
        also=("LevelLabelMissing",),
    ),
    Row(
        "BoundToDomain",
        "one of five workers runs on a node that has lost its label, and no rack is large enough",
        {**FIVE_WORKERS, "nodes": without(RACK, "gpu-00"), "pods": ONE_OF_FIVE_RUNS},
        "1 of 5 pods of llm-0-pool-0 runs on gpu-00, outside every rack that KAI knows, and the rest must join it",
        "you",
        {**FIVE_WORKERS, "nodes": without(RACK, "gpu-00"), "pods": ONE_OF_FIVE_RUNS[2:]},
        also=("LevelLabelMissing",),
    ),
    Row(
        "NodesUnfit",
        "two nodes of the only free rack are closed",
        {
            "nodes": tuple(
                replace(n, unschedulable=n.name == "gpu-00", ready=n.name != "gpu-01")
                for n in nodes()
            ),
            "pods": (*pods(), *fill("rack-a2", "rack-b1", "rack-b2")),
        },
        "2 of 4 nodes of zone-a/rack-a1 are closed: 1 cordoned and 1 not ready",
        "platform",
        {
            "nodes": changed(("gpu-00",), unschedulable=True),
            "pods": (*pods(), *fill("rack-a2", "rack-b1", "rack-b2")),
        },
        also=("NoDomainFits",),
    ),
    Row(
        "NodesUnfit",
        "KAI Resource Management has cordoned a node, and somebody else another one",
        {
            "nodes": tuple(
                replace(
                    n,
                    unschedulable=n.name in ("gpu-00", "gpu-01"),
                    labels={**n.labels, **({KAI_CORDONS[0]: "true"} if n.name == "gpu-00" else {})},
                )
                for n in nodes()
            ),
            "pods": (*pods(), *fill("rack-a2", "rack-b1", "rack-b2")),
        },
        "2 of 4 nodes of zone-a/rack-a1 are closed: 1 cordoned and 1 cordoned by KAI Resource Management",
        "platform",
        {
            "nodes": changed(
                ("gpu-00",), unschedulable=True, labels={**nodes()[0].labels, KAI_CORDONS[0]: ""}
            ),
            "pods": (*pods(), *fill("rack-a2", "rack-b1", "rack-b2")),
        },
        also=("NoDomainFits",),
    ),
    Row(
        "NodesUnfit",
        "the pods tolerate another taint than that of cordoned nodes",
        {
            "nodes": changed(("gpu-00", "gpu-01"), unschedulable=True),
            "pods": (
                *tolerating("node.kubernetes.io/not-ready"),
                *fill("rack-a2", "rack-b1", "rack-b2"),
            ),
        },
        "2 of 4 nodes of zone-a/rack-a1 are closed: 2 cordoned",
        "platform",
        {
            "nodes": changed(("gpu-00",), unschedulable=True),
            "pods": (
                *tolerating("node.kubernetes.io/not-ready"),
                *fill("rack-a2", "rack-b1", "rack-b2"),
            ),
        },
        also=("NoDomainFits",),
    ),
    Row(
        "NoNodeMatches",
        "the pods select a label that nodes don't have",
        {
            "pods": tuple(
                replace(p, shape=replace(p.shape, selector=(Requirement("gpu", "In", ("h100",)),)))
                for p in pods()
            )
        },
        "No node matches gpu=h100, which pods of llm-0-pool-0-workers select (0 of 16 nodes)",
        "you",
        {
            "pods": tuple(
                replace(p, shape=replace(p.shape, selector=(Requirement(ZONE, "Exists"),)))
                for p in pods()
            )
        },
    ),
    Row(
        "NodesUnfit",
        "all nodes are tainted",
        {
            "nodes": tuple(
                replace(n, taints=(Taint("example.com/maintenance", "", "NoSchedule"),))
                for n in nodes()
            )
        },
        "4 of 4 nodes of zone-a/rack-a1 are closed: 4 tainted example.com/maintenance",
        "platform",
        {},
    ),
    Row(
        "OtherResource",
        "GPUs are free, memory is not",
        {
            "pods": (
                *(
                    replace(p, shape=shape(8, memory=900 * 2**30))
                    if p.place.clique == WORKERS
                    else p
                    for p in pods()
                ),
                *(occupant(n.name, shape=shape(0, memory=204 * 2**30)) for n in nodes()),
            )
        },
        "GPUs are free in 4 racks, but not enough memory: a pod requests 900 GiB, and at most 820 GiB is free on a node with free GPUs",
        "you",
        {
            "pods": (
                *(
                    replace(p, shape=shape(8, memory=820 * 2**30))
                    if p.place.clique == WORKERS
                    else p
                    for p in pods()
                ),
                *(occupant(n.name, shape=shape(0, memory=204 * 2**30)) for n in nodes()),
            )
        },
    ),
    Row(
        "NotAsPreferred",
        "three workers are in two racks, one would do",
        {
            "pods": placed("gpu-00", "gpu-01", "gpu-02", "gpu-04"),
            "gangs": (
                gang(
                    groups=(replace(gang().groups[0], told=SchedulerConstraint(ZONE, RACK)),),
                    told=SchedulerConstraint(ZONE),
                ),
            ),
            "sets": (pcs(groups=()),),
            "pod_groups": (pod_group(subgroups=()),),
        },
        "3 pods of replica llm-0-pool-0 are in 2 racks; 1 would be enough",
        "you",
        {
            "pods": placed("gpu-00", "gpu-01", "gpu-02", "gpu-03"),
            "gangs": (
                gang(
                    groups=(replace(gang().groups[0], told=SchedulerConstraint(ZONE, RACK)),),
                    told=SchedulerConstraint(ZONE),
                ),
            ),
            "sets": (pcs(groups=()),),
            "pod_groups": (pod_group(subgroups=()),),
        },
    ),
    Row(
        "NodeGone",
        "two workers are on a node that was deleted",
        {"pods": placed("gpu-00", "gpu-00", "gpu-99", "gpu-99")},
        "2 pods of llm-0 are on node gpu-99, which does not exist any more",
        "you",
        {"pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")},
    ),
    Row(
        "NodeNotReady",
        "two workers are on a node whose server is dead",
        {
            "pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-01"),
            "nodes": tuple(replace(node, ready=node.name != "gpu-01") for node in nodes()),
        },
        "2 pods of llm-0 are on node gpu-01, which is not ready",
        "platform",
        {"pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-01")},
    ),
    Row(
        "NotStarted",
        "pods have been in ContainerCreating for 14 minutes",
        {"pods": HANGING},
        "2 pods of llm-0 have had a node for up to 14 minutes and did not start: ContainerCreating",
        "you",
        {"pods": tuple(replace(pod, bound=NOW - 60 if pod.bound else None) for pod in HANGING)},
    ),
    Row(
        "BindingFailed",
        "the binder reports an error",
        {"events": (event(f"uid-{WORKERS}-0", "BindingError", "no device"),)},
        "KAI chose a node, but binding failed: no device (10 seconds ago)",
        "platform",
        {"events": (event("uid-of-another-pod", "BindingError", "no device"),)},
    ),
)
