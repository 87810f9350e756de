"""Plan the MNNVL resources that a PodClique or Pod shares with its unit.

A plan has the names and the content of a ComputeDomain and, in the form `shared`, of a
ResourceClaim. It also has the entry by which pods refer to the claim.
"""

from typing import Any, Literal

from msgspec.structs import replace

from app.facts.grove.podcliqueset import MnnvlAnnotations, PodCliqueSet
from app.facts.grove.unit_member import CLAIM, Entry, UnitMember
from app.facts.identity import Place
from app.facts.kinds import COMPUTE_DOMAIN
from app.facts.labels import MNNVL_DEVICE_CLASS, MNNVL_SCOPE, PCSG_REPLICA
from app.facts.nvidia.computedomain import CLAIM_SUFFIX, DOMAIN_SUFFIX, TEMPLATE_SUFFIX
from app.objects.fields import FieldPath, Findings, invalid, not_supported
from app.objects.names import is_index, is_subdomain
from app.objects.resource import Resource
from app.objects.shape import Object
from app.rules.mnnvl.unit import NvlinkUnit, unit_problems

ClaimMode = Literal["shared", "template"]
"""The form of a claim: one claim for all pods of a unit, or one for each pod from a template."""

DEFAULT_DEVICE_CLASS = "compute-domain.nvidia.com"

NO_DEVICE_CLASS = f"must be the name of a DeviceClass, such as {DEFAULT_DEVICE_CLASS}"

_MODES: tuple[ClaimMode, ...] = ("shared", "template")

_ANNOTATIONS = FieldPath("metadata.annotations")


class Plan(NvlinkUnit):
    """A unit, and the resources that its members share."""

    device_class: str
    """The DeviceClass of the ResourceClaim in the form `shared`."""
    mode: ClaimMode = "shared"
    """The form of the claim, `shared` or `template`."""

    @property
    def namespace(self) -> str:
        """The namespace of the members and the resources."""
        return self.member.namespace

    @property
    def is_of_pods(self) -> bool:
        """Whether the members are Pods outside of PodCliques."""
        return self.member.named is not None

    @property
    def owner(self) -> Resource:
        """The resource of the owner of new resources, such as `podcliquesets`."""
        return self.member.owner

    @property
    def owner_name(self) -> str:
        """The name of the owner of new resources, such as the PodCliqueSet."""
        return self.member.owner_name

    @property
    def owner_uid(self) -> str:
        """The uid of the owner of new resources, or "" if it is not known."""
        return self.member.owner_uid

    @property
    def compute_domain(self) -> str:
        """The name of the ComputeDomain."""
        return f"{self.base_name}{DOMAIN_SUFFIX}"

    @property
    def claim(self) -> str:
        """The name of the ResourceClaim in the form `shared`."""
        return f"{self.base_name}{CLAIM_SUFFIX}"

    @property
    def template(self) -> str:
        """The name of the ResourceClaimTemplate that NVIDIA's driver creates for pods."""
        return f"{self.base_name}{TEMPLATE_SUFFIX}"

    @property
    def entry(self) -> Entry:
        """The item of `resourceClaims` by which pods refer to the claim."""
        if self.mode == "shared":
            return {"name": CLAIM, "resourceClaimName": self.claim}
        return {"name": CLAIM, "resourceClaimTemplateName": self.template}

    def owned_by(self, uid: str, resource: Resource | None = None) -> "Plan":
        """Return this plan with the uid of its owner and, if given, the resource of the owner."""
        owner = self.owner if resource is None else resource
        return replace(self, member=replace(self.member, owner_uid=uid, owner=owner))


def read_plan(member: UnitMember, annotations: MnnvlAnnotations) -> tuple[Plan, Findings]:
    """Return the plan of `member` according to `annotations`, and findings about it.

    There are findings if the annotations, the labels or the name of `member` are invalid. The plan
    must not be used then.
    """
    findings: Findings = []
    scopes = member.scopes
    scope = annotations.scope or scopes[0]
    if scope not in scopes and any(scopes):
        more = member.named.more_scopes if member.named is not None else ()
        findings.append(not_supported(_ANNOTATIONS.key(MNNVL_SCOPE), scope, (*scopes, *more)))
        scope = scopes[0]
    findings += unit_problems(member, scope)

    device_class = annotations.device_class or DEFAULT_DEVICE_CLASS
    if not is_device_class(device_class):
        path = _ANNOTATIONS.key(MNNVL_DEVICE_CLASS)
        findings.append(invalid(path, device_class, NO_DEVICE_CLASS))
    return Plan(member, scope, str(device_class)), findings


def read_entry(member: UnitMember, entry: Entry | None, device_class: str) -> Plan | None:
    """Return the plan whose claim is `entry`, or None if `entry` is not our claim.

    Return None also if `member` lacks the labels that a claim needs.
    """
    if entry is None:
        return None

    for scope in member.scopes:
        for mode in _MODES:
            plan = Plan(member, scope, device_class, mode)
            if plan.base_name and entry == plan.entry:
                return plan
    return None


def usable_device_class(value: Any) -> str:
    """Return `value` if it can be the name of a DeviceClass, otherwise DEFAULT_DEVICE_CLASS."""
    return str(value) if is_device_class(value) else DEFAULT_DEVICE_CLASS


def is_device_class(value: Any) -> bool:
    """Return whether `value` can be the name of a DeviceClass."""
    return value == DEFAULT_DEVICE_CLASS or (isinstance(value, str) and is_subdomain(value))


def asks_for(pcs: PodCliqueSet, plan: Plan) -> bool:
    """Return whether a clique of `pcs` requests the resources of `plan`, with the same labels.

    The review of a new PodClique proves nothing: there is no stored object to compare it with, and
    anybody who reaches the port can send one. So the webhook creates only the resources that the
    template of the stored set requests, and the leader creates the rest when the PodClique is
    stored.

    A scaling group counts with the replicas in the template, which does not show a scale-out.
    """
    replica = plan.member.place.replica
    if not is_index(replica, pcs.replicas):
        return False

    for clique in pcs.cliques:
        place = Place(pcs.name, replica)
        base = f"{pcs.name}-{replica}"
        group = next((group for group in pcs.groups if clique.name in group.cliques), None)
        if group is not None:
            # the names of resources of a whole replica do not contain the scaling group's replica
            index = plan.labels.get(PCSG_REPLICA, "0")
            if not is_index(index, group.replicas):
                continue
            place = Place(pcs.name, replica, group.name, index)
            base = f"{base}-{group.name}-{index}"

        annotations = clique.mnnvl.over(pcs.mnnvl_at(place))
        if not annotations.enables or not clique.has_gpus:
            continue
        member = UnitMember(plan.namespace, f"{base}-{clique.name}", place, plan.owner_uid)
        asked, problems = read_plan(member, annotations)
        is_same = (
            asked.scope == plan.scope
            and asked.base_name == plan.base_name
            and asked.device_class == plan.device_class
            and asked.labels == plan.labels
        )
        if is_same and not problems:
            return True
    return False


def desired_resource(plan: Plan, resource: Resource, version: str) -> Object:
    """Return the ComputeDomain or the ResourceClaim of `plan` for the API `version`."""
    if resource is COMPUTE_DOMAIN:
        name = plan.compute_domain
        # `numNodes: 0` leaves the size open; the API requires `channel`
        spec: Object = {
            "numNodes": 0,
            "channel": {"resourceClaimTemplate": {"name": plan.template}},
        }
    else:
        name = plan.claim
        domain = f'device.attributes["{DEFAULT_DEVICE_CLASS}"].name == "{plan.compute_domain}"'
        request = {
            "deviceClassName": plan.device_class,
            "selectors": [{"cel": {"expression": domain}}],
        }
        # v1 and v1beta2 nest the request, v1beta1 does not
        fields = request if version == "v1beta1" else {"exactly": request}
        spec = {"devices": {"requests": [{"name": CLAIM, **fields}]}}

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
