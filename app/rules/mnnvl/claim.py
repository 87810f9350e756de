"""The claim that a PodClique needs for MNNVL, and its injection into the pod spec.

Source: `rules/README.md`. `app.cluster.resources` creates the resources.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from msgspec import field

from app.base.value import Value
from app.facts.grove.annotations import MnnvlAnnotations
from app.facts.grove.podcliqueset import PodCliqueSet, ScalingGroup
from app.facts.kubernetes.gpus import has_gpus
from app.facts.labels import MNNVL_ENABLED, MNNVL_SCOPE
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
from app.objects.shape import JsonMap, Object, int_of, map_of
from app.rules.mnnvl.plan import (
    CLAIM,
    ClaimMode,
    Entry,
    Plan,
    device_class_of,
    plan_of,
    read_entry,
)
from app.rules.mnnvl.wanted import CliqueFacts, WrittenClique, own_entry, wanted_by

ConfiguredMode = Literal["auto", "shared", "template"]

_DRIVER_CLASSES = frozenset(
    {"compute-domain-default-channel.nvidia.com", "compute-domain-daemon.nvidia.com"}
)
"""The two DeviceClasses of NVIDIA's driver for ComputeDomains.

It allocates a claim on several nodes only if the claim is made from the template of the
ComputeDomain: https://github.com/NVIDIA/k8s-dra-driver-gpu/tree/22407113/deployments/helm
"""

MAX_RESERVED = 256
"""The most pods that can reserve a ResourceClaim.

Source: `status.reservedFor` in resource.k8s.io.
"""

_ROOT = FieldPath("")
_SPEC = FieldPath("spec")
_POD_SPEC = FieldPath("spec.podSpec")
_CONTAINERS = {field: _POD_SPEC.child(field) for field in ("initContainers", "containers")}


class GpuContainer(Value):
    """A container or init container that asks for a GPU. `path` is its JSON pointer."""

    path: str
    content: Object


class Injection(Value):
    """The result of the rule.

    If `plan` is None, there is nothing to do. Otherwise, `patch` brings its claim into the
    PodClique, and `new_mode` is the form that a new claim would have.
    """

    plan: Plan | None = None
    patch: list[Operation] = field(default_factory=list)
    findings: Findings = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    new_mode: ClaimMode = "shared"


class ClaimingPods(Value):
    """The pods of a PodClique: their spec, their number, and their containers with GPUs."""

    spec: Object
    replicas: int
    with_gpus: list[GpuContainer]


def claim_mode(
    configured: ConfiguredMode,
    annotations: MnnvlAnnotations,
    classes: Collection[str],
) -> ClaimMode:
    """Return the form of the claim of a new PodClique.

    `annotations` name its DeviceClass, and `classes` are the names of those that exist.
    """
    if configured != "auto":
        return configured
    if device_class_of(annotations) in classes or _DRIVER_CLASSES.isdisjoint(classes):
        return "shared"
    return "template"


def inject(
    clique: WrittenClique,
    facts: CliqueFacts,
    configured: ConfiguredMode,
) -> Injection:
    """Return the resources that `clique` needs, and the patch that injects the claim.

    Nothing is needed unless MNNVL is enabled, a container requests GPUs, and the PodClique isn't
    being deleted.

    `configured` is the form of new claims. A stored claim keeps its form and scope, see
    `rules/README.md`. If no container requests a GPU and its own annotation enables MNNVL, there is
    a warning.
    """
    findings: Findings = []
    warnings: list[str] = []
    annotations = wanted_by(clique, facts, findings, warnings)
    metadata = map_of(clique.content.get("metadata"))
    if not annotations.enables or metadata.get("deletionTimestamp") is not None:
        return Injection(findings=findings, warnings=warnings)

    pods = _read_pods(clique.content, findings)
    if not pods.with_gpus and not findings:
        return Injection(warnings=_without_gpus(clique))

    plan = plan_of(clique.member, annotations, clique.stored, findings, warnings)
    if plan is None or findings:
        return Injection(findings=findings)

    new_mode = claim_mode(configured, annotations, facts.classes)
    plan = _with_claim(plan, new_mode, pods, clique.stored, findings)
    if findings:
        return Injection(findings=findings)

    warnings += claim_warnings(plan, pods.replicas, facts)
    return Injection(plan, _operations(pods, plan), warnings=warnings, new_mode=new_mode)


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
    for name, path in _CONTAINERS.items():
        for position, item in enumerate(walk_list(pod_spec, name, _POD_SPEC, findings)):
            at = path.index(position)
            container = as_map(item, at, findings)
            if container is not None and _requests_gpu(container, at, findings):
                containers.append(GpuContainer(f"/spec/podSpec/{name}/{position}", container))
    return containers


def _requests_gpu(container: JsonMap, at: FieldPath, findings: Findings) -> bool:
    resources = walk_map(container, "resources", at, findings)
    if not resources:
        return False
    at = at.child("resources")
    walk_list(resources, "claims", at, findings)
    limits = walk_map(resources, "limits", at, findings)
    requests = walk_map(resources, "requests", at, findings)
    return has_gpus(limits, requests)


def _without_gpus(clique: WrittenClique) -> list[str]:
    if not clique.own.enables:
        return []
    return [
        f'PodClique "{clique.member.name}" is annotated {MNNVL_ENABLED}: "true", but no container'
        " asks for nvidia.com/gpu or nvidia.com/mig-*: no claim was injected and no ComputeDomain"
        " created"
    ]


def _with_claim(
    plan: Plan,
    new_mode: ClaimMode,
    pods: ClaimingPods,
    stored: Entry | None,
    findings: Findings,
) -> Plan:
    """Return the plan of the claim that the pods keep, else `plan` in the form `new_mode`.

    A claim of ours keeps its form. Its scope is kept too if the entry is the `stored` one. Adds a
    finding if another claim has the name of ours.
    """
    claims = walk_list(pods.spec, "resourceClaims", _POD_SPEC, findings)
    entry = own_entry(claims)
    # Grove's operator removes the entry from the spec
    known = read_entry(plan.member, entry or stored, plan.device_class)
    mode = new_mode if known is None else known.mode
    wanted = Plan(plan.member, plan.scope, plan.device_class, mode)
    if entry is None or entry == wanted.entry:
        return wanted
    if known is not None and entry == stored:
        return known

    findings.append(_name_taken(wanted.entry, claims.index(entry), entry))
    return wanted


def _operations(pods: ClaimingPods, plan: Plan) -> list[Operation]:
    """Return the operations that add what is missing.

    This is the entry of `plan` in the pod spec, and a reference to it in each container.
    """
    added: list[Operation] = []
    claims = pods.spec.get("resourceClaims")
    if own_entry(claims or ()) is None:
        added.append(_append("/spec/podSpec/resourceClaims", claims, plan.entry))
    for container in pods.with_gpus:
        used = container.content["resources"].get("claims")
        if own_entry(used or ()) is None:
            added.append(_append(f"{container.path}/resources/claims", used, {"name": CLAIM}))
    return added


def _append(path: str, current: list[Any] | None, item: Entry) -> Operation:
    """Return the operation that appends `item` to the list `current` at `path`.

    It creates the list if there is none.
    """
    if current is None:
        return {"op": "add", "path": path, "value": [item]}
    return {"op": "add", "path": f"{path}/-", "value": item}


def _name_taken(claim: Entry, position: int, entry: Entry) -> FieldError:
    detail = (
        f'a different claim is already called "{CLAIM}"; rename it, or make it {quote(claim)} to'
        " share this one"
    )
    return invalid(_POD_SPEC.child("resourceClaims").index(position), entry, detail)


def unallocatable(awaited: Collection[str], classes: Collection[str]) -> str:
    """Return the first DeviceClass in `awaited` that is not in `classes`.

    "" if the claim can be allocated. If `classes` is empty, the driver is not installed yet, and
    the result is "" too.
    """
    return next((name for name in awaited if classes and name not in classes), "")


def claim_warnings(
    plan: Plan,
    replicas: int,
    facts: CliqueFacts,
) -> Iterator[str]:
    """Yield warnings about the allocation of the claim of `plan`.

    The PodClique has `replicas` pods. If its set is not known, only these are counted.
    """
    if plan.mode != "shared":
        return

    pods = replicas
    if facts.pcs is not None:
        pods = max(pods, _pods_sharing(plan, replicas, facts.pcs))
    if pods > MAX_RESERVED:
        yield (
            f'ResourceClaim "{plan.claim}" would be reserved by {pods} pods, but a claim can be'
            f" reserved by at most {MAX_RESERVED}: the others will stay pending. Use a narrower"
            f" {MNNVL_SCOPE}, or claimMode: template"
        )

    if unallocatable([plan.device_class], facts.classes):
        yield (
            f'ResourceClaim "{plan.claim}" cannot be allocated: DeviceClass'
            f' "{plan.device_class}" does not exist. Create it, name another one in'
            " grove.io/mnnvl-device-class, or use claimMode: template"
        )


def _pods_sharing(plan: Plan, replicas: int, pcs: PodCliqueSet) -> int:
    """Return the number of pods that share the claim of `plan`.

    With scope `replica`, these are the cliques in no scaling group, those of its own group, and
    those of groups that inherit that scope.
    """
    if plan.scope == "clique":
        return replicas

    own_group = plan.member.place.group
    replicas_of = {clique.name: clique.replicas for clique in pcs.cliques}
    if plan.scope == "scalingGroupReplica":
        group = pcs.group_of(own_group)
        return 0 if group is None else _pods_in(group, replicas_of)

    in_no_group = dict(replicas_of)
    pods = 0
    for group in pcs.groups:
        for name in group.cliques:
            in_no_group.pop(name, None)
        if group.name == own_group or _inherits_replica_scope(group, pcs):
            pods += _pods_in(group, replicas_of) * group.replicas

    return pods + sum(in_no_group.values())


def _pods_in(group: ScalingGroup, replicas_of: Mapping[str, int]) -> int:
    """Return the number of pods in one replica of `group`."""
    return sum(replicas_of.get(name, 0) for name in group.cliques)


def _inherits_replica_scope(group: ScalingGroup, pcs: PodCliqueSet) -> bool:
    annotations = group.mnnvl.over(pcs.mnnvl)
    return annotations.enables and (annotations.scope or "replica") == "replica"
