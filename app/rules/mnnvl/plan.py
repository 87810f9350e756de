"""The plan of MNNVL resources.

It says which ComputeDomain and ResourceClaim a PodClique shares, how they are made, and by which
entry its pods refer to them.
"""

from typing import Any, Literal

from app.base.value import Value
from app.facts.grove.annotations import MnnvlAnnotations
from app.facts.kinds import COMPUTE_DOMAIN, POD_CLIQUE_SET
from app.facts.labels import (
    CLIQUE_NAME,
    GROVE_PCS_NAME,
    GROVE_PCS_REPLICA,
    GROVE_PCSG_NAME,
    GROVE_PCSG_REPLICA,
    MANAGED_BY,
    MANAGER,
    MNNVL_DEVICE_CLASS,
    MNNVL_MANAGED,
    MNNVL_SCOPE,
    PCS_NAME,
    PCS_REPLICA,
    PCSG_NAME,
    PCSG_REPLICA,
)
from app.facts.nvidia.mnnvl import CLAIM_SUFFIX, DOMAIN_SUFFIX, TEMPLATE_SUFFIX
from app.facts.place import Place
from app.objects.fields import FieldPath, Findings, invalid, not_supported, required
from app.objects.names import MAX_LABEL, is_subdomain
from app.objects.resource import Resource
from app.objects.shape import JsonMap, Object

ClaimMode = Literal["shared", "template"]
Scope = Literal["replica", "clique", "scalingGroupReplica"]

SCOPES: tuple[Scope, ...] = ("replica", "clique", "scalingGroupReplica")

DEFAULT_DEVICE_CLASS = "compute-domain.nvidia.com"

NO_DEVICE_CLASS = f"must be the name of a DeviceClass, such as {DEFAULT_DEVICE_CLASS}"

CLAIM = "mnnvl"
"""The name of our claim in the pods."""

Entry = JsonMap
"""An item of `spec.podSpec.resourceClaims`."""

_MODES: tuple[ClaimMode, ...] = ("shared", "template")

_LABELS = FieldPath("metadata.labels")

_ANNOTATIONS = FieldPath("metadata.annotations")


class CliqueMember(Value):
    """The parts of a PodClique on which its resources depend.

    These are the names, labels and first owner of the resources: the PodCliqueSet, whose uid is ""
    if it is not known.
    """

    namespace: str
    name: str
    place: Place
    set_uid: str

    def base_of(self, scope: Scope) -> str:
        """Return the text with which the names of the resources begin.

        For the scope `clique`, that is the name of the PodClique, which is unique for each replica.
        """
        place = self.place
        if scope == "clique":
            return self.name
        if scope == "scalingGroupReplica":
            return f"{place.pcs}-{place.replica}-{place.group}-{place.group_replica}"
        return f"{place.pcs}-{place.replica}"


class Plan(Value):
    """The resources that `member` shares with the others of its `scope`.

    `mode` is the form of its claim.
    """

    member: CliqueMember
    scope: Scope
    device_class: str
    mode: ClaimMode = "shared"

    @property
    def namespace(self) -> str:
        return self.member.namespace

    @property
    def set_name(self) -> str:
        """The PodCliqueSet, which is the first owner of the resources."""
        return self.member.place.pcs

    @property
    def set_uid(self) -> str:
        return self.member.set_uid

    @property
    def base_name(self) -> str:
        """The text with which the names of the resources begin."""
        return self.member.base_of(self.scope)

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

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the resources, which name the replica that shares them.

        No label names a PodGang, because Grove replaces PodGangs while pods run.
        """
        place = self.member.place
        labels = {PCS_NAME: place.pcs, PCS_REPLICA: place.replica}
        if self._is_in_group:
            labels |= {PCSG_NAME: place.group, PCSG_REPLICA: place.group_replica}
        if self.scope == "clique":
            labels[CLIQUE_NAME] = _clique_name(self.member)
        labels |= {MNNVL_MANAGED: "true", MANAGED_BY: MANAGER}
        return {key: value for key, value in labels.items() if _as_label(value)}

    def is_at(self, place: Place) -> bool:
        """Return whether `place`, which was read of a resource, is the replica of `labels`."""
        own = self.member.place
        if place.pcs != own.pcs or place.replica != own.replica:
            return False
        if not self._is_in_group:
            return not place.group and not place.group_replica

        group = _as_label(own.group)
        return place.group == group and place.group_replica == _as_label(own.group_replica)

    @property
    def _is_in_group(self) -> bool:
        """Whether the resources belong to one replica of a scaling group."""
        place = self.member.place
        return self.scope != "replica" and bool(place.group and place.group_replica)


def plan_of(
    member: CliqueMember,
    annotations: MnnvlAnnotations,
    stored: Entry | None,
    findings: Findings,
    warnings: list[str],
) -> Plan | None:
    """Return the plan of a PodClique. None if its annotations are invalid, which adds findings.

    If it has a `stored` claim, the plan is that of this claim, with warnings, so that Grove can
    still scale it.
    """
    problems: Findings = []
    plan = read_plan(member, annotations, problems)
    if plan is not None:
        return plan

    plan = read_entry(member, stored, usable_device_class(annotations.device_class))
    if plan is None:
        findings += problems
    else:
        warnings += (f"the stored claim of the PodClique stays: {problem}" for problem in problems)
    return plan


def read_entry(member: CliqueMember, entry: Entry | None, device_class: str) -> Plan | None:
    """Return the plan for which `entry` is the claim of `member`.

    None if it is not a claim of ours, or if a PodClique without these labels can have none.
    """
    place = member.place
    if entry is None or not (place.pcs and place.replica and member.name):
        return None

    scopes: tuple[Scope, ...] = ("replica", "clique")
    if place.group and place.group_replica:
        scopes = SCOPES
    for scope in scopes:
        for mode in _MODES:
            plan = Plan(member, scope, device_class, mode)
            if entry == plan.entry:
                return plan
    return None


def read_plan(
    member: CliqueMember,
    annotations: MnnvlAnnotations,
    findings: Findings,
) -> Plan | None:
    """Return the plan of a PodClique for which `annotations` count.

    Adds problems to `findings`, and returns None if there are any, including earlier ones.
    """
    scope = _scope(annotations, findings)
    _check(member, scope, findings)
    device_class = _device_class(annotations, findings)
    return None if findings else Plan(member, scope, device_class)


def _scope(annotations: MnnvlAnnotations, findings: Findings) -> Scope:
    value = annotations.scope or "replica"
    for scope in SCOPES:
        if value == scope:
            return scope
    findings.append(not_supported(_ANNOTATIONS.key(MNNVL_SCOPE), value, SCOPES))
    return "replica"


def _check(member: CliqueMember, scope: Scope, findings: Findings) -> None:
    """Add findings about labels that `scope` needs and about a name that contradicts them."""
    before = len(findings)
    place = member.place
    name = member.name
    _need(place.pcs, _PCS_LABEL, findings)
    _need(place.replica, _REPLICA_LABEL, findings)
    if scope == "scalingGroupReplica":
        _need(place.group, _GROUP_LABEL, findings)
        _need(place.group_replica, _GROUP_REPLICA_LABEL, findings)

    if not name:
        findings.append(required(FieldPath("metadata.name"), "MNNVL resources are named after it"))
        return

    prefix = f"{place.pcs}-{place.replica}-"
    if len(findings) == before and not name.startswith(prefix):
        detail = f'must begin with "{prefix}", the PodCliqueSet and replica that the labels name'
        findings.append(invalid(FieldPath("metadata.name"), name, detail))

    longest = f"{member.base_of(scope)}{TEMPLATE_SUFFIX}"
    if len(findings) == before and not is_subdomain(longest):
        detail = (
            f'the names of its resources, such as "{longest}", must be DNS subdomains of 253'
            " characters"
        )
        findings.append(invalid(FieldPath("metadata.name"), name, detail))


class _NeededLabel(Value):
    """The label `at` a path that MNNVL needs, and Grove's own one, which can stand in for it.

    `is_index` is whether its value is the index of a replica.
    """

    at: FieldPath
    grove_key: str
    meaning: str
    is_index: bool = False


_PCS_LABEL = _NeededLabel(_LABELS.key(PCS_NAME), GROVE_PCS_NAME, "the name of the PodCliqueSet")
_REPLICA_LABEL = _NeededLabel(
    _LABELS.key(PCS_REPLICA), GROVE_PCS_REPLICA, "the PodCliqueSet replica", True
)
_GROUP_LABEL = _NeededLabel(
    _LABELS.key(PCSG_NAME), GROVE_PCSG_NAME, "the name of the scaling group"
)
_GROUP_REPLICA_LABEL = _NeededLabel(
    _LABELS.key(PCSG_REPLICA), GROVE_PCSG_REPLICA, "the scaling group replica", True
)


def _need(value: str, label: _NeededLabel, findings: Findings) -> None:
    if not value:
        detail = f"{label.meaning} (or Grove's own label {label.grove_key}) is needed for MNNVL"
        findings.append(required(label.at, detail))
        return

    if len(value) > MAX_LABEL:
        findings.append(invalid(label.at, value, f"must be no more than {MAX_LABEL} characters"))
    if label.is_index and not (value.isascii() and value.isdecimal()):
        detail = f"must be the index of {label.meaning}, a number from 0"
        findings.append(invalid(label.at, value, detail))


def _device_class(annotations: MnnvlAnnotations, findings: Findings) -> str:
    value = device_class_of(annotations)
    if not is_device_class(value):
        findings.append(invalid(_ANNOTATIONS.key(MNNVL_DEVICE_CLASS), value, NO_DEVICE_CLASS))
    return str(value)


def device_class_of(annotations: MnnvlAnnotations) -> Any:
    """Return the DeviceClass that `annotations` name, which may be invalid, or the default."""
    return annotations.device_class or DEFAULT_DEVICE_CLASS


def usable_device_class(value: Any) -> str:
    """Return `value` if it can be the name of a DeviceClass, else the default."""
    return str(value) if is_device_class(value) else DEFAULT_DEVICE_CLASS


def is_device_class(value: Any) -> bool:
    """Return whether `value` can be the name of a DeviceClass."""
    return value == DEFAULT_DEVICE_CLASS or (isinstance(value, str) and is_subdomain(value))


def _as_label(value: str) -> str:
    return value if len(value) <= MAX_LABEL else ""


def _clique_name(member: CliqueMember) -> str:
    place = member.place
    name = member.name.removeprefix(f"{place.pcs}-{place.replica}-")
    return name.removeprefix(f"{place.group}-{place.group_replica}-") if place.group else name


def desired_resource(plan: Plan, resource: Resource, version: str) -> Object:
    """Return the ComputeDomain or the ResourceClaim of `plan` for the API `version`."""
    if resource is COMPUTE_DOMAIN:
        name = plan.compute_domain
        spec = _domain_spec(plan)
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
            "ownerReferences": [POD_CLIQUE_SET.owner_reference(plan.set_name, plan.set_uid)],
        },
        "spec": spec,
    }


def _domain_spec(plan: Plan) -> Object:
    """Return the spec of the ComputeDomain.

    The API requires `channel`. With `numNodes: 0`, its size is not fixed.
    """
    return {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": plan.template}}}


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
