"""Find nodes that offer fewer GPUs to pods than they have according to their labels."""

import math
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
    """Return the open nodes that would have enough GPUs for a pod if they offered all of them."""
    least = _least(demand)
    few = [node for node in nodes if node.takes_pods and node.allocatable.get(GPU, 0) < least]
    return [node for node in few if offered_gpus(node) < least <= 1000 * _counted_gpus(node)]


def _least(demand: Demand) -> int:
    """Return the smallest request for GPUs of a pod, in thousandths, or 0."""
    asked = (amount for shape, _ in demand.shapes for name, amount in shape.requests if name == GPU)
    return min(asked, default=0)


def _counted_gpus(node: Node) -> int:
    """Return the number of GPUs in the label of a node, or 0."""
    count = node.labels.get(GPU_COUNT, "")
    return int(count) if count.isdecimal() and len(count) < _MOST_DIGITS else 0


_MOST_DIGITS = 5
"""Texts of labels with as many digits are no numbers of GPUs. Python rejects very long numbers."""


def offered_gpus(node: Node) -> float:
    """Return the GPUs that a node offers, in thousandths.

    Return infinity if it offers GPUs in another way too, such as MIG devices or time slices.
    """
    offered = (name for name, has in node.allocatable.items() if has and name != GPU)
    if any(counts_as_gpu(name) or name.startswith(GPU) for name in offered):
        return math.inf
    return node.allocatable.get(GPU, 0)


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
    """Return (text, remedy) about nodes that offer too few GPUs, or ("", "") without nodes."""
    if not nodes:
        return "", ""
    names = listed([node.name for node in nodes], 3)
    each = [
        f"{node.name} ({offered_gpus(node) / 1000:g} of {_counted_gpus(node)})" for node in nodes
    ]
    offer = (
        "offers fewer GPUs than its label"
        if len(nodes) == 1
        else "offer fewer GPUs than their label"
    )
    text = f"{listed(each, 3)} {offer} {GPU_COUNT} says"
    paused, remedy = paused_words(nodes)
    if paused:
        return f"{text}. {paused}", remedy
    return text, (
        f"Ask the platform team to check the GPUs and the device plugin (GPU Operator) on {names}"
    )
