"""Compute the usage and requests of the queues of a node pool.

As in KAI, usage and requests are sums over pods. If the pods are not known, usage is taken from the
status of each queue.

See `updateQueuesCurrentResourceUsage` in `pkg/scheduler/plugins/proportion/proportion.go` of KAI.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from app.explain.gangs.core import surplus_of
from app.explain.queue_order.shares import (
    NOTHING,
    UNKNOWN_MEMORY,
    Account,
    GpuMemory,
    Quantities,
    added,
    divide,
    quantities,
    quantities_of_pod,
)
from app.explain.state.index import Index
from app.explain.state.queues import SEMI_PREEMPTIBLE, chain, group_is_preemptible
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kubernetes.gpu_sharing import WITHOUT_LABEL, memory_of_gpus
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod, Shape
from app.facts.labels import KAI_SCHEDULER, NODE_POOL
from app.facts.quantity import Amounts
from app.facts.rows import ROOM

Accounts = Mapping[str, Account]
"""The accounts of the queues of a pool by name."""


def pods_are_known(index: Index) -> bool:
    """Return whether the nodes, and the pods and PodGroups of all namespaces, were read."""
    unread = index.facts.unread
    return not unread & {ROOM, "pods", "pod_groups", "nodes"}


def accounts_of(index: Index, pool: str) -> Accounts:
    """Return the current accounts of the queues of a pool.

    The result is shared, so do not change it. See `new_accounts`.
    """
    return index.remembered(("accounts", pool), lambda: new_accounts(index, pool))


def new_accounts(index: Index, pool: str) -> Accounts:
    """Return new accounts of the queues of a pool, with their usage and requests.

    Unless `pods_are_known`, the usage is taken from the status of each queue.
    """
    names = [name for name, queue in index.queues.items() if name and queue.pool == pool]
    accounts = {name: Account(index.queues[name]) for name in names}
    if not pods_are_known(index):
        for account in accounts.values():
            account.take_from_status()
        return accounts

    # The pods of a gang share one Shape object, so each shape is converted once.
    of_shape: dict[int, Quantities] = {}
    nodes = {node.name: node for node in nodes_of_pool(index, pool)}
    memory = memory_in(nodes.values())
    for group in index.facts.pod_groups:
        if group.given_up or group.pool != pool or group.queue not in accounts:
            continue
        pods = _counted(index, group)
        placed, waiting = _placed_and_waiting(index, pods, nodes, memory, of_shape)
        fixed = NOTHING if group_is_preemptible(index, group) else placed
        if group.preemptibility == SEMI_PREEMPTIBLE:
            surplus = {pod.key for pod in surplus_of(index, group)}
            core = [pod for pod in pods if pod.key not in surplus]
            fixed, _ = _placed_and_waiting(index, core, nodes, memory, of_shape)
        for queue in chain(index, group.queue):
            account = accounts[queue.name]
            account.take(fixed, preemptible=False)
            account.take(added(placed, fixed, -1), preemptible=True)
            account.requested = added(account.requested, added(placed, waiting))
    return accounts


def accounts_with_shares(index: Index, pool: str) -> Accounts:
    """Return the accounts of a pool's queues, each with its fair share of the pool's resources.

    The result is shared, so do not change it.
    """

    def look() -> Accounts:
        accounts = new_accounts(index, pool)
        groups = (group for group in index.facts.pod_groups if group.pool == pool)
        pods = (pod for group in groups for pod in index.pods_of_group.get(group.key, ()))
        schedulers = {pod.scheduler for pod in pods} or {KAI_SCHEDULER}
        divide(accounts.values(), total_of(index, nodes_of_pool(index, pool), schedulers))
        return accounts

    return index.remembered(("accounts with shares", pool), look)


def _counted(index: Index, group: KaiPodGroup) -> list[Pod]:
    """Return the pods of a PodGroup that KAI counts in its queue.

    Terminating and finished pods don't count, and neither do background pods with a node: KAI
    plans as if they were gone.
    """
    pods = index.pods_of_group.get(group.key, ())
    return [pod for pod in pods if pod.is_alive and not (pod.background and pod.node)]


def nodes_of_pool(index: Index, pool: str) -> Iterator[Node]:
    """Yield the nodes that the scheduler of a pool uses."""
    return (node for node in index.nodes if node.labels.get(NODE_POOL, "") == pool)


def total_of(index: Index, nodes: Iterable[Node], schedulers: Collection[str]) -> Quantities:
    """Return the capacity of `nodes` that take pods, minus the usage of other schedulers' pods.

    Nodes that are cordoned, under pressure or not ready do not count. The usage of pods of
    `schedulers`, and of KAI's helper pods, is not subtracted. See `getNodeResources` in
    `pkg/scheduler/plugins/proportion/proportion.go` of KAI.
    """
    total = NOTHING
    kinds: Counter[int] = Counter()
    maps: dict[int, Amounts] = {}
    for node in nodes:
        if not node.takes_pods:
            continue
        # Equal nodes share one `allocatable`, so each is converted once.
        maps[id(node.allocatable)] = node.allocatable
        kinds[id(node.allocatable)] += 1
        for pod in index.pods_on.get(node.name, ()):
            if pod.scheduler not in schedulers and not pod.is_helper:
                total = added(total, quantities_of_pod(pod.shape), -1)

    for kind, count in kinds.items():
        total = added(total, quantities(maps[kind]), count)
    return total


def memory_in_pool(index: Index, pool: str) -> GpuMemory:
    """Return the minimum and maximum memory of a GPU on the nodes of a pool."""
    return index.remembered(
        ("GPU memory", pool), lambda: memory_in(nodes_of_pool(index, pool)), of=["nodes"]
    )


def memory_in(nodes: Iterable[Node]) -> GpuMemory:
    """Return the minimum and maximum memory of a GPU on some nodes, by the labels of the nodes."""
    known = {memory_of_gpus(node.labels) or 0 for node in nodes}
    sizes = [memory for memory in known if memory > WITHOUT_LABEL]
    return GpuMemory(min(sizes), max(sizes)) if sizes else UNKNOWN_MEMORY


def _placed_and_waiting(
    index: Index,
    pods: Iterable[Pod],
    nodes: Mapping[str, Node],
    memory: GpuMemory,
    of_shape: dict[int, Quantities],
) -> tuple[Quantities, Quantities]:
    """Return the usage of the pods on nodes of the pool, and the requests of pending pods.

    Pending pods with scheduling gates do not count. `of_shape` caches converted requests by the id
    of the shape, for shapes without GPU fractions.
    """
    placed, waiting = NOTHING, NOTHING
    for pod in pods:
        shape = pod.shape
        asked = of_shape.get(id(shape))
        if asked is None:
            asked = quantities_of_pod(shape, memory.least)
            if not shape.part:
                of_shape[id(shape)] = asked
        if not pod.node:
            if not pod.gates:
                waiting = added(waiting, asked)
        elif pod.node in nodes:
            placed = added(placed, received(shape, nodes[pod.node]) if shape.part else asked)
            if pod.claims:
                placed = added(placed, (gpus_of_claims(index, pod), 0.0, 0.0))
    return placed, waiting


def gpus_of_claims(index: Index, pod: Pod) -> float:
    """Return the number of GPUs that the claims of a pod request, including shared claims.

    KAI counts every device class with `gpu` in its name (`pkg/common/resources/dra.go`).
    """
    gpus = 0
    for claim in pod.claims:
        made = index.claims.get((pod.namespace, claim.claim)) or index.claim_templates.get(
            (pod.namespace, claim.template)
        )
        gpus += sum("gpu" in name.lower() for name in made.classes) if made else 0
    return float(gpus)


def received(shape: Shape, node: Node) -> Quantities:
    """Return the amounts that KAI counts for a pod on a node (`setAcceptedResources`)."""
    asked = quantities_of_pod(shape)
    part = shape.part
    if not part or not part.memory:
        return asked
    of_gpu = memory_of_gpus(node.labels) or WITHOUT_LABEL
    # KAI rounds the share of each GPU to hundredths.
    gpus = int(part.share_of_each(of_gpu) * 100 + 0.5) * part.devices / 100
    return gpus, asked[1], asked[2]
