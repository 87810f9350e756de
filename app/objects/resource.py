"""Describe resources of the Kubernetes API, and define common ones (`facts/kinds` has more)."""

import re

from msgspec.structs import replace

from app.base.value import Value
from app.objects.shape import Object

_VERSION = re.compile(r"v([1-9][0-9]{0,8})(?:(alpha|beta)([1-9][0-9]{0,8}))?")


class Resource(Value, cache_hash=True):
    """A resource of the Kubernetes API, such as `pods`."""

    group: str
    """The API group, or "" for the core group."""
    plural: str
    """The plural name of the resource, as in URLs."""
    kind: str
    """The kind of the resource's objects."""
    namespaced: bool
    """Whether the resource's objects are in namespaces."""
    versions: tuple[str, ...] = ("v1",)
    """The versions that we know, preferred one first.

    Discovery finds out which of these versions a cluster serves. If it serves none of them, an
    unknown version is used that is later than the oldest of them.
    """
    optional: bool = True
    """Whether some clusters do not serve the resource."""

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def api_version(self, version: str | None = None) -> str:
        """Return `group/version`, or only the version for the core group.

        The default of `version` is the preferred version.
        """
        chosen = version or self.versions[0]
        return f"{self.group}/{chosen}" if self.group else chosen

    @property
    def newest(self) -> str:
        """The newest known version. A later version is judged as if it were this one."""
        return max(self.versions, key=age_of_version)

    @property
    def rule_versions(self) -> list[str]:
        """The versions in the rules of webhooks and policies.

        For a neighbour's CRD, this is `*`, so that writes in a later version are judged too. For
        built-in resources, the known versions are enough, because an API server converts objects of
        other versions to one of them.
        """
        is_kubernetes = not self.optional or self.group.endswith(".k8s.io")
        return list(self.versions) if is_kubernetes else ["*"]

    def may_follow(self, version: str) -> bool:
        """Return whether an unknown `version` can be judged as the newest known version.

        A version that is older than all known ones has another schema.
        """
        return age_of_version(version) > min(map(age_of_version, self.versions))

    def in_version(self, version: str | None) -> "Resource":
        """Return this resource with `version` as its only version.

        Return it unchanged if `version` is None or already the preferred one.
        """
        if version in (None, self.versions[0]):
            return self
        return replace(self, versions=(version,))

    def owner_reference(self, name: str, uid: str, *, blocks: bool = True) -> Object:
        """Return an owner reference that makes an object of this resource the controller.

        If `blocks` is true and the owner is deleted in the foreground, the deletion of the owner
        waits for this dependent. With the admission plugin OwnerReferencesPermissionEnforcement,
        writing such a reference needs a permission on the owner's finalizers.
        """
        return {
            "apiVersion": self.api_version(),
            "kind": self.kind,
            "name": name,
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": blocks,
        }


def age_of_version(version: str) -> tuple[int, int, int]:
    """Return a sort key that orders API versions from the oldest to the newest, as API servers do.

    Source:
    https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/#version-priority
    """
    parts = _VERSION.fullmatch(version)
    if not parts:
        return (-1, 0, 0)
    stage = {"alpha": 0, "beta": 1, None: 2}[parts[2]]
    return (stage, int(parts[1]), int(parts[3] or 0))


def built_in(group: str, plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    """Return a resource that every cluster serves in version v1."""
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

CLUSTER_ROLE = built_in(
    "rbac.authorization.k8s.io", "clusterroles", "ClusterRole", namespaced=False
)
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
    CLUSTER_ROLE,
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
"""Built-in resources that this program reads or writes. `facts.kinds` defines further ones."""
