"""The resources this program reads or writes: group, plural, kind, scope and the versions it knows, best first."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of the Kubernetes API.

    `versions` are the versions whose shape this program can write, best first; which of them a cluster serves is
    found by discovery. `optional` resources may be absent from a cluster.
    """

    group: str
    plural: str
    kind: str
    namespaced: bool
    versions: tuple[str, ...]
    optional: bool = True

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def api_version(self, version: str | None = None) -> str:
        """`group/version`, or `version` for the core group; the best known version unless told."""
        chosen = version or self.versions[0]
        return f"{self.group}/{chosen}" if self.group else chosen


NODE = Resource("", "nodes", "Node", False, ("v1",), optional=False)
POD = Resource("", "pods", "Pod", True, ("v1",), optional=False)
EVENT = Resource("events.k8s.io", "events", "Event", True, ("v1",), optional=False)
SECRET = Resource("", "secrets", "Secret", True, ("v1",), optional=False)
LEASE = Resource("coordination.k8s.io", "leases", "Lease", True, ("v1",), optional=False)
CRD = Resource("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", False, ("v1",), False)

NAMESPACE = Resource("", "namespaces", "Namespace", False, ("v1",), optional=False)
SERVICE = Resource("", "services", "Service", True, ("v1",), optional=False)
ENDPOINT_SLICE = Resource("discovery.k8s.io", "endpointslices", "EndpointSlice", True, ("v1",), optional=False)

_REVIEWS = "authorization.k8s.io"
ACCESS_REVIEW = Resource(_REVIEWS, "subjectaccessreviews", "SubjectAccessReview", False, ("v1",), optional=False)
SELF_ACCESS_REVIEW = Resource(
    _REVIEWS, "selfsubjectaccessreviews", "SelfSubjectAccessReview", False, ("v1",), optional=False
)

MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    False,
    ("v1",),
    optional=False,
)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    False,
    ("v1",),
    optional=False,
)

CLUSTER_TOPOLOGY = Resource("grove.io", "clustertopologies", "ClusterTopology", False, ("v1alpha1",))
POD_CLIQUE_SET = Resource("grove.io", "podcliquesets", "PodCliqueSet", True, ("v1alpha1",))
POD_CLIQUE = Resource("grove.io", "podcliques", "PodClique", True, ("v1alpha1",))
POD_CLIQUE_SCALING_GROUP = Resource("grove.io", "podcliquescalinggroups", "PodCliqueScalingGroup", True, ("v1alpha1",))
POD_GANG = Resource("scheduler.grove.io", "podgangs", "PodGang", True, ("v1alpha1",))

KAI_TOPOLOGY = Resource("kai.scheduler", "topologies", "Topology", False, ("v1alpha1",))
POD_GROUP = Resource("scheduling.run.ai", "podgroups", "PodGroup", True, ("v2alpha2",))

COMPUTE_DOMAIN = Resource("resource.nvidia.com", "computedomains", "ComputeDomain", True, ("v1beta1",))
RESOURCE_CLAIM = Resource("resource.k8s.io", "resourceclaims", "ResourceClaim", True, ("v1", "v1beta2", "v1beta1"))

WORKLOAD = Resource("scheduling.k8s.io", "workloads", "Workload", True, ("v1alpha2", "v1alpha1"))
K8S_POD_GROUP = Resource("scheduling.k8s.io", "podgroups", "PodGroup", True, ("v1alpha2",))

ALL: tuple[Resource, ...] = (
    NODE,
    POD,
    EVENT,
    SECRET,
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
    POD_CLIQUE_SET,
    POD_CLIQUE,
    POD_CLIQUE_SCALING_GROUP,
    POD_GANG,
    KAI_TOPOLOGY,
    POD_GROUP,
    COMPUTE_DOMAIN,
    RESOURCE_CLAIM,
    WORKLOAD,
    K8S_POD_GROUP,
)
