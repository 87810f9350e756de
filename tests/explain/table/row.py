"""A row of the table of reasons, and states that several rows share."""

from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from app.facts.grove.podclique import PodClique
from app.facts.grove.podgang import GangPart, MapEntry, PodGangMap
from app.facts.kai.podgroup import KaiPodGroup, Said
from app.facts.kai.queue import Queue
from app.facts.kai.topology import KaiTopology
from app.facts.kubernetes.claim import ClaimTemplate, Consumer, Device, ResourceClaim
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.gpu_sharing import GpuPart
from app.facts.kubernetes.pod import PodClaim, Shape
from app.facts.kubernetes.selectors import Requirement
from app.facts.nvidia.computedomain import ComputeDomain, DomainNode
from app.objects.owners import OwnerRef
from tests.explain.fleet import (
    NAMESPACE,
    NOW,
    RACK,
    WORKERS,
    cliques,
    fill,
    gang,
    nodes,
    occupant,
    placed,
    pod_group,
    pods,
    shape,
)

Changes = dict[str, Any]
FULL = fill("rack-a1", "rack-a2", "rack-b1", "rack-b2")
GATE = ("grove.io/podgang-pending-creation",)
CHANNEL = "compute-domain-default-channel.nvidia.com"


@dataclass(frozen=True)
class Row:
    """`hit` makes the reason hold, with this text; `miss` is the nearest state in which it doesn't."""

    id: str
    name: str
    hit: Changes
    text: str
    who: str
    miss: Changes
    dialects: tuple[str, ...] = ("design", "today")
    also: tuple[str, ...] = field(default=())


def without(key: str, *names: str) -> tuple[Any, ...]:
    """The nodes, some of them without a label."""
    return tuple(
        replace(n, labels={k: v for k, v in n.labels.items() if k != key}) if n.name in names else n
        for n in nodes()
    )


def changed(names: tuple[str, ...], **changes: Any) -> tuple[Any, ...]:
    return tuple(replace(n, **changes) if n.name in names else n for n in nodes())


def labelled(names: tuple[str, ...], **labels: str) -> tuple[Any, ...]:
    pools = {key.replace("_", "-"): value for key, value in labels.items()}
    added = {"kai.scheduler/node-pool": pools["pool"]} if "pool" in pools else {RACK: pools["rack"]}
    return tuple(
        replace(n, labels={**n.labels, **added}) if n.name in names else n for n in nodes()
    )


def queues(**of_team: Any) -> tuple[Queue, ...]:
    return (
        Queue("root"),
        replace(Queue("team-llm", "root"), **of_team),
        Queue("team-b", "root", 64_000, None, 96_000),
    )


def using(
    gpus: int = 0, *, fixed: bool = False, queue: str = "team-llm", **requests: int
) -> Changes:
    """A pod on the last node that uses so much of a queue, besides the pods of the gang."""
    name = nodes()[-1].name
    held = occupant(name, shape=shape(gpus, **{"cpu": 0, **requests}), group="held")
    group = KaiPodGroup("research", "held", queue=queue)
    group = replace(group, preemptibility="non-preemptible") if fixed else group
    return {"pods": (*pods(), held), "pod_groups": (pod_group(), group)}


def part_of(portion: float, devices: int = 1) -> Shape:
    """What a pod asks for that shares GPUs."""
    part = GpuPart(portion, devices=devices)
    requests = dict(shape(0).requests)
    return Shape(tuple(sorted({**requests, "nvidia.com/gpu": part.gpus}.items())), part=part)


def said(reason: str, **details: Any) -> Changes:
    return {"pod_groups": (pod_group(said=(Said(reason, "KAI's words", **details),)),)}


def claiming(claim: PodClaim, **more: Any) -> tuple[Any, ...]:
    """All pods, each of the workers with a claim."""
    return tuple(
        replace(p, claims=(claim,), **more) if p.place.clique == WORKERS else p for p in pods()
    )


SHARED = PodClaim("mnnvl", "llm-0-mnnvl")
TEMPLATED = PodClaim("mnnvl", "llm-0-made", "llm-0-template")
CLAIM = ResourceClaim(NAMESPACE, "llm-0-mnnvl", (CHANNEL,))
ONE_NODE = ((Requirement("metadata.name", "In", ("gpu-00",)),),)
ONE_RACK = ((Requirement(RACK, "In", ("rack-a1",)),),)
BASE = (GangPart("llm-0-decode", 3),)


def reserved(*pods: str) -> ResourceClaim:
    """The shared claim, allocated, with these pods in `status.reservedFor`."""
    return replace(
        CLAIM, allocated=True, consumers=tuple(Consumer(name, f"uid-{name}") for name in pods)
    )


def event(uid: str, reason: str, message: str, source: str = "kai-scheduler") -> Event:
    return Event(uid, reason, message, NOW - 10, source)


def scaled(scheduled: int) -> Changes:
    """The gang waits for a base gang whose clique `decode` needs three scheduled pods."""
    base = gang(name="llm-base", uid="uid-base", parts=BASE, groups=())
    decode = PodClique(
        NAMESPACE, "llm-0-decode", "uid-decode", cliques()[0].place, 3, scheduled, shape(8)
    )
    waits = tuple(
        replace(clique, place=replace(clique.place, base_podgang="llm-base"))
        for clique in cliques()
    )
    return {"gangs": (gang(), base), "cliques": (*waits, decode), "pods": pods(gates=GATE)}


def epochs(count: int, *, mapped: bool = True, **of_anchor: Any) -> Changes:
    """The gang is a tail, and its anchor has some of a clique of three scheduled pods."""
    of_replica = replace(gang().place, replica="0")
    tail = gang(role="Tail", epoch="019", place=of_replica)
    anchor = gang(
        name="llm-0-018",
        uid="uid-anchor",
        role="Anchor",
        epoch="018",
        place=of_replica,
        parts=BASE,
        groups=(),
    )
    decode = PodClique(
        NAMESPACE, "llm-0-decode", "uid-decode", cliques()[0].place, 3, count, shape(8)
    )
    entries = (MapEntry("018"), MapEntry("019", ("018",)))
    return {
        "gangs": (tail, replace(anchor, **of_anchor)),
        "gang_maps": (PodGangMap(NAMESPACE, "llm-0", entries),) if mapped else (),
        "cliques": (*cliques(), decode),
        "pods": pods(gates=GATE),
    }


def alone(role: str, entries: tuple[MapEntry, ...], scheduled: bool | None) -> Changes:
    """The gang has the epoch 019 and is the only one of its replica."""
    of_replica = replace(gang().place, replica="0")
    return {
        "gangs": (gang(role=role, epoch="019", place=of_replica, scheduled=scheduled),),
        "gang_maps": (PodGangMap(NAMESPACE, "llm-0", entries),),
        "pods": pods(gates=GATE),
    }


def channels(*taken: str, own: bool = False) -> Changes:
    """Claims of the gang's pods that wait, and channels that others have on nodes."""
    others = ResourceClaim(
        "research",
        "sweep-3",
        (CHANNEL,),
        True,
        tuple(Device("compute-domain.nvidia.com", n, "channel-0") for n in taken),
    )
    return {
        "pods": (*claiming(TEMPLATED), *fill("rack-a1", "rack-a2", "rack-b1")),
        "claims": (others, ResourceClaim(NAMESPACE, "llm-0-made", (CHANNEL,))),
        "claim_templates": (ClaimTemplate(NAMESPACE, "llm-0-template", (CHANNEL,)),),
    }


ALL_WANT: Changes = {
    **channels(),
    "pods": (
        *(replace(pod, claims=(PodClaim("mnnvl", "", "llm-0-template"),)) for pod in pods()),
        *fill("rack-a1", "rack-a2", "rack-b1"),
    ),
}
"""All pods of the gang want a channel."""


def domain(
    *ready: str, number: int = 0, held_by: tuple[str, ...] = (), old: bool = False
) -> Changes:
    """Pods that wait for a ComputeDomain. An old driver does not say which nodes are ready."""
    running = tuple(
        replace(p, waiting=("ContainerCreating",), claims=(TEMPLATED,))
        for p in placed("gpu-00", "gpu-01", "gpu-02", "gpu-03")
    )
    stored = ComputeDomain(
        NAMESPACE,
        "llm-0-cd",
        "uid-cd",
        number,
        "llm-0-template",
        False,
        tuple(DomainNode(n, None if old else n in ready) for n in nodes_of_gang()),
        held_by=held_by,
    )
    return {
        "pods": running,
        "compute_domains": (stored,),
        "claims": (ResourceClaim(NAMESPACE, "llm-0-made", (CHANNEL,), True),),
        "claim_templates": (ClaimTemplate(NAMESPACE, "llm-0-template", (CHANNEL,)),),
    }


def nodes_of_gang() -> tuple[str, ...]:
    return ("gpu-00", "gpu-01", "gpu-02", "gpu-03")


def kai(
    keys: tuple[str, ...], dialect: str = "design", owner: str | None = None
) -> tuple[KaiTopology, ...]:
    kind, uid = (
        ("ClusterTopology", "uid-ct")
        if dialect == "design"
        else ("ClusterTopologyBinding", "uid-ctb")
    )
    return (KaiTopology("grove-topology", keys, (OwnerRef(kind, "grove-topology", owner or uid),)),)
