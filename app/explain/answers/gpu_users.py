"""The users of GPUs: workloads and their queues, counted as KAI counts pods."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from app.base.value import Value
from app.explain.answers.branch import AS_JSON
from app.explain.queue_order.usage import gpus_of_claims, received
from app.explain.reasons.blocking_workloads import workload_of
from app.explain.state.domains import Path
from app.explain.state.index import Index
from app.explain.state.levels import Topology
from app.facts.identity import Ref
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod


class NodeUser(Value):
    """The pods of one workload in one queue on one node."""

    workload: Ref
    queue: str
    """The queue; "" for pods without a PodGroup, and for a PodGroup without a queue."""
    gpus: int
    pods: int


class GpuUser(Value, rename=AS_JSON):
    """A workload that uses GPUs, with the numbers of its pods and nodes."""

    workload: Ref
    queue: str
    gpus: int
    pods: int
    nodes: int


def users_by_node(index: Index) -> Mapping[str, Sequence[NodeUser]]:
    """Return the users of the GPUs of each node. Nodes without users are left out."""
    return index.remembered(
        "GPU users",
        lambda: _users_by_node(index),
        ("nodes", "pods", "pod_groups", "claims", "claim_templates", "slices"),
    )


def _users_by_node(index: Index) -> Mapping[str, Sequence[NodeUser]]:
    users = ((node.name, _users(index, node)) for node in index.nodes)
    return {name: of_node for name, of_node in users if of_node}


def _users(index: Index, node: Node) -> Sequence[NodeUser]:
    gpus: Counter[tuple[Ref, str]] = Counter()
    pods: Counter[tuple[Ref, str]] = Counter()
    for pod in index.pods_on.get(node.name, ()):
        amount = gpus_used(index, pod, node)
        if amount:
            group = index.pod_groups.get((pod.namespace, pod.group or ""))
            user = (workload_of(pod), group.queue if group else "")
            gpus[user] += amount
            pods[user] += 1
    return [NodeUser(*user, amount, pods[user]) for user, amount in gpus.items()]


def gpus_used(index: Index, pod: Pod, node: Node) -> int:
    """Return the GPUs of a pod, in thousandths: 0 for pods that KAI evicts for any other."""
    if pod.background or pod.reserves:
        return 0
    of_claims = gpus_of_claims(index, pod) if pod.claims else 0.0
    return round(1000 * (received(pod.shape, node)[0] + of_claims))


def gpu_users(index: Index, nodes: Iterable[str] | None = None) -> list[GpuUser]:
    """Return the users of the GPUs of some or all nodes, most GPUs first."""
    by_node = users_by_node(index)
    names = by_node if nodes is None else nodes
    inside: dict[tuple[Ref, str], list[NodeUser]] = defaultdict(list)
    for name in names:
        for user in by_node.get(name, ()):
            inside[user.workload, user.queue].append(user)
    found = (
        GpuUser(*who, sum(use.gpus for use in uses), sum(use.pods for use in uses), len(uses))
        for who, uses in inside.items()
    )
    return sorted(found, key=lambda user: (-user.gpus, user.workload))


def users_in(topology: Topology, domains: Iterable[Path]) -> list[GpuUser] | None:
    """Return the users of the GPUs of some domains. None if that is not known."""
    index = topology.index
    if not index.room_is_known:
        return None
    inside = (domain for path in domains for domain in topology.domains.within(len(path), path))
    return gpu_users(index, (index.nodes[place].name for each in inside for place in each.nodes))


def gpus_by_queue(users: Iterable[NodeUser | GpuUser]) -> Counter[str]:
    """Return the GPUs in use by queue, in thousandths."""
    used: Counter[str] = Counter()
    for user in users:
        used[user.queue] += user.gpus
    return used
