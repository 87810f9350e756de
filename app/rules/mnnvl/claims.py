"""MNNVL claims: the claim that a PodClique needs, its injection into the pod spec, and the desired
resources.

Source: `rules/README.md`. `app.cluster.mnnvl` creates the resources.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from math import ceil
from typing import Any

from app.facts.grove.annotations import MnnvlAnnotations
from app.facts.grove.podcliqueset import Group, PodCliqueSet
from app.facts.kinds import COMPUTE_DOMAIN, POD_CLIQUE_SET, RESOURCE_CLAIM
from app.facts.labels import MNNVL_ENABLED, MNNVL_SCOPE
from app.objects.edits import value_at
from app.objects.fields import FieldError, FieldPath, as_map, invalid, quote, walk_list, walk_map
from app.objects.jsonpatch import Operation
from app.objects.shape import int_of, map_of
from app.rules.mnnvl.plan import (
    DEFAULT_DEVICE_CLASS,
    ClaimMode,
    Member,
    Plan,
    Scope,
    device_class_of,
    is_device_class,
    plan_of,
    possible_scopes,
    read_plan,
)

CLAIM = "mnnvl"
MAX_RESERVED = 256
"""A ResourceClaim can be reserved by at most this many pods (`status.reservedFor` in
resource.k8s.io).
"""

MAX_AMOUNT = Decimal(2**63 - 1)
"""The largest amount in Kubernetes.

To make an integer of a larger one, such as 1e99999999, can take hours.
"""

_MODES: tuple[ClaimMode, ...] = ("shared", "template")
_ROOT = FieldPath("")
_SPEC = FieldPath("spec")
_POD_SPEC = FieldPath("spec.podSpec")

Entry = Mapping[str, Any]
"""An item of `spec.podSpec.resourceClaims`."""


@dataclass(frozen=True, slots=True)
class Injection:
    """The result of the rule.

    If `plan` is None, there is nothing to do. Otherwise, `mode` is the form of the claim, `patch`
    brings it into the PodClique, and `replicas` is the number of its pods.
    """

    plan: Plan | None = None
    mode: ClaimMode = "shared"
    patch: tuple[Operation, ...] = ()
    replicas: int = 1
    findings: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()


def plan_injection(
    obj: Mapping[str, Any],
    member: Member,
    annotations: MnnvlAnnotations,
    claim_mode: ClaimMode,
    old: Mapping[str, Any] | None = None,
    *,
    is_annotated: bool = True,
) -> Injection:
    """Return the resources that the PodClique `obj` needs, and the patch that injects the claim.

    Nothing is needed unless MNNVL is enabled, a container requests GPUs, and the PodClique isn't
    being deleted.

    `member` was read from `obj`. `annotations` are those that count for it, its own or inherited.
    `claim_mode` is the form of a new claim. `old` is the object that an UPDATE replaces: its claim
    keeps its form and scope, see `rules/README.md`. If no container requests a GPU and the
    PodClique itself `is_annotated`, there is a warning.
    """
    if not annotations.enables or map_of(obj.get("metadata")).get("deletionTimestamp") is not None:
        return Injection()

    findings: list[FieldError] = []
    spec = walk_map(obj, "spec", _ROOT, findings)
    pod_spec = walk_map(spec, "podSpec", _SPEC, findings)
    gpu_containers = _gpu_containers(pod_spec, findings)
    if not gpu_containers and not findings:
        return Injection(warnings=(_no_gpu(member.name),) if is_annotated else ())

    stored = _claim_entry(dict(map_of(value_at(old, ("spec", "podSpec")))), [])[1]
    plan, warnings = _plan(member, annotations, stored, findings)
    if plan is None or findings:
        return Injection(findings=tuple(findings))

    position, entry = _claim_entry(pod_spec, findings)
    if findings:
        return Injection(findings=tuple(findings))

    known = entry or stored  # Grove's operator removes the entry from the spec
    mode = (
        claim_mode
        if known is None or scope_of_entry(member, known) is None
        else form_of_entry(known)
    )
    if entry is not None and entry != claim_entry(plan, mode):
        scope = scope_of_entry(member, entry) if entry == stored else None
        if scope is None:
            return Injection(findings=(_name_taken(claim_entry(plan, mode), position, entry),))
        plan = plan_of(member, scope, plan.device_class)

    patch = _operations(pod_spec, None if entry else claim_entry(plan, mode), gpu_containers)

    return Injection(plan, mode, tuple(patch), int_of(spec.get("replicas"), 1), warnings=warnings)


def _plan(
    member: Member, annotations: MnnvlAnnotations, stored: Entry | None, findings: list[FieldError]
) -> tuple[Plan | None, tuple[str, ...]]:
    """Return the plan of a PodClique, None if there are new findings, and warnings.

    If `stored` is its claim before an UPDATE, the plan is that of this claim while the annotations
    are invalid, so that Grove can still scale it.
    """
    problems: list[FieldError] = []
    plan = read_plan(member, annotations, problems)
    scope = scope_of_entry(member, stored)
    if plan is not None or scope is None:
        findings += problems
        return plan, ()

    device_class = device_class_of(annotations)
    kept = plan_of(
        member, scope, device_class if is_device_class(device_class) else DEFAULT_DEVICE_CLASS
    )

    return kept, tuple(
        f"the stored claim of the PodClique stays: {problem}" for problem in problems
    )


def requests_gpus(pod_spec: Mapping[str, Any]) -> bool:
    """Whether a container or init container of a stored `pod_spec` requests a GPU."""
    return bool(_gpu_containers(dict(pod_spec), []))


def _no_gpu(name: str) -> str:
    return (
        f'PodClique "{name}" is annotated {MNNVL_ENABLED}: "true", but no container asks for'
        " nvidia.com/gpu or nvidia.com/mig-*: no claim was injected and no ComputeDomain created"
    )


def _gpu_containers(
    pod_spec: dict[str, Any], findings: list[FieldError]
) -> list[tuple[str, int, dict[str, Any]]]:
    """Return the list name, the position and the content of each container and init container that
    requests a GPU.
    """
    containers: list[tuple[str, int, dict[str, Any]]] = []
    for field in ("initContainers", "containers"):
        for position, item in enumerate(walk_list(pod_spec, field, _POD_SPEC, findings)):
            at = _POD_SPEC.child(field).index(position)
            container = as_map(item, at, findings)
            if container is not None and _requests_gpu(container, at, findings):
                containers.append((field, position, container))
    return containers


def _requests_gpu(container: dict[str, Any], at: FieldPath, findings: list[FieldError]) -> bool:
    resources = walk_map(container, "resources", at, findings)
    if not resources:
        return False
    at = at.child("resources")
    walk_list(resources, "claims", at, findings)
    limits = walk_map(resources, "limits", at, findings)
    requests = walk_map(resources, "requests", at, findings)
    return _has_gpu(limits) or _has_gpu(requests)


def _has_gpu(amounts: dict[str, Any]) -> bool:
    return any(is_gpu(name) and gpu_count(amount) > 0 for name, amount in amounts.items())


def is_gpu(resource: str) -> bool:
    return resource == "nvidia.com/gpu" or resource.startswith("nvidia.com/mig-")


def gpu_count(amount: Any) -> int:
    """Return the number of GPUs in an amount of a container, rounded up, and at most MAX_AMOUNT.

    An amount that is no plain number, such as 1k, counts as one GPU.
    """
    text = str(amount).strip()
    if text.isdecimal() and len(text) < 19:  # much faster, and true for almost all amounts
        return int(text)
    try:
        return ceil(min(max(Decimal(text), Decimal(0)), MAX_AMOUNT))
    except InvalidOperation:
        return 1


def _claim_entry(pod_spec: dict[str, Any], findings: list[FieldError]) -> tuple[int, Entry | None]:
    """Return the position and the content of the entry with the name of our claim, or 0 and
    None.
    """
    for position, entry in enumerate(walk_list(pod_spec, "resourceClaims", _POD_SPEC, findings)):
        if isinstance(entry, dict) and entry.get("name") == CLAIM:
            return position, entry
    return 0, None


def form_of_entry(entry: Entry) -> ClaimMode:
    """Return the form of `entry`, which is a claim of ours."""
    return "shared" if "resourceClaimName" in entry else "template"


def scope_of_entry(member: Member, entry: Entry | None) -> Scope | None:
    """Return the scope for which `entry` is the claim of `member`, in either form.

    None if it is not a claim of ours.
    """
    for scope in possible_scopes(member) if entry is not None else ():
        plan = plan_of(member, scope, "")
        if any(entry == claim_entry(plan, mode) for mode in _MODES):
            return scope
    return None


def _operations(
    pod_spec: dict[str, Any],
    new_entry: Entry | None,
    containers: list[tuple[str, int, dict[str, Any]]],
) -> Iterator[Operation]:
    """Yield the operations that add `new_entry` to the pod spec, and that refer to our claim in
    each container that lacks the reference.
    """
    if new_entry is not None:
        yield _append("/spec/podSpec/resourceClaims", pod_spec.get("resourceClaims"), new_entry)
    for field, position, container in containers:
        claims = container["resources"].get("claims")
        if not any(isinstance(item, dict) and item.get("name") == CLAIM for item in claims or ()):
            yield _append(
                f"/spec/podSpec/{field}/{position}/resources/claims", claims, {"name": CLAIM}
            )


def _append(path: str, current: list[Any] | None, item: Entry) -> Operation:
    """Return the operation that appends `item` to the list `current` at `path`, or that creates
    the list.
    """
    if current is None:
        return {"op": "add", "path": path, "value": [item]}
    return {"op": "add", "path": f"{path}/-", "value": item}


def claim_entry(plan: Plan, mode: ClaimMode) -> Entry:
    """Return the entry of `spec.podSpec.resourceClaims` for `plan`."""
    if mode == "shared":
        return {"name": CLAIM, "resourceClaimName": plan.claim}
    return {"name": CLAIM, "resourceClaimTemplateName": plan.template}


def _name_taken(claim: Entry, position: int, entry: Entry) -> FieldError:
    detail = (
        f'a different claim is already called "{CLAIM}"; rename it, or make it {quote(claim)} to'
        " share this one"
    )
    return invalid(_POD_SPEC.child("resourceClaims").index(position), entry, detail)


def reservation_warning(injection: Injection, pcs: PodCliqueSet | None, group: str) -> str | None:
    """Return a warning if more pods would share one claim than can reserve it.

    If `pcs` is None, only the pods of this PodClique are counted. `group` is the name of its
    scaling group, or "".
    """
    plan = injection.plan
    if plan is None or injection.mode != "shared":
        return None

    pods = (
        max(injection.replicas, _pods_sharing(plan.scope, injection.replicas, pcs, group))
        if pcs
        else injection.replicas
    )
    if pods <= MAX_RESERVED:
        return None

    return (
        f'ResourceClaim "{plan.claim}" would be reserved by {pods} pods, but a claim can be'
        f" reserved by at most {MAX_RESERVED}: the others will stay pending. Use a narrower"
        f" {MNNVL_SCOPE}, or claimMode: template"
    )


def _pods_sharing(scope: Scope, replicas: int, pcs: PodCliqueSet, own_group: str) -> int:
    """Return the number of pods that share a claim of `scope`.

    With scope `replica`, these are the cliques in no scaling group, those of `own_group`, and those
    of groups that inherit that scope.
    """
    if scope == "clique":
        return replicas

    replicas_of = {clique.name: clique.replicas for clique in pcs.cliques}
    pods_of = {
        group.name: sum(replicas_of.get(name, 0) for name in group.cliques) for group in pcs.groups
    }
    if scope == "scalingGroupReplica":
        return pods_of.get(own_group, 0)

    grouped = {name for group in pcs.groups for name in group.cliques}
    alone = sum(replicas_of[name] for name in replicas_of.keys() - grouped)
    sharing = (
        group
        for group in pcs.groups
        if group.name == own_group or _inherits_replica_scope(group, pcs)
    )

    return alone + sum(pods_of[group.name] * group.replicas for group in sharing)


def _inherits_replica_scope(group: Group, pcs: PodCliqueSet) -> bool:
    annotations = group.mnnvl.over(pcs.mnnvl)
    return annotations.enables and (annotations.scope or "replica") == "replica"


def desired_compute_domain(plan: Plan, version: str) -> dict[str, Any]:
    """Return the ComputeDomain of `plan`.

    The API requires `channel`. With `numNodes: 0`, its size is not fixed.
    """
    return {
        "apiVersion": COMPUTE_DOMAIN.api_version(version),
        "kind": COMPUTE_DOMAIN.kind,
        "metadata": _metadata(plan, plan.compute_domain),
        "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": plan.template}}},
    }


def desired_claim(plan: Plan, version: str) -> dict[str, Any]:
    """Return the ResourceClaim of `plan` for the API `version`.

    In v1 and v1beta2, the request is in `exactly`; in v1beta1, it is not nested.
    """
    expression = f'device.attributes["{DEFAULT_DEVICE_CLASS}"].name == "{plan.compute_domain}"'
    request = {
        "deviceClassName": plan.device_class,
        "selectors": [{"cel": {"expression": expression}}],
    }
    fields = request if version == "v1beta1" else {"exactly": request}

    return {
        "apiVersion": RESOURCE_CLAIM.api_version(version),
        "kind": RESOURCE_CLAIM.kind,
        "metadata": _metadata(plan, plan.claim),
        "spec": {"devices": {"requests": [{"name": CLAIM, **fields}]}},
    }


def _metadata(plan: Plan, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": plan.namespace,
        "labels": dict(plan.labels),
        "ownerReferences": [POD_CLIQUE_SET.owner_reference(plan.owner.name, plan.owner.uid)],
    }
