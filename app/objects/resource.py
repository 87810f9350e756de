"""Resources of the Kubernetes API, and those of Kubernetes itself that this program uses."""

from app.base.value import Value
from app.objects.shape import Object


class Resource(Value, cache_hash=True):
    """A resource of the Kubernetes API.

    `versions` are those that this program can read and write, the preferred one first. Discovery
    finds which of them a cluster serves. An `optional` resource may be missing from a cluster.
    """

    group: str
    plural: str
    kind: str
    namespaced: bool
    versions: tuple[str, ...] = ("v1",)
    optional: bool = True

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def api_version(self, version: str | None = None) -> str:
        """Return `group/version`, or `version` for the core group.

        The default is the preferred version.
        """
        chosen = version or self.versions[0]
        return f"{self.group}/{chosen}" if self.group else chosen

    def owner_reference(self, name: str, uid: str, *, blocks: bool = True) -> Object:
        """Return an owner reference to an object of this resource, as the controller.

        An owner that is deleted in the foreground waits for what `blocks`. Where the admission
        plugin OwnerReferencesPermissionEnforcement is on, that needs a right to its finalizers.
        """
        return {
            "apiVersion": self.api_version(),
            "kind": self.kind,
            "name": name,
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": blocks,
        }


def built_in(group: str, plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    """Return a resource in version v1 that every cluster serves."""
    return Resource(group, plural, kind, namespaced, optional=False)


NODE = built_in("", "nodes", "Node", namespaced=False)
CONFIG_MAP = built_in("", "configmaps", "ConfigMap")
DEPLOYMENT = built_in("apps", "deployments", "Deployment")
POD = built_in("", "pods", "Pod")
STATEFUL_SET = built_in("apps", "statefulsets", "StatefulSet")
JOB = built_in("batch", "jobs", "Job")
EVENT = built_in("events.k8s.io", "events", "Event")
SECRET = built_in("", "secrets", "Secret")
LEASE = built_in("coordination.k8s.io", "leases", "Lease")
CRD = built_in(
    "apiextensions.k8s.io",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
NAMESPACE = built_in("", "namespaces", "Namespace", namespaced=False)
SERVICE = built_in("", "services", "Service")
ENDPOINT_SLICE = built_in("discovery.k8s.io", "endpointslices", "EndpointSlice")

CLUSTER_ROLE_BINDING = built_in(
    "rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)

_REVIEWS = "authorization.k8s.io"
_REGISTRATION = "admissionregistration.k8s.io"
ACCESS_REVIEW = built_in(_REVIEWS, "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
SELF_ACCESS_REVIEW = built_in(
    _REVIEWS, "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
MUTATING_WEBHOOKS = built_in(
    _REGISTRATION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False
)
VALIDATING_WEBHOOKS = built_in(
    _REGISTRATION,
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)

VALIDATING_POLICIES = Resource(
    _REGISTRATION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False
)
VALIDATING_POLICY_BINDINGS = Resource(
    _REGISTRATION,
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    False,
)

_MUTATING = ("v1", "v1beta1", "v1alpha1")
MUTATING_POLICIES = Resource(
    _REGISTRATION, "mutatingadmissionpolicies", "MutatingAdmissionPolicy", False, _MUTATING
)
MUTATING_POLICY_BINDINGS = Resource(
    _REGISTRATION,
    "mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding",
    False,
    _MUTATING,
)

OF_KUBERNETES = (
    NODE,
    POD,
    EVENT,
    SECRET,
    CONFIG_MAP,
    DEPLOYMENT,
    LEASE,
    CRD,
    CLUSTER_ROLE_BINDING,
    NAMESPACE,
    SERVICE,
    ENDPOINT_SLICE,
    ACCESS_REVIEW,
    SELF_ACCESS_REVIEW,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    VALIDATING_POLICIES,
    VALIDATING_POLICY_BINDINGS,
    MUTATING_POLICIES,
    MUTATING_POLICY_BINDINGS,
)
"""All of these resources."""
