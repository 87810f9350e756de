"""Warn about changes of a PodCliqueSet that Grove rejects.

The dialects have their own rules about changes of topology constraints. Source:
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/internal/webhook/admission/pcs/validation/podcliqueset.go
"""

from collections.abc import Iterator, Mapping

from app.facts.labels import MNNVL_GROUP
from app.objects.fields import FieldPath, listed, quote
from app.objects.shape import JsonMap, list_of, map_at, map_of, text_at

_TEMPLATE = FieldPath("spec.template")
_SHOWN = 5
_ORDERED = ("CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit")
"""The startup types with which Grove keeps the order of cliques."""

_DEFAULTED = ("cliqueStartupType", "minAvailable")
"""Fields with defaults. A document without them keeps the stored values."""

Parts = Mapping[str, tuple[FieldPath, JsonMap]]
"""Cliques or scaling groups by name, each with its path."""


def change_warnings(document: JsonMap, old: JsonMap) -> list[str]:
    """Return warnings about changes from the stored set `old` that Grove does not allow."""
    new, stored = map_at(document, "spec", "template"), map_at(old, "spec", "template")
    whole = _changed(
        _TEMPLATE, new, stored, "cliqueStartupType", "resourceClaimTemplates", "resourceSharing"
    )
    return [
        *_changed_mnnvl(
            FieldPath("metadata"), map_at(document, "metadata"), map_at(old, "metadata")
        ),
        *whole,
        *_changes_of_cliques(new, stored),
        *_changes_of_groups(new, stored),
    ]


def _changes_of_cliques(new: JsonMap, stored: JsonMap) -> Iterator[str]:
    at = _TEMPLATE.child("cliques")
    cliques, before = _parts(new, at, "cliques"), _parts(stored, at, "cliques")
    yield from _recomposed(at, cliques, before)
    is_ordered = stored.get("cliqueStartupType") in _ORDERED
    if is_ordered and cliques.keys() == before.keys() and list(cliques) != list(before):
        yield f"{at}: Grove rejects this: the order of cliques must stay {', '.join(before)}"

    for name, (path, clique) in cliques.items():
        if name not in before:
            continue
        _, old = before[name]
        spec, old_spec = map_at(clique, "spec"), map_at(old, "spec")
        pods, old_pods = map_at(spec, "podSpec"), map_at(old_spec, "podSpec")
        at = path.child("spec")
        yield from _changed_mnnvl(path, clique, old)
        yield from _changed(path, clique, old, "resourceSharing")
        yield from _changed(at, spec, old_spec, "roleName", "minAvailable", "startsAfter")
        yield from _changed(at.child("podSpec"), pods, old_pods, "schedulerName")


def _changes_of_groups(new: JsonMap, stored: JsonMap) -> Iterator[str]:
    at = _TEMPLATE.child("podCliqueScalingGroups")
    groups = _parts(new, at, "podCliqueScalingGroups")
    before = _parts(stored, at, "podCliqueScalingGroups")
    yield from _recomposed(at, groups, before)
    for name, (path, group) in groups.items():
        if name in before:
            _, old = before[name]
            yield from _changed_mnnvl(path, group, old)
            yield from _changed(path, group, old, "cliqueNames", "minAvailable", "resourceSharing")


def _parts(template: JsonMap, at: FieldPath, field: str) -> Parts:
    parts = [map_of(item) for item in list_of(template.get(field))]
    return {text_at(part, "name"): (at.index(n), part) for n, part in enumerate(parts)}


def _recomposed(at: FieldPath, new: Parts, stored: Parts) -> Iterator[str]:
    """Yield a warning about parts that were added, removed or renamed."""
    changed = [quote(name) for name in sorted(new.keys() ^ stored.keys())]
    if changed:
        yield (
            f"{at}: Grove rejects this: {listed(changed, _SHOWN)} can't be added to or removed from"
            " a stored PodCliqueSet. Create another PodCliqueSet instead"
        )


def _changed(at: FieldPath, new: JsonMap, stored: JsonMap, *fields: str) -> Iterator[str]:
    """Yield a warning about each of `fields` that has another value than in the stored part."""
    for field in fields:
        value, before = new.get(field), stored.get(field)
        is_kept = value is None and field in _DEFAULTED
        if (value or None) != (before or None) and not is_kept:
            yield _fixed(at.child(field), before)


def _changed_mnnvl(path: FieldPath, new: JsonMap, stored: JsonMap) -> Iterator[str]:
    """Yield a warning if Grove's annotation about MNNVL has another value than before."""
    before = map_at(stored, "annotations").get(MNNVL_GROUP)
    if map_at(new, "annotations").get(MNNVL_GROUP) != before:
        yield _fixed(path.child("annotations").key(MNNVL_GROUP), before)


def _fixed(at: FieldPath, before: object) -> str:
    stored = "a missing value" if before is None else f"the stored value {quote(before)}"
    return (
        f"{at}: Grove rejects this: {stored} can't be changed. Create another PodCliqueSet instead"
    )
