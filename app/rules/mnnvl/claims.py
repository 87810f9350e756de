"""MNNVL: which ComputeDomain and ResourceClaim a PodClique shares, and how the claim gets into its pods.

Source: `rules/README.md`. Reads nothing but its arguments; creating what it plans is
`cluster.mnnvl`'s work.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from app.objects.edits import Append, Change
from app.objects.fields import FieldError, FieldPath, as_map, invalid, walk_list, walk_map
from app.objects.metadata import annotations_of
from app.rules.kinds import COMPUTE_DOMAIN, RESOURCE_CLAIM
from app.rules.labels import (
    MNNVL_ENABLED,
    MNNVL_SCOPE,
    PCSG_NAME,
)
from app.rules.mnnvl.plan import DEFAULT_DEVICE_CLASS, ClaimMode, Plan, read_plan
from app.rules.podcliqueset import PodCliqueSet

CLAIM = "mnnvl"
MAX_RESERVED = 256
"""A ResourceClaim can be reserved by at most this many pods (`status.reservedFor` in resource.k8s.io)."""

_ROOT = FieldPath("")
_SPEC = FieldPath("spec")
_POD_SPEC = FieldPath("spec.podSpec")


@dataclass(frozen=True, slots=True)
class Injection:
    """The outcome of the rule: `plan` None if there is nothing to do."""

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
    if annotations_of(obj).get(MNNVL_ENABLED) != "true" or obj["metadata"].get("deletionTimestamp") is not None:
        return Injection()
    findings: list[FieldError] = []
    spec = walk_map(obj, "spec", _ROOT, findings)
    pod_spec = walk_map(spec, "podSpec", _SPEC, findings)
    gpu_containers = _gpu_containers(pod_spec, findings)
    plan = read_plan(obj, namespace, claim_mode, _count(spec.get("replicas")), findings)
    if plan is None:
        return Injection(findings=tuple(findings))
    if not gpu_containers:
        return Injection(warnings=(_no_gpu(obj["metadata"]["name"]),))
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
    """The mode of our claim if the pod spec has it already; a different one of its name is a finding."""
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
