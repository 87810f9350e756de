"""Report why pods can't share GPUs: unknown GPU memory, or a lost reservation pod of KAI."""

import shlex
from collections.abc import Iterable, Iterator, Sequence

from app.explain.gangs.gang import Gang
from app.explain.placing.demand import Run
from app.explain.placing.fitness import is_selected, tolerates
from app.explain.reasons.messages import one_line
from app.explain.reasons.obstacle import Barrier, Obstacle, obstacle_of
from app.explain.reasons.reason import (
    Evidence,
    Reasons,
    Who,
    about,
    counted,
    listed,
    plain,
    with_age,
)
from app.explain.reasons.scaling import autoscaler_speaks
from app.explain.state.amounts import gpus_of
from app.explain.state.gpu_sharing import without_shares
from app.explain.state.index import Index
from app.facts.kubernetes.gpu_sharing import (
    FRACTION_DEVICES,
    GPU_MEMORY,
    MEMORY_LABEL,
    GpuPart,
    memory_of_gpus,
)
from app.facts.kubernetes.gpus import GPU
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod

RESERVATIONS = "kai-resource-reservation"
"""The namespace of the pods by which KAI reserves shared GPUs."""


def gpu_memory_unknown(gang: Gang) -> Reasons:
    """Report that pods request GPU memory, and no node that they select has the label for it.

    KAI places such a pod only on nodes with the label: `evaluateTaskOnPredicates` in
    `pkg/scheduler/plugins/predicates/predicates.go`.
    """
    obstacle = obstacle_of(gang)
    if not obstacle or Barrier.GPU_MEMORY_UNKNOWN not in obstacle.barriers:
        return
    if autoscaler_speaks(gang) and not any(gpus_of(node.allocatable) for node in obstacle.nodes):
        return  # The autoscaler may add nodes with the label.
    text = (
        f"No node that the pods may use has the label {MEMORY_LABEL}, from which KAI reads the"
        " memory of GPUs, so KAI cannot place pods that request gpu-memory"
    )
    remedy = (
        "Request gpu-fraction instead of gpu-memory, or ask the platform team to run NVIDIA's GPU"
        " feature discovery, which writes the label"
    )
    evidence = Evidence(gang.ref, f"metadata.labels[{MEMORY_LABEL}] of nodes", "absent")
    yield about(evidence, "GpuMemoryUnknown", text, remedy, "platform")


def reservation_evicted(gang: Gang) -> Reasons:
    """Report that a taint evicts the pod by which KAI reserves a shared GPU.

    Without the reservation pod, no pod that shares the GPU can be bound.
    """
    if not any(pod.shape.part for pod in gang.waiting):
        return
    nodes = {node.name: node for node in gang.index.nodes}
    for pod in _reservations(gang.index):
        node = nodes.get(pod.node)
        if not node or not (pod.finished or pod.deleting is not None):
            continue
        for key in _evicting_taints(pod, node):
            text = (
                f"KAI's pod {pod.name}, which reserves a shared GPU of {node.name}, does not"
                f" tolerate the NoExecute taint {key} and is evicted, so no pod can share a GPU"
                " there"
            )
            remedy = (
                "Ask the platform team to give KAI's reservation pods a toleration for the taint,"
                " or to remove the taint. From KAI 0.17 on, reservation pods copy the tolerations"
                " of the pods that share the GPU"
            )
            command = f"kubectl taint node {shlex.quote(node.name)} {shlex.quote(key)}:NoExecute-"
            evidence = Evidence(pod.ref, "status.phase", pod.phase)
            yield about(
                evidence, "ReservationEvicted", text, remedy, "platform", commands=(command,)
            )


def reservation_refused(gang: Gang) -> Reasons:
    """Report that a kubelet rejected or evicted KAI's newest reservation pod on its node.

    KAI still counts the GPU as free, and creates another such pod in its next cycle:
    https://github.com/kai-scheduler/KAI-Scheduler/issues/848
    """
    if not any(pod.shape.part for pod in gang.waiting):
        return
    by_age = sorted(_reservations(gang.index), key=lambda pod: pod.created or 0)
    latest = {pod.node: pod for pod in by_age}
    for node in gang.index.nodes:
        last = latest.get(node.name)
        if not last or not last.failure or not node.takes_pods:
            continue
        if any(_evicting_taints(last, node)):
            continue  # `reservation_evicted` reports it.
        failure = with_age(one_line(last.failure), last.created, gang.facts.now)
        text = (
            f"Pods cannot share another GPU of {node.name}, because the kubelet rejected or evicted"
            f" the newest pod with which KAI reserves a GPU for sharing: {failure}"
        )
        remedy = (
            f"Ask the platform team to cordon {node.name}, and to find the pods or processes that"
            " use its GPUs and that KAI does not count"
        )
        name = shlex.quote(node.name)
        commands: tuple[str, ...] = (
            f"kubectl cordon {name}",
            f"kubectl get pods -A --field-selector spec.nodeName={name}",
        )
        unused = unused_reservations(gang.index, node.name)
        if unused:
            said, remedy, command = unused
            text, commands = f"{text}. {said}", (command,)
        evidence = Evidence(last.ref, "status.reason", last.failure)
        yield about(evidence, "ReservationRefused", text, remedy, "platform", commands=commands)


_NEW = 600.0
"""The seconds within which KAI binds the pod for which it has created a reservation pod."""


def unused_reservations(index: Index, node: str) -> tuple[str, str, str] | None:
    """Return a text about KAI's reservation pods on a node whose GPUs no pod shares.

    Return also the remedy and the command that delete them, or None if there are none. Pods younger
    than `_NEW` are omitted. KAI does not count these GPUs as used, so it keeps placing pods there,
    and the kubelet rejects them: https://github.com/kai-scheduler/KAI-Scheduler/issues/848
    """
    shared = {
        group for pod in index.pods_on.get(node, ()) if not pod.reserves for group in pod.gpu_groups
    }
    before = index.facts.now - _NEW
    names = sorted(
        pod.name
        for pod in _reservations(index)
        if pod.node == node and pod.gpu_groups and shared.isdisjoint(pod.gpu_groups)
        if pod.is_alive and (pod.created or 0.0) < before
    )
    if not names:
        return None
    noun = "pod" if len(names) == 1 else "pods"
    reserve = "reserves a GPU" if len(names) == 1 else "reserve GPUs"
    text = (
        f"KAI's {noun} {listed(names)} {reserve} there that no pod shares and that KAI counts as"
        " free"
    )
    remedy = f"Ask the platform team to delete KAI's unused reservation {noun}"
    return text, remedy, f"kubectl delete pod -n {RESERVATIONS} {shlex.join(names)}"


def _reservations(index: Index) -> Sequence[Pod]:
    """Return the pods by which KAI reserves shared GPUs.

    Only pods in KAI's namespace count. Anybody can give a pod KAI's label, and the result decides
    about remedies such as cordoning a node.
    """

    def look() -> Sequence[Pod]:
        pods = index.facts.pods
        return [pod for pod in pods if pod.reserves and pod.namespace == RESERVATIONS]

    return index.remembered("reservation pods", look, ["pods"])


def _evicting_taints(pod: Pod, node: Node) -> Iterator[str]:
    for taint in node.taints:
        if taint.effect == "NoExecute" and not tolerates(pod.shape.tolerations, taint):
            yield taint.key


def part_words(obstacle: Obstacle) -> str:
    """Return a clause with the requested part of a GPU and the largest free part of a shared GPU.

    Return "" if no part of a GPU is requested.
    """
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
        f"at most {_rounded(most)} of a shared GPU is free, on {best}"
        if best
        else "no shared GPU has room"
    )
    unlabelled = _without_memory(obstacle)
    they = "it lacks" if len(unlabelled) == 1 else "they lack"
    lacks = f"; KAI does not use {listed(unlabelled)}, because {they} the label {MEMORY_LABEL}"
    return (
        f"; a pod requests {_asked_of(part)} of {counted(part.devices, 'GPU')}, and {left}"
        f"{lacks if unlabelled else ''}"
    )


def labelling_memory(obstacle: Obstacle) -> str:
    """Return a remedy for nodes whose GPU memory KAI does not know, or "" if there are none."""
    unlabelled = listed(_without_memory(obstacle))
    return (
        f"Ask the platform team to run NVIDIA's GPU feature discovery on {unlabelled}, so that it"
        f" writes the label {MEMORY_LABEL} there"
        if unlabelled
        else ""
    )


def _without_memory(obstacle: Obstacle) -> list[str]:
    """Return the names of the nodes with a free GPU that KAI ignores for lack of a label.

    It is the label of GPU memory. Return [] if no pod requests GPU memory.
    """
    shapes = [shape for shape in obstacle.shapes if shape.part and shape.part.memory]
    if not shapes:
        return []
    index = obstacle.gang.index
    free = zip(index.nodes, index.free((GPU,)), strict=True)
    with_room = {node.name for node, (gpus,) in free if gpus >= 1000 and node.takes_pods}
    return [
        node.name
        for node in obstacle.nodes
        if MEMORY_LABEL not in node.labels and node.name in with_room
        if any(is_selected(shape, node) for shape in shapes)
    ]


def part_too_large(part: GpuPart, nodes: Sequence[Node], that: str) -> tuple[str, str, Who] | None:
    """Return (text, remedy, who can act) if no node can provide a requested part of GPUs, or None.

    Either no GPU has enough memory, or no node has enough GPUs. `that` says which nodes these are,
    such as ` that matches gpu=h100`, or is "".
    """
    memory = max((memory_of_gpus(node.labels) or 0 for node in nodes), default=0)
    if part.memory > memory > 0:
        of_node = f" of a node{that}" if that else ""
        return (
            f"No GPU{of_node} has {part.memory:,} MiB of memory, which a pod requests"
            f" ({GPU_MEMORY}); the largest has {memory:,} MiB (KAI rounds the label"
            f" {MEMORY_LABEL} down to hundreds)",
            f"Request at most {memory} in the annotation {GPU_MEMORY}, or whole GPUs instead",
            "you",
        )
    gpus = max((node.allocatable.get(GPU, 0) // 1000 for node in nodes), default=0)
    if part.devices > gpus > 0:
        return (
            f"A pod requests parts of {part.devices} GPUs, but no node{that} has more than {gpus}",
            f"Set the annotation {FRACTION_DEVICES} to at most {gpus}",
            "you",
        )
    return None


def counted_memory(shapes: Iterable[Run], nodes: Iterable[Node]) -> str:
    """Return a note on the GPU memory that KAI counts on a GPU, or "" if no pod requests any."""
    if not any(shape.part and shape.part.memory for shape, _ in shapes):
        return ""
    memory = max((memory_of_gpus(node.labels) or 0 for node in nodes), default=0)
    return f" (KAI counts {memory:,} MiB per GPU: it rounds the label {MEMORY_LABEL} down)"


def _asked_of(part: GpuPart) -> str:
    return f"{part.memory:,} MiB" if part.memory else plain(round(part.portion * 1000))


def _rounded(share: float) -> str:
    return f"{int(share * 100) / 100:g}"
