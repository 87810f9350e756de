"""SubGroup names of a KAI PodGroup. Source: `rules/README.md`, whose messages these are.

Not checked here: minMember and the rest of the spec (the CRD does).
"""

from collections.abc import Mapping
from typing import Any

from app.objects.fields import (
    REASON_DUPLICATE,
    REASON_INVALID,
    REASON_NOT_FOUND,
    REASON_REQUIRED,
    FieldError,
    FieldPath,
    quote,
    wrong_type,
)
from app.objects.names import is_label, label_problem

_PATH = FieldPath("spec.subGroups")


def validate_pod_group(obj: Mapping[str, Any]) -> list[FieldError]:
    """All findings about `spec.subGroups`, in list order: names and parents first, then duplicates, parents that
    don't exist, and cycles."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return [] if spec is None else [wrong_type(FieldPath("spec"), spec, "a map")]
    subgroups = spec.get("subGroups")
    if subgroups is None:
        return []
    if not isinstance(subgroups, list):
        return [wrong_type(_PATH, subgroups, "a list")]
    return validate_subgroups(subgroups)


def validate_subgroups(subgroups: list[Any]) -> list[FieldError]:
    return [] if _is_plainly_valid(subgroups) else _find_problems(subgroups)


def _is_plainly_valid(subgroups: list[Any]) -> bool:
    """Whether one look at each subgroup shows that all is well: good names, none twice, and every parent listed before
    its children, so that there can be no cycle. False says nothing yet."""
    seen: set[str] = set()
    for subgroup in subgroups:
        if not isinstance(subgroup, dict):
            return False
        name, parent = subgroup.get("name"), subgroup.get("parent")
        if not isinstance(name, str) or name in seen or not is_label(name):
            return False
        if parent is not None and (not isinstance(parent, str) or parent not in seen):
            return False
        seen.add(name)
    return True


def _find_problems(subgroups: list[Any]) -> list[FieldError]:
    findings: list[FieldError] = []
    known: list[tuple[int, str, str | None]] = []
    for position, subgroup in enumerate(subgroups):
        if not isinstance(subgroup, dict):
            findings.append(wrong_type(_PATH.index(position), subgroup, "a map"))
            continue
        name, parent = subgroup.get("name", ""), subgroup.get("parent")
        named = _validate_name(position, name, findings)
        _validate_parent(position, name, parent, findings)
        if named:
            known.append((position, name, parent if isinstance(parent, str) else None))
    parents = _validate_duplicates(known, findings)
    if parents:
        _validate_missing_parents(known, parents, findings)
        _validate_cycles(known, parents, findings)
    return findings


def _validate_name(position: int, name: Any, findings: list[FieldError]) -> bool:
    at = _PATH.index(position).child("name")
    if not isinstance(name, str):
        findings.append(wrong_type(at, name, "a string"))
        return False
    problem = label_problem(name)
    if problem is not None:
        reason = REASON_INVALID if name else REASON_REQUIRED
        text = f"invalid subgroup name {quote(name)}: {problem}"
        findings.append(FieldError(str(at), reason, text, text))
    return True


def _validate_parent(position: int, name: Any, parent: Any, findings: list[FieldError]) -> None:
    if parent is None:
        return
    at = _PATH.index(position).child("parent")
    if not isinstance(parent, str):
        findings.append(wrong_type(at, parent, "a string"))
        return
    problem = label_problem(parent)
    if problem is not None:
        text = f"invalid parent name {quote(parent)} for subgroup {quote(name)}: {problem}"
        findings.append(FieldError(str(at), REASON_INVALID, text, text))


def _validate_duplicates(known: list[tuple[int, str, str | None]], findings: list[FieldError]) -> dict[str, str | None]:
    """Findings about names given twice; gives each name's parent, the first one if it is given twice."""
    parents: dict[str, str | None] = {}
    for position, name, parent in known:
        if name in parents:
            at = str(_PATH.index(position).child("name"))
            text = f"duplicate subgroup name {name}"
            findings.append(FieldError(at, REASON_DUPLICATE, text, text))
        else:
            parents[name] = parent
    return parents


def _validate_missing_parents(
    known: list[tuple[int, str, str | None]], parents: dict[str, str | None], findings: list[FieldError]
) -> None:
    for position, name, parent in known:
        if parent is not None and parent not in parents and label_problem(parent) is None:
            at = str(_PATH.index(position).child("parent"))
            text = f"parent {parent} of {name} was not found"
            findings.append(FieldError(at, REASON_NOT_FOUND, text, text))


def _validate_cycles(
    known: list[tuple[int, str, str | None]], parents: dict[str, str | None], findings: list[FieldError]
) -> None:
    """One finding per cycle, on the member that stands first in the list. Each name is visited once."""
    done: set[str] = set()
    position_of = {name: position for position, name, _ in reversed(known)}
    for _, start, _ in known:
        trail: dict[str, None] = {}
        name: str | None = start
        while name is not None and name in parents and name not in done and name not in trail:
            trail[name] = None
            name = parents[name]
        if name is not None and name in trail:
            names = list(trail)
            cycle = names[names.index(name) :]
            at = str(_PATH.index(min(position_of[one] for one in cycle)).child("parent"))
            text = "cycle detected in subgroups"
            findings.append(FieldError(at, REASON_INVALID, f"{text}: {' -> '.join([*cycle, name])}", text))
        done.update(trail)
