"""A cluster of 1,152 nodes in 64 racks, with 1,000 workloads of which 386 wait."""

from collections.abc import Iterator
from datetime import UTC, datetime

from app.kube.api import Object
from scripts.fleet import Workload
from tests.console.fake import NOW
from tests.console.objects import LEVELS, by_plural

RACKS = 64
NODES_OF_RACK = 18
GPUS_OF_NODE = 4
WAITING = {
    "train": (130, "rack", 16, 4),
    "tune": (150, "rack", 6, 4),
    "whole-rack": (60, "rack", NODES_OF_RACK, 4),
    "too-large": (46, "rack", 2, 8),
}
"""How many workloads there are of a name, the level each asks for, its pods, and GPUs of a pod."""


def large() -> dict[str, list[Object]]:
    """Return the objects by plural, as `objects` does for the small fleet."""
    return by_plural([*_queues(), *_nodes(), *_placed(), *_waiting()])


def _queues() -> Iterator[Object]:
    for name, parent in (("root", ""), ("team-llm", "root"), ("research", "root")):
        unlimited = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        amounts = {"gpu": {**unlimited, "quota": 2304}, "cpu": unlimited, "memory": unlimited}
        spec: Object = {"resources": amounts} | ({"parentQueue": parent} if parent else {})
        queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}}
        yield {**queue, "spec": spec}


def _places() -> Iterator[tuple[int, str]]:
    """Yield the number of the rack of each node, and its name."""
    for rack in range(RACKS):
        for number in range(NODES_OF_RACK):
            yield rack, f"gpu-{rack:02}-{number:02}"


def _nodes() -> Iterator[Object]:
    """Four zones of four blocks of four racks. Every seventh rack has nodes that are cordoned."""
    for rack, name in _places():
        values = (f"zone-{'abcd'[rack // 16]}", f"block-{rack // 4:02}", f"rack-{rack:02}", name)
        amounts = {"cpu": "128", "memory": "960Gi", "pods": "110", "nvidia.com/gpu": GPUS_OF_NODE}
        closed = rack % 7 == 3 and int(name[-2:]) < rack % 5
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": dict(zip(LEVELS.values(), values, strict=True))},
            "spec": {"unschedulable": True} if closed else {},
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }


def _placed() -> Iterator[Object]:
    """Two to eighteen workloads in each rack, of two pods on one node, which take it half or whole."""
    for rack in range(RACKS):
        for number in range(2 + rack % 17):
            namespace = ("inference", "research")[number % 2]
            name = f"serve-{rack:02}-{number:02}"
            workload = Workload(namespace, name, "rack", {"worker": (2, 1 + rack % 2)})
            yield from workload.objects((f"gpu-{rack:02}-{17 - number:02}",) * 2)


def _waiting() -> Iterator[Object]:
    for name, (count, level, pods, gpus) in WAITING.items():
        for number in range(count):
            namespace = ("inference", "research")[number % 2]
            workload = Workload(namespace, f"{name}-{number:03}", level, {"worker": (pods, gpus)})
            made = datetime.fromtimestamp(NOW - 60 * (count - number), UTC)
            for obj in workload.objects():
                obj["metadata"]["creationTimestamp"] = f"{made:%Y-%m-%dT%H:%M:%SZ}"
                yield obj
