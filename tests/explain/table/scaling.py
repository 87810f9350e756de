"""What autoscalers say of pods that wait."""

from typing import Any

from msgspec.structs import replace

from app.facts.kubernetes.event import Event
from tests.explain.fleet import NOW, RACKS, WORKERS, fill, occupant, pods
from tests.explain.table.row import Changes, Row, part_of

CLUSTER = "cluster-autoscaler"
TRIGGERED = "pod triggered scale-up: [{gpu-pool 4->8 (max: 16)}]"
NOT = "pod didn't trigger scale-up: 1 Insufficient nvidia.com/gpu, 2 max node group size reached"
CLAIM = "Pod should schedule on: nodeclaim/gpu-x7f2k"
NODE = "Pod should schedule on: nodeclaim/gpu-x7f2k, node/gpu-00"
FAILED = "Failed to schedule pod, incompatible with nodepool"


def said(*events: tuple[str, str, float], source: str = CLUSTER, pod: int = 0) -> Changes:
    """What was said of a worker: reasons, messages and minutes since then. All nodes are full."""
    return {
        "pods": (*pods(), *fill("rack-a1", "rack-a2", "rack-b1", "rack-b2")),
        "events": tuple(
            Event(f"uid-{WORKERS}-{pod}", reason, message, NOW - 60 * minutes, source)
            for reason, message, minutes in events
        ),
    }


def scaling(*events: tuple[str, str, float], **changes: Any) -> Changes:
    """The workers share GPUs, and KAI has asked for a node for one of them with a scaling pod."""
    asks = occupant(
        "",
        gpus=1,
        namespace="kai-scale-adjust",
        name="inference-w",
        uid="uid-scaling",
        phase="Pending",
        group="",
        scheduler="default-scheduler",
        scales_for=("inference", f"{WORKERS}-0"),
        created=NOW - 180,
    )
    sharing = tuple(
        replace(each, shape=part_of(0.5)) if each.place.clique == WORKERS else each
        for each in pods()
    )
    return {
        "pods": (*sharing, replace(asks, **changes), *fill(*RACKS)),
        "events": tuple(
            Event(asks.uid, reason, message, NOW - 60 * minutes, CLUSTER, asks.ref)
            for reason, message, minutes in events
        ),
    }


OF_HELPER = "(about kai-scale-adjust/inference-w, KAI's scaling pod)"
SCALING = (
    Row(
        "NodesComing",
        "an autoscaler adds a node for KAI's scaling pod",
        scaling(("TriggeredScaleUp", TRIGGERED, 4)),
        f"The autoscaler has been adding nodes for 4 minutes: {TRIGGERED} {OF_HELPER}",
        "wait",
        scaling(("TriggeredScaleUp", TRIGGERED, 4), ("NotTriggerScaleUp", NOT, 2)),
        also=("NoDomainFits",),
    ),
    Row(
        "NoNodeGroupHelps",
        "no node group helps KAI's scaling pod, made for another workload's pod",
        scaling(("NotTriggerScaleUp", NOT, 2), scales_for=("research", "other")),
        f"The autoscaler adds no nodes for 3 pods: {NOT} {OF_HELPER}",
        "platform",
        {
            **scaling(("NotTriggerScaleUp", NOT, 2)),
            "pods": (*pods(), *scaling()["pods"][4:]),
        },
        also=("NoDomainFits",),
    ),
    Row(
        "NodesComing",
        "no autoscaler answers KAI's scaling pod",
        scaling(),
        "KAI has been asking for a node for 3 minutes with its scaling pod kai-scale-adjust/inference-w, and no autoscaler has answered",
        "platform",
        scaling(node="gpu-00"),
        also=("NoDomainFits",),
    ),
    Row(
        "NodesComing",
        "Cluster Autoscaler adds nodes, after it had not",
        said(("TriggeredScaleUp", TRIGGERED, 4), ("NotTriggerScaleUp", NOT, 9)),
        f"The autoscaler has been adding nodes for 4 minutes: {TRIGGERED}",
        "wait",
        said(("TriggeredScaleUp", TRIGGERED, 9), ("NotTriggerScaleUp", NOT, 4)),
        also=("NoDomainFits",),
    ),
    Row(
        "NodesComing",
        "a node should have joined long ago",
        said(("TriggeredScaleUp", TRIGGERED, 16)),
        f"The autoscaler announced nodes 16 minutes ago: {TRIGGERED}",
        "platform",
        said(("TriggeredScaleUp", TRIGGERED, 16), source="somebody"),
        also=("NoDomainFits",),
    ),
    Row(
        "NodesComing",
        "Karpenter makes a NodeClaim",
        said(("Nominated", CLAIM, 2), source="karpenter"),
        f"The autoscaler has been adding nodes for 2 minutes: {CLAIM}",
        "wait",
        said(("Nominated", NODE, 2), source="karpenter"),
        also=("NoDomainFits",),
    ),
    Row(
        "NoNodeGroupHelps",
        "no node group has what a pod asks for, or may grow",
        said(("NotTriggerScaleUp", NOT, 4), ("TriggeredScaleUp", TRIGGERED, 30)),
        f"The autoscaler adds no nodes for 1 pod: {NOT}",
        "platform",
        said(("TriggeredScaleUp", TRIGGERED, 4), ("NotTriggerScaleUp", NOT, 30)),
        also=("NoDomainFits",),
    ),
    Row(
        "NoNodeGroupHelps",
        "no NodePool fits",
        said(("FailedScheduling", FAILED, 1), source="karpenter"),
        f"The autoscaler adds no nodes for 1 pod: {FAILED}",
        "platform",
        said(("FailedScheduling", FAILED, 1), source="default-scheduler"),
        also=("NoDomainFits",),
    ),
)
