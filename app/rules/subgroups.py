"""Names and parents of the SubGroups of a KAI PodGroup.

Source: https://github.com/omer-dayan/KAI-Scheduler/issues/12, which also gives the
messages. The CRD validates the rest of the spec.
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

_Member = tuple[int, str, str | None]
"""Position, name and parent of a subgroup."""


def validate_pod_group(obj: Mapping[str, Any]) -> list[FieldError]:
    """Returns all findings about `spec.subGroups`: first names and parents in list
    order, then duplicate names, parents that don't exist, and cycles."""
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
    """Whether a single pass shows that all subgroups are valid: valid and unique names, and each parent before its
    children, so that there is no cycle. If not, they may still be valid, and `_find_problems` decides."""
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
    members: list[_Member] = []
    for position, subgroup in enumerate(subgroups):
        if not isinstance(subgroup, dict):
            findings.append(wrong_type(_PATH.index(position), subgroup, "a map"))
            continue
        name, parent = subgroup.get("name", ""), subgroup.get("parent")
        has_name = _validate_name(position, name, findings)
        _validate_parent(position, name, parent, findings)
        if has_name:
            members.append((position, name, parent if isinstance(parent, str) else None))
    parents = _validate_duplicates(members, findings)
    if parents:
        _validate_missing_parents(members, parents, findings)
        _validate_cycles(members, parents, findings)
    return findings


def _validate_name(position: int, name: Any, findings: list[FieldError]) -> bool:
    """Returns whether `name` is a string."""
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


def _validate_duplicates(members: list[_Member], findings: list[FieldError]) -> dict[str, str | None]:
    """Returns the parent of each name. If a name occurs twice, the first entry counts."""
    parents: dict[str, str | None] = {}
    for position, name, parent in members:
        if name in parents:
            at = str(_PATH.index(position).child("name"))
            text = f"duplicate subgroup name {name}"
            findings.append(FieldError(at, REASON_DUPLICATE, text, text))
        else:
            parents[name] = parent
    return parents


def _validate_missing_parents(
    members: list[_Member], parents: dict[str, str | None], findings: list[FieldError]
) -> None:
    for position, name, parent in members:
        if parent is not None and parent not in parents and label_problem(parent) is None:
            at = str(_PATH.index(position).child("parent"))
            text = f"parent {parent} of {name} was not found"
            findings.append(FieldError(at, REASON_NOT_FOUND, text, text))


def _validate_cycles(members: list[_Member], parents: dict[str, str | None], findings: list[FieldError]) -> None:
    """Adds one finding per cycle, about the member that is first in the list. Each name is visited once."""
    done: set[str] = set()
    position_of = {name: position for position, name, _ in reversed(members)}
    for _, start, _ in members:
        trail: dict[str, None] = {}
        name: str | None = start
        while name is not None and name in parents and name not in done and name not in trail:
            trail[name] = None
            name = parents[name]
        if name is not None and name in trail:
            names = list(trail)
            cycle = names[names.index(name) :]
            at = str(_PATH.index(min(position_of[member] for member in cycle)).child("parent"))
            text = "cycle detected in subgroups"
            findings.append(FieldError(at, REASON_INVALID, f"{text}: {' -> '.join([*cycle, name])}", text))
        done.update(trail)
