"""Warn about minimums in the document of a PodGroup for which KAI's webhook rejects it.

These are the rules of KAI 0.15 and later.

Source:
https://github.com/kai-scheduler/KAI-Scheduler/blob/d5bc503a/pkg/apis/scheduling/v2alpha2/podgroup_webhook.go
"""

from collections.abc import Iterator

from app.objects.fields import FieldPath
from app.objects.shape import JsonMap, list_of, map_at, map_of, text_at

_SPEC = FieldPath("spec")


def minimum_warnings(document: JsonMap, *, is_new: bool = True) -> list[str]:
    """Return warnings about minMember and minSubGroup of the PodGroup and its SubGroups.

    `is_new` says whether the PodGroup is created. An update may keep a minMember above SubGroups.
    """
    return [f"{path}: KAI rejects this: {text}" for path, text in _mistakes(document, is_new)]


def _mistakes(document: JsonMap, is_new: bool) -> Iterator[tuple[FieldPath, str]]:
    spec = map_at(document, "spec")
    subgroups = [map_of(item) for item in list_of(spec.get("subGroups"))]
    parents = {text_at(subgroup, "parent") for subgroup in subgroups} - {""}
    if _has(spec, "minMember") and _has(spec, "minSubGroup"):
        yield _SPEC.child("minSubGroup"), "minMember is set too. Remove one of them"

    for position, subgroup in enumerate(subgroups):
        at = _SPEC.child("subGroups").index(position)
        name = text_at(subgroup, "name")
        if _has(subgroup, "minMember") and _has(subgroup, "minSubGroup"):
            yield at.child("minSubGroup"), "minMember is set too. Remove one of them"
        elif name in parents:
            if is_new and _has(subgroup, "minMember"):
                text = f"SubGroup {name} has SubGroups instead of pods. Use minSubGroup"
                yield at.child("minMember"), text
        elif _has(subgroup, "minSubGroup"):
            yield at.child("minSubGroup"), f"SubGroup {name} has no SubGroups. Use minMember"
        elif not _has(subgroup, "minMember"):
            yield at.child("minMember"), f"SubGroup {name} needs a minimum of pods"


def _has(part: JsonMap, field: str) -> bool:
    return part.get(field) is not None
