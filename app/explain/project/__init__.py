"""Objects as facts: the table of what is read, where it goes in `Facts`, and how an object becomes a fact."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.explain.project import devices, grove, kai, pods
from app.explain.resources import (
    CLAIM_TEMPLATE,
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    COMPUTE_DOMAIN,
    DEVICE_CLASS,
    DOMAIN_CLIQUE,
    EVENT,
    K8S_POD_GROUP,
    KAI_TOPOLOGY,
    NODE,
    POD,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GROUP,
    QUEUE,
    RESOURCE_CLAIM,
    WORKLOAD,
    Resource,
)

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Projection:
    """`field` is where facts of this resource are in `Facts`; two resources may share one."""

    resource: Resource
    field: str
    project: Callable[[Object], Any]


PROJECTIONS: tuple[Projection, ...] = (
    Projection(CLUSTER_TOPOLOGY, "topologies", grove.cluster_topology),
    Projection(CLUSTER_TOPOLOGY_BINDING, "topologies", grove.cluster_topology_binding),
    Projection(KAI_TOPOLOGY, "kai_topologies", kai.kai_topology),
    Projection(NODE, "nodes", pods.node),
    Projection(POD, "pods", pods.pod),
    Projection(POD_CLIQUE_SET, "sets", grove.pod_clique_set),
    Projection(POD_CLIQUE, "cliques", grove.pod_clique),
    Projection(POD_GANG, "gangs", grove.pod_gang),
    Projection(POD_GROUP, "pod_groups", kai.kai_pod_group),
    Projection(QUEUE, "queues", kai.queue),
    Projection(RESOURCE_CLAIM, "claims", devices.resource_claim),
    Projection(CLAIM_TEMPLATE, "claim_templates", devices.claim_template),
    Projection(DEVICE_CLASS, "device_classes", devices.device_class),
    Projection(COMPUTE_DOMAIN, "compute_domains", devices.compute_domain),
    Projection(DOMAIN_CLIQUE, "domain_cliques", devices.domain_clique),
    Projection(WORKLOAD, "workloads", kai.workload),
    Projection(K8S_POD_GROUP, "workload_groups", kai.workload_group),
    Projection(EVENT, "events", devices.event),
)

BY_RESOURCE: Mapping[Resource, Projection] = {projection.resource: projection for projection in PROJECTIONS}
_BY_KIND = {(p.resource.group, p.resource.kind): p for p in PROJECTIONS} | {
    ("", "Event"): BY_RESOURCE[EVENT],
}


def projection_of(obj: Object) -> Projection | None:
    """That of an object with apiVersion and kind; None for kinds that explain nothing."""
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    del version
    return _BY_KIND.get((group, str(obj.get("kind", ""))))


def projected(objects: Iterable[Object]) -> dict[str, list[Any]]:
    """Facts by field, of objects of any kinds."""
    facts: dict[str, list[Any]] = {}
    for obj in objects:
        projection = projection_of(obj)
        if projection is not None:
            facts.setdefault(projection.field, []).append(projection.project(obj))
    return facts
