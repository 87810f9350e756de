"""Read Nodes: only labels and GPUs for verdicts, and all facts about placement for explanations."""

import functools
from collections.abc import Mapping
from sys import intern
from typing import Any, TypedDict

from msgspec import field

from app.base.value import Value, shared
from app.facts.identity import ClusterScoped, interned
from app.facts.kubernetes.gpus import GPU, gpu_count
from app.facts.kubernetes.selectors import Taint, read_taints
from app.facts.labels import DRIVER_UPGRADES, KAI_CORDONS, NVSENTINEL_CORDON
from app.facts.quantity import Amounts, amounts
from app.objects.shape import JsonMap, labels_of, map_at, map_of, maps_of, text_at
from app.objects.time import seconds_since_1970

Labels = Mapping[str, str]
Texts = tuple[str, ...]
Grouping = frozenset[str]
"""The keys of the labels by which nodes are grouped."""

Pairs = tuple[tuple[str, str], ...]
"""Pairs of a label key and a value."""

GPUS = "allocatable nvidia.com/gpu"
"""The key of a node's GPUs among its labels. No label has it, because it is not a valid key."""


class NodeLabels(Value):
    """The labels of a node, and its GPUs under the key GPUS.

    Equal texts and equal tuples of keys are stored once. A NodeLabels takes less than half the
    memory of a `Node`, and a server has one for each node.
    """

    keys: Texts
    """The keys, sorted."""
    values: Texts
    """The values, in the order of the keys."""

    def as_map(self) -> dict[str, str]:
        """Return the labels, and the GPUs under the key GPUS, as a map."""
        return dict(zip(self.keys, self.values, strict=True))

    def of(self, grouping: Grouping) -> Pairs:
        """Return the labels whose keys are in `grouping` with their values, sorted by key."""
        return tuple(
            (self.keys[position], self.values[position])
            for position in _positions(self.keys, grouping)
        )


def read_node_labels(obj: JsonMap) -> NodeLabels:
    """Read the labels of a Node, and its allocatable GPUs if it has any."""
    labels = labels_of(obj)
    gpus = gpu_count(map_at(obj, "status", "allocatable").get(GPU, 0))
    if gpus:
        labels = {**labels, GPUS: str(gpus)}
    pairs = sorted(labels.items())
    keys = shared(tuple(intern(key) for key, _ in pairs))
    return NodeLabels(keys, tuple(intern(value) for _, value in pairs))


@functools.lru_cache(maxsize=1000)
def _positions(keys: Texts, grouping: Grouping) -> tuple[int, ...]:
    return tuple(position for position, key in enumerate(keys) if key in grouping)


class _Metadata(TypedDict, total=False):
    name: Any
    uid: Any
    resourceVersion: Any
    labels: Any


class _Spec(TypedDict, total=False):
    taints: Any
    unschedulable: Any


class _Condition(TypedDict, total=False):
    type: Any
    status: Any
    lastTransitionTime: Any


class _Status(TypedDict, total=False):
    allocatable: Any
    conditions: list[_Condition] | None


class NodeForm(TypedDict, total=False):
    """The fields of a Node that are decoded, for verdicts and for `explain`."""

    apiVersion: Any
    kind: Any
    metadata: _Metadata | None
    spec: _Spec | None
    status: _Status | None


RESOURCE_MANAGEMENT = "KAI Resource Management"
NVSENTINEL = "NVSentinel"
GPU_OPERATOR = "the GPU Operator"

_NOT_CORDONED = {"", "upgrade-required", "cordon-required", "upgrade-done"}
"""The states of a driver upgrade in which the GPU Operator has not cordoned the node itself.

Source: https://github.com/NVIDIA/k8s-operator-libs/blob/main/pkg/upgrade/consts.go
"""

_PRESSURE = {"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"}
"""The conditions that keep KAI away from a ready node."""


class Node(ClusterScoped):
    """A node, with the fields that decide on placement."""

    kind = "Node"
    labels: Labels = field(default_factory=dict)
    allocatable: Amounts = field(default_factory=dict)
    """The allocatable amounts of resources by name, in thousandths."""
    taints: tuple[Taint, ...] = ()
    """The taints that keep pods away, with the effect NoSchedule or NoExecute."""
    unschedulable: bool = False
    """Whether the node is cordoned."""
    ready: bool = True
    """Whether the condition Ready is True or missing."""
    pressure: str = ""
    """The first condition that keeps KAI away, such as DiskPressure, or ""."""
    lost_at: float | None = None
    """The time at which Ready became False or Unknown, in seconds since 1970.

    The node may have been unready before, because Ready changes from False to Unknown when the
    kubelet stops. It is None if Ready is True, missing or has no time.
    """

    @property
    def takes_pods(self) -> bool:
        """Whether the node accepts pods that tolerate its taints."""
        return self.ready and not self.unschedulable and not self.pressure

    @property
    def changes_pool(self) -> bool:
        """Whether KAI Resource Management moves the node to another pool once its pods end."""
        return any(label in self.labels for label in KAI_CORDONS)

    @property
    def cordoned_by(self) -> str:
        """The component that cordoned the node and uncordons it later, or ""."""
        if not self.unschedulable:
            return ""
        if self.changes_pool:
            return RESOURCE_MANAGEMENT
        if NVSENTINEL_CORDON in self.labels:
            return NVSENTINEL
        states = {self.labels[label] for label in DRIVER_UPGRADES if label in self.labels}
        return GPU_OPERATOR if states - _NOT_CORDONED else ""


def read_node(obj: JsonMap) -> Node:
    """Read a Node with all facts about placement."""
    metadata = map_at(obj, "metadata")
    spec = map_at(obj, "spec")
    status = map_at(obj, "status")
    return Node(
        interned(metadata.get("name")),
        _labels(metadata.get("labels")),
        _shared(tuple(sorted(amounts(status.get("allocatable")).items()))),
        read_taints(spec.get("taints")),
        spec.get("unschedulable") is True,
        _is_ready(status.get("conditions")),
        _pressure(status.get("conditions")),
        _lost_at(status.get("conditions")),
    )


def _lost_at(conditions: Any) -> float | None:
    """Return when the condition Ready last changed its status, if it is not True.

    Return None if it is True, missing or has no time.
    """
    for item in maps_of(conditions):
        if item.get("type") == "Ready" and item.get("status") != "True":
            return seconds_since_1970(item.get("lastTransitionTime"))
    return None


def _labels(labels: Any) -> Labels:
    """Return the labels as a map whose equal texts are one object.

    Values in YAML files may have any type.
    """
    labels = map_of(labels)
    try:
        return dict(zip(map(intern, labels), map(intern, labels.values()), strict=True))
    except TypeError:
        return {key: intern(str(value)) for key, value in labels.items()}


@functools.lru_cache(maxsize=4096)
def _shared(pairs: tuple[tuple[str, int], ...]) -> Amounts:
    """Return amounts, as one map for all nodes with equal amounts."""
    return dict(pairs)


def _is_ready(conditions: Any) -> bool:
    return all(
        item.get("status") == "True" for item in maps_of(conditions) if item.get("type") == "Ready"
    )


def _pressure(conditions: Any) -> str:
    """Return the first condition that keeps KAI away (its CheckNodeConditionPredicate), or ""."""
    types = (text_at(item, "type") for item in maps_of(conditions) if item.get("status") != "False")
    return next(filter(_PRESSURE.__contains__, types), "")
