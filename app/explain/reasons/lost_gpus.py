"""Find nodes that have GPUs according to their labels, but offer none to pods."""

from collections.abc import Iterable, Sequence

from app.explain.placing.demand import Demand
from app.explain.reasons.reason import listed
from app.explain.state.amounts import counts_as_gpu
from app.facts.kubernetes.gpus import GPU
from app.facts.kubernetes.node import Node
from app.facts.labels import GPU_COUNT, PLUGIN_DEPLOYED

_BY = {
    "paused-for-driver-upgrade": "the driver manager, which runs in the driver pod",
    "paused-for-mig-change": "the MIG manager",
}
"""The components of the GPU Operator that pause the device plugin of a node, by label value.

Sources: `k8s-driver-manager` and `reconfigure-mig.sh` of `mig-parted`.
"""


def lost_gpus(nodes: Iterable[Node], demand: Demand) -> list[Node]:
    """Return the open nodes that offer no GPU, although a pod's GPUs fit their label."""
    asked = [amount for shape, _ in demand.shapes for name, amount in shape.requests if name == GPU]
    least = min(asked, default=0)
    return [node for node in nodes if least and _has_lost(node, least)]


def _has_lost(node: Node, least: int) -> bool:
    count = node.labels.get(GPU_COUNT, "")
    if not count.isdecimal() or 1000 * int(count) < least or not node.takes_pods:
        return False
    # Time slicing may rename the resource to nvidia.com/gpu.shared.
    offered = (name for name, has in node.allocatable.items() if has)
    return not any(counts_as_gpu(name) or name.startswith(GPU) for name in offered)


def paused_words(nodes: Sequence[Node]) -> tuple[str, str]:
    """Return (text, remedy) if the GPU Operator has paused the device plugin of nodes, or ("", "").

    Both are about the first such node and the nodes with the same value of the label.
    """
    value = next(
        (found for node in nodes if (found := node.labels.get(PLUGIN_DEPLOYED)) in _BY), ""
    )
    if not value:
        return "", ""
    names = listed([node.name for node in nodes if node.labels.get(PLUGIN_DEPLOYED) == value], 3)
    text = f"The GPU Operator has paused the device plugin of {names} ({PLUGIN_DEPLOYED}={value})"
    remedy = f"Ask the platform team to read the log of {_BY[value]} on {names}: it ends the pause"
    return text, remedy


def lost_words(nodes: Sequence[Node]) -> tuple[str, str]:
    """Return (text, remedy) about nodes that offer no GPU, or ("", "") without nodes."""
    if not nodes:
        return "", ""
    names = listed([node.name for node in nodes], 3)
    has, offers = ("has", "offers") if len(nodes) == 1 else ("have", "offer")
    text = f"{names} {has} GPUs according to the label {GPU_COUNT}, but {offers} none"
    paused, remedy = paused_words(nodes)
    if paused:
        return f"{text}. {paused}", remedy
    return text, f"Ask the platform team to check the device plugin (GPU Operator) on {names}"
