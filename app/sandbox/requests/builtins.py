"""The built-in kinds.

They have no schema: apart from their metadata, they are stored as they are sent.
"""

from collections.abc import Collection, Iterator
from typing import Any

from app.sandbox.admission import authorization
from app.sandbox.objects import conversion
from app.sandbox.objects.resources import CRDS, Served

_OF_1_37 = ("v1beta1", "v1alpha3")
"""Versions of scheduling.k8s.io of a later Kubernetes, which are served only on request."""

_CLUSTER: dict[str, Any] = {"namespaced": False}
_STATUS_ONLY: dict[str, Any] = {"subresources": ("status",)}
_GENERATION: dict[str, Any] = {"has_generation": True}
_SPEC_AND_STATUS: dict[str, Any] = {"subresources": ("status",), "has_generation": True}
_RBAC = "rbac.authorization.k8s.io"
_SCHEDULING = "scheduling.k8s.io"
_CLAIMS = "resource.k8s.io"
_DRA = ("v1", "v1beta2", "v1beta1")


def builtins(unserved: Collection[str] = (), later: Collection[str] = ()) -> Iterator[Served]:
    """Return the resources that are served without a CRD.

    The group versions `unserved` (such as `resource.k8s.io/v1`) are left out, and those of a later
    Kubernetes that are in `later` are added.
    """
    for served in _resources():
        is_later = served.group == _SCHEDULING and served.version in _OF_1_37
        if served.api_version not in unserved and (not is_later or served.api_version in later):
            yield served


def _resources() -> Iterator[Served]:
    yield from _kind("", "Namespace", "namespaces", "ns", **_CLUSTER, **_STATUS_ONLY)
    yield from _kind("", "Node", "nodes", "no", **_CLUSTER, **_STATUS_ONLY)
    yield from _kind("", "Pod", "pods", "po", subresources=("status", "binding"), **_GENERATION)
    yield from _kind("", "ConfigMap", "configmaps", "cm")
    yield from _kind("", "Secret", "secrets")
    yield from _kind("", "ServiceAccount", "serviceaccounts", "sa", subresources=("token",))
    yield from _kind("", "Service", "services", "svc", **_STATUS_ONLY)
    yield from _kind("", "Event", "events", "ev")
    yield from _kind("events.k8s.io", "Event", "events", "ev")
    yield from _kind("discovery.k8s.io", "EndpointSlice", "endpointslices")
    yield from _kind(
        authorization.REVIEWS, "SubjectAccessReview", "subjectaccessreviews", **_CLUSTER
    )
    yield from _kind(
        authorization.REVIEWS, "SelfSubjectAccessReview", "selfsubjectaccessreviews", **_CLUSTER
    )
    yield from _kind(
        "apps",
        "Deployment",
        "deployments",
        "deploy",
        subresources=("status", "scale"),
        **_GENERATION,
    )
    yield from _kind(
        "networking.k8s.io", "NetworkPolicy", "networkpolicies", "netpol", **_GENERATION
    )
    yield from _kind(
        "policy", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", **_SPEC_AND_STATUS
    )
    yield from _kind("coordination.k8s.io", "Lease", "leases")
    yield from _kind(_RBAC, "Role", "roles")
    yield from _kind(_RBAC, "RoleBinding", "rolebindings")
    yield from _kind(_RBAC, "ClusterRole", "clusterroles", **_CLUSTER)
    yield from _kind(_RBAC, "ClusterRoleBinding", "clusterrolebindings", **_CLUSTER)
    yield from _kind(
        CRDS[0], "CustomResourceDefinition", CRDS[1], "crd", "crds", **_SPEC_AND_STATUS, **_CLUSTER
    )
    for name in (
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "ValidatingAdmissionPolicyBinding",
    ):
        yield from _kind(
            "admissionregistration.k8s.io", name, f"{name.lower()}s", **_GENERATION, **_CLUSTER
        )
    yield from _kind(
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        **_GENERATION,
        **_CLUSTER,
    )

    yield from _kind(_SCHEDULING, "PriorityClass", "priorityclasses", "pc", **_CLUSTER)
    yield from _kind(
        _SCHEDULING, "Workload", "workloads", versions=("v1alpha2", "v1alpha1", *_OF_1_37)
    )
    yield from _kind(
        _SCHEDULING, "PodGroup", "podgroups", versions=("v1alpha2", *_OF_1_37), **_STATUS_ONLY
    )
    yield from _kind(_CLAIMS, "DeviceClass", "deviceclasses", **_CLUSTER)
    yield from _kind(_CLAIMS, "ResourceSlice", "resourceslices", **_CLUSTER)
    yield from _kind(_CLAIMS, "ResourceClaim", "resourceclaims", versions=_DRA, **_STATUS_ONLY)
    yield from _kind(_CLAIMS, "ResourceClaimTemplate", "resourceclaimtemplates", versions=_DRA)


def _kind(
    group: str,
    kind: str,
    plural: str,
    *short: str,
    versions: tuple[str, ...] = ("v1",),
    **fields: Any,
) -> Iterator[Served]:
    """Yield a kind in all its `versions`, the stored one first.

    `short` are its short names, `fields` those of Served.
    """
    fields = {"namespaced": True, **fields}
    for version in versions:
        read, write = conversion.conversions(group, version, versions[0])
        yield Served(
            group=group,
            version=version,
            plural=plural,
            kind=kind,
            table=("" if kind == "Event" else group, plural),
            read=read,
            write=write,
            singular=kind.lower(),
            short_names=short,
            **fields,
        )
