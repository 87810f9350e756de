"""A small fleet and a gang on it, as facts: a healthy start that each test changes in one place.

Two zones of two racks of four nodes with 8 GPUs each. The set `llm` asks for one zone, and its
workers for one rack for each replica: a router without GPUs and three workers of 8 GPUs. Both
dialects are at hand.
"""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from app.explain.answers.answer import Answer, explain
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.constraint import SchedulerConstraint
from app.facts.grove.constraint import StoredConstraint
from app.facts.grove.podclique import PodClique
from app.facts.grove.podcliqueset import Clique, ScalingGroup, SetWithStatus, UserConstraint
from app.facts.grove.podgang import GangGroup, GangPart, PodGang
from app.facts.grove.status import StatusCondition
from app.facts.grove.topology import ClusterTopology, Level
from app.facts.identity import Place, Ref
from app.facts.kai.podgroup import KaiPodGroup, SubGroup
from app.facts.kai.queue import Queue
from app.facts.kai.topology import KaiTopology
from app.facts.kubernetes.claim import DeviceClass
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod, Shape
from app.facts.labels import KAI_SCHEDULER
from app.objects.owners import OwnerRef

ZONE = "topology.kubernetes.io/zone"
RACK = "example.com/rack"
HOST = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
KEYS = (ZONE, RACK, HOST)
RACKS = ("rack-a1", "rack-a2", "rack-b1", "rack-b2")
NAMESPACE = "inference"
SET = "llm"
GANG = "llm-0"
ROUTER = "llm-0-router"
WORKERS = "llm-0-pool-0-workers"
GROUP = "llm-0-pool-0"
SCALING_GROUP = "llm-0-pool"
PLACE = Place(SET, "0", podgang=GANG)
WORKERS_PLACE = replace(PLACE, group="pool", group_replica="0")
NOW = 1_800_000_000.0
CLASSES = ("compute-domain-default-channel.nvidia.com", "compute-domain-daemon.nvidia.com")
LEVELS = (Level("zone", ZONE), Level("rack", RACK), Level("host", HOST))
SET_REF = Ref("PodCliqueSet", NAMESPACE, SET)
GANG_REF = Ref("PodGang", NAMESPACE, GANG)


def shape(gpus: int = 8, **requests: int) -> Shape:
    """`requests` in whole units; a pod asks for one CPU unless told."""
    asked = {
        "cpu": 1000,
        "pods": 1000,
        **{name: amount * 1000 for name, amount in requests.items()},
    }
    if gpus:
        asked[GPU] = gpus * 1000
    return Shape(tuple(sorted(asked.items())))


def node(number: int, zone: str, rack: str, **changes: Any) -> Node:
    name = f"gpu-{number:02}"
    labels = {ZONE: zone, RACK: rack, HOST: name}
    allocatable = {"cpu": 64_000, "memory": 1024 * 2**30 * 1000, "pods": 110_000, GPU: 8_000}
    return replace(Node(name, labels, allocatable), **changes)


def nodes() -> tuple[Node, ...]:
    """gpu-00 to gpu-15: rack a1, a2 in zone-a, b1, b2 in zone-b."""
    racks = ("a1", "a2", "b1", "b2")
    return tuple(node(n, f"zone-{racks[n // 4][0]}", f"rack-{racks[n // 4]}") for n in range(16))


def pod(clique: str, number: int, **changes: Any) -> Pod:
    place = replace(WORKERS_PLACE if clique == WORKERS else PLACE, clique=clique)
    made = Pod(
        NAMESPACE,
        f"{clique}-{number}",
        uid=f"uid-{clique}-{number}",
        place=place,
        scheduler="kai-scheduler",
        shape=shape(0 if clique == ROUTER else 8),
        group=GANG,
        subgroup=clique,
        created=NOW - 840,
    )
    return replace(made, **changes)


def pods(**changes: Any) -> tuple[Pod, ...]:
    return (pod(ROUTER, 0, **changes), *(pod(WORKERS, number, **changes) for number in range(3)))


def placed(*names: str, first: int = 0, **changes: Any) -> tuple[Pod, ...]:
    """The pods, on these nodes in order."""
    waiting = pods()
    return tuple(
        replace(pod, node=name, phase="Running", **changes)
        for pod, name in zip(waiting[first:], names, strict=False)
    )


def occupant(node: str, number: int = 0, gpus: int = 8, **changes: Any) -> Pod:
    """A pod of somebody else on a node."""
    name = f"batch-{node}-{number}"
    made = Pod(
        "research",
        name,
        f"uid-{name}",
        node=node,
        scheduler=KAI_SCHEDULER,
        phase="Running",
        shape=shape(gpus),
        group="batch-eval",
    )
    return replace(made, **changes)


def fill(*racks: str, but: Iterable[str] = ()) -> tuple[Pod, ...]:
    """Occupants of all nodes of racks, but of some nodes."""
    return tuple(occupant(n.name) for n in nodes() if n.labels[RACK] in racks and n.name not in but)


def cliques(**changes: Any) -> tuple[PodClique, ...]:
    router = PodClique(NAMESPACE, ROUTER, "uid-router", PLACE, 1, 0, shape(0))
    workers = PodClique(NAMESPACE, WORKERS, "uid-workers", WORKERS_PLACE, 3, 0, shape(8))
    return (router, replace(workers, **changes))


def gang(**changes: Any) -> PodGang:
    made = PodGang(
        NAMESPACE,
        GANG,
        "uid-gang",
        Place(SET),
        "grove-topology",
        SchedulerConstraint(ZONE, HOST),
        (
            GangPart(ROUTER, 1, frozenset({f"{ROUTER}-0"})),
            GangPart(WORKERS, 3, frozenset(f"{WORKERS}-{n}" for n in range(3))),
        ),
        (GangGroup(GROUP, (WORKERS,), SchedulerConstraint(RACK, HOST)),),
        NOW - 840,
    )
    return replace(made, **changes)


def pod_group(**changes: Any) -> KaiPodGroup:
    made = KaiPodGroup(
        NAMESPACE,
        GANG,
        "uid-group",
        ("uid-gang",),
        minimum=4,
        queue="team-llm",
        topology="grove-topology",
        told=SchedulerConstraint(ZONE, HOST),
        subgroups=(
            SubGroup(GROUP, told=SchedulerConstraint(RACK, HOST)),
            SubGroup(ROUTER, minimum=1),
            SubGroup(WORKERS, GROUP, 3),
        ),
        created=NOW - 840,
    )
    return replace(made, **changes)


def pcs(asked: UserConstraint | None = None, **changes: Any) -> SetWithStatus:
    made = SetWithStatus(
        NAMESPACE,
        SET,
        uid="uid-set",
        constraint=StoredConstraint("zone"),
        cliques=(Clique("router", 1), Clique("workers", 3, minimum=3)),
        groups=(ScalingGroup("pool", ("workers",), StoredConstraint("rack")),),
        created=NOW - 840,
    )
    if asked is None:
        return replace(made, **changes)
    if asked.field == "packDomain" or not asked:
        return replace(made, constraint=StoredConstraint(asked.required), **changes)
    pack = StoredConstraint("", asked.topology, asked.required, asked.preferred, is_later=True)
    return replace(made, constraint=pack, **changes)


def design() -> dict[str, Any]:
    """The topology as the designs have it."""
    return {
        "topologies": (
            ClusterTopology(
                "ClusterTopology", "grove-topology", "uid-ct", LEVELS, "grove-topology"
            ),
        ),
        "kai_topologies": (
            KaiTopology(
                "grove-topology", KEYS, (OwnerRef("ClusterTopology", "grove-topology", "uid-ct"),)
            ),
        ),
    }


def today() -> dict[str, Any]:
    """The topology and the set as today's Grove has them."""
    kind = "ClusterTopologyBinding"
    return {
        "topologies": (
            ClusterTopology(kind, "grove-topology", "uid-ctb", LEVELS, "grove-topology"),
        ),
        "kai_topologies": (
            KaiTopology("grove-topology", KEYS, (OwnerRef(kind, "grove-topology", "uid-ctb"),)),
        ),
        "sets": (pcs(asked=UserConstraint("zone", "", "grove-topology", "pack.required")),),
    }


def facts(**changes: Any) -> Snapshot:
    """A gang that waits, on an empty fleet."""
    start: dict[str, Any] = {
        **design(),
        "nodes": nodes(),
        "pods": pods(),
        "sets": (pcs(),),
        "cliques": cliques(),
        "gangs": (gang(),),
        "pod_groups": (pod_group(),),
        "queues": (Queue("root"), Queue("team-llm", "root"), Queue("research", "root")),
        "device_classes": tuple(map(DeviceClass, CLASSES)),
        "now": NOW,
    }
    return Snapshot(**{**start, **changes})


def answer(snapshot: Snapshot, ref: Ref = SET_REF) -> Answer:
    explained = explain(Index(snapshot), ref)
    assert explained is not None
    return explained


def condition(kind: str, status: str, reason: str = "", message: str = "") -> StatusCondition:
    return StatusCondition(kind, status, reason, message)
