"""MNNVL: which ComputeDomain and ResourceClaim a PodClique shares, and their names and labels."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from app.objects.edits import Change
from app.objects.fields import FieldError, FieldPath, invalid, not_supported, required
from app.objects.metadata import annotations_of, labels_of
from app.objects.names import MAX_LABEL, is_subdomain
from app.rules.kinds import POD_CLIQUE_SET
from app.rules.labels import (
    BASE_PODGANG,
    CLIQUE_NAME,
    GROVE_PCS_NAME,
    GROVE_PCS_REPLICA,
    MANAGED_BY,
    MANAGER,
    MNNVL_DEVICE_CLASS,
    MNNVL_MANAGED,
    MNNVL_SCOPE,
    PCS_NAME,
    PCS_REPLICA,
    PCSG_NAME,
    PCSG_REPLICA,
    PODGANG,
    Place,
    read_place,
)

ClaimMode = Literal["shared", "template"]
Scope = Literal["replica", "clique", "scalingGroupReplica"]

SCOPES: tuple[Scope, ...] = ("replica", "clique", "scalingGroupReplica")

DEFAULT_DEVICE_CLASS = "compute-domain.nvidia.com"

_LABELS = FieldPath("metadata.labels")

_ANNOTATIONS = FieldPath("metadata.annotations")

_ROOT = FieldPath("")


@dataclass(frozen=True, slots=True)
class Owner:
    """The PodCliqueSet that owns the resources until a PodGang adopts them; `uid` "" if it isn't known yet."""

    name: str
    uid: str = ""

    def reference(self) -> dict[str, Any]:
        return {
            "apiVersion": POD_CLIQUE_SET.api_version(),
            "kind": POD_CLIQUE_SET.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


@dataclass(slots=True)
class Plan:
    """What one PodClique needs: the names of its resources, their labels and first owner, and the changes in it."""

    namespace: str
    scope: Scope
    mode: ClaimMode
    base_name: str
    device_class: str
    labels: dict[str, str]
    owner: Owner
    changes: list[Change] = field(default_factory=list)
    replicas: int = 1

    @property
    def compute_domain(self) -> str:
        return f"{self.base_name}-cd"

    @property
    def claim(self) -> str:
        return f"{self.base_name}-mnnvl-claim"

    @property
    def template(self) -> str:
        """The ResourceClaimTemplate that NVIDIA's driver makes for the ComputeDomain."""
        return f"{self.base_name}-mnnvl-template"


def read_plan(
    obj: Mapping[str, Any], namespace: str, mode: ClaimMode, replicas: int, findings: list[FieldError]
) -> Plan | None:
    """The plan of the PodClique `obj`, which makes `replicas` pods. Problems are appended to `findings`; if there are
    any, also earlier ones, there is no plan."""
    annotations, labels = annotations_of(obj), labels_of(obj)
    scope = _scope(annotations, findings)
    place = read_place(labels)
    name = _name(obj["metadata"].get("name"), place, scope, findings)
    device_class = _device_class(annotations, findings)
    if findings:
        return None
    return Plan(
        namespace=namespace,
        scope=scope,
        mode=mode,
        base_name=_base_name(scope, place, name),
        device_class=device_class,
        labels=_resource_labels(scope, place, name, labels),
        owner=_owner(obj["metadata"].get("ownerReferences"), place.pcs),
        replicas=replicas,
    )


def _scope(annotations: Mapping[str, Any], findings: list[FieldError]) -> Scope:
    given = annotations.get(MNNVL_SCOPE) or "replica"
    for scope in SCOPES:
        if given == scope:
            return scope
    findings.append(not_supported(_ANNOTATIONS.key(MNNVL_SCOPE), given, SCOPES))
    return "replica"


def _name(name: Any, place: Place, scope: Scope, findings: list[FieldError]) -> str:
    """The PodClique's name, once the labels that its scope needs are there and agree with it."""
    before = len(findings)
    _need(place.pcs, PCS_NAME, GROVE_PCS_NAME, "the name of the PodCliqueSet", findings)
    _need_index(place.replica, PCS_REPLICA, GROVE_PCS_REPLICA, "the PodCliqueSet replica", findings)
    if scope == "scalingGroupReplica":
        _need(place.group, PCSG_NAME, "grove.io/podcliquescalinggroup", "the name of the scaling group", findings)
        other = "grove.io/podcliquescalinggroup-replica-index"
        _need_index(place.group_replica, PCSG_REPLICA, other, "the scaling group replica", findings)
    if not isinstance(name, str) or not name:
        findings.append(required(FieldPath("metadata.name"), "MNNVL resources are named after it"))
        return ""
    prefix = f"{place.pcs}-{place.replica}-"
    if len(findings) == before and not name.startswith(prefix):
        detail = f'must begin with "{prefix}", the PodCliqueSet and replica that the labels name'
        findings.append(invalid(FieldPath("metadata.name"), name, detail))
    if place.podgang and not is_subdomain(place.podgang):
        findings.append(invalid(_LABELS.key(PODGANG), place.podgang, "must be the name of a PodGang"))
    base = _base_name(scope, place, name)
    if len(findings) == before and not is_subdomain(f"{base}-mnnvl-template"):
        detail = (
            f'the names of its resources, such as "{base}-mnnvl-template", must be DNS subdomains of 253 characters'
        )
        findings.append(invalid(FieldPath("metadata.name"), name, detail))
    return name


def _need(value: str, key: str, other: str, what: str, findings: list[FieldError]) -> None:
    if not value:
        findings.append(required(_LABELS.key(key), f"{what} (or Grove's own label {other}) is needed for MNNVL"))
    elif len(value) > MAX_LABEL:
        findings.append(invalid(_LABELS.key(key), value, f"must be no more than {MAX_LABEL} characters"))


def _need_index(value: str, key: str, other: str, what: str, findings: list[FieldError]) -> None:
    _need(value, key, other, what, findings)
    if value and not (value.isascii() and value.isdecimal()):
        findings.append(invalid(_LABELS.key(key), value, f"must be the index of {what}, a number from 0"))


def _device_class(annotations: Mapping[str, Any], findings: list[FieldError]) -> str:
    given = annotations.get(MNNVL_DEVICE_CLASS) or DEFAULT_DEVICE_CLASS
    if given == DEFAULT_DEVICE_CLASS:
        return DEFAULT_DEVICE_CLASS
    if not isinstance(given, str) or not is_subdomain(given):
        detail = f"must be the name of a DeviceClass, such as {DEFAULT_DEVICE_CLASS}"
        findings.append(invalid(_ANNOTATIONS.key(MNNVL_DEVICE_CLASS), given, detail))
    return str(given)


def _base_name(scope: Scope, place: Place, name: str) -> str:
    """What the names of the resources begin with. Clique scope takes the PodClique's name, which already is
    `<pcs>-<replica>-<clique>` and, in a scaling group, keeps its replicas apart."""
    if scope == "clique":
        return name
    if scope == "scalingGroupReplica":
        return f"{place.pcs}-{place.replica}-{place.group}-{place.group_replica}"
    return f"{place.pcs}-{place.replica}"


def _resource_labels(scope: Scope, place: Place, name: str, labels: Mapping[str, Any]) -> dict[str, str]:
    """The design's labels, as specific as the scope, with the PodGang that will adopt the resources: for a whole
    replica that is the base PodGang, also when a clique of a scaled one comes first."""
    found = {PCS_NAME: place.pcs, PCS_REPLICA: place.replica}
    if scope == "scalingGroupReplica" or (scope == "clique" and place.group and place.group_replica):
        found |= {PCSG_NAME: place.group, PCSG_REPLICA: place.group_replica}
    if scope == "clique":
        found[CLIQUE_NAME] = _clique_name(place, name)
    base = labels.get(BASE_PODGANG) if scope == "replica" else None
    found[PODGANG] = base if isinstance(base, str) and base else place.podgang
    found |= {MNNVL_MANAGED: "true", MANAGED_BY: MANAGER}
    return {key: value for key, value in found.items() if value and len(value) <= MAX_LABEL}


def _clique_name(place: Place, name: str) -> str:
    rest = name.removeprefix(f"{place.pcs}-{place.replica}-")
    return rest.removeprefix(f"{place.group}-{place.group_replica}-") if place.group else rest


def _owner(references: Any, pcs: str) -> Owner:
    """The PodCliqueSet, with its uid if it owns the PodClique itself (a scaling group may stand between)."""
    for reference in references if isinstance(references, list) else ():
        held = reference if isinstance(reference, dict) else {}
        if (held.get("kind"), held.get("name")) == (POD_CLIQUE_SET.kind, pcs):
            return Owner(pcs, str(held.get("uid") or ""))
    return Owner(pcs)
