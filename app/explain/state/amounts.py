"""Compute the amounts of resources that nodes have, and that pods and claims use.

GPUs that DRA allocates count as a resource named after their driver, such as `gpu.nvidia.com/gpu`.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec.structs import replace

from app.facts.kubernetes.claim import DeviceClass, ResourceClaim, ResourceSlice, newest_of_pools
from app.facts.kubernetes.gpus import GPU
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod, Shape
from app.facts.quantity import Amounts

ByNode = Mapping[str, Amounts]
"""Amounts of resources by node name."""

PREFIX = "gpu."
"""The prefix of the names of DRA drivers for GPUs, such as gpu.nvidia.com."""


def counts_as_gpu(resource: str) -> bool:
    """Return whether a resource stands for whole GPUs or MIG devices, by its name."""
    return resource.endswith("/gpu") or "/mig-" in resource


def is_device(resource: str) -> bool:
    """Return whether a resource has a prefix, as extended resources such as nvidia.com/gpu do."""
    return "/" in resource


def gpus_of(amounts: Amounts) -> int:
    """Return the total of GPUs and MIG devices in `amounts`, in thousandths."""
    return sum(value for name, value in amounts.items() if counts_as_gpu(name))


def gpu_resource_of(driver: str) -> str:
    """Return the name of the resource that counts the GPUs of a DRA driver."""
    return f"{driver}/gpu"


def current(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Return the ResourceSlices that name a node and are of their pool's newest generation."""
    newest = newest_of_pools(list(slices), lambda part: (part.driver, part.pool))
    return [part for part in newest if part.node]


def with_gpus(nodes: Iterable[Node], slices: Iterable[ResourceSlice]) -> Iterator[Node]:
    """Yield the nodes, with the GPUs in ResourceSlices added to their allocatable resources."""
    gpus: dict[str, Counter[str]] = defaultdict(Counter)
    for part in slices:
        if part.gpus:
            gpus[part.node][gpu_resource_of(part.driver)] += 1000 * len(part.gpus)

    maps: dict[object, Amounts] = {}
    for node in nodes:
        if node.name not in gpus:
            yield node
        else:
            # Equal nodes keep sharing one `allocatable`, so that later steps examine each once.
            key = (id(node.allocatable), *gpus[node.name].items())
            yield replace(
                node, allocatable=maps.setdefault(key, {**node.allocatable, **gpus[node.name]})
            )


def taken_gpus(claims: Iterable[ResourceClaim], slices: Iterable[ResourceSlice]) -> ByNode:
    """Return the GPUs of `slices` that are allocated to claims, by node, in thousandths."""
    nodes = {(part.driver, part.pool, gpu): part.node for part in slices for gpu in part.gpus}
    taken: dict[str, Counter[str]] = defaultdict(Counter)
    for claim in claims:
        for device in claim.devices:
            node = nodes.get((device.driver, device.pool, device.device))
            if node is not None:
                taken[node][gpu_resource_of(device.driver)] += 1000
    return taken


def asked_gpus(classes: Iterable[str], known: Mapping[str, DeviceClass]) -> Amounts:
    """Return the requested GPUs by the resource of their driver, in thousandths.

    `classes` has the name of the DeviceClass of each requested device. Classes that are not in
    `known`, or that select no GPUs, do not count.
    """
    drivers = (known[name].gpus for name in classes if name in known)
    return Counter(
        {
            gpu_resource_of(driver): 1000 * count
            for driver, count in Counter(drivers).items()
            if driver
        }
    )


NOT_OFFERED = ""
"""The name that stands for all resources that no node has.

Tenants can request any number of such resources.
"""


def resources_of(
    shapes: Iterable[Shape],
    others: Iterable[str] = (),
    offered: Collection[str] | None = None,
) -> tuple[str, ...]:
    """Return the names of the resources that `shapes` request, and `others`, devices first.

    Whole GPUs are included if pods request GPU fractions or MIG devices, because KAI orders nodes
    by whole GPUs. With `offered`, the names of the resources that nodes have, NOT_OFFERED replaces
    all other names.
    """
    shapes = list(shapes)
    names = {name for shape in shapes for name, _ in shape.requests}.union(others)
    if any(shape.part for shape in shapes) or any("/mig-" in name for name in names):
        names.add(GPU)
    if offered is not None and not names.issubset(offered):
        names = {*names.intersection(offered), NOT_OFFERED}
    return tuple(sorted(names, key=lambda name: (not is_device(name), name)))


def requests(pods: Iterable[Pod]) -> dict[str, int]:
    """Return the total requests of some pods by resource, in thousandths."""
    total: dict[str, int] = {}
    for pod in pods:
        for name, amount in pod.shape.requests:
            total[name] = total.get(name, 0) + amount
    return total


def taken(pods: Iterable[Pod]) -> dict[str, int]:
    """Return the resources that the pods of a node use, as KAI counts them.

    A GPU that several pods share counts once, and the pod that reserves it uses no GPU. Background
    pods use nothing, because KAI evicts them for any other pod.
    """
    pods = [pod for pod in pods if not pod.background]
    total: dict[str, int] = {}
    for pod in pods:
        without_gpus = pod.reserves or pod.shape.part
        for name, amount in pod.shape.requests:
            if not (without_gpus and name.endswith("gpu")):
                total[name] = total.get(name, 0) + amount
    shared = {group for pod in pods if pod.shape.part for group in pod.gpu_groups}
    if shared:
        total[GPU] = total.get(GPU, 0) + 1000 * len(shared)
    return total


def added(requested: ByNode, devices: ByNode) -> ByNode:
    """Return the requests of pods plus the amounts of devices, by node name."""
    sums = {
        node: Counter(amounts) + Counter(requested.get(node, {}))
        for node, amounts in devices.items()
    }
    return {**requested, **sums} if sums else requested


def left(has: tuple[int, ...], used: Amounts, names: tuple[str, ...]) -> tuple[int, ...]:
    """Return the amounts that a node has left: `has` of the resources `names`, minus `used`.

    An amount is negative if more is used than the node has.
    """
    return tuple([amount - used.get(name, 0) for amount, name in zip(has, names, strict=True)])
