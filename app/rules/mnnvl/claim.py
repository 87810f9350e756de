"""The claim that a PodClique needs for MNNVL, and its injection into the pod spec.

Source: `rules/README.md`. `app.cluster.resources` creates the resources.
"""

from collections.abc import Collection, Iterator
from typing import Any, Literal, NamedTuple

from app.facts.grove.annotations import NO_ANNOTATIONS, MnnvlAnnotations, read_mnnvl
from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.kubernetes.gpus import gpu_count, is_gpu
from app.facts.labels import MNNVL_ENABLED
from app.objects.fields import (
    FieldError,
    FieldPath,
    Findings,
    as_map,
    invalid,
    quote,
    walk_list,
    walk_map,
)
from app.objects.jsonpatch import Operation
from app.objects.metadata import annotations_of
from app.objects.shape import JsonMap, Object, int_of, map_at, map_of
from app.rules.mnnvl.plan import (
    DEFAULT_DEVICE_CLASS,
    ClaimMode,
    CliqueMember,
    Plan,
    Scope,
    device_class_of,
    is_device_class,
    possible_scopes,
    read_member,
    read_plan,
)
from app.rules.mnnvl.wanted import both_in_clique

CLAIM = "mnnvl"

ConfiguredMode = Literal["auto", "shared", "template"]

_DRIVER_CLASSES = frozenset(
    {"compute-domain-default-channel.nvidia.com", "compute-domain-daemon.nvidia.com"}
)
"""The two DeviceClasses of NVIDIA's driver for ComputeDomains.

It allocates a claim on several nodes only if the claim is made from the template of the
ComputeDomain: https://github.com/NVIDIA/k8s-dra-driver-gpu/tree/22407113/deployments/helm
"""

_MODES: tuple[ClaimMode, ...] = ("shared", "template")
_ROOT = FieldPath("")
_SPEC = FieldPath("spec")
_POD_SPEC = FieldPath("spec.podSpec")
_CONTAINERS = {field: _POD_SPEC.child(field) for field in ("initContainers", "containers")}

Entry = JsonMap
"""An item of `spec.podSpec.resourceClaims`."""


class GpuContainer(NamedTuple):
    """A container or init container that asks for a GPU.

    `field` is the name of its list, and `position` its place there.
    """

    field: str
    position: int
    content: Object


class WrittenClique(NamedTuple):
    """A PodClique that is written, read once for a verdict.

    `old` is the object that an UPDATE replaces, and `stored` its claim of ours, or None. `own` are
    the annotations of the PodClique itself.
    """

    content: JsonMap
    old: JsonMap | None
    member: CliqueMember
    own: MnnvlAnnotations
    stored: Entry | None


class ClaimTerms(NamedTuple):
    """What decides about claims beside the PodClique and its set.

    `configured` is the form of new claims, `classes` are the names of the DeviceClasses that exist,
    and `reads_groups` is whether Grove reads `grove.io/mnnvl-group`.
    """

    configured: ConfiguredMode
    classes: Collection[str]
    reads_groups: bool


class Injection(NamedTuple):
    """The result of the rule.

    If `plan` is None, there is nothing to do. Otherwise, `mode` is the form of the claim, and
    `new_mode` that of a new one. `patch` brings it into the PodClique, whose pods are `replicas`.
    """

    plan: Plan | None = None
    mode: ClaimMode = "shared"
    patch: tuple[Operation, ...] = ()
    replicas: int = 1
    findings: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()
    new_mode: ClaimMode = "shared"


class ClaimingPods(NamedTuple):
    """The pods of a PodClique: their spec, their number, and their containers with GPUs."""

    spec: Object
    replicas: int
    with_gpus: list[GpuContainer]


class ChosenClaim(NamedTuple):
    """The claim of a PodClique: its plan, its form, and the entry that its pods lack, or None."""

    plan: Plan
    mode: ClaimMode
    missing: Entry | None = None


def read_written(obj: JsonMap, old: JsonMap | None, namespace: str) -> WrittenClique:
    """Read the PodClique `obj`. `old` is the object that an UPDATE replaces, or None."""
    stored = None
    if old is not None:
        stored = _claim_entry(dict(map_at(old, "spec", "podSpec")), [])[1]

    own = read_mnnvl(annotations_of(obj))
    return WrittenClique(obj, old, read_member(obj, namespace), own, stored)


def injection_for(clique: WrittenClique, pcs: PodCliqueSet | None, terms: ClaimTerms) -> Injection:
    """Return the injection into `clique`, of whose set `pcs` is None if it is not known."""
    inherited = inherited_by(clique, pcs)
    annotations = clique.own.over(inherited)
    if terms.reads_groups:
        conflict = both_in_clique(clique.content, annotations)
        if conflict is not None:
            return _rejected(clique, conflict, inherited)

    return inject(clique, annotations, claim_mode(terms.configured, annotations, terms.classes))


def _rejected(
    clique: WrittenClique, conflict: FieldError, inherited: MnnvlAnnotations
) -> Injection:
    """Reject annotations of both vocabularies.

    If the stored PodClique already has both, it is allowed without a claim of ours, so that Grove
    can still change and delete it.
    """
    if clique.old is not None:
        stored = read_mnnvl(annotations_of(clique.old)).over(inherited)
        if both_in_clique(clique.old, stored) is not None:
            return Injection(warnings=(f"no claim was injected: {conflict}",))
    return Injection(findings=(conflict,))


def inherited_by(clique: WrittenClique, pcs: PodCliqueSet | None) -> MnnvlAnnotations:
    """Return the annotations that `clique` inherits from its scaling group and `pcs`.

    If the set is not known, these are the annotations for which the stored PodClique got its claim.
    """
    if pcs is not None:
        return pcs.mnnvl_at(clique.member.place)
    if clique.old is None:
        return NO_ANNOTATIONS

    scope = scope_of_entry(read_member(clique.old, clique.member.namespace), clique.stored)
    if scope is None:
        return NO_ANNOTATIONS

    device_class = read_mnnvl(annotations_of(clique.old)).device_class
    if not is_device_class(device_class):
        device_class = None
    return MnnvlAnnotations("true", scope, device_class)


def claim_mode(
    configured: ConfiguredMode, annotations: MnnvlAnnotations, classes: Collection[str]
) -> ClaimMode:
    """Return the form of the claim of a new PodClique.

    `annotations` name its DeviceClass, and `classes` are the names of those that exist.
    """
    if configured != "auto":
        return configured
    if device_class_of(annotations) in classes or _DRIVER_CLASSES.isdisjoint(classes):
        return "shared"
    return "template"


def inject(clique: WrittenClique, annotations: MnnvlAnnotations, new_mode: ClaimMode) -> Injection:
    """Return the resources that `clique` needs, and the patch that injects the claim.

    Nothing is needed unless MNNVL is enabled, a container requests GPUs, and the PodClique isn't
    being deleted.

    `annotations` are those that count for it, its own or inherited. `new_mode` is the form of a new
    claim; a stored claim keeps its form and scope, see `rules/README.md`. If no container requests
    a GPU and its own annotation enables MNNVL, there is a warning.
    """
    metadata = map_of(clique.content.get("metadata"))
    if not annotations.enables or metadata.get("deletionTimestamp") is not None:
        return Injection()

    findings: Findings = []
    pods = _read_pods(clique.content, findings)
    if not pods.with_gpus and not findings:
        return Injection(warnings=_without_gpus(clique))

    plan, warnings = _plan(clique, annotations, findings)
    if plan is None or findings:
        return Injection(findings=tuple(findings))

    claim = _choose_claim(plan, new_mode, pods, clique.stored, findings)
    if findings:
        return Injection(findings=tuple(findings))

    patch = tuple(_operations(pods, claim.missing))

    return Injection(
        claim.plan,
        claim.mode,
        patch,
        pods.replicas,
        warnings=warnings,
        new_mode=new_mode,
    )


def _read_pods(obj: JsonMap, findings: Findings) -> ClaimingPods:
    spec = walk_map(obj, "spec", _ROOT, findings)
    pod_spec = walk_map(spec, "podSpec", _SPEC, findings)
    replicas = int_of(spec.get("replicas"), 1)
    return ClaimingPods(pod_spec, replicas, _gpu_containers(pod_spec, findings))


def requests_gpus(pod_spec: JsonMap) -> bool:
    """Return whether a container or init container of a stored `pod_spec` requests a GPU."""
    return bool(_gpu_containers(dict(pod_spec), []))


def _gpu_containers(pod_spec: JsonMap, findings: Findings) -> list[GpuContainer]:
    """Return the containers and init containers that request a GPU."""
    containers: list[GpuContainer] = []
    for field, path in _CONTAINERS.items():
        for position, item in enumerate(walk_list(pod_spec, field, _POD_SPEC, findings)):
            at = path.index(position)
            container = as_map(item, at, findings)
            if container is not None and _requests_gpu(container, at, findings):
                containers.append(GpuContainer(field, position, container))
    return containers


def _requests_gpu(container: JsonMap, at: FieldPath, findings: Findings) -> bool:
    resources = walk_map(container, "resources", at, findings)
    if not resources:
        return False
    at = at.child("resources")
    walk_list(resources, "claims", at, findings)
    limits = walk_map(resources, "limits", at, findings)
    requests = walk_map(resources, "requests", at, findings)
    return _has_gpu(limits) or _has_gpu(requests)


def _has_gpu(amounts: JsonMap) -> bool:
    return any(is_gpu(name) and gpu_count(amount) > 0 for name, amount in amounts.items())


def _without_gpus(clique: WrittenClique) -> tuple[str, ...]:
    if not clique.own.enables:
        return ()
    return (
        f'PodClique "{clique.member.name}" is annotated {MNNVL_ENABLED}: "true", but no container'
        " asks for nvidia.com/gpu or nvidia.com/mig-*: no claim was injected and no ComputeDomain"
        " created",
    )


def _plan(
    clique: WrittenClique, annotations: MnnvlAnnotations, findings: Findings
) -> tuple[Plan | None, tuple[str, ...]]:
    """Return the plan of a PodClique, None if there are new findings, and warnings.

    If it has a stored claim, the plan is that of this claim while the annotations are invalid, so
    that Grove can still scale it.
    """
    problems: Findings = []
    plan = read_plan(clique.member, annotations, problems)
    if plan is not None:
        return plan, ()

    scope = scope_of_entry(clique.member, clique.stored)
    if scope is None:
        findings += problems
        return None, ()

    device_class = device_class_of(annotations)
    if not is_device_class(device_class):
        device_class = DEFAULT_DEVICE_CLASS
    warnings = (f"the stored claim of the PodClique stays: {problem}" for problem in problems)
    return Plan(clique.member, scope, device_class), tuple(warnings)


def _choose_claim(
    plan: Plan,
    new_mode: ClaimMode,
    pods: ClaimingPods,
    stored: Entry | None,
    findings: Findings,
) -> ChosenClaim:
    """Return the claim that the pods keep, else that of `plan` in the form `new_mode`.

    A claim of ours keeps its form. Its scope is kept too if the entry is the `stored` one. Adds a
    finding if another claim has the name of ours.
    """
    position, entry = _claim_entry(pods.spec, findings)
    known = entry or stored  # Grove's operator removes the entry from the spec
    scope = scope_of_entry(plan.member, known)
    mode = new_mode if known is None or scope is None else form_of_entry(known)
    wanted = claim_entry(plan, mode)
    if entry is None:
        return ChosenClaim(plan, mode, wanted)

    if entry != wanted and (scope is None or entry != stored):
        findings.append(_name_taken(wanted, position, entry))
    elif entry != wanted and scope is not None:
        plan = Plan(plan.member, scope, plan.device_class)
    return ChosenClaim(plan, mode)


def _claim_entry(pod_spec: JsonMap, findings: Findings) -> tuple[int, Entry | None]:
    """Return the position and the content of the entry with the name of our claim.

    Without one, they are 0 and None.
    """
    for position, entry in enumerate(walk_list(pod_spec, "resourceClaims", _POD_SPEC, findings)):
        if isinstance(entry, dict) and entry.get("name") == CLAIM:
            return position, entry
    return 0, None


def form_of_entry(entry: Entry) -> ClaimMode:
    """Return the form of `entry`, which is a claim of ours."""
    return "shared" if "resourceClaimName" in entry else "template"


def scope_of_entry(member: CliqueMember, entry: Entry | None) -> Scope | None:
    """Return the scope for which `entry` is the claim of `member`, in either form.

    None if it is not a claim of ours.
    """
    for scope in possible_scopes(member) if entry is not None else ():
        plan = Plan(member, scope, "")
        if any(entry == claim_entry(plan, mode) for mode in _MODES):
            return scope
    return None


def _operations(pods: ClaimingPods, missing: Entry | None) -> Iterator[Operation]:
    """Yield the operations that add the `missing` entry to the pod spec.

    They also refer to our claim in each container that lacks the reference.
    """
    if missing is not None:
        yield _append("/spec/podSpec/resourceClaims", pods.spec.get("resourceClaims"), missing)
    for field, position, container in pods.with_gpus:
        claims = container["resources"].get("claims")
        if not any(isinstance(item, dict) and item.get("name") == CLAIM for item in claims or ()):
            yield _append(
                f"/spec/podSpec/{field}/{position}/resources/claims", claims, {"name": CLAIM}
            )


def _append(path: str, current: list[Any] | None, item: Entry) -> Operation:
    """Return the operation that appends `item` to the list `current` at `path`.

    It creates the list if there is none.
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
