"""What a PodClique or a Pod wants of MNNVL, and the plan of the resources for it.

It wants something by its own annotations, or by those that it inherits. There are two vocabularies,
ours and `grove.io/mnnvl-group` of Grove. They exclude each other in a PodClique, and in a
PodCliqueSet, whose PodCliques would be rejected one by one.

A plan says which ComputeDomain and ResourceClaim are shared, how they are made, and by which entry
pods refer to them.
"""

from collections.abc import Collection, Iterable, Iterator
from sys import intern
from typing import Any, Literal

from msgspec.structs import replace

from app.base.value import Value, shared
from app.facts.carrier import CLAIM, Carrier, Entry, UnitMember
from app.facts.grove.podcliqueset import NO_ANNOTATIONS, MnnvlAnnotations, PodCliqueSet
from app.facts.grove.template import CliqueTemplate, Template, owner_text
from app.facts.kinds import COMPUTE_DOMAIN
from app.facts.labels import MNNVL_DEVICE_CLASS, MNNVL_ENABLED, MNNVL_GROUP, PCSG_REPLICA
from app.facts.named import Place
from app.facts.nvidia.computedomain import CLAIM_SUFFIX, DOMAIN_SUFFIX, TEMPLATE_SUFFIX
from app.objects.fields import FieldError, FieldPath, Findings, forbidden, invalid, quote
from app.objects.names import is_index, is_subdomain
from app.objects.resource import Resource
from app.objects.shape import Object
from app.rules.mnnvl.unit import SCOPES, NvlinkUnit, Scope, scope_of, scopes_of

ClaimMode = Literal["shared", "template"]

DEFAULT_DEVICE_CLASS = "compute-domain.nvidia.com"

NO_DEVICE_CLASS = f"must be the name of a DeviceClass, such as {DEFAULT_DEVICE_CLASS}"

_MODES: tuple[ClaimMode, ...] = ("shared", "template")


class Plan(NvlinkUnit):
    """A unit with the resources that it shares. `mode` is the form of its claim."""

    device_class: str
    mode: ClaimMode = "shared"

    @property
    def namespace(self) -> str:
        return self.member.namespace

    @property
    def is_of_pods(self) -> bool:
        """Whether it is that of Pods that are in no PodClique."""
        return self.member.named is not None

    @property
    def owner(self) -> Resource:
        return self.member.owner

    @property
    def owner_name(self) -> str:
        """The first owner of the resources, such as the PodCliqueSet."""
        return self.member.owner_name

    @property
    def owner_uid(self) -> str:
        return self.member.owner_uid

    @property
    def compute_domain(self) -> str:
        return f"{self.base_name}{DOMAIN_SUFFIX}"

    @property
    def claim(self) -> str:
        return f"{self.base_name}{CLAIM_SUFFIX}"

    @property
    def template(self) -> str:
        """The ResourceClaimTemplate that NVIDIA's driver makes for the ComputeDomain."""
        return f"{self.base_name}{TEMPLATE_SUFFIX}"

    @property
    def entry(self) -> Entry:
        """The entry of the pod spec for the claim."""
        if self.mode == "shared":
            return {"name": CLAIM, "resourceClaimName": self.claim}
        return {"name": CLAIM, "resourceClaimTemplateName": self.template}

    def owned_by(self, owner_uid: str, owner: Resource | None = None) -> "Plan":
        """Return this plan with the object of this uid as the owner.

        It is one of the resource `owner`, if that is given.
        """
        member = self.member
        member = replace(member, owner_uid=owner_uid, owner=owner or member.owner)
        return replace(self, member=member)


def plan_of(
    member: UnitMember,
    annotations: MnnvlAnnotations,
    stored: Entry | None,
    findings: Findings,
    warnings: list[str],
) -> Plan | None:
    """Return the plan of a member. None if its annotations are invalid, which adds findings.

    If it has a `stored` claim, the plan is that of this claim, with warnings, so that Grove can
    still scale it.
    """
    problems: Findings = []
    plan = read_plan(member, annotations, problems)
    if not problems:
        return plan

    kept = read_entry(member, stored, usable_device_class(annotations.device_class))
    if kept is None:
        findings += problems
    else:
        warnings += (f"the stored claim of the PodClique stays: {problem}" for problem in problems)
    return kept


def read_plan(member: UnitMember, annotations: MnnvlAnnotations, findings: Findings) -> Plan:
    """Return the plan of a member for which `annotations` count. Adds problems to `findings`."""
    scope = scope_of(member, annotations, findings)
    device_class = device_class_of(annotations)
    if not is_device_class(device_class):
        path = FieldPath("metadata.annotations").key(MNNVL_DEVICE_CLASS)
        findings.append(invalid(path, device_class, NO_DEVICE_CLASS))
    return Plan(member, scope, str(device_class))


def read_entry(member: UnitMember, entry: Entry | None, device_class: str) -> Plan | None:
    """Return the plan for which `entry` is the claim of `member`.

    None if it is not a claim of ours, or if a member without its labels can have none.
    """
    if entry is None:
        return None

    for scope in scopes_of(member):
        for mode in _MODES:
            plan = Plan(member, scope, device_class, mode)
            if plan.base_name and entry == plan.entry:
                return plan
    return None


def device_class_of(annotations: MnnvlAnnotations) -> Any:
    """Return the DeviceClass that `annotations` name, which may be invalid, or the default."""
    return annotations.device_class or DEFAULT_DEVICE_CLASS


def usable_device_class(value: Any) -> str:
    """Return `value` if it can be the name of a DeviceClass, else the default."""
    return str(value) if is_device_class(value) else DEFAULT_DEVICE_CLASS


def is_device_class(value: Any) -> bool:
    """Return whether `value` can be the name of a DeviceClass."""
    return value == DEFAULT_DEVICE_CLASS or (isinstance(value, str) and is_subdomain(value))


def desired_resource(plan: Plan, resource: Resource, version: str) -> Object:
    """Return the ComputeDomain or the ResourceClaim of `plan` for the API `version`."""
    if resource is COMPUTE_DOMAIN:
        name = plan.compute_domain
        # with `numNodes: 0`, its size is not fixed; the API requires `channel`
        spec = {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": plan.template}}}
    else:
        name = plan.claim
        spec = _claim_spec(plan, version)

    return {
        "apiVersion": resource.api_version(version),
        "kind": resource.kind,
        "metadata": {
            "name": name,
            "namespace": plan.namespace,
            "labels": plan.labels,
            "ownerReferences": [plan.owner_reference],
        },
        "spec": spec,
    }


def _claim_spec(plan: Plan, version: str) -> Object:
    """Return the spec of the ResourceClaim.

    In v1 and v1beta2, the request is in `exactly`; in v1beta1, it is not nested.
    """
    expression = f'device.attributes["{DEFAULT_DEVICE_CLASS}"].name == "{plan.compute_domain}"'
    request = {
        "deviceClassName": plan.device_class,
        "selectors": [{"cel": {"expression": expression}}],
    }
    fields = request if version == "v1beta1" else {"exactly": request}
    return {"devices": {"requests": [{"name": CLAIM, **fields}]}}


# Members with a claim of ours.


class ClaimedMember(UnitMember, kw_only=True):
    """A stored PodClique or Pod that has a claim of ours.

    It needs the resources that its claim names, even if its annotations have changed, because its
    pods can't start without them. Of these, only a usable DeviceClass is kept.
    """

    scope: Scope
    mode: ClaimMode

    @property
    def base_name(self) -> str:
        """The text with which the names of its resources begin."""
        return NvlinkUnit(self, self.scope).base_name


class CliqueFacts(Value):
    """The facts of the cluster on which the verdict on a PodClique depends.

    `pcs` is its set, or None if that is not known. `classes` are the names of the DeviceClasses
    that exist. `reads_groups` is true if Grove reads `grove.io/mnnvl-group`.
    """

    pcs: PodCliqueSet | None = None
    classes: Collection[str] = ()
    reads_groups: bool = False


def claimed(carrier: Carrier) -> ClaimedMember | None:
    """Return what a stored PodClique or Pod needs by its claim, None without a claim of ours."""
    own = carrier.annotations.device_class
    device_class = intern(own) if own and is_device_class(own) else None
    plan = read_entry(carrier, carrier.claim, "")
    if plan is None:
        return None

    return ClaimedMember(
        carrier.namespace,
        carrier.name,
        carrier.place,
        carrier.owner_uid,
        carrier.deleting,
        MnnvlAnnotations(device_class=device_class) if device_class else NO_ANNOTATIONS,
        named=shared(carrier.named),
        controller=shared(carrier.controller),
        scope=plan.scope,
        mode=plan.mode,
    )


def demands_in(cliques: Iterable[object]) -> list[ClaimedMember]:
    """Return those of `cliques` that have a claim of ours."""
    return [clique for clique in cliques if isinstance(clique, ClaimedMember)]


def plan_for(demands: Iterable[ClaimedMember], pcs: PodCliqueSet) -> Plan | None:
    """Return the plan of the resources that `demands` share, which all have the same base name.

    `pcs` owns them. None if no demand of it lasts, so that none should be restored.
    """
    lasting = sorted(
        (demand for demand in demands if demand.is_of(pcs)), key=lambda demand: demand.name
    )
    if not lasting:
        return None

    demand = next((demand for demand in lasting if demand.annotations.device_class), lasting[0])
    annotations = demand.annotations.over(pcs.mnnvl_at(demand.place))
    member = UnitMember(demand.namespace, demand.name, demand.place, pcs.uid)
    is_shared = any(demand.mode == "shared" for demand in lasting)
    return Plan(
        member,
        demand.scope,
        usable_device_class(annotations.device_class),
        "shared" if is_shared else "template",
    )


def wanted_by(
    carrier: Carrier,
    old: Carrier | None,
    facts: CliqueFacts,
    findings: Findings,
    warnings: list[str],
) -> MnnvlAnnotations:
    """Return the annotations that count for `carrier`: its own, or inherited ones.

    `old` is what an UPDATE replaces, or None. If Grove reads groups, annotations of both
    vocabularies are rejected, and none counts. If `old` already has both, it is allowed without a
    claim of ours, so that Grove can still change and delete it.
    """
    inherited = inherited_by(carrier, old, facts.pcs)
    annotations = carrier.annotations.over(inherited)
    if not (facts.reads_groups and has_both(carrier, annotations)):
        return annotations

    conflict = _both(FieldPath("metadata.annotations"), carrier.foreign_group)
    if old is None or not has_both(old, old.annotations.over(inherited)):
        findings.append(conflict)
    else:
        warnings.append(f"no claim was injected: {conflict}")
    return NO_ANNOTATIONS


def inherited_by(
    carrier: Carrier, old: Carrier | None, pcs: PodCliqueSet | None
) -> MnnvlAnnotations:
    """Return the annotations that `carrier` inherits from its scaling group and `pcs`.

    If the set is not known, these are the annotations for which the stored one got its claim.
    """
    if pcs is not None:
        return pcs.mnnvl_at(carrier.place)

    stored = None if old is None else claimed(old)
    if stored is None:
        return NO_ANNOTATIONS
    return MnnvlAnnotations("true", stored.scope, stored.annotations.device_class)


def has_both(member: UnitMember, annotations: MnnvlAnnotations) -> bool:
    """Return whether our `annotations`, its own or inherited, and a group of Grove both apply."""
    return annotations.enables and bool(member.foreign_group)


def both_in_set(template: Template) -> Iterator[FieldError]:
    """Yield a finding for each part of a set to which both vocabularies apply."""
    reported: set[int] = set()
    for part in template.parts:
        if part.enabled and part.group:
            reported.add(id(part))
            yield _both(part.annotations_path, part.group)

    for clique in template.cliques:
        enabling = clique.enabling
        if (
            enabling is not None
            and clique.mnnvl_group
            and not any(id(part) in reported for part in clique.parts)
        ):
            reason = f"{owner_text(enabling.owner)} has {MNNVL_ENABLED}"
            yield _both(clique.parts[0].annotations_path, clique.mnnvl_group, reason)


def _both(path: FieldPath, group: str, reason: str = "") -> FieldError:
    cause = f" ({reason})" if reason else ""
    named = quote(group)
    return forbidden(
        path,
        f'{MNNVL_ENABLED}: "true" and {MNNVL_GROUP}: {named} exclude each other{cause}, because'
        f" each pod would get two claims for one NVLink channel. Keep {MNNVL_GROUP} if Grove"
        f" manages MNNVL here (autoMNNVLEnabled), and {MNNVL_ENABLED} otherwise; {MNNVL_GROUP}:"
        ' "none" takes a clique out of a group',
    )


def asks_for(template: Template, plan: Plan) -> bool:
    """Return whether a clique of `template` asks for the resources of `plan`, with the same labels.

    A review of a PodClique that is created proves nothing: nothing is stored yet that it could be
    compared with, and anybody who reaches the port can send one. So the webhook creates only what
    the template of the stored set asks for, and the leader the rest when the PodClique is stored.

    Scaling groups count as the template has them: one that was scaled out has replicas of which the
    template knows nothing.
    """
    if not is_index(plan.member.place.replica, template.replicas):
        return False

    asked = (_plan_of(clique, template, plan) for clique in template.cliques)
    return any(_shape(plan) == _shape(other) for other in asked if other is not None)


def _shape(plan: Plan) -> tuple[object, ...]:
    return plan.scope, plan.base_name, plan.device_class, plan.labels


def _plan_of(clique: CliqueTemplate, template: Template, plan: Plan) -> Plan | None:
    """Return the plan of `clique` in the replica of `plan`, or None if it asks for none."""
    scope = next((scope for scope in SCOPES if scope == clique.scope), None)
    if scope is None or clique.enabling is None or not clique.gpus:
        return None

    place = Place(template.name, plan.member.place.replica)
    base = f"{place.pcs}-{place.replica}"
    group = clique.group
    if group is not None:
        # Resources of a whole replica are named without the replica of a scaling group.
        index = plan.labels.get(PCSG_REPLICA, "0")
        if not is_index(index, group.replicas):
            return None
        place = Place(place.pcs, place.replica, group.name, index)
        base = f"{base}-{group.name}-{index}"

    member = UnitMember(plan.namespace, f"{base}-{clique.name}", place, plan.owner_uid)
    device_class = clique.value_of(MNNVL_DEVICE_CLASS) or DEFAULT_DEVICE_CLASS
    return Plan(member, scope, str(device_class))
