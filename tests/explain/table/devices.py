"""Room and NeverFits if GPUs are allocated by DRA: nodes have none of their own, ResourceSlices do."""

from msgspec.structs import replace

from app.facts.kubernetes.claim import (
    ClaimTemplate,
    Device,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from app.facts.kubernetes.pod import PodClaim
from tests.explain.fleet import GPU, NAMESPACE, ROUTER, WORKERS, nodes, pod, shape
from tests.explain.table.row import CHANNEL, Changes, Row

DRIVER = "gpu.nvidia.com"
TEMPLATE = ClaimTemplate(NAMESPACE, "llm-gpus", (DRIVER,) * 8)
WITHOUT_PLUGIN = tuple(
    replace(
        node, allocatable={name: have for name, have in node.allocatable.items() if name != GPU}
    )
    for node in nodes()
)


def gpus(node: str, count: int = 8, generation: int = 1) -> ResourceSlice:
    names = tuple(f"gpu-{number}" for number in range(count))
    return ResourceSlice(DRIVER, node, generation, node, names)


def taken(*names: str) -> tuple[ResourceClaim, ...]:
    """Claims of somebody else on one GPU of each of these nodes, and on a channel, which is no GPU."""

    def devices(node: str) -> tuple[Device, ...]:
        return Device(DRIVER, node, "gpu-3"), Device("compute-domain.nvidia.com", node, "channel-1")

    return tuple(ResourceClaim("research", f"{n}-x", (DRIVER,), True, devices(n)) for n in names)


def fleet(*claims: ResourceClaim, slices: tuple[ResourceSlice, ...] = ()) -> Changes:
    """Workers that claim 8 GPUs each, on nodes that have 8 each, unless `slices` say otherwise."""
    claim = PodClaim("gpus", "", TEMPLATE.name)
    workers = (pod(WORKERS, number, shape=shape(0), claims=(claim,)) for number in range(3))
    return {
        "nodes": WITHOUT_PLUGIN,
        "pods": (pod(ROUTER, 0), *workers),
        "slices": slices or tuple(gpus(node.name) for node in nodes()),
        "claims": claims,
        "claim_templates": (TEMPLATE,),
        "device_classes": (DeviceClass(DRIVER, DRIVER), DeviceClass(CHANNEL)),
    }


def racks(*full: str, but: str = "") -> tuple[str, ...]:
    return tuple(n.name for n in nodes() if n.labels["example.com/rack"] in full and n.name != but)


DEVICES = (
    Row(
        "NoDomainFits",
        "claims have GPUs of nodes in every rack",
        fleet(*taken(*racks("rack-a1", "rack-a2", "rack-b2"), "gpu-08", "gpu-09")),
        "No rack has room for 3 pods of 8 GPUs; zone-b/rack-b1 has room for 2 (30 GPUs are free, but too fragmented)",
        "platform",
        fleet(*taken(*racks("rack-a1", "rack-a2"), "gpu-08")),
    ),
    Row(
        "NeverFits",
        "nodes have 4 GPUs in the latest generation of their pools",
        fleet(
            slices=tuple(
                gpus(n.name, count, generation)
                for n in nodes()
                for count, generation in ((8, 1), (4, 2))
            )
        ),
        "No node has 8 GPUs, which a pod requests; the largest has 4 GPUs",
        "you",
        fleet(
            slices=tuple(
                gpus(n.name, count, generation)
                for n in nodes()
                for count, generation in ((4, 1), (8, 2))
            )
        ),
    ),
)
