"""What is kept of a cluster's objects to explain a workload: small values, independent of how they
were read.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from app.explain.facts import devices, grove
from app.explain.facts.common import Object
from app.explain.facts.devices import (
    ClaimTemplate,
    ComputeDomain,
    DeviceClass,
    DomainClique,
    Event,
    ResourceClaim,
    ResourceSlice,
)
from app.explain.facts.fields import reader
from app.explain.facts.grove import ClusterTopology, PodClique, PodCliqueSet, PodGang, PodGangMap
from app.explain.facts.kai import (
    KaiPodGroup,
    KaiTopology,
    PriorityClass,
    Queue,
    Workload,
    WorkloadGroup,
)
from app.explain.facts.nodes import Node
from app.explain.facts.pods import Pod
from app.facts import kinds
from app.objects.resource import EVENT, NODE, POD, Resource

ROOM = "room"
"""The pods of all namespaces, without which free room is not known."""

CHANNELS = "channels"
"""The ResourceClaims of all namespaces, without which it is not known who has the channel of a
node.
"""


@dataclass(frozen=True, slots=True)
class Facts:
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
    sets: tuple[PodCliqueSet, ...] = ()
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
    events: tuple[Event, ...] = ()
    unseen: Mapping[str, str] = field(default_factory=dict)
    skipped: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    now: float = 0.0


class Projection(NamedTuple):
    """`field` is where facts of a resource are in `Facts`; two resources may share one.

    `title` is for people.
    """

    field: str
    title: str
    project: Callable[[Object], Any]


BY_RESOURCE: Mapping[Resource, Projection] = {
    kinds.CLUSTER_TOPOLOGY: Projection(
        "topologies", "the cluster topology", grove.cluster_topology
    ),
    kinds.CLUSTER_TOPOLOGY_BINDING: Projection(
        "topologies", "the cluster topology", grove.cluster_topology_binding
    ),
    kinds.KAI_TOPOLOGY: Projection("kai_topologies", "KAI's Topologies", reader(KaiTopology)),
    NODE: Projection("nodes", "nodes", reader(Node)),
    POD: Projection("pods", "pods", reader(Pod)),
    kinds.POD_CLIQUE_SET: Projection("sets", "PodCliqueSets", reader(PodCliqueSet)),
    kinds.POD_CLIQUE: Projection("cliques", "PodCliques", reader(PodClique)),
    kinds.POD_GANG: Projection("gangs", "PodGangs", reader(PodGang)),
    kinds.POD_GANG_MAP: Projection("gang_maps", "PodGangMaps", reader(PodGangMap)),
    kinds.POD_GROUP: Projection("pod_groups", "KAI's PodGroups", reader(KaiPodGroup)),
    kinds.QUEUE: Projection("queues", "queues", reader(Queue)),
    kinds.PRIORITY_CLASS: Projection("priorities", "PriorityClasses", reader(PriorityClass)),
    kinds.RESOURCE_CLAIM: Projection("claims", "ResourceClaims", reader(ResourceClaim)),
    kinds.CLAIM_TEMPLATE: Projection(
        "claim_templates", "ResourceClaimTemplates", reader(ClaimTemplate)
    ),
    kinds.RESOURCE_SLICE: Projection("slices", "ResourceSlices", reader(ResourceSlice)),
    kinds.DEVICE_CLASS: Projection("device_classes", "DeviceClasses", reader(DeviceClass)),
    kinds.COMPUTE_DOMAIN: Projection("compute_domains", "ComputeDomains", reader(ComputeDomain)),
    kinds.DOMAIN_CLIQUE: Projection("domain_cliques", "ComputeDomainCliques", reader(DomainClique)),
    kinds.WORKLOAD: Projection("workloads", "Workloads", reader(Workload)),
    kinds.K8S_POD_GROUP: Projection(
        "workload_groups", "PodGroups of Workloads", reader(WorkloadGroup)
    ),
    EVENT: Projection("events", "events", devices.event),
}
"""What is read to explain a workload, and how an object becomes a fact."""

TITLES: Mapping[str, str] = {
    **{projection.field: projection.title for projection in BY_RESOURCE.values()},
    ROOM: "pods of all namespaces",
    CHANNELS: "ResourceClaims of all namespaces",
}
"""Kinds of facts in plain words."""

RESOURCES: tuple[Resource, ...] = (*BY_RESOURCE, kinds.POD_CLIQUE_SCALING_GROUP)
"""All that may be read: of a scaling group, only the labels."""

_BY_KIND = {
    (resource.group, resource.kind): projection for resource, projection in BY_RESOURCE.items()
}
_BY_KIND["", EVENT.kind] = BY_RESOURCE[EVENT]


def projected(objects: Iterable[Object]) -> dict[str, list[Any]]:
    """Facts by field, of objects of any kinds; those that explain nothing are left out."""
    facts: dict[str, list[Any]] = {}
    for obj in objects:
        group = str(obj.get("apiVersion", "")).rpartition("/")[0]
        projection = _BY_KIND.get((group, str(obj.get("kind", ""))))
        if projection is not None:
            facts.setdefault(projection.field, []).append(projection.project(obj))
    return facts
