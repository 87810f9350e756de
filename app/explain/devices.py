"""GPUs that are allocated by DRA: how many nodes have, how many are taken, and how many pods ask for.

They are counted as a resource of nodes and pods that is called after their driver, such as `gpu.nvidia.com/gpu`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from app.explain.facts.common import Amounts
from app.explain.facts.devices import DeviceClass, ResourceClaim, ResourceSlice
from app.explain.facts.nodes import Node

PREFIX = "gpu."
"""Vendors call the drivers of GPUs so: gpu.nvidia.com."""


def resource_of(driver: str) -> str:
    return f"{driver}/gpu"


def current(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """The slices of nodes, without those of an older generation of their pool."""
    slices = list(slices)
    latest: dict[tuple[str, str], int] = {}
    for part in slices:
        latest[part.driver, part.pool] = max(part.generation, latest.get((part.driver, part.pool), 0))
    return [part for part in slices if part.node and part.generation == latest[part.driver, part.pool]]


def with_gpus(nodes: Iterable[Node], slices: Iterable[ResourceSlice]) -> Iterator[Node]:
    """The nodes, with the GPUs of slices among what they have."""
    gpus: dict[str, Counter[str]] = defaultdict(Counter)
    for part in slices:
        if part.gpus:
            gpus[part.node][resource_of(part.driver)] += 1000 * len(part.gpus)
    maps: dict[object, Amounts] = {}
    for node in nodes:
        if node.name not in gpus:
            yield node
        else:
            key = (id(node.allocatable), *gpus[node.name].items())  # nodes of one kind share a map
            yield replace(node, allocatable=maps.setdefault(key, {**node.allocatable, **gpus[node.name]}))


def taken_gpus(claims: Iterable[ResourceClaim], slices: Iterable[ResourceSlice]) -> Mapping[str, Amounts]:
    """What claims are allocated of the GPUs of `slices`: amounts by node name."""
    nodes = {(part.driver, part.pool, gpu): part.node for part in slices for gpu in part.gpus}
    taken: dict[str, Counter[str]] = defaultdict(Counter)
    for claim in claims:
        for device in claim.devices:
            node = nodes.get((device.driver, device.pool, device.device))
            if node is not None:
                taken[node][resource_of(device.driver)] += 1000
    return taken


def asked_gpus(classes: Iterable[str], known: Mapping[str, DeviceClass]) -> Amounts:
    """The amounts that devices of these classes come to; classes of other devices come to nothing."""
    drivers = (known[name].gpus for name in classes if name in known)
    return Counter({resource_of(driver): 1000 * count for driver, count in Counter(drivers).items() if driver})
