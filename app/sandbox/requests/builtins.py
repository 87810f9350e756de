"""The built-in kinds. They have no schema: apart from their metadata, they are stored as they are sent."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from app.sandbox.objects import conversion
from app.sandbox.objects.conversion import Convert, relabel
from app.sandbox.objects.resources import Column, Served
from app.sandbox.requests import access_reviews

_CLAIMS = "resource.k8s.io"
_AGE = Column("Age", ".metadata.creationTimestamp", "date")
_CREATED = Column("Created At", ".metadata.creationTimestamp")
_STATUS = Column("Status", ".status.phase")
_READY = Column("Ready", '.status.conditions[?(@.type=="Ready")].status')
_VERSION = Column("Version", ".status.nodeInfo.kubeletVersion")
_NODE = Column("Node", ".spec.nodeName", priority=1)
_ROLE = Column("Role", ".roleRef.name")
_EVENT_COLUMNS = (
    Column("Last Seen", ".lastTimestamp", "date"),
    Column("Type", ".type"),
    Column("Reason", ".reason"),
    Column("Object", ".involvedObject.name"),
    Column("Message", ".message"),
)


@dataclass(frozen=True, slots=True)
class Builtin:
    """A row of the table below. `versions` are served, the stored one first. `later` are versions of a later
    Kubernetes, which are served only on request."""

    kind: str
    plural: str
    short: tuple[str, ...] = ()
    versions: tuple[str, ...] = ("v1",)
    namespaced: bool = True
    status: bool = False
    generation: bool = False
    columns: tuple[Column, ...] = (_AGE,)
    subresources: tuple[str, ...] = ()
    later: tuple[str, ...] = ()


_CLUSTER: dict[str, Any] = {"namespaced": False}
_STATUS_ONLY: dict[str, Any] = {"status": True}
_SPEC_AND_STATUS: dict[str, Any] = {"status": True, "generation": True}
_OF_1_37: dict[str, Any] = {"later": ("v1beta1", "v1alpha3")}
_DRA: dict[str, Any] = {"versions": ("v1", "v1beta2", "v1beta1")}

_KINDS: dict[str, tuple[Builtin, ...]] = {
    "": (
        Builtin("Namespace", "namespaces", ("ns",), columns=(_STATUS, _AGE), **_CLUSTER, **_STATUS_ONLY),
        Builtin("Node", "nodes", ("no",), columns=(_READY, _AGE, _VERSION), **_CLUSTER, **_STATUS_ONLY),
        Builtin("Pod", "pods", ("po",), columns=(_STATUS, _AGE, _NODE), subresources=("binding",), **_SPEC_AND_STATUS),
        Builtin("ConfigMap", "configmaps", ("cm",)),
        Builtin("Secret", "secrets", columns=(Column("Type", ".type"), _AGE)),
        Builtin("ServiceAccount", "serviceaccounts", ("sa",), subresources=("token",)),
        Builtin("Service", "services", ("svc",), columns=(Column("Type", ".spec.type"), _AGE), **_STATUS_ONLY),
    ),
    "discovery.k8s.io": (Builtin("EndpointSlice", "endpointslices"),),
    access_reviews.GROUP: (
        Builtin("SubjectAccessReview", "subjectaccessreviews", **_CLUSTER),
        Builtin("SelfSubjectAccessReview", "selfsubjectaccessreviews", **_CLUSTER),
    ),
    "apps": (Builtin("Deployment", "deployments", ("deploy",), subresources=("scale",), **_SPEC_AND_STATUS),),
    "networking.k8s.io": (Builtin("NetworkPolicy", "networkpolicies", ("netpol",), generation=True),),
    "policy": (Builtin("PodDisruptionBudget", "poddisruptionbudgets", ("pdb",), **_SPEC_AND_STATUS),),
    "coordination.k8s.io": (Builtin("Lease", "leases", columns=(Column("Holder", ".spec.holderIdentity"), _AGE)),),
    "rbac.authorization.k8s.io": (
        Builtin("Role", "roles"),
        Builtin("RoleBinding", "rolebindings", columns=(_ROLE, _AGE)),
        Builtin("ClusterRole", "clusterroles", **_CLUSTER),
        Builtin("ClusterRoleBinding", "clusterrolebindings", columns=(_ROLE, _AGE), **_CLUSTER),
    ),
    "apiextensions.k8s.io": (
        Builtin(
            "CustomResourceDefinition",
            "customresourcedefinitions",
            ("crd", "crds"),
            columns=(_CREATED,),
            **_CLUSTER,
            **_SPEC_AND_STATUS,
        ),
    ),
    "admissionregistration.k8s.io": (
        Builtin("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", generation=True, **_CLUSTER),
        Builtin("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", generation=True, **_CLUSTER),
    ),
    "scheduling.k8s.io": (
        Builtin("PriorityClass", "priorityclasses", ("pc",), **_CLUSTER),
        Builtin("Workload", "workloads", versions=("v1alpha2", "v1alpha1"), **_OF_1_37),
        Builtin("PodGroup", "podgroups", versions=("v1alpha2",), **_STATUS_ONLY, **_OF_1_37),
    ),
    _CLAIMS: (
        Builtin("DeviceClass", "deviceclasses", **_CLUSTER),
        Builtin("ResourceSlice", "resourceslices", **_CLUSTER),
        Builtin("ResourceClaim", "resourceclaims", **_DRA, **_STATUS_ONLY),
        Builtin("ResourceClaimTemplate", "resourceclaimtemplates", **_DRA),
    ),
}


def builtins(unserved: Collection[str] = (), later: Collection[str] = ()) -> Iterator[Served]:
    """The resources that are served without a CRD, without the group versions `unserved` (such as
    `resource.k8s.io/v1`), and with those of a later Kubernetes that are in `later`."""
    for group, kinds in _KINDS.items():
        for kind in kinds:
            versions = [version for version in kind.versions if f"{group}/{version}" not in unserved]
            versions += [version for version in kind.later if f"{group}/{version}" in later]
            yield from (_served(group, kind, version) for version in versions)
    for group, read, write in (
        ("", relabel("v1"), relabel("v1")),
        ("events.k8s.io", conversion.event_from_core, conversion.event_to_core),
    ):
        yield Served(
            group=group,
            version="v1",
            plural="events",
            kind="Event",
            namespaced=True,
            table=("", "events"),
            read=read,
            write=write,
            singular="event",
            short_names=("ev",),
            columns=_EVENT_COLUMNS,
        )


def _served(group: str, kind: Builtin, version: str) -> Served:
    read, write = _conversions(group, kind, version)
    return Served(
        group=group,
        version=version,
        plural=kind.plural,
        kind=kind.kind,
        namespaced=kind.namespaced,
        table=(group, kind.plural),
        read=read,
        write=write,
        singular=kind.kind.lower(),
        short_names=kind.short,
        categories=("all",) if kind.plural in ("pods", "services", "deployments") else (),
        has_status=kind.status,
        has_generation=kind.generation,
        columns=kind.columns,
        subresources=(("status",) if kind.status else ()) + kind.subresources,
    )


def _conversions(group: str, kind: Builtin, version: str) -> tuple[Convert, Convert]:
    if version == "v1beta1" and group == _CLAIMS:
        template = kind.kind == "ResourceClaimTemplate"
        return conversion.claim_to_v1beta1(template), conversion.claim_from_v1beta1(template)
    prefix = f"{group}/" if group else ""
    return relabel(prefix + version), relabel(prefix + kind.versions[0])
