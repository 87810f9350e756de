"""The resources that are read to explain a workload."""

from app.objects.resource import EVENT, NODE, POD, Resource
from app.rules.kinds import (
    CLUSTER_TOPOLOGY,
    COMPUTE_DOMAIN,
    K8S_POD_GROUP,
    KAI_TOPOLOGY,
    POD_CLIQUE,
    POD_CLIQUE_SCALING_GROUP,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GROUP,
    RESOURCE_CLAIM,
    WORKLOAD,
)

CLUSTER_TOPOLOGY_BINDING = Resource(
    "grove.io", "clustertopologybindings", "ClusterTopologyBinding", False, ("v1alpha1",)
)
QUEUE = Resource("scheduling.run.ai", "queues", "Queue", False, ("v2",))
DEVICE_CLASS = Resource("resource.k8s.io", "deviceclasses", "DeviceClass", False, ("v1", "v1beta2", "v1beta1"))
CLAIM_TEMPLATE = Resource(
    "resource.k8s.io", "resourceclaimtemplates", "ResourceClaimTemplate", True, ("v1", "v1beta2", "v1beta1")
)
DOMAIN_CLIQUE = Resource("resource.nvidia.com", "computedomaincliques", "ComputeDomainClique", True, ("v1beta1",))

ALL: tuple[Resource, ...] = (
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
    POD_CLIQUE_SCALING_GROUP,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GROUP,
    QUEUE,
    RESOURCE_CLAIM,
    WORKLOAD,
)

__all__ = [
    "ALL",
    "CLAIM_TEMPLATE",
    "CLUSTER_TOPOLOGY",
    "CLUSTER_TOPOLOGY_BINDING",
    "COMPUTE_DOMAIN",
    "DEVICE_CLASS",
    "DOMAIN_CLIQUE",
    "EVENT",
    "K8S_POD_GROUP",
    "KAI_TOPOLOGY",
    "NODE",
    "POD",
    "POD_CLIQUE",
    "POD_CLIQUE_SCALING_GROUP",
    "POD_CLIQUE_SET",
    "POD_GANG",
    "POD_GROUP",
    "QUEUE",
    "RESOURCE_CLAIM",
    "WORKLOAD",
    "Resource",
]
