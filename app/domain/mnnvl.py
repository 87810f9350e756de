"""MNNVL: which ComputeDomain and ResourceClaim a PodClique shares, and how the claim gets into its pods.

Source: `designs/mnnvl-annotations-and-webhooks.md`. Reads nothing but its arguments; creating what it plans is
`cluster.mnnvl`'s work.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from app.domain.edits import Append, Change
from app.domain.fields import FieldError, FieldPath, as_map, invalid, not_supported, required, walk_list, walk_map
from app.domain.kinds import COMPUTE_DOMAIN, POD_CLIQUE_SET, RESOURCE_CLAIM
from app.domain.labels import (
    BASE_PODGANG,
    CLIQUE_NAME,
    GROVE_PCS_NAME,
    GROVE_PCS_REPLICA,
    MANAGED_BY,
    MANAGER,
    MNNVL_DEVICE_CLASS,
    MNNVL_ENABLED,
    MNNVL_MANAGED,
    MNNVL_SCOPE,
    PCS_NAME,
    PCS_REPLICA,
    PCSG_NAME,
    PCSG_REPLICA,
    PODGANG,
    Place,
    annotations_of,
    labels_of,
    read_place,
)
from app.domain.names import MAX_LABEL, is_subdomain
from app.domain.podcliqueset import PodCliqueSet

ClaimMode = Literal["shared", "template"]
Scope = Literal["replica", "clique", "scalingGroupReplica"]

SCOPES: tuple[Scope, ...] = ("replica", "clique", "scalingGroupReplica")
DEFAULT_DEVICE_CLASS = "compute-domain.nvidia.com"
CLAIM = "mnnvl"
MAX_RESERVED = 256
"""A ResourceClaim can be reserved by at most this many pods (`status.reservedFor` in resource.k8s.io)."""

_LABELS = FieldPath("metadata.labels")
_ANNOTATIONS = FieldPath("metadata.annotations")
_ROOT = FieldPath("")
_SPEC = FieldPath("spec")
_POD_SPEC = FieldPath("spec.podSpec")


@dataclass(frozen=True, slots=True)
class Owner:
    """The PodCliqueSet that owns the resources until a PodGang adopts them; `uid` "" where it isn't known yet."""

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


@dataclass(frozen=True, slots=True)
class Injection:
    """The outcome of the rule: `plan` None where there is nothing to do."""

    plan: Plan | None = None
    findings: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()


def plan_injection(
    obj: Mapping[str, Any], namespace: str, claim_mode: ClaimMode, old: Mapping[str, Any] | None = None
) -> Injection:
    """What the PodClique `obj` needs; `old` is what an UPDATE replaces. Nothing unless it is annotated, asks for GPUs
    and isn't being deleted.

    A claim of ours that is already there decides the mode, so that a changed configuration doesn't restart pods: in
    `obj`, else in `old`, because Grove's operator resets the spec from its template.
    """
    annotations, labels = annotations_of(obj), labels_of(obj)
    if annotations.get(MNNVL_ENABLED) != "true" or obj["metadata"].get("deletionTimestamp") is not None:
        return Injection()
    findings: list[FieldError] = []
    spec = walk_map(obj, "spec", _ROOT, findings)
    pod_spec = walk_map(spec, "podSpec", _SPEC, findings)
    gpu_containers = _gpu_containers(pod_spec, findings)
    scope = _scope(annotations, findings)
    place = read_place(labels)
    name = _name(obj["metadata"].get("name"), place, scope, findings)
    device_class = _device_class(annotations, findings)
    if findings:
        return Injection(findings=tuple(findings))
    if not gpu_containers:
        return Injection(warnings=(_no_gpu(name),))
    plan = Plan(
        namespace=namespace,
        scope=scope,
        mode=claim_mode,
        base_name=_base_name(scope, place, name),
        device_class=device_class,
        labels=_resource_labels(scope, place, name, labels),
        owner=_owner(obj["metadata"].get("ownerReferences"), place.pcs),
        replicas=_count(spec.get("replicas")),
    )
    plan.mode = _claim_in_place(plan, pod_spec, findings) or _former_mode(plan, old) or claim_mode
    if findings:
        return Injection(findings=tuple(findings))
    plan.changes = _changes(plan, pod_spec, gpu_containers)
    return Injection(plan=plan)


def _no_gpu(name: str) -> str:
    return (
        f'PodClique "{name}" is annotated {MNNVL_ENABLED}: "true", but no container asks for nvidia.com/gpu or '
        f"nvidia.com/mig-*: no claim was injected and no ComputeDomain created"
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
    """The PodCliqueSet, with its uid where it owns the PodClique itself (a scaling group may stand between)."""
    for reference in references if isinstance(references, list) else ():
        held = reference if isinstance(reference, dict) else {}
        if (held.get("kind"), held.get("name")) == (POD_CLIQUE_SET.kind, pcs):
            return Owner(pcs, str(held.get("uid") or ""))
    return Owner(pcs)


def _gpu_containers(pod_spec: dict[str, Any], findings: list[FieldError]) -> list[tuple[str, int, dict[str, Any]]]:
    """(list name, position, container) of every container and init container that asks for a GPU."""
    found: list[tuple[str, int, dict[str, Any]]] = []
    for listed in ("initContainers", "containers"):
        for position, item in enumerate(walk_list(pod_spec, listed, _POD_SPEC, findings)):
            at = _POD_SPEC.child(listed).index(position)
            container = as_map(item, at, findings)
            if container is not None and _asks_for_gpu(container, at, findings):
                found.append((listed, position, container))
    return found


def _asks_for_gpu(container: dict[str, Any], at: FieldPath, findings: list[FieldError]) -> bool:
    resources = walk_map(container, "resources", at, findings)
    if not resources:
        return False
    walk_list(resources, "claims", at.child("resources"), findings)
    amounts = [walk_map(resources, name, at.child("resources"), findings) for name in ("limits", "requests")]
    return any(is_gpu(name) and not _is_zero(amount) for held in amounts for name, amount in held.items())


def is_gpu(resource: str) -> bool:
    return resource == "nvidia.com/gpu" or resource.startswith("nvidia.com/mig-")


def _is_zero(amount: Any) -> bool:
    try:
        return Decimal(str(amount).strip()) == 0
    except InvalidOperation:
        return False


def _claim_in_place(plan: Plan, pod_spec: dict[str, Any], findings: list[FieldError]) -> ClaimMode | None:
    """The mode of our claim where the pod spec has it already; a different one of its name is a finding."""
    for position, entry in enumerate(walk_list(pod_spec, "resourceClaims", _POD_SPEC, findings)):
        if isinstance(entry, dict) and entry.get("name") == CLAIM:
            wanted = claim_entries(plan)
            mode = next((one for one in wanted if wanted[one] == entry), None)
            if mode is None:
                findings.append(_taken(plan, _POD_SPEC.child("resourceClaims").index(position), entry))
            return mode
    return None


def _former_mode(plan: Plan, old: Mapping[str, Any] | None) -> ClaimMode | None:
    """The mode of our claim in the stored PodClique."""
    ignored: list[FieldError] = []
    pod_spec = walk_map(walk_map(old or {}, "spec", _ROOT, ignored), "podSpec", _SPEC, ignored)
    return _claim_in_place(plan, pod_spec, ignored)


def _changes(plan: Plan, pod_spec: dict[str, Any], containers: list[tuple[str, int, dict[str, Any]]]) -> list[Change]:
    changes: list[Change] = []
    entries = pod_spec.get("resourceClaims") or ()
    if not any(isinstance(one, dict) and one.get("name") == CLAIM for one in entries):
        changes.append(Append(("spec", "podSpec", "resourceClaims"), claim_entries(plan)[plan.mode]))
    for listed, position, container in containers:
        held = container["resources"].get("claims") or ()
        if not any(isinstance(one, dict) and one.get("name") == CLAIM for one in held):
            changes.append(Append(("spec", "podSpec", listed, position, "resources", "claims"), {"name": CLAIM}))
    return changes


def claim_entries(plan: Plan) -> dict[ClaimMode, dict[str, str]]:
    """The entry of `spec.podSpec.resourceClaims` in either mode."""
    return {
        "shared": {"name": CLAIM, "resourceClaimName": plan.claim},
        "template": {"name": CLAIM, "resourceClaimTemplateName": plan.template},
    }


def _taken(plan: Plan, at: FieldPath, entry: dict[str, Any]) -> FieldError:
    wanted = claim_entries(plan)[plan.mode]
    detail = f'a different claim is already called "{CLAIM}"; rename it, or make it {wanted} to share this one'
    return invalid(at, entry, detail)


def reservation_warning(plan: Plan, pcs: PodCliqueSet | None) -> str | None:
    """A warning where more pods would share one claim than can reserve it; `pcs` None counts this PodClique alone."""
    pods = max(plan.replicas, _pods_sharing(plan, pcs)) if pcs else plan.replicas
    if plan.mode != "shared" or pods <= MAX_RESERVED:
        return None
    return (
        f'ResourceClaim "{plan.claim}" would be reserved by {pods} pods, but a claim can be reserved by at most '
        f"{MAX_RESERVED}: the others will stay pending. Use a narrower {MNNVL_SCOPE}, or claimMode: template"
    )


def _pods_sharing(plan: Plan, pcs: PodCliqueSet) -> int:
    if plan.scope == "clique":
        return plan.replicas
    grouped = {name for group in pcs.groups for name in group.cliques}
    if plan.scope == "scalingGroupReplica":
        group = pcs.group_of(plan.labels.get(PCSG_NAME, ""))
        members = set(group.cliques) if group else set()
    else:
        members = {clique.name for clique in pcs.cliques} - grouped
    return sum(clique.replicas for clique in pcs.cliques if clique.name in members)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 1


def desired_compute_domain(plan: Plan, version: str) -> dict[str, Any]:
    """The ComputeDomain of `plan`. `channel` is required by the served API; `numNodes: 0` leaves its size open."""
    return {
        "apiVersion": COMPUTE_DOMAIN.api_version(version),
        "kind": COMPUTE_DOMAIN.kind,
        "metadata": _metadata(plan, plan.compute_domain),
        "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": plan.template}}},
    }


def desired_claim(plan: Plan, version: str) -> dict[str, Any]:
    """The ResourceClaim of `plan` in the shape of `version`: v1 and v1beta2 nest the request in `exactly`, v1beta1
    has its fields directly."""
    expression = f'device.attributes["{DEFAULT_DEVICE_CLASS}"].name == "{plan.compute_domain}"'
    request = {"deviceClassName": plan.device_class, "selectors": [{"cel": {"expression": expression}}]}
    shaped = request if version == "v1beta1" else {"exactly": request}
    return {
        "apiVersion": RESOURCE_CLAIM.api_version(version),
        "kind": RESOURCE_CLAIM.kind,
        "metadata": _metadata(plan, plan.claim),
        "spec": {"devices": {"requests": [{"name": CLAIM, **shaped}]}},
    }


def _metadata(plan: Plan, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": plan.namespace,
        "labels": dict(plan.labels),
        "ownerReferences": [plan.owner.reference()],
    }
