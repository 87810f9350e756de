"""Decide which MNNVL claim a PodClique or a Pod needs, and inject it into the pod spec.

A PodClique has its own annotations and inherits others. It cannot use both our annotations and
Grove's `grove.io/mnnvl-group`.

Source: `rules/README.md`. `app.cluster.resources` creates the resources.
"""

from collections.abc import Collection, Iterator
from typing import Any, Literal

from msgspec import field
from msgspec.structs import replace

from app.base.sentences import upper_first
from app.base.value import Value
from app.facts.grove.podcliqueset import (
    NO_ANNOTATIONS,
    MnnvlAnnotations,
    PodCliqueSet,
)
from app.facts.grove.unit_member import CLAIM, Carrier, Entry, claim_named
from app.facts.kinds import POD_CLIQUE
from app.facts.labels import MNNVL_DEVICE_CLASS, MNNVL_ENABLED, MNNVL_GROUP, MNNVL_SCOPE
from app.objects.fields import FieldError, FieldPath, Findings, forbidden, invalid, quote
from app.objects.jsonpatch import Operation
from app.objects.resource import POD
from app.rules.mnnvl.claim_holders import claimed
from app.rules.mnnvl.plan import (
    DEFAULT_DEVICE_CLASS,
    ClaimMode,
    Plan,
    read_entry,
    read_plan,
    usable_device_class,
)

ConfiguredMode = Literal["auto", "shared", "template"]
"""The configured form of new claims (`mnnvl.claimMode`)."""

CHANNEL_CLASS = "compute-domain-default-channel.nvidia.com"
"""The DeviceClass of NVIDIA's driver for the channel of a node."""

DAEMON_CLASS = "compute-domain-daemon.nvidia.com"
_DRIVER_CLASSES = frozenset({CHANNEL_CLASS, DAEMON_CLASS})
"""The two DeviceClasses of NVIDIA's driver for ComputeDomains.

The driver serves pods on several nodes only if their claims are created from the template of the
ComputeDomain: https://github.com/NVIDIA/k8s-dra-driver-gpu/tree/22407113/deployments/helm
"""

MAX_RESERVED = 256
"""The maximum number of pods that can reserve a ResourceClaim.

Source: `status.reservedFor` in resource.k8s.io.
"""


class CliqueFacts(Value):
    """The facts of the cluster on which the verdict on a PodClique depends."""

    pcs: PodCliqueSet | None = None
    """The PodCliqueSet of the PodClique, or None if that is not known."""
    classes: Collection[str] = ()
    """The names of the existing DeviceClasses."""
    reads_groups: bool = False
    """Whether Grove reads `grove.io/mnnvl-group`."""


class Injection(Value):
    """The result of `inject` for a PodClique or a Pod."""

    plan: Plan | None = None
    """The plan of the resources that the object needs, or None if it needs none."""
    patch: list[Operation] = field(default_factory=list)
    """The operations that add the claim of the plan."""
    findings: Findings = field(default_factory=list)
    """The reasons to reject the object."""
    warnings: list[str] = field(default_factory=list)
    new_mode: ClaimMode = "shared"
    """The form that a new claim would have, if there is a plan."""


def inject(
    carrier: Carrier, old: Carrier | None, facts: CliqueFacts, configured_mode: ConfiguredMode
) -> Injection:
    """Return the resources that `carrier` needs, and the patch that injects the claim.

    Nothing is needed unless MNNVL is enabled, a container requests GPUs, and the object is not
    being deleted. `old` is the object that an UPDATE replaces, or None.

    `configured_mode` is the form of new claims. A stored claim keeps its form, and also its scope
    until Grove writes the pod spec again. If no container requests a GPU, but `carrier` has an
    annotation that enables MNNVL, there is a warning.
    """
    inherited = inherited_by(carrier, old, facts.pcs)
    annotations = carrier.annotations.over(inherited)
    if facts.reads_groups and annotations.enables and carrier.foreign_group:
        conflict = both_vocabularies(FieldPath("metadata.annotations"), carrier.foreign_group)
        if old is not None and old.foreign_group and old.annotations.over(inherited).enables:
            # the conflict is already stored, and Grove must still be able to change the object
            return Injection(warnings=[f"no claim was injected: {conflict}"])
        return Injection(findings=[conflict])
    if not annotations.enables or carrier.deleting:
        return Injection()
    if not carrier.containers and not carrier.findings:
        return Injection(warnings=_without_gpus(carrier))

    findings = list(carrier.findings)
    warnings: list[str] = []
    stored = None if old is None else old.claim
    plan, problems = read_plan(carrier, annotations)
    if problems:
        # keep the plan of a stored claim, so that Grove can still scale the PodClique
        kept = read_entry(carrier, stored, usable_device_class(annotations.device_class))
        if kept is None:
            known = {finding.field for finding in findings}
            others = [problem for problem in problems if problem.field not in known]
            return Injection(findings=[*findings, *others])
        plan = kept
        warnings += (f"the PodClique keeps its stored claim: {problem}" for problem in problems)
    if findings:
        return Injection(findings=findings)

    new_mode = claim_mode(configured_mode, annotations, facts.classes)
    plan = _with_claim(plan, new_mode, carrier, stored)
    if carrier.claim is not None and carrier.claim != plan.entry:
        position = (carrier.claims or []).index(carrier.claim)
        at = carrier.pod_spec.child("resourceClaims").index(position)
        detail = (
            f'another claim already has the name "{CLAIM}": rename that claim, or set it to'
            f" {quote(plan.entry)} to share the claim of grove-admission"
        )
        return Injection(findings=[invalid(at, carrier.claim, detail)])

    warnings += claim_warnings(plan, carrier.replicas, facts)
    return Injection(plan, _operations(carrier, plan), warnings=warnings, new_mode=new_mode)


def inherited_by(
    carrier: Carrier, old: Carrier | None, pcs: PodCliqueSet | None
) -> MnnvlAnnotations:
    """Return the annotations that `carrier` inherits from its scaling group and `pcs`.

    If the set is not known, these are the annotations that gave the stored object its claim, or
    none if it has no claim.
    """
    if pcs is not None:
        return pcs.mnnvl_at(carrier.place)

    stored = None if old is None else claimed(old)
    if stored is None:
        return NO_ANNOTATIONS
    return MnnvlAnnotations("true", stored.scope, stored.annotations.device_class)


def both_vocabularies(path: FieldPath, group: str, reason: str = "") -> FieldError:
    """Return the finding that our annotation and a group of Grove apply to the same pods."""
    cause = f" ({reason})" if reason else ""
    named = quote(group)
    return forbidden(
        path,
        f'{MNNVL_ENABLED}: "true" and {MNNVL_GROUP}: {named} exclude each other{cause}: each pod'
        f" would get two claims for one NVLink channel. Keep {MNNVL_GROUP} if Grove manages MNNVL"
        f" in this cluster (autoMNNVLEnabled), otherwise keep {MNNVL_ENABLED}. {MNNVL_GROUP}:"
        ' "none" removes a clique from a group',
    )


def _without_gpus(carrier: Carrier) -> list[str]:
    if not carrier.annotations.enables:
        return []
    kind = POD_CLIQUE.kind if carrier.named is None else POD.kind
    # A Pod gets its name later if its controller only writes a prefix (generateName).
    it = f'{kind} "{carrier.name}"' if carrier.name else f"the {kind}"
    return [
        f'{it} has the annotation {MNNVL_ENABLED}: "true", but no container'
        " requests nvidia.com/gpu or nvidia.com/mig-*: no claim was injected and no ComputeDomain"
        " was created"
    ]


def claim_mode(
    configured_mode: ConfiguredMode, annotations: MnnvlAnnotations, classes: Collection[str]
) -> ClaimMode:
    """Return the form of the claim of a new PodClique.

    `annotations` name the DeviceClass of the claim, and `classes` are the names of all
    DeviceClasses. With `auto`, the form is `template` if the DeviceClass of the claim does not
    exist, but one of NVIDIA's driver for ComputeDomains does.
    """
    if configured_mode != "auto":
        return configured_mode
    device_class = annotations.device_class or DEFAULT_DEVICE_CLASS
    if device_class in classes or _DRIVER_CLASSES.isdisjoint(classes):
        return "shared"
    return "template"


def _with_claim(plan: Plan, new_mode: ClaimMode, carrier: Carrier, stored: Entry | None) -> Plan:
    """Return the plan of the claim that the pods keep, or else `plan` in the form `new_mode`.

    Our existing claim keeps its form, and also its scope if it is the `stored` entry.
    """
    entry = carrier.claim
    # Grove's operator resets the spec to its template, which has no entry
    known = read_entry(carrier, entry or stored, plan.device_class)
    wanted = replace(plan, mode=new_mode if known is None else known.mode)
    if entry is None or entry == wanted.entry:
        return wanted
    if known is not None and entry == stored:
        return known
    return wanted


def claim_warnings(plan: Plan, replicas: int, facts: CliqueFacts) -> Iterator[str]:
    """Yield warnings about the allocation of the claim of `plan`.

    The PodClique has `replicas` pods. If its PodCliqueSet is not known, only these pods are
    counted. There are no warnings about a claim in the form `template`.
    """
    if plan.mode != "shared":
        return

    pods = replicas
    if facts.pcs is not None:
        pods = max(pods, _pods_sharing(plan, replicas, facts.pcs))
    if pods > MAX_RESERVED:
        remedies = []
        if plan.scope != "clique" and replicas <= MAX_RESERVED:
            remedies.append(f"set {MNNVL_SCOPE}: clique")
        if _may_have_templates(facts.classes):
            remedies.append("ask the platform team to set mnnvl.claimMode: template")
        remedy = f"Use at most {MAX_RESERVED} pods"
        if remedies:
            steps = ", or ".join(remedies)
            remedy = f"{upper_first(steps)}. Then {_DELETE}"
        yield (
            f'ResourceClaim "{plan.claim}" would be reserved by {pods} pods, but a claim can be'
            f" reserved by at most {MAX_RESERVED}: the other pods will stay pending. {remedy}"
        )

    if unallocatable([plan.device_class], facts.classes):
        modes = ", or set mnnvl.claimMode: template," if _may_have_templates(facts.classes) else ""
        yield (
            f'ResourceClaim "{plan.claim}" cannot be allocated: DeviceClass'
            f' "{plan.device_class}" does not exist. Create that DeviceClass. Or name an existing'
            f" one in {MNNVL_DEVICE_CLASS}{modes} and then {_DELETE}"
        )


def _may_have_templates(classes: Collection[str]) -> bool:
    """Return whether NVIDIA's driver, which creates the templates of claims, may be installed."""
    return not classes or not _DRIVER_CLASSES.isdisjoint(classes)


_DELETE = "delete the PodClique, so that Grove creates it again with another claim"


def _pods_sharing(plan: Plan, replicas: int, pcs: PodCliqueSet) -> int:
    """Return the number of pods that may share the claim of `plan`.

    Cliques that have no GPUs, opt out of MNNVL or set another scope are not counted. With scope
    `replica`, the claim is shared by the cliques outside of scaling groups, those of the plan's own
    group, and those of other groups that have MNNVL in this scope.
    """
    if plan.scope == "clique":
        return replicas

    pods_of = {
        clique.name: clique.replicas
        for clique in pcs.cliques
        if clique.has_gpus and not clique.mnnvl.refuses and clique.mnnvl.scope in (None, plan.scope)
    }
    own_group = plan.member.place.group
    if plan.scope == "scalingGroupReplica":
        group = pcs.group_of(own_group)
        return 0 if group is None else sum([pods_of.get(name, 0) for name in group.cliques])

    total = 0
    for group in pcs.groups:
        pods = sum([pods_of.pop(name, 0) for name in group.cliques])  # in one replica of the group
        annotations = group.mnnvl.over(pcs.mnnvl)
        inherits = annotations.enables and (annotations.scope or "replica") == "replica"
        if group.name == own_group or inherits:
            total += pods * group.replicas
    return total + sum(pods_of.values())  # of the cliques outside of groups


def unallocatable(awaited: Collection[str], classes: Collection[str]) -> str:
    """Return the first DeviceClass in `awaited` that does not exist, or "" if all exist.

    `classes` are the names of all DeviceClasses. If there are none, the result is "", because a
    driver may not be installed yet.
    """
    missing = [name for name in awaited if name not in classes] if classes else []
    return missing[0] if missing else ""


def _operations(carrier: Carrier, plan: Plan) -> list[Operation]:
    """Return the operations that add the claim of `plan` to the pod spec and to each GPU container.

    An entry that exists already is not added again.
    """
    operations = _added(f"{carrier.pointer}/resourceClaims", carrier.claims, plan.entry)
    for container in carrier.containers:
        path = f"{container.pointer}/resources/claims"
        operations += _added(path, container.claims, {"name": CLAIM})
    return operations


def _added(path: str, claims: list[Any] | None, entry: Entry) -> list[Operation]:
    """Return the operation that appends `entry` to `claims`, the list at `path`.

    The result is empty if the list already has an entry with the name of our claim.
    """
    if claims is None:
        return [{"op": "add", "path": path, "value": [entry]}]
    if claim_named(claims, CLAIM) is None:
        return [{"op": "add", "path": f"{path}/-", "value": entry}]
    return []
