"""Find how many GPUs each workload uses in each queue, as KAI counts GPUs."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from app.base.value import Value
from app.explain.answers.branch import AS_JSON
from app.explain.queue_order.shares import quantities_of_pod
from app.explain.queue_order.usage import gpus_of_claims, received
from app.explain.reasons.blocking_workloads import workload_of
from app.explain.state.domains import Path
from app.explain.state.index import Index
from app.explain.state.levels import Topology
from app.explain.state.snapshot import PODS_ON
from app.facts.identity import Key, Ref
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod

_OF_USERS = ("nodes", "pods", "pod_groups", "claims", "claim_templates", "slices")
"""The fields of a snapshot from which the users of GPUs are computed."""


class NodeUser(Value):
    """The pods of one workload in one queue on one node."""

    workload: Ref
    queue: str
    """The queue, or "" for pods without a PodGroup and for a PodGroup without a queue."""
    gpus: int
    """The GPUs in use, in thousandths."""
    pods: int


class GpuUser(Value, rename=AS_JSON):
    """The use of GPUs by one workload in one queue."""

    workload: Ref
    queue: str
    """The queue, or "" for pods without a PodGroup and for a PodGroup without a queue."""
    gpus: int
    """The GPUs in use, in thousandths."""
    pods: int
    nodes: int


def users_of_node(index: Index, node: Node) -> list[NodeUser]:
    """Return the workloads that use GPUs of a node."""
    alike, others = _by_node(index).get(node.name, _NOBODY)
    shares = [(user, gpus, pods) for user, (gpus, pods) in alike.items()]
    shares += (
        ((workload_of(pod), _group_of(pod)), gpus_used(index, pod, node), 1) for pod in others
    )
    # A workload may have several PodGroups.
    totals: dict[tuple[Ref, str], tuple[int, int]] = {}
    for (workload, key), gpus, pods in shares:
        user = workload, _queue(index, key)
        before, count = totals.get(user, (0, 0))
        totals[user] = before + gpus, count + pods
    return [NodeUser(*user, gpus, pods) for user, (gpus, pods) in totals.items() if gpus]


_Requested = tuple[Mapping[tuple[Ref, Key], tuple[int, int]], list[Pod]]
_NOBODY: _Requested = {}, []


def _by_node(index: Index) -> Mapping[str, _Requested]:
    # This depends only on the pods of a node, so it is kept until one of them changes.
    return index.lookup(PODS_ON).each(_requested)


def _requested(pods: Sequence[Pod]) -> _Requested:
    """Return the usage of whole GPUs on a node, and the pods with GPU fractions or claims.

    The usage is (GPUs in thousandths, number of pods) by workload and PodGroup. It leaves out the
    pods with GPU fractions or claims, whose GPUs depend on the node or on the claims.
    """
    others = [pod for pod in pods if pod.shape.part or pod.claims]
    gpus: dict[tuple[Ref, Key], tuple[int, int]] = {}
    for pod in pods:
        amount = 0 if pod.shape.part or pod.claims else _whole_gpus(pod)
        if amount:
            user = workload_of(pod), _group_of(pod)
            before, count = gpus.get(user, (0, 0))
            gpus[user] = before + amount, count + 1
    return gpus, others


def _whole_gpus(pod: Pod) -> int:
    """Return the GPUs of a pod without GPU fractions and claims, in thousandths."""
    return 0 if pod.background or pod.reserves else round(1000 * quantities_of_pod(pod.shape)[0])


def _queue(index: Index, key: Key) -> str:
    group = index.pod_groups.get(key)
    return group.queue if group else ""


def _group_of(pod: Pod) -> Key:
    return pod.namespace, pod.group or ""


def gpus_used(index: Index, pod: Pod, node: Node) -> int:
    """Return the GPUs of a pod on a node, in thousandths.

    Background pods and KAI's reservation pods use none.
    """
    if pod.background or pod.reserves:
        return 0
    of_claims = gpus_of_claims(index, pod) if pod.claims else 0.0
    return round(1000 * (received(pod.shape, node)[0] + of_claims))


def gpu_users(index: Index, nodes: Iterable[Node] | None = None) -> list[GpuUser]:
    """Return the workloads that use GPUs of some nodes, or of all nodes, most GPUs first."""
    if nodes is not None:
        return _summed(index, nodes)
    return index.remembered("GPU users", lambda: _summed(index, index.nodes), _OF_USERS)


def _summed(index: Index, nodes: Iterable[Node]) -> list[GpuUser]:
    totals: dict[tuple[Ref, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for node in nodes:
        for user in users_of_node(index, node):
            total = totals[user.workload, user.queue]
            total[0] += user.gpus
            total[1] += user.pods
            total[2] += 1
    found = (GpuUser(*user, *total) for user, total in totals.items())
    return sorted(found, key=lambda user: (-user.gpus, user.workload))


def users_in(topology: Topology, domains: Iterable[Path]) -> list[GpuUser] | None:
    """Return the workloads that use GPUs of some domains, or None if usage is not known."""
    index = topology.index
    if not index.room_is_known:
        return None
    inside = (domain for path in domains for domain in topology.domains.within(len(path), path))
    return gpu_users(index, (index.nodes[place] for each in inside for place in each.nodes))


def gpus_by_queue(users: Iterable[NodeUser | GpuUser]) -> Counter[str]:
    """Return the GPUs in use by queue, in thousandths."""
    used: Counter[str] = Counter()
    for user in users:
        used[user.queue] += user.gpus
    return used
