"""The resources that this program reads or writes."""

from app.objects.resource import (
    ACCESS_REVIEW,
    CONFIG_MAP,
    CRD,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    EVENT,
    LEASE,
    MUTATING_WEBHOOKS,
    NAMESPACE,
    NODE,
    POD,
    SECRET,
    SELF_ACCESS_REVIEW,
    SERVICE,
    VALIDATING_WEBHOOKS,
    Resource,
)

CLUSTER_TOPOLOGY = Resource("grove.io", "clustertopologies", "ClusterTopology", False, ("v1alpha1",))
CLUSTER_TOPOLOGY_BINDING = Resource(
    "grove.io", "clustertopologybindings", "ClusterTopologyBinding", False, ("v1alpha1",)
)
POD_CLIQUE_SET = Resource("grove.io", "podcliquesets", "PodCliqueSet", True, ("v1alpha1",))
POD_CLIQUE = Resource("grove.io", "podcliques", "PodClique", True, ("v1alpha1",))
POD_CLIQUE_SCALING_GROUP = Resource("grove.io", "podcliquescalinggroups", "PodCliqueScalingGroup", True, ("v1alpha1",))
POD_GANG = Resource("scheduler.grove.io", "podgangs", "PodGang", True, ("v1alpha1",))

KAI_TOPOLOGY = Resource("kai.scheduler", "topologies", "Topology", False, ("v1alpha1",))
POD_GROUP = Resource("scheduling.run.ai", "podgroups", "PodGroup", True, ("v2alpha2",))
QUEUE = Resource("scheduling.run.ai", "queues", "Queue", False, ("v2",))

COMPUTE_DOMAIN = Resource("resource.nvidia.com", "computedomains", "ComputeDomain", True, ("v1beta1",))
DOMAIN_CLIQUE = Resource("resource.nvidia.com", "computedomaincliques", "ComputeDomainClique", True, ("v1beta1",))
RESOURCE_CLAIM = Resource("resource.k8s.io", "resourceclaims", "ResourceClaim", True, ("v1", "v1beta2", "v1beta1"))
CLAIM_TEMPLATE = Resource(
    "resource.k8s.io", "resourceclaimtemplates", "ResourceClaimTemplate", True, ("v1", "v1beta2", "v1beta1")
)
RESOURCE_SLICE = Resource("resource.k8s.io", "resourceslices", "ResourceSlice", False, ("v1", "v1beta2", "v1beta1"))
DEVICE_CLASS = Resource("resource.k8s.io", "deviceclasses", "DeviceClass", False, ("v1", "v1beta2", "v1beta1"))

WORKLOAD = Resource("scheduling.k8s.io", "workloads", "Workload", True, ("v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"))
K8S_POD_GROUP = Resource("scheduling.k8s.io", "podgroups", "PodGroup", True, ("v1beta1", "v1alpha3", "v1alpha2"))
PRIORITY_CLASS = Resource("scheduling.k8s.io", "priorityclasses", "PriorityClass", False, ("v1",), optional=False)

ALL: tuple[Resource, ...] = (
    NODE,
    POD,
    EVENT,
    SECRET,
    CONFIG_MAP,
    DEPLOYMENT,
    LEASE,
    CRD,
    NAMESPACE,
    SERVICE,
    ENDPOINT_SLICE,
    ACCESS_REVIEW,
    SELF_ACCESS_REVIEW,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    POD_CLIQUE_SET,
    POD_CLIQUE,
    POD_CLIQUE_SCALING_GROUP,
    POD_GANG,
    KAI_TOPOLOGY,
    POD_GROUP,
    COMPUTE_DOMAIN,
    RESOURCE_CLAIM,
    DEVICE_CLASS,
    WORKLOAD,
    K8S_POD_GROUP,
    PRIORITY_CLASS,
)

NEIGHBOURS: tuple[Resource, ...] = (
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    POD_CLIQUE_SET,
    POD_CLIQUE,
    POD_GANG,
    KAI_TOPOLOGY,
    POD_GROUP,
    COMPUTE_DOMAIN,
    RESOURCE_CLAIM,
    WORKLOAD,
    K8S_POD_GROUP,
)
"""The APIs of the systems that this product runs beside. Each of them may be missing from a cluster."""
