"""What a PodClique wants of MNNVL: by its own annotations, or by those that it inherits.

There are two vocabularies, ours and `grove.io/mnnvl-group` of Grove. They exclude each other in a
PodClique, and in a PodCliqueSet, whose PodCliques would be rejected one by one.
"""

from collections.abc import Iterator

from app.facts.grove.annotations import MnnvlAnnotations
from app.facts.grove.template import CliqueTemplate, Template, group_in, owner_text
from app.facts.labels import MNNVL_DEVICE_CLASS, MNNVL_ENABLED, MNNVL_GROUP, PCSG_REPLICA
from app.facts.place import Place
from app.objects.fields import FieldError, FieldPath, forbidden
from app.objects.metadata import annotations_of
from app.objects.names import is_index
from app.objects.shape import JsonMap, maps_at
from app.rules.mnnvl.plan import DEFAULT_DEVICE_CLASS, SCOPES, CliqueMember, Plan

GROVE_CLAIM = "mnnvl-claim"
"""The name of the claim that Grove injects for a group."""


def both_in_clique(clique: JsonMap, annotations: MnnvlAnnotations) -> FieldError | None:
    """Return a finding if our `annotations` and a group of Grove both apply to a PodClique.

    The annotations are its own or inherited. It is in a group of Grove by its own annotation, or
    because Grove has injected its claim.
    """
    if not annotations.enables:
        return None
    group = group_in(annotations_of(clique))
    if group is None:
        group = _group_of_claim(clique)
    return _both(FieldPath("metadata.annotations"), group) if group else None


def _group_of_claim(clique: JsonMap) -> str:
    """Return the name of the ComputeDomain whose claim Grove has injected, or ""."""
    claims = maps_at(clique, "spec", "podSpec", "resourceClaims")
    names = (
        claim.get("resourceClaimTemplateName")
        for claim in claims
        if claim.get("name") == GROVE_CLAIM
    )
    return str(next(names, "") or "")


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
    return forbidden(
        path,
        f'{MNNVL_ENABLED}: "true" and {MNNVL_GROUP}: "{group}" exclude each other{cause}, because'
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

    member = CliqueMember(plan.namespace, f"{base}-{clique.name}", place, plan.set_uid)
    part = clique.part_with(MNNVL_DEVICE_CLASS)
    device_class = None
    if part is not None:
        device_class = part.annotations[MNNVL_DEVICE_CLASS]
    return Plan(member, scope, str(device_class or DEFAULT_DEVICE_CLASS))
