"""The built-in kinds: stored and served as they come. There is no schema behind them; see the package docstring."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from app.sandbox.objects import conversion
from app.sandbox.objects.conversion import Convert, relabel
from app.sandbox.objects.resources import Column, Served
from app.sandbox.requests import access_reviews

AGE = Column("Age", ".metadata.creationTimestamp", "date")
_NAME_AGE = (AGE,)


@dataclass(frozen=True, slots=True)
class Builtin:
    """One line of the table below. `versions` are served ones, the stored one first; `later` are those of a later
    Kubernetes, served only if they are asked for."""

    group: str
    versions: tuple[str, ...]
    plural: str
    kind: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    status: bool = False
    generation: bool = False
    columns: tuple[Column, ...] = _NAME_AGE
    subresources: tuple[str, ...] = ()
    later: tuple[str, ...] = ()


_READY = '.status.conditions[?(@.type=="Ready")].status'
_RBAC, _ADMISSION, _DRA = "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "resource.k8s.io"
_OF_1_37 = ("v1beta1", "v1alpha3")

_KINDS = (
    Builtin(
        "", ("v1",), "namespaces", "Namespace", False, ("ns",), True, columns=(Column("Status", ".status.phase"), AGE)
    ),
    Builtin(
        "",
        ("v1",),
        "nodes",
        "Node",
        False,
        ("no",),
        True,
        columns=(Column("Ready", _READY), AGE, Column("Version", ".status.nodeInfo.kubeletVersion")),
    ),
    Builtin(
        "",
        ("v1",),
        "pods",
        "Pod",
        True,
        ("po",),
        True,
        True,
        (Column("Status", ".status.phase"), AGE, Column("Node", ".spec.nodeName", priority=1)),
        ("binding",),
    ),
    Builtin("", ("v1",), "configmaps", "ConfigMap", short=("cm",)),
    Builtin("", ("v1",), "secrets", "Secret", columns=(Column("Type", ".type"), AGE)),
    Builtin("", ("v1",), "serviceaccounts", "ServiceAccount", short=("sa",), subresources=("token",)),
    Builtin("", ("v1",), "services", "Service", True, ("svc",), True, columns=(Column("Type", ".spec.type"), AGE)),
    Builtin("discovery.k8s.io", ("v1",), "endpointslices", "EndpointSlice"),
    Builtin(access_reviews.GROUP, ("v1",), "subjectaccessreviews", "SubjectAccessReview", False),
    Builtin(access_reviews.GROUP, ("v1",), "selfsubjectaccessreviews", "SelfSubjectAccessReview", False),
    Builtin("apps", ("v1",), "deployments", "Deployment", True, ("deploy",), True, True, subresources=("scale",)),
    Builtin("networking.k8s.io", ("v1",), "networkpolicies", "NetworkPolicy", True, ("netpol",), generation=True),
    Builtin("policy", ("v1",), "poddisruptionbudgets", "PodDisruptionBudget", True, ("pdb",), True, True),
    Builtin(
        "coordination.k8s.io",
        ("v1",),
        "leases",
        "Lease",
        columns=(Column("Holder", ".spec.holderIdentity"), AGE),
    ),
    Builtin(_RBAC, ("v1",), "roles", "Role"),
    Builtin(_RBAC, ("v1",), "rolebindings", "RoleBinding", columns=(Column("Role", ".roleRef.name"), AGE)),
    Builtin(_RBAC, ("v1",), "clusterroles", "ClusterRole", False),
    Builtin(
        _RBAC,
        ("v1",),
        "clusterrolebindings",
        "ClusterRoleBinding",
        False,
        columns=(Column("Role", ".roleRef.name"), AGE),
    ),
    Builtin(
        "apiextensions.k8s.io",
        ("v1",),
        "customresourcedefinitions",
        "CustomResourceDefinition",
        False,
        ("crd", "crds"),
        True,
        True,
        (Column("Created At", ".metadata.creationTimestamp"),),
    ),
    Builtin(
        _ADMISSION, ("v1",), "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False, generation=True
    ),
    Builtin(
        _ADMISSION, ("v1",), "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False, generation=True
    ),
    Builtin("scheduling.k8s.io", ("v1",), "priorityclasses", "PriorityClass", False, ("pc",)),
    Builtin("scheduling.k8s.io", ("v1alpha2", "v1alpha1"), "workloads", "Workload", later=_OF_1_37),
    Builtin("scheduling.k8s.io", ("v1alpha2",), "podgroups", "PodGroup", status=True, later=_OF_1_37),
    Builtin(_DRA, ("v1",), "deviceclasses", "DeviceClass", False),
    Builtin(_DRA, ("v1", "v1beta2", "v1beta1"), "resourceclaims", "ResourceClaim", status=True),
    Builtin(_DRA, ("v1", "v1beta2", "v1beta1"), "resourceclaimtemplates", "ResourceClaimTemplate"),
)

_EVENT_COLUMNS = (
    Column("Last Seen", ".lastTimestamp", "date"),
    Column("Type", ".type"),
    Column("Reason", ".reason"),
    Column("Object", ".involvedObject.name"),
    Column("Message", ".message"),
)


def builtins(unserved: Collection[str] = (), later: Collection[str] = ()) -> Iterator[Served]:
    """What is served without a CRD: not the group versions (`resource.k8s.io/v1`) in `unserved`, and of those that only
    a later Kubernetes has, the ones in `later`."""
    for kind in _KINDS:
        served = [version for version in kind.versions if f"{kind.group}/{version}" not in unserved]
        for version in (*served, *(version for version in kind.later if f"{kind.group}/{version}" in later)):
            yield _served(kind, version)
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


def _served(kind: Builtin, version: str) -> Served:
    read, write = _conversions(kind, version)
    return Served(
        group=kind.group,
        version=version,
        plural=kind.plural,
        kind=kind.kind,
        namespaced=kind.namespaced,
        table=(kind.group, kind.plural),
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


def _conversions(kind: Builtin, version: str) -> tuple[Convert, Convert]:
    if version == "v1beta1" and kind.group == _DRA:
        template = kind.kind == "ResourceClaimTemplate"
        return conversion.claim_to_v1beta1(template), conversion.claim_from_v1beta1(template)
    prefix = f"{kind.group}/" if kind.group else ""
    return relabel(prefix + version), relabel(prefix + kind.versions[0])
