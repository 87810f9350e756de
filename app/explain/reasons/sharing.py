"""Reasons in shared GPUs: what KAI knows of their memory, and the pods that reserve them."""

import shlex
from collections.abc import Iterator

from app.explain.gangs.gang import Gang
from app.explain.known.sharing import without_shares
from app.explain.placing.fitness import tolerates
from app.explain.reasons.reason import Evidence, Reasons, about, counted, plain
from app.explain.reasons.room import Obstacle, obstacle_of
from app.facts.kubernetes.gpu_sharing import MEMORY_LABEL, GpuPart
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod

RESERVATIONS = "kai-resource-reservation"
"""KAI's namespace for pods that reserve shared GPUs."""


def gpu_memory_unknown(gang: Gang) -> Reasons:
    """Pods ask for GPU memory, and no node says how much memory its GPUs have.

    KAI places such a pod only on nodes with the label: `evaluateTaskOnPredicates` in
    `pkg/scheduler/plugins/predicates/predicates.go`.
    """
    obstacle = obstacle_of(gang)
    if not obstacle or not obstacle.lacks_gpu_memory:
        return
    text = (
        f"No node has the label {MEMORY_LABEL}, from which KAI reads the memory of GPUs: it places"
        " no pod that asks for gpu-memory"
    )
    remedy = (
        "ask the platform team to run NVIDIA's GPU feature discovery, which writes the label; or"
        " request gpu-fraction instead of gpu-memory"
    )
    evidence = Evidence(gang.ref, f"metadata.labels[{MEMORY_LABEL}] of nodes", "absent")
    yield about(evidence, "GpuMemoryUnknown", text, remedy, "platform")


def reservation_evicted(gang: Gang) -> Reasons:
    """A taint evicts the pod by which KAI reserves a GPU, so no pod that shares it can be bound."""
    if not any(pod.shape.part for pod in gang.waiting):
        return
    nodes = {node.name: node for node in gang.index.nodes}
    for pod in gang.facts.pods:
        node = nodes.get(pod.node)
        if not node or not pod.reserves or not (pod.finished or pod.deleting is not None):
            continue
        for key in _evicting_taints(pod, node):
            text = (
                f"KAI's pod {pod.name}, which reserves a shared GPU of {node.name}, does not"
                f" tolerate the NoExecute taint {key} and is evicted: no pod gets a part of a GPU"
                " there"
            )
            remedy = (
                "give KAI's reservation pods this toleration (from 0.17 on, they have those of the"
                " pods that share the GPU), or remove the taint"
            )
            command = f"kubectl taint node {shlex.quote(node.name)} {shlex.quote(key)}:NoExecute-"
            evidence = Evidence(pod.ref, "status.phase", pod.phase)
            yield about(
                evidence, "ReservationEvicted", text, remedy, "platform", commands=(command,)
            )


def _evicting_taints(pod: Pod, node: Node) -> Iterator[str]:
    for taint in node.taints:
        if taint.effect == "NoExecute" and not tolerates(pod.shape.tolerations, taint):
            yield taint.key


def part_words(obstacle: Obstacle) -> str:
    """Return why no GPU has a part left, as an addition to a text; "" if no part is asked for."""
    part = next((shape.part for shape in obstacle.shapes if shape.part), None)
    if not part:
        return ""
    index = obstacle.gang.index
    most, best = 0.0, ""
    for position in obstacle.open:
        shares = index.shares.get(position) or without_shares(index.nodes[position])
        if shares.most_left > most:
            most, best = shares.most_left, index.nodes[position].name
    left = (
        f"at most {_rounded(most)} of one is left, on {best}" if best else "no shared GPU has room"
    )
    return f"; {_asked_of(part)} is asked of {counted(part.devices, 'GPU')}, and {left}"


def _asked_of(part: GpuPart) -> str:
    return f"{part.memory:,} MiB" if part.memory else plain(round(part.portion * 1000))


def _rounded(share: float) -> str:
    return f"{int(share * 100) / 100:g}"
