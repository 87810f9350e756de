"""Define the built-in kinds.

They have no schema. Except for their metadata, they are stored as they are sent.
"""

from collections.abc import Collection, Iterator

from scripts.apiserver.admission import authorization
from scripts.apiserver.objects import conversion
from scripts.apiserver.objects.objects import Frozen
from scripts.apiserver.objects.resources import CRDS, Served

_OF_1_37 = ("v1beta1", "v1alpha3")
"""The versions of scheduling.k8s.io of a later Kubernetes. They are served only on request."""

_STATUS = ("status",)
_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_SCHEDULING = "scheduling.k8s.io"
_CLAIMS = "resource.k8s.io"
_DRA = ("v1", "v1beta2", "v1beta1")


class Builtin(Frozen):
    """A kind in all its `versions`. The first one is stored. `short` lists its short names."""

    group: str
    kind: str
    plural: str
    short: tuple[str, ...] = ()
    namespaced: bool = True
    subresources: tuple[str, ...] = ()
    has_generation: bool = False
    versions: tuple[str, ...] = ("v1",)

    def served(self) -> Iterator[Served]:
        """Yield the resource of each version."""
        for version in self.versions:
            read, write = conversion.conversions(self.group, version, self.versions[0])
            yield Served(
                group=self.group,
                version=version,
                plural=self.plural,
                kind=self.kind,
                table=("" if self.kind == "Event" else self.group, self.plural),
                read=read,
                write=write,
                singular=self.kind.lower(),
                short_names=self.short,
                namespaced=self.namespaced,
                subresources=self.subresources,
                has_generation=self.has_generation,
            )


def _admission(kind: str, plural: str) -> Builtin:
    return Builtin(_ADMISSION, kind, plural, namespaced=False, has_generation=True)


_BUILTINS = (
    Builtin("", "Namespace", "namespaces", ("ns",), False, _STATUS),
    Builtin("", "Node", "nodes", ("no",), False, _STATUS),
    Builtin("", "Pod", "pods", ("po",), True, ("status", "binding"), True),
    Builtin("", "PersistentVolumeClaim", "persistentvolumeclaims", ("pvc",), subresources=_STATUS),
    Builtin("", "PersistentVolume", "persistentvolumes", ("pv",), False, _STATUS),
    Builtin("storage.k8s.io", "StorageClass", "storageclasses", ("sc",), namespaced=False),
    Builtin("", "ConfigMap", "configmaps", ("cm",)),
    Builtin("", "Secret", "secrets"),
    Builtin("", "ResourceQuota", "resourcequotas", ("quota",), subresources=_STATUS),
    Builtin("", "ServiceAccount", "serviceaccounts", ("sa",), subresources=("token",)),
    Builtin("", "Service", "services", ("svc",), subresources=_STATUS),
    Builtin("", "Event", "events", ("ev",)),
    Builtin("events.k8s.io", "Event", "events", ("ev",)),
    Builtin("discovery.k8s.io", "EndpointSlice", "endpointslices"),
    Builtin(authorization.REVIEWS, "SubjectAccessReview", "subjectaccessreviews", namespaced=False),
    Builtin(
        authorization.REVIEWS,
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        namespaced=False,
    ),
    Builtin("apps", "Deployment", "deployments", ("deploy",), True, ("status", "scale"), True),
    Builtin("apps", "StatefulSet", "statefulsets", ("sts",), True, ("status", "scale"), True),
    Builtin("batch", "Job", "jobs", subresources=_STATUS, has_generation=True),
    Builtin(
        "networking.k8s.io", "NetworkPolicy", "networkpolicies", ("netpol",), has_generation=True
    ),
    Builtin("policy", "PodDisruptionBudget", "poddisruptionbudgets", ("pdb",), True, _STATUS, True),
    Builtin("coordination.k8s.io", "Lease", "leases"),
    Builtin(_RBAC, "Role", "roles"),
    Builtin(_RBAC, "RoleBinding", "rolebindings"),
    Builtin(_RBAC, "ClusterRole", "clusterroles", namespaced=False),
    Builtin(_RBAC, "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    Builtin(CRDS[0], "CustomResourceDefinition", CRDS[1], ("crd", "crds"), False, _STATUS, True),
    _admission("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    _admission("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    _admission("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    _admission("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    Builtin(_SCHEDULING, "PriorityClass", "priorityclasses", ("pc",), namespaced=False),
    Builtin(_SCHEDULING, "Workload", "workloads", versions=("v1alpha2", "v1alpha1", *_OF_1_37)),
    Builtin(
        _SCHEDULING, "PodGroup", "podgroups", subresources=_STATUS, versions=("v1alpha2", *_OF_1_37)
    ),
    Builtin(_CLAIMS, "DeviceClass", "deviceclasses", namespaced=False),
    Builtin(_CLAIMS, "ResourceSlice", "resourceslices", namespaced=False),
    Builtin(_CLAIMS, "ResourceClaim", "resourceclaims", subresources=_STATUS, versions=_DRA),
    Builtin(_CLAIMS, "ResourceClaimTemplate", "resourceclaimtemplates", versions=_DRA),
)


def builtins(unserved: Collection[str] = (), later: Collection[str] = ()) -> Iterator[Served]:
    """Yield the resources that are served without a CRD.

    The group versions in `unserved` (such as `resource.k8s.io/v1`) are omitted. Those of a later
    Kubernetes are omitted if they are not in `later`.
    """
    for builtin in _BUILTINS:
        for served in builtin.served():
            is_later = served.group == _SCHEDULING and served.version in _OF_1_37
            if served.api_version not in unserved and (not is_later or served.api_version in later):
                yield served
