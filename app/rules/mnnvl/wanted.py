"""What a PodClique wants of MNNVL: by its own annotations, or by those that it inherits.

There are two vocabularies, ours and `grove.io/mnnvl-group` of Grove. They exclude each other in a
PodClique, and in a PodCliqueSet, whose PodCliques would be rejected one by one.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from app.facts.grove.annotations import NO_ANNOTATIONS, MnnvlAnnotations
from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.grove.template import Template, group_in, owner_text
from app.facts.labels import MNNVL_ENABLED, MNNVL_GROUP
from app.facts.place import Place
from app.objects.edits import value_at
from app.objects.fields import FieldError, FieldPath, forbidden
from app.objects.metadata import annotations_of
from app.objects.shape import maps_of

GROVE_CLAIM = "mnnvl-claim"
"""The name of the claim that Grove injects for a group."""


def inherited_annotations(pcs: PodCliqueSet | None, place: Place) -> MnnvlAnnotations:
    """Return the annotations that a PodClique at `place` inherits.

    These are those of its scaling group, then those of `pcs`.
    """
    if pcs is None:
        return NO_ANNOTATIONS
    group = pcs.group_of(place.group) if place.group else None
    return pcs.mnnvl if group is None else group.mnnvl.over(pcs.mnnvl)


def both_in_clique(clique: Mapping[str, Any], annotations: MnnvlAnnotations) -> FieldError | None:
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


def _group_of_claim(clique: Mapping[str, Any]) -> str:
    """Return the name of the ComputeDomain whose claim Grove has injected, or ""."""
    claims = maps_of(value_at(clique, ("spec", "podSpec", "resourceClaims")))
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
