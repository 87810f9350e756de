"""What is kept of a cluster's objects to explain a workload.

These are small values, independent of how they were read.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import field

from app.explain.known.podclique import PodClique, read_pod_clique
from app.facts import kinds, table
from app.facts.grove.podcliqueset import SetWithStatus
from app.facts.grove.podgang import PodGang
from app.facts.grove.podgangmap import PodGangMap
from app.facts.grove.topology import ClusterTopology
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kai.queue import Queue
from app.facts.kai.topology import KaiTopology
from app.facts.kubernetes.claim import ClaimTemplate, DeviceClass, ResourceClaim, ResourceSlice
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.volume import StorageClass, Volume, VolumeClaim
from app.facts.kubernetes.workload import PriorityClass, Workload, WorkloadGroup
from app.facts.nvidia.computedomain import ComputeDomain, DomainClique
from app.facts.table import CHANNELS, ROOM, Row
from app.groups import by_key
from app.objects.resource import EVENT, Resource
from app.objects.shape import JsonMap
from app.value import Value


class Snapshot(Value):
    """Everything that was read, a tuple for each kind, in any order.

    `unseen` are the kinds (names of the fields here, such as `pods`) that could not be read in
    full, with the cause; what is known of such a kind is kept. `skipped` are kinds that were not
    asked for, `absent` kinds that the cluster does not serve. They may also have `ROOM` and
    `CHANNELS`.
    """

    topologies: tuple[ClusterTopology, ...] = ()
    kai_topologies: tuple[KaiTopology, ...] = ()
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    sets: tuple[SetWithStatus, ...] = ()
    cliques: tuple[PodClique, ...] = ()
    gangs: tuple[PodGang, ...] = ()
    gang_maps: tuple[PodGangMap, ...] = ()
    pod_groups: tuple[KaiPodGroup, ...] = ()
    queues: tuple[Queue, ...] = ()
    priorities: tuple[PriorityClass, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    claim_templates: tuple[ClaimTemplate, ...] = ()
    device_classes: tuple[DeviceClass, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    compute_domains: tuple[ComputeDomain, ...] = ()
    domain_cliques: tuple[DomainClique, ...] = ()
    workloads: tuple[Workload, ...] = ()
    workload_groups: tuple[WorkloadGroup, ...] = ()
    volume_claims: tuple[VolumeClaim, ...] = ()
    volumes: tuple[Volume, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    events: tuple[Event, ...] = ()
    unseen: Mapping[str, str] = field(default_factory=dict)
    skipped: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    now: float = 0.0

    # asyncio.run takes the repr of what its coroutine returns: it would be as large as the cluster
    __repr__ = object.__repr__


CLIQUES: Row[PodClique] = Row(kinds.POD_CLIQUE, read_pod_clique, name="cliques", title="PodCliques")

_ROWS: tuple[Row[Any], ...] = (
    table.TOPOLOGIES,
    table.BINDINGS,
    table.KAI_TOPOLOGIES,
    table.WIDE_NODES,
    table.PODS,
    table.WIDE_SETS,
    CLIQUES,
    table.WIDE_GANGS,
    table.GANG_MAPS,
    table.KAI_POD_GROUPS,
    table.QUEUES,
    table.PRIORITIES,
    table.WIDE_CLAIMS,
    table.CLAIM_TEMPLATES,
    table.SLICES,
    table.WIDE_DEVICE_CLASSES,
    table.WIDE_DOMAINS,
    table.DOMAIN_CLIQUES,
    table.WORKLOAD_NAMES,
    table.WORKLOAD_GROUPS,
    table.VOLUME_CLAIMS,
    table.VOLUMES,
    table.STORAGE_CLASSES,
    table.EVENTS,
)

BY_RESOURCE: Mapping[Resource, Row[Any]] = {row.resource: row for row in _ROWS}
"""What is read to explain a workload, with the rows of the table."""

TITLES: Mapping[str, str] = {
    **{row.name: row.title for row in _ROWS},
    ROOM: "pods of all namespaces",
    CHANNELS: "ResourceClaims of all namespaces",
}
"""Kinds of facts in plain words."""

RESOURCES: tuple[Resource, ...] = (*BY_RESOURCE, kinds.POD_CLIQUE_SCALING_GROUP)
"""All that may be read: of a scaling group, only the labels."""

OF_KIND: Mapping[str, Resource] = {resource.kind: resource for resource in reversed(RESOURCES)}
"""All that may be read, by kind: KAI's PodGroup, not that of Workloads."""

_BY_KIND = {(resource.group, resource.kind): row for resource, row in BY_RESOURCE.items()}
_BY_KIND["", EVENT.kind] = BY_RESOURCE[EVENT]


def projected(objects: Iterable[JsonMap]) -> dict[str, list[Any]]:
    """Return facts by field, of objects of any kinds; those that explain nothing are left out."""
    rows = ((_row_of(obj), obj) for obj in objects)
    return by_key((row.name, row.read(obj)) for row, obj in rows if row)


def _row_of(obj: JsonMap) -> Row[Any] | None:
    group = str(obj.get("apiVersion", "")).rpartition("/")[0]
    return _BY_KIND.get((group, str(obj.get("kind", ""))))
