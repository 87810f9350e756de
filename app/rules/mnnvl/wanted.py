"""What a PodClique wants of MNNVL: by its own annotations, or by those that it inherits.

There are two vocabularies, ours and `grove.io/mnnvl-group` of Grove. They exclude each other in a
PodClique, and in a PodCliqueSet, whose PodCliques would be rejected one by one.
"""

from collections.abc import Collection, Iterable, Iterator
from sys import intern
from typing import Any

from msgspec.structs import asdict

from app.base.value import Value
from app.facts.grove.annotations import NO_ANNOTATIONS, MnnvlAnnotations, group_in, read_mnnvl
from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.grove.template import CliqueTemplate, Template, owner_text
from app.facts.kinds import POD_CLIQUE_SET
from app.facts.labels import MNNVL_DEVICE_CLASS, MNNVL_ENABLED, MNNVL_GROUP, PCSG_REPLICA
from app.facts.place import Place, read_place
from app.objects.fields import FieldError, FieldPath, Findings, forbidden, quote
from app.objects.metadata import annotations_of, labels_of
from app.objects.names import is_index
from app.objects.shape import JsonMap, map_of, maps_at, maps_of, text_at
from app.rules.mnnvl.plan import (
    CLAIM,
    DEFAULT_DEVICE_CLASS,
    SCOPES,
    ClaimMode,
    CliqueMember,
    Entry,
    Plan,
    Scope,
    is_device_class,
    read_entry,
    usable_device_class,
)

GROVE_CLAIM = "mnnvl-claim"
"""The name of the claim that Grove injects for a group."""


class WrittenClique(Value):
    """A PodClique that is written, read once for a verdict.

    `old` is the object that an UPDATE replaces, and `stored` its claim of ours, or None. `own` are
    the annotations of the PodClique itself.
    """

    content: JsonMap
    old: JsonMap | None
    member: CliqueMember
    own: MnnvlAnnotations
    stored: Entry | None


class StoredMember(CliqueMember):
    """A stored PodClique."""

    deleting: bool

    def is_of(self, pcs: PodCliqueSet) -> bool:
        """Return whether it is part of `pcs`, and neither is being deleted.

        PodCliques of a former set of that name are not.
        """
        is_current = self.place.pcs == pcs.name and pcs.has_uid(self.set_uid)
        return is_current and not (self.deleting or pcs.deleting)


class ClaimedClique(StoredMember):
    """A stored PodClique that has a claim of ours.

    It needs the resources that its claim names, even if its annotations have changed, because its
    pods can't start without them. `device_class` is that of its own annotation, or "".
    """

    scope: Scope
    mode: ClaimMode
    device_class: str

    @property
    def base_name(self) -> str:
        """The text with which the names of its resources begin."""
        return self.base_of(self.scope)


class CliqueFacts(Value):
    """The facts of the cluster on which the verdict on a PodClique depends.

    `pcs` is its set, or None if that is not known. `classes` are the names of the DeviceClasses
    that exist. `reads_groups` is true if Grove reads `grove.io/mnnvl-group`.
    """

    pcs: PodCliqueSet | None = None
    classes: Collection[str] = ()
    reads_groups: bool = False


def read_written(obj: JsonMap, old: JsonMap | None, namespace: str) -> WrittenClique:
    """Read the PodClique `obj`. `old` is the object that an UPDATE replaces, or None."""
    own = read_mnnvl(annotations_of(obj))
    stored = None if old is None else claim_entry(old)
    return WrittenClique(obj, old, read_member(obj, namespace), own, stored)


def read_member(obj: JsonMap, namespace: str) -> CliqueMember:
    """Read a PodClique. A value that is missing or has the wrong type is "" in the result.

    Equal texts are one object, because there may be very many PodCliques.
    """
    metadata = map_of(obj.get("metadata"))
    place = read_place(labels_of(obj))
    return CliqueMember(
        namespace=intern(namespace),
        name=text_at(metadata, "name"),
        place=place,
        set_uid=intern(_set_uid(metadata.get("ownerReferences"), place.pcs)),
    )


def _set_uid(references: Any, pcs: str) -> str:
    """Return the uid of the PodCliqueSet `pcs`.

    "" if it does not own the PodClique directly, but through a scaling group.
    """
    for reference in maps_of(references):
        if reference.get("kind") == POD_CLIQUE_SET.kind and reference.get("name") == pcs:
            return str(reference.get("uid") or "")
    return ""


def claim_entry(clique: JsonMap) -> Entry | None:
    """Return the entry with the name of our claim in a PodClique, or None."""
    return own_entry(maps_at(clique, "spec", "podSpec", "resourceClaims"))


def own_entry(claims: Iterable[Any]) -> Entry | None:
    """Return the first of `claims` that has the name of our claim, or None."""
    for claim in claims:
        if isinstance(claim, dict) and claim.get("name") == CLAIM:
            return claim
    return None


def read_demand(obj: JsonMap) -> ClaimedClique | None:
    """Read a stored PodClique.

    Returns None if it has no claim of ours.
    """
    metadata = map_of(obj.get("metadata"))
    entry = claim_entry(obj)
    if entry is None:
        return None

    member = read_member(obj, str(metadata.get("namespace") or ""))
    own = read_mnnvl(annotations_of(obj)).device_class
    device_class = intern(own) if own and is_device_class(own) else ""
    plan = read_entry(member, entry, device_class)
    if plan is None:
        return None

    deleting = metadata.get("deletionTimestamp") is not None
    return ClaimedClique(
        **asdict(member),
        deleting=deleting,
        scope=plan.scope,
        mode=plan.mode,
        device_class=device_class,
    )


def demands_in(cliques: Iterable[object]) -> list[ClaimedClique]:
    """Return those of `cliques` that have a claim of ours."""
    return [clique for clique in cliques if isinstance(clique, ClaimedClique)]


def plan_for(demands: Iterable[ClaimedClique], pcs: PodCliqueSet) -> Plan | None:
    """Return the plan of the resources that `demands` share, which all have the same base name.

    `pcs` owns them. None if no demand of it lasts, so that none should be restored.
    """
    lasting = sorted(
        (demand for demand in demands if demand.is_of(pcs)), key=lambda demand: demand.name
    )
    if not lasting:
        return None

    demand = next((demand for demand in lasting if demand.device_class), lasting[0])
    device_class = usable_device_class(
        demand.device_class or pcs.mnnvl_at(demand.place).device_class
    )
    member = CliqueMember(demand.namespace, demand.name, demand.place, pcs.uid)
    is_shared = any(demand.mode == "shared" for demand in lasting)
    return Plan(member, demand.scope, device_class, "shared" if is_shared else "template")


def wanted_by(
    clique: WrittenClique,
    facts: CliqueFacts,
    findings: Findings,
    warnings: list[str],
) -> MnnvlAnnotations:
    """Return the annotations that count for `clique`: its own, or inherited ones.

    If Grove reads groups, annotations of both vocabularies are rejected, and none counts. If the
    stored PodClique already has both, it is allowed without a claim of ours, so that Grove can
    still change and delete it.
    """
    inherited = inherited_by(clique, facts.pcs)
    annotations = clique.own.over(inherited)
    conflict = both_in_clique(clique.content, annotations) if facts.reads_groups else None
    if conflict is None:
        return annotations

    old = clique.old
    if old is None or not both_in_clique(old, read_mnnvl(annotations_of(old)).over(inherited)):
        findings.append(conflict)
    else:
        warnings.append(f"no claim was injected: {conflict}")
    return NO_ANNOTATIONS


def inherited_by(clique: WrittenClique, pcs: PodCliqueSet | None) -> MnnvlAnnotations:
    """Return the annotations that `clique` inherits from its scaling group and `pcs`.

    If the set is not known, these are the annotations for which the stored PodClique got its claim.
    """
    if pcs is not None:
        return pcs.mnnvl_at(clique.member.place)
    if clique.old is None:
        return NO_ANNOTATIONS

    stored = read_demand(clique.old)
    if stored is None:
        return NO_ANNOTATIONS
    return MnnvlAnnotations("true", stored.scope, stored.device_class or None)


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

    member = CliqueMember(plan.namespace, f"{base}-{clique.name}", place, plan.set_uid)
    device_class = clique.value_of(MNNVL_DEVICE_CLASS) or DEFAULT_DEVICE_CLASS
    return Plan(member, scope, str(device_class))
