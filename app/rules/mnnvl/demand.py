"""What stored PodCliques ask for, so that missing resources can be made again and forgotten ones be taken away.

A stored PodClique asks for the resources that its claim names, whatever its annotations say by now: its pods can start
only with them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Any

from app.objects.metadata import annotations_of, labels_of
from app.rules.kinds import COMPUTE_DOMAIN
from app.rules.labels import MANAGED_BY, MANAGER, MNNVL_MANAGED, Place, read_place
from app.rules.mnnvl.annotations import NO_ANNOTATIONS, MnnvlAnnotations, read_mnnvl
from app.rules.mnnvl.claims import CLAIM, form_of_entry, scope_of_entry
from app.rules.mnnvl.plan import (
    DEFAULT_DEVICE_CLASS,
    ClaimMode,
    Member,
    Owner,
    Plan,
    Scope,
    base_of_claim,
    base_of_domain,
    claim_name,
    device_class_of,
    is_device_class,
    plan_of,
    read_member,
    template_name,
)
from app.rules.podcliqueset import PodCliqueSet


@dataclass(frozen=True, slots=True)
class Demand:
    """A stored PodClique that has a claim of ours. `device_class` is that of its own annotation, "" without one."""

    member: Member
    scope: Scope
    mode: ClaimMode
    base_name: str
    device_class: str
    deleting: bool


def read_demand(obj: Mapping[str, Any]) -> Demand | None:
    """What a stored PodClique asks for; None if it has no claim of ours. The result shares its texts with those of
    other PodCliques, because there may be very many."""
    metadata, pod_spec = _map(obj.get("metadata")), _map(_map(obj.get("spec")).get("podSpec"))
    entry = next((item for item in _list(pod_spec.get("resourceClaims")) if _map(item).get("name") == CLAIM), None)
    if entry is None:
        return None
    member = read_member(obj, str(metadata.get("namespace") or ""))
    scope = scope_of_entry(member, entry)
    if scope is None:
        return None
    own = read_mnnvl(annotations_of(obj)).device_class
    return Demand(
        _interned(member),
        scope,
        form_of_entry(entry),
        intern(member.base_name(scope)),
        intern(own) if own and is_device_class(own) else "",
        metadata.get("deletionTimestamp") is not None,
    )


def _interned(member: Member) -> Member:
    place, owner = member.place, member.owner
    return Member(
        intern(member.namespace),
        intern(member.name),
        Place(*(intern(text) for text in (place.pcs, place.replica, place.group, place.group_replica, place.podgang))),
        intern(member.base_podgang),
        Owner(intern(owner.name), intern(owner.uid)),
    )


def lasting_demands(demands: Iterable[Demand], pcs: PodCliqueSet | None) -> list[Demand]:
    """Those of `demands` whose missing resources are made again, by name: PodCliques that stay, of the PodCliqueSet
    `pcs` as it is now. The others are collected soon, with all that is made for them."""
    if pcs is None or pcs.deleting:
        return []
    staying = (demand for demand in demands if not demand.deleting and demand.member.owner.uid in ("", pcs.uid))
    return sorted(staying, key=lambda demand: demand.member.name)


def plan_for(demands: Sequence[Demand], pcs: PodCliqueSet) -> Plan:
    """The plan of the resources that `demands` share, which are of one base name; the PodCliqueSet owns them."""
    demand = next((demand for demand in demands if demand.device_class), demands[0])
    inherited = inherited_annotations(pcs, demand.member.place)
    given = demand.device_class or device_class_of(inherited)
    device_class = given if is_device_class(given) else DEFAULT_DEVICE_CLASS
    member = Member(
        demand.member.namespace,
        demand.member.name,
        demand.member.place,
        demand.member.base_podgang,
        Owner(pcs.name, pcs.uid),
    )
    return plan_of(member, demand.scope, device_class)


def inherited_annotations(pcs: PodCliqueSet | None, place: Place) -> MnnvlAnnotations:
    """The annotations that count for a PodClique at `place` that has none of its own: those of its scaling group, then
    those of its set."""
    if pcs is None:
        return NO_ANNOTATIONS
    group = pcs.group_of(place.group) if place.group else None
    return pcs.mnnvl if group is None else group.mnnvl.over(pcs.mnnvl)


def annotations_of_demand(demand: Demand) -> MnnvlAnnotations:
    """The annotations that lead to the claim that a stored PodClique has."""
    return MnnvlAnnotations("true", demand.scope, demand.device_class or None)


def base_of(kind: str, name: str) -> str:
    """The base name of a ComputeDomain or ResourceClaim; "" if it is not named like one of ours."""
    return base_of_domain(name) if kind == COMPUTE_DOMAIN.kind else base_of_claim(name)


def is_made_by_us(obj: Mapping[str, Any]) -> bool:
    """Whether a stored ComputeDomain or ResourceClaim is one that we made: both of our labels, the place of a replica,
    a name that begins with it, and no Pod for an owner (Kubernetes makes claims for single pods, with the labels of
    their template)."""
    metadata, labels = _map(obj.get("metadata")), labels_of(obj)
    place = read_place(labels)
    if labels.get(MNNVL_MANAGED) != "true" or labels.get(MANAGED_BY) != MANAGER or not (place.pcs and place.replica):
        return False
    base = base_of(str(obj.get("kind") or ""), str(metadata.get("name") or ""))
    start = f"{place.pcs}-{place.replica}"
    owners = _list(metadata.get("ownerReferences"))
    return (base == start or base.startswith(f"{start}-")) and all(_map(owner).get("kind") != "Pod" for owner in owners)


def is_reserved(obj: Mapping[str, Any]) -> bool:
    """Whether a pod reserves the stored ResourceClaim `obj`."""
    return bool(_map(obj.get("status")).get("reservedFor"))


def uses(pod: Mapping[str, Any], base_name: str) -> bool:
    """Whether `pod`, unless it has ended, names the claim or the template of claims of this base name."""
    if _map(pod.get("status")).get("phase") in ("Succeeded", "Failed"):
        return False
    names = {claim_name(base_name), template_name(base_name)}
    claims = (_map(item) for item in _list(_map(pod.get("spec")).get("resourceClaims")))
    return any(
        claim.get("resourceClaimName") in names or claim.get("resourceClaimTemplateName") in names for claim in claims
    )


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
