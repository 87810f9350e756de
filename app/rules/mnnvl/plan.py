"""MNNVL: which ComputeDomain and ResourceClaim a PodClique shares, and their names and labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from app.objects.fields import FieldError, FieldPath, invalid, not_supported, required
from app.objects.metadata import labels_of
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
from app.rules.mnnvl.annotations import MnnvlAnnotations

ClaimMode = Literal["shared", "template"]
Scope = Literal["replica", "clique", "scalingGroupReplica"]

SCOPES: tuple[Scope, ...] = ("replica", "clique", "scalingGroupReplica")

DEFAULT_DEVICE_CLASS = "compute-domain.nvidia.com"

_DOMAIN_SUFFIX, _CLAIM_SUFFIX, _TEMPLATE_SUFFIX = "-cd", "-mnnvl-claim", "-mnnvl-template"

_LABELS = FieldPath("metadata.labels")

_ANNOTATIONS = FieldPath("metadata.annotations")


@dataclass(frozen=True, slots=True)
class Owner:
    """The PodCliqueSet that owns the resources until a PodGang adopts them. `uid` is "" if it is not known yet."""

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


@dataclass(frozen=True, slots=True)
class Member:
    """A PodClique, as far as the names, labels and first owner of its resources depend on it. `base_podgang` is "" if
    its PodGang is not a scaled one."""

    namespace: str
    name: str
    place: Place
    base_podgang: str
    owner: Owner

    def base_name(self, scope: Scope) -> str:
        """What the names of the resources begin with. Clique scope takes the name of the PodClique, which already is
        `<pcs>-<replica>-<clique>` and, in a scaling group, keeps its replicas apart."""
        place = self.place
        if scope == "clique":
            return self.name
        if scope == "scalingGroupReplica":
            return f"{place.pcs}-{place.replica}-{place.group}-{place.group_replica}"
        return f"{place.pcs}-{place.replica}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What one PodClique, or several that share it, need: the names of the resources, their labels and first owner."""

    namespace: str
    scope: Scope
    base_name: str
    device_class: str
    labels: Mapping[str, str]
    owner: Owner

    @property
    def compute_domain(self) -> str:
        return domain_name(self.base_name)

    @property
    def claim(self) -> str:
        return claim_name(self.base_name)

    @property
    def template(self) -> str:
        """The ResourceClaimTemplate that NVIDIA's driver makes for the ComputeDomain."""
        return template_name(self.base_name)


def domain_name(base_name: str) -> str:
    return f"{base_name}{_DOMAIN_SUFFIX}"


def claim_name(base_name: str) -> str:
    return f"{base_name}{_CLAIM_SUFFIX}"


def template_name(base_name: str) -> str:
    return f"{base_name}{_TEMPLATE_SUFFIX}"


def base_of_domain(name: str) -> str:
    """The base name of the ComputeDomain `name`; "" if it is not named like one of ours."""
    return name.removesuffix(_DOMAIN_SUFFIX) if name.endswith(_DOMAIN_SUFFIX) else ""


def base_of_claim(name: str) -> str:
    """The base name of the ResourceClaim `name`; "" if it is not named like one of ours."""
    return name.removesuffix(_CLAIM_SUFFIX) if name.endswith(_CLAIM_SUFFIX) else ""


def read_member(obj: Mapping[str, Any], namespace: str) -> Member:
    """Reads a PodClique. What is missing or not of the right type is "" in the result."""
    labels, metadata = labels_of(obj), obj.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    place = read_place(labels)
    name, base = metadata.get("name"), labels.get(BASE_PODGANG)
    return Member(
        namespace=namespace,
        name=name if isinstance(name, str) else "",
        place=place,
        base_podgang=base if isinstance(base, str) else "",
        owner=_owner(metadata.get("ownerReferences"), place.pcs),
    )


def plan_of(member: Member, scope: Scope, device_class: str) -> Plan:
    """The plan of a PodClique whose labels have what `scope` needs."""
    return Plan(
        namespace=member.namespace,
        scope=scope,
        base_name=member.base_name(scope),
        device_class=device_class,
        labels=_resource_labels(member, scope),
        owner=member.owner,
    )


def possible_scopes(member: Member) -> tuple[Scope, ...]:
    """The scopes for which the labels of a PodClique say enough."""
    place = member.place
    if not (place.pcs and place.replica and member.name):
        return ()
    return SCOPES if place.group and place.group_replica else ("replica", "clique")


def read_plan(member: Member, annotations: MnnvlAnnotations, findings: list[FieldError]) -> Plan | None:
    """The plan of a PodClique for which `annotations` count. Problems are appended to `findings`; if there are any,
    also earlier ones, there is no plan."""
    scope = _scope(annotations, findings)
    _check(member, scope, findings)
    device_class = _device_class(annotations, findings)
    return None if findings else plan_of(member, scope, device_class)


def _scope(annotations: MnnvlAnnotations, findings: list[FieldError]) -> Scope:
    given = annotations.scope or "replica"
    for scope in SCOPES:
        if given == scope:
            return scope
    findings.append(not_supported(_ANNOTATIONS.key(MNNVL_SCOPE), given, SCOPES))
    return "replica"


def _check(member: Member, scope: Scope, findings: list[FieldError]) -> None:
    """The labels that the scope needs are there, and the name agrees with them."""
    before, place, name = len(findings), member.place, member.name
    _need(place.pcs, PCS_NAME, GROVE_PCS_NAME, "the name of the PodCliqueSet", findings)
    _need_index(place.replica, PCS_REPLICA, GROVE_PCS_REPLICA, "the PodCliqueSet replica", findings)
    if scope == "scalingGroupReplica":
        _need(place.group, PCSG_NAME, "grove.io/podcliquescalinggroup", "the name of the scaling group", findings)
        other = "grove.io/podcliquescalinggroup-replica-index"
        _need_index(place.group_replica, PCSG_REPLICA, other, "the scaling group replica", findings)
    if not name:
        findings.append(required(FieldPath("metadata.name"), "MNNVL resources are named after it"))
        return
    prefix = f"{place.pcs}-{place.replica}-"
    if len(findings) == before and not name.startswith(prefix):
        detail = f'must begin with "{prefix}", the PodCliqueSet and replica that the labels name'
        findings.append(invalid(FieldPath("metadata.name"), name, detail))
    if place.podgang and not is_subdomain(place.podgang):
        findings.append(invalid(_LABELS.key(PODGANG), place.podgang, "must be the name of a PodGang"))
    longest = template_name(member.base_name(scope))
    if len(findings) == before and not is_subdomain(longest):
        detail = f'the names of its resources, such as "{longest}", must be DNS subdomains of 253 characters'
        findings.append(invalid(FieldPath("metadata.name"), name, detail))


def _need(value: str, key: str, other: str, what: str, findings: list[FieldError]) -> None:
    if not value:
        findings.append(required(_LABELS.key(key), f"{what} (or Grove's own label {other}) is needed for MNNVL"))
    elif len(value) > MAX_LABEL:
        findings.append(invalid(_LABELS.key(key), value, f"must be no more than {MAX_LABEL} characters"))


def _need_index(value: str, key: str, other: str, what: str, findings: list[FieldError]) -> None:
    _need(value, key, other, what, findings)
    if value and not (value.isascii() and value.isdecimal()):
        findings.append(invalid(_LABELS.key(key), value, f"must be the index of {what}, a number from 0"))


def _device_class(annotations: MnnvlAnnotations, findings: list[FieldError]) -> str:
    given = device_class_of(annotations)
    if not is_device_class(given):
        detail = f"must be the name of a DeviceClass, such as {DEFAULT_DEVICE_CLASS}"
        findings.append(invalid(_ANNOTATIONS.key(MNNVL_DEVICE_CLASS), given, detail))
    return str(given)


def device_class_of(annotations: MnnvlAnnotations) -> Any:
    """The DeviceClass that `annotations` name, or the default; it may be no valid name."""
    return annotations.device_class or DEFAULT_DEVICE_CLASS


def is_device_class(value: Any) -> bool:
    """Whether `value` can be the name of a DeviceClass."""
    return value == DEFAULT_DEVICE_CLASS or (isinstance(value, str) and is_subdomain(value))


def _resource_labels(member: Member, scope: Scope) -> dict[str, str]:
    """The design's labels, as specific as the scope, with the PodGang that will adopt the resources: for a whole
    replica that is the base PodGang, also when a clique of a scaled one comes first."""
    place = member.place
    labels = {PCS_NAME: place.pcs, PCS_REPLICA: place.replica}
    if scope == "scalingGroupReplica" or (scope == "clique" and place.group and place.group_replica):
        labels |= {PCSG_NAME: place.group, PCSG_REPLICA: place.group_replica}
    if scope == "clique":
        labels[CLIQUE_NAME] = _clique_name(member)
    labels[PODGANG] = member.base_podgang if scope == "replica" and member.base_podgang else place.podgang
    labels |= {MNNVL_MANAGED: "true", MANAGED_BY: MANAGER}
    return {key: value for key, value in labels.items() if value and len(value) <= MAX_LABEL}


def _clique_name(member: Member) -> str:
    place = member.place
    rest = member.name.removeprefix(f"{place.pcs}-{place.replica}-")
    return rest.removeprefix(f"{place.group}-{place.group_replica}-") if place.group else rest


def _owner(references: Any, pcs: str) -> Owner:
    """The PodCliqueSet, with its uid if it owns the PodClique itself (a scaling group may stand between)."""
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, dict) and (reference.get("kind"), reference.get("name")) == (
            POD_CLIQUE_SET.kind,
            pcs,
        ):
            return Owner(pcs, str(reference.get("uid") or ""))
    return Owner(pcs)
