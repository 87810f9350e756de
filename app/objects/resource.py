"""Resources of the Kubernetes API, and those of Kubernetes itself that this program uses."""

from app.frozen import frozen
from app.objects.shape import Object


@frozen
class Resource:
    """A resource of the Kubernetes API.

    `versions` are those that this program can read and write, the preferred one first. Discovery
    finds which of them a cluster serves. An `optional` resource may be missing from a cluster.
    """

    group: str
    plural: str
    kind: str
    namespaced: bool
    versions: tuple[str, ...]
    optional: bool = True

    def __hash__(self) -> int:
        """Return the hash of a part, because each verdict looks up several resources."""
        return hash(self.plural)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def api_version(self, version: str | None = None) -> str:
        """Return `group/version`, or `version` for the core group.

        The default is the preferred version.
        """
        chosen = version or self.versions[0]
        return f"{self.group}/{chosen}" if self.group else chosen

    def owner_reference(self, name: str, uid: str) -> Object:
        """Return an owner reference to an object of this resource, as the controller."""
        return {
            "apiVersion": self.api_version(),
            "kind": self.kind,
            "name": name,
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


NODE = Resource("", "nodes", "Node", False, ("v1",), optional=False)
CONFIG_MAP = Resource("", "configmaps", "ConfigMap", True, ("v1",), optional=False)
DEPLOYMENT = Resource("apps", "deployments", "Deployment", True, ("v1",), optional=False)
POD = Resource("", "pods", "Pod", True, ("v1",), optional=False)
EVENT = Resource("events.k8s.io", "events", "Event", True, ("v1",), optional=False)
SECRET = Resource("", "secrets", "Secret", True, ("v1",), optional=False)
LEASE = Resource("coordination.k8s.io", "leases", "Lease", True, ("v1",), optional=False)
CRD = Resource(
    "apiextensions.k8s.io",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    False,
    ("v1",),
    False,
)
NAMESPACE = Resource("", "namespaces", "Namespace", False, ("v1",), optional=False)
SERVICE = Resource("", "services", "Service", True, ("v1",), optional=False)
ENDPOINT_SLICE = Resource(
    "discovery.k8s.io",
    "endpointslices",
    "EndpointSlice",
    True,
    ("v1",),
    optional=False,
)

_REVIEWS = "authorization.k8s.io"
_REGISTRATION = "admissionregistration.k8s.io"
ACCESS_REVIEW = Resource(
    _REVIEWS,
    "subjectaccessreviews",
    "SubjectAccessReview",
    False,
    ("v1",),
    optional=False,
)
SELF_ACCESS_REVIEW = Resource(
    _REVIEWS,
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    False,
    ("v1",),
    optional=False,
)
MUTATING_WEBHOOKS = Resource(
    _REGISTRATION,
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    False,
    ("v1",),
    optional=False,
)
VALIDATING_WEBHOOKS = Resource(
    _REGISTRATION,
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    False,
    ("v1",),
    optional=False,
)

VALIDATING_POLICIES = Resource(
    _REGISTRATION,
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    False,
    ("v1",),
)
VALIDATING_POLICY_BINDINGS = Resource(
    _REGISTRATION,
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    False,
    ("v1",),
)

_MUTATING = ("v1", "v1beta1", "v1alpha1")
MUTATING_POLICIES = Resource(
    _REGISTRATION,
    "mutatingadmissionpolicies",
    "MutatingAdmissionPolicy",
    False,
    _MUTATING,
)
MUTATING_POLICY_BINDINGS = Resource(
    _REGISTRATION,
    "mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding",
    False,
    _MUTATING,
)

OF_KUBERNETES = (
    *(
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
    ),
    *(ACCESS_REVIEW, SELF_ACCESS_REVIEW, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS),
    *(VALIDATING_POLICIES, VALIDATING_POLICY_BINDINGS),
    *(MUTATING_POLICIES, MUTATING_POLICY_BINDINGS),
)
"""All of these resources."""
