"""The MNNVL annotations that apply to a PodClique, a Pod or a PodCliqueSet.

A PodClique has its own annotations and inherits others. There are two vocabularies, ours and
Grove's `grove.io/mnnvl-group`. A PodClique cannot use both. Neither can a PodCliqueSet, because its
PodCliques would be rejected one by one.
"""

from collections.abc import Collection, Iterator

from app.base.value import Value
from app.facts.grove.mnnvl import NO_ANNOTATIONS, MnnvlAnnotations
from app.facts.grove.podcliqueset import Clique, PodCliqueSet
from app.facts.grove.template import Template, owner_text
from app.facts.grove.unit_member import Carrier, UnitMember
from app.facts.identity import Place
from app.facts.labels import MNNVL_ENABLED, MNNVL_GROUP, PCSG_REPLICA
from app.objects.fields import FieldError, FieldPath, forbidden, quote
from app.objects.names import is_index
from app.rules.mnnvl.claim_holders import claimed
from app.rules.mnnvl.plan import Plan, read_plan


class CliqueFacts(Value):
    """The facts of the cluster on which the verdict on a PodClique depends."""

    pcs: PodCliqueSet | None = None
    """Its PodCliqueSet, or None if that is not known."""
    classes: Collection[str] = ()
    """The names of the existing DeviceClasses."""
    reads_groups: bool = False
    """Whether Grove reads `grove.io/mnnvl-group`."""


class Wanted(Value):
    """The annotations that apply to a PodClique or a Pod."""

    annotations: MnnvlAnnotations
    conflict: FieldError | None = None
    """The finding that both vocabularies apply, so that no annotation is used."""
    is_new: bool = True
    """Whether the conflict is new. An old conflict is allowed, so that Grove can still update the
    object.
    """


def wanted_by(carrier: Carrier, old: Carrier | None, facts: CliqueFacts) -> Wanted:
    """Return the annotations that apply to `carrier`: its own, or inherited ones.

    `old` is the object that an UPDATE replaces, or None. If Grove reads groups and both
    vocabularies apply, no annotation is used.
    """
    inherited = inherited_by(carrier, old, facts.pcs)
    annotations = carrier.annotations.over(inherited)
    if not (facts.reads_groups and has_both(carrier, annotations)):
        return Wanted(annotations)

    conflict = _both(FieldPath("metadata.annotations"), carrier.foreign_group)
    had_both = old is not None and has_both(old, old.annotations.over(inherited))
    return Wanted(NO_ANNOTATIONS, conflict, is_new=not had_both)


def inherited_by(
    carrier: Carrier, old: Carrier | None, pcs: PodCliqueSet | None
) -> MnnvlAnnotations:
    """Return the annotations that `carrier` inherits from its scaling group and `pcs`.

    If the set is not known, these are the annotations that gave the stored object its claim.
    """
    if pcs is not None:
        return pcs.mnnvl_at(carrier.place)

    stored = None if old is None else claimed(old)
    if stored is None:
        return NO_ANNOTATIONS
    return MnnvlAnnotations("true", stored.scope, stored.annotations.device_class)


def has_both(member: UnitMember, annotations: MnnvlAnnotations) -> bool:
    """Return whether both our `annotations`, own or inherited, and a group of Grove apply."""
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
        f'{MNNVL_ENABLED}: "true" and {MNNVL_GROUP}: {named} exclude each other{cause}: each pod'
        f" would get two claims for one NVLink channel. Keep {MNNVL_GROUP} if Grove manages MNNVL"
        f" in this cluster (autoMNNVLEnabled), otherwise keep {MNNVL_ENABLED}. {MNNVL_GROUP}:"
        ' "none" removes a clique from a group',
    )


def asks_for(pcs: PodCliqueSet, plan: Plan) -> bool:
    """Return whether a clique of `pcs` requests the resources of `plan`, with the same labels.

    The review of a new PodClique proves nothing: there is no stored object to compare it with, and
    anybody who reaches the port can send one. So the webhook creates only the resources that the
    template of the stored set requests, and the leader creates the rest when the PodClique is
    stored.

    Scaling groups have the replicas of the template here, which does not show a scale-out.
    """
    if not is_index(plan.member.place.replica, pcs.replicas):
        return False

    asked = (_plan_of(clique, pcs, plan) for clique in pcs.cliques)
    return any(_shape(plan) == _shape(other) for other in asked if other is not None)


def _shape(plan: Plan) -> tuple[object, ...]:
    return plan.scope, plan.base_name, plan.device_class, plan.labels


def _plan_of(clique: Clique, pcs: PodCliqueSet, plan: Plan) -> Plan | None:
    """Return the plan of `clique` in the replica of `plan`, or None if it requests no MNNVL."""
    place = Place(pcs.name, plan.member.place.replica)
    base = f"{place.pcs}-{place.replica}"
    group = next((group for group in pcs.groups if clique.name in group.cliques), None)
    if group is not None:
        # the names of resources of a whole replica do not contain the scaling group's replica
        index = plan.labels.get(PCSG_REPLICA, "0")
        if not is_index(index, group.replicas):
            return None
        place = Place(place.pcs, place.replica, group.name, index)
        base = f"{base}-{group.name}-{index}"

    annotations = clique.mnnvl.over(pcs.mnnvl_at(place))
    if not annotations.enables or not clique.has_gpus:
        return None
    member = UnitMember(plan.namespace, f"{base}-{clique.name}", place, plan.owner_uid)
    asked, problems = read_plan(member, annotations)
    return None if problems else asked
