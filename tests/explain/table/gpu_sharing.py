"""Reasons in GPUs that pods share."""

from typing import Any

from msgspec.structs import replace

from app.explain.reasons.gpu_sharing import RESERVATIONS
from app.facts.constraint import SchedulerConstraint
from app.facts.kubernetes.gpu_sharing import MEMORY_LABEL, GpuPart
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod, Shape
from app.facts.kubernetes.selectors import Requirement, Taint, Toleration
from tests.explain.fleet import (
    NOW,
    RACKS,
    ZONE,
    fill,
    gang,
    nodes,
    occupant,
    pod_group,
    pods,
    shape,
)
from tests.explain.table.row import Changes, Row, part_of

MEMORY = Shape(shape(0).requests, part=GpuPart(0.0, 4096))
IN_ZONE_A = Requirement(ZONE, "In", ("zone-a",))
FREE = {"gangs": (gang(told=SchedulerConstraint()),), "pod_groups": (pod_group(minimum=1),)}


def with_memory(label: str) -> tuple[Node, ...]:
    return tuple(replace(node, labels={**node.labels, MEMORY_LABEL: label}) for node in nodes())


def larger(few: tuple[Node, ...]) -> tuple[Node, ...]:
    return tuple(
        replace(node, allocatable={**node.allocatable, "nvidia.com/gpu": 16_000}) for node in few
    )


def shared(portion: float, number: int) -> tuple[Pod, ...]:
    """Pods that have such a part of each GPU of all nodes, and their reservations."""
    sharing = [
        occupant(
            node.name,
            gpu,
            shape=part_of(portion),
            gpu_groups=(f"{node.name}-{gpu}",),
        )
        for node in nodes()
        for gpu in range(number)
    ]
    reserving = [
        replace(pod, name=f"reserves-{pod.name}", uid="", group="", reserves=True, shape=shape(1))
        for pod in sharing
    ]
    return (*sharing, *reserving)


RESERVES: dict[str, Any] = {"namespace": RESERVATIONS, "reserves": True, "group": ""}


def evicted(*tolerations: Toleration) -> Changes:
    """KAI's reservation pod on a tainted node has failed."""
    asks = replace(shape(1), tolerations=tolerations)
    reserves = occupant("gpu-00", shape=asks, phase="Failed", **RESERVES)
    tainted = replace(nodes()[0], taints=(Taint("hpc", "true", "NoExecute"),))
    return {
        "pods": (*pods(shape=part_of(0.25)), reserves),
        "nodes": (tainted, *nodes()[1:]),
    }


def refused(*later: Pod) -> Changes:
    """The kubelet of a node has rejected KAI's reservation pod, and accepted `later` ones."""
    rejected = reservation(phase="Failed", failure=NO_DEVICE)
    return {"pods": (*pods(shape=part_of(0.25)), rejected, *later)}


def reservation(number: int = 0, **fields: Any) -> Pod:
    pod = occupant("gpu-00", shape=shape(1), **RESERVES, **fields)
    return replace(pod, name=f"{pod.name}-{number}")


NO_DEVICE = "UnexpectedAdmissionError: Allocate failed: Requested: 1, Available: 0"


def ending_in_the_first_rack() -> tuple[Pod, ...]:
    return tuple(replace(pod, deleting=NOW) for pod in fill("rack-a1"))


SHARING = (
    Row(
        "GpuMemoryUnknown",
        "pods ask for GPU memory, and no node says how much its GPUs have",
        {"pods": pods(shape=MEMORY)},
        "No node that the pods may use has the label nvidia.com/gpu.memory, from which KAI reads the memory of GPUs, so KAI cannot place pods that request gpu-memory",
        "platform",
        {"pods": pods(shape=MEMORY), "nodes": with_memory("81920")},
    ),
    Row(
        "NeverFits",
        "no GPU has the memory that pods ask for",
        {
            "pods": pods(shape=replace(MEMORY, part=GpuPart(0.0, 90000))),
            "nodes": with_memory("81920"),
        },
        "No GPU has 90,000 MiB of memory, which a pod requests (gpu-memory); the largest has 81,900 MiB (KAI rounds the label nvidia.com/gpu.memory down to hundreds)",
        "you",
        {"pods": pods(shape=MEMORY), "nodes": with_memory("81920")},
    ),
    Row(
        "NeverFits",
        "pods ask for parts of more GPUs than a node has",
        {"pods": pods(shape=part_of(0.5, 9))},
        "A pod requests parts of 9 GPUs, but no node has more than 8",
        "you",
        {"pods": pods(shape=part_of(0.5, 8))},
    ),
    Row(
        "NeverFits",
        "no GPU of the selected nodes has the memory that pods ask for",
        {
            "pods": pods(
                shape=replace(MEMORY, part=GpuPart(0.0, 90000), selector=(IN_ZONE_A,)),
            ),
            "nodes": (*with_memory("81920")[:8], *with_memory("163840")[8:]),
        },
        "No GPU of a node that matches topology.kubernetes.io/zone=zone-a has 90,000 MiB of memory, which a pod requests (gpu-memory); the largest has 81,900 MiB (KAI rounds the label nvidia.com/gpu.memory down to hundreds)",
        "you",
        {"pods": pods(shape=MEMORY), "nodes": with_memory("81920")},
    ),
    Row(
        "NeverFits",
        "pods ask for parts of more GPUs than a selected node has",
        {
            "pods": pods(shape=replace(part_of(0.5, 9), selector=(IN_ZONE_A,))),
            "nodes": (*nodes()[:8], *larger(nodes()[8:])),
        },
        "A pod requests parts of 9 GPUs, but no node that matches topology.kubernetes.io/zone=zone-a has more than 8",
        "you",
        {"pods": pods(shape=part_of(0.5, 8))},
    ),
    Row(
        "ReservationEvicted",
        "a taint evicts the pod that reserves a GPU",
        evicted(),
        "KAI's pod batch-gpu-00-0, which reserves a shared GPU of gpu-00, does not tolerate the NoExecute taint hpc and is evicted, so no pod can share a GPU there",
        "platform",
        evicted(Toleration("hpc", "Exists", "", "")),
    ),
    Row(
        "ReservationRefused",
        "the kubelet has no device for the pod that reserves a GPU",
        refused(),
        f"Pods cannot share another GPU of gpu-00, because the kubelet rejected or evicted the newest pod with which KAI reserves a GPU for sharing: {NO_DEVICE}",
        "platform",
        refused(reservation(1)),
    ),
    Row(
        "NoDomainFits",
        "each shared GPU has 0.4 left, and pods ask for 0.6 of one",
        {"pods": (*pods(shape=part_of(0.6)), *shared(0.6, 8))},
        "No rack has room for any of 3 pods of 0.6 GPUs; a pod requests 0.6 of 1 GPU, and at most 0.4 of a shared GPU is free, on gpu-00",
        "wait",
        {"pods": (*pods(shape=part_of(0.4)), *shared(0.6, 8))},
    ),
    Row(
        "NoDomainFits",
        "the only node with free GPUs does not say how much memory they have",
        {
            "pods": (*pods(shape=MEMORY), *fill(*RACKS, but=("gpu-00",))),
            "nodes": (nodes()[0], *with_memory("81920")[1:]),
        },
        "No rack has room for any of 3 pods of 4,096 MiB of GPU memory; a pod requests 4,096 MiB of 1 GPU, and no shared GPU has room; KAI does not use gpu-00, because it lacks the label nvidia.com/gpu.memory",
        "you",
        {
            "pods": (*pods(shape=MEMORY), *fill(*RACKS, but=("gpu-00",))),
            "nodes": with_memory("81920"),
        },
    ),
    Row(
        "NoDomainFits",
        "a reserved GPU is taken once, however many pods share it",
        {"pods": (*pods(), *shared(0.5, 1))},
        "No rack has room for any of 3 pods of 8 GPUs (28 GPUs are free, but too fragmented)",
        "wait",
        {"pods": (*pods(shape=shape(7)), *shared(0.5, 1))},
    ),
    Row(
        "NoDomainFits",
        "background pods hold nothing",
        {"pods": (*pods(), *fill(*RACKS))},
        "No rack has room for any of 3 pods of 8 GPUs",
        "wait",
        {"pods": (*pods(), *(replace(pod, background=True) for pod in fill(*RACKS)))},
    ),
    Row(
        "BackgroundPods",
        "KAI evicts background pods for the gang, and leaves them alone where another rack is empty",
        {"pods": (*pods(), *(replace(pod, background=True) for pod in fill(*RACKS)))},
        "3 background pods run where the gang would be placed (research/batch-gpu-01-0 on gpu-01, research/batch-gpu-02-0 on gpu-02 and research/batch-gpu-03-0 on gpu-03). KAI 0.18 and later evict background pods to make room",
        "platform",
        {"pods": (*pods(), *(replace(pod, background=True) for pod in fill(*RACKS[:1])))},
    ),
    Row(
        "NoDomainFits",
        "KAI chooses the fullest rack, and what ends there counts as free",
        {"pods": (*pods(), *ending_in_the_first_rack())},
        "KAI should choose gpu-01, gpu-02 and gpu-03 and wait until 3 pods there have ended: it already counts their room as free",
        "wait",
        {"pods": pods()},
    ),
)
