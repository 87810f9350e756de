"""What is kept of a cluster's objects to explain a workload: small values, independent of how they
were read.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from app.explain.facts.grove import (
    PodClique,
    PodCliqueSet,
    read_pod_clique,
    read_pod_clique_set_of_explain,
)
from app.facts import kinds
from app.facts.grove.podgang import PodGang, read_pod_gang
from app.facts.grove.podgangmap import PodGangMap, read_pod_gang_map
from app.facts.grove.topology import (
    ClusterTopology,
    read_cluster_topology,
    read_cluster_topology_binding,
)
from app.facts.kai.podgroup import KaiPodGroup, read_kai_pod_group
from app.facts.kai.queue import Queue, read_queue
from app.facts.kai.topology import KaiTopology, read_kai_topology
from app.facts.kubernetes.claim import (
    ClaimTemplate,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
    read_claim_template,
    read_device_class,
    read_resource_claim,
    read_resource_slice,
)
from app.facts.kubernetes.event import Event, read_event
from app.facts.kubernetes.node import Node, read_node
from app.facts.kubernetes.pod import Pod, read_pod
from app.facts.kubernetes.workload import (
    PriorityClass,
    Workload,
    WorkloadGroup,
    read_priority_class,
    read_workload,
    read_workload_group,
)
from app.facts.named import Object
from app.facts.nvidia.computedomain import (
    ComputeDomain,
    DomainClique,
    read_compute_domain,
    read_domain_clique,
)
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
    kinds.CLUSTER_TOPOLOGY: Projection("topologies", "the cluster topology", read_cluster_topology),
    kinds.CLUSTER_TOPOLOGY_BINDING: Projection(
        "topologies", "the cluster topology", read_cluster_topology_binding
    ),
    kinds.KAI_TOPOLOGY: Projection("kai_topologies", "KAI's Topologies", read_kai_topology),
    NODE: Projection("nodes", "nodes", read_node),
    POD: Projection("pods", "pods", read_pod),
    kinds.POD_CLIQUE_SET: Projection("sets", "PodCliqueSets", read_pod_clique_set_of_explain),
    kinds.POD_CLIQUE: Projection("cliques", "PodCliques", read_pod_clique),
    kinds.POD_GANG: Projection("gangs", "PodGangs", read_pod_gang),
    kinds.POD_GANG_MAP: Projection("gang_maps", "PodGangMaps", read_pod_gang_map),
    kinds.POD_GROUP: Projection("pod_groups", "KAI's PodGroups", read_kai_pod_group),
    kinds.QUEUE: Projection("queues", "queues", read_queue),
    kinds.PRIORITY_CLASS: Projection("priorities", "PriorityClasses", read_priority_class),
    kinds.RESOURCE_CLAIM: Projection("claims", "ResourceClaims", read_resource_claim),
    kinds.CLAIM_TEMPLATE: Projection(
        "claim_templates", "ResourceClaimTemplates", read_claim_template
    ),
    kinds.RESOURCE_SLICE: Projection("slices", "ResourceSlices", read_resource_slice),
    kinds.DEVICE_CLASS: Projection("device_classes", "DeviceClasses", read_device_class),
    kinds.COMPUTE_DOMAIN: Projection("compute_domains", "ComputeDomains", read_compute_domain),
    kinds.DOMAIN_CLIQUE: Projection("domain_cliques", "ComputeDomainCliques", read_domain_clique),
    kinds.WORKLOAD: Projection("workloads", "Workloads", read_workload),
    kinds.K8S_POD_GROUP: Projection(
        "workload_groups", "PodGroups of Workloads", read_workload_group
    ),
    EVENT: Projection("events", "events", read_event),
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
