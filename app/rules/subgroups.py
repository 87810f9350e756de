"""Validate names and parents of the SubGroups of a KAI PodGroup.

Source: https://github.com/omer-dayan/KAI-Scheduler/issues/12, which also gives the messages. The
CRD validates the rest of the spec.
"""

from typing import Any

from app.objects import fields
from app.objects.fields import FieldError, FieldPath, Findings
from app.objects.names import is_label, label_problem
from app.objects.shape import JsonMap

_PATH = FieldPath("spec.subGroups")

_Member = tuple[int, str, str | None]
"""The position, name and parent of a subgroup."""


def validate_pod_group(obj: JsonMap) -> Findings:
    """Return all findings about `spec.subGroups` of the KAI PodGroup `obj`.

    Findings about names and parents come first, in list order, followed by duplicate names, missing
    parents and cycles. If a list of more than MOST_ITEMS may be invalid, the only finding is its
    length.
    """
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return [] if spec is None else [fields.wrong_type(FieldPath("spec"), spec, "a map")]
    subgroups = spec.get("subGroups")
    if subgroups is None:
        return []
    if not isinstance(subgroups, list):
        return [fields.wrong_type(_PATH, subgroups, "a list")]
    if _is_plainly_valid(subgroups):
        return []
    if len(subgroups) > fields.MOST_ITEMS:
        return [fields.too_many(_PATH, subgroups)]
    return _find_problems(subgroups)


def _is_plainly_valid(subgroups: list[Any]) -> bool:
    """Return whether a single pass shows that all subgroups are valid.

    Names must be valid and unique, and each parent must precede its children, so that there is no
    cycle. Other subgroups may still be valid; `_find_problems` decides.
    """
    seen: set[str] = set()
    for subgroup in subgroups:
        if not isinstance(subgroup, dict):
            return False
        name = subgroup.get("name")
        parent = subgroup.get("parent")
        if not isinstance(name, str) or name in seen or not is_label(name):
            return False
        if parent is not None and (not isinstance(parent, str) or parent not in seen):
            return False
        seen.add(name)

    return True


def _find_problems(subgroups: list[Any]) -> Findings:
    findings: Findings = []
    members = _read_members(subgroups, findings)
    parents: dict[str, str | None] = {}
    for position, name, parent in members:
        if name in parents:  # the first entry counts
            findings.append(
                _finding(
                    position,
                    "name",
                    fields.REASON_DUPLICATE,
                    f"duplicate subgroup name {name}",
                )
            )
        else:
            parents[name] = parent

    for position, name, parent in members:
        if parent is not None and parent not in parents and is_label(parent):
            findings.append(
                _finding(
                    position,
                    "parent",
                    fields.REASON_NOT_FOUND,
                    f"parent {parent} of {name} was not found",
                )
            )

    _validate_cycles(members, parents, findings)

    return findings


def _read_members(subgroups: list[Any], findings: Findings) -> list[_Member]:
    """Return the entries whose name is a text or missing, and add findings about invalid ones."""
    members: list[_Member] = []
    for position, subgroup in enumerate(subgroups):
        if not isinstance(subgroup, dict):
            findings.append(fields.wrong_type(_PATH.index(position), subgroup, "a map"))
            continue

        name = subgroup.get("name", "")
        parent = subgroup.get("parent")
        problem = _name_problem(position, "name", name, findings)
        if problem is not None:
            reason = fields.REASON_INVALID if name else fields.REASON_REQUIRED
            text = f"invalid subgroup name {fields.quote(name)}: {problem}"
            findings.append(_finding(position, "name", reason, text))

        problem = None if parent is None else _name_problem(position, "parent", parent, findings)
        if problem is not None:
            text = (
                f"invalid parent name {fields.quote(parent)} for subgroup {fields.quote(name)}:"
                f" {problem}"
            )
            findings.append(_finding(position, "parent", fields.REASON_INVALID, text))

        if isinstance(name, str):
            members.append((position, name, parent if isinstance(parent, str) else None))

    return members


def _finding(position: int, field: str, reason: str, text: str, message: str = "") -> FieldError:
    return FieldError(str(_PATH.index(position).child(field)), reason, message or text, text)


def _name_problem(position: int, field: str, value: Any, findings: Findings) -> str | None:
    """Return the problem of a name, or None. If it is not a string, add a finding instead."""
    if isinstance(value, str):
        return label_problem(value)
    findings.append(fields.wrong_type(_PATH.index(position).child(field), value, "a string"))
    return None


def _validate_cycles(
    members: list[_Member], parents: dict[str, str | None], findings: Findings
) -> None:
    """Add one finding per cycle of parents, about the member that comes first in `members`.

    Each name is visited once.
    """
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
            first = min(position_of[member] for member in cycle)
            text = "cycle detected in subgroups"
            message = f"{text}: {' -> '.join([*cycle, name])}"
            findings.append(
                _finding(
                    position=first,
                    field="parent",
                    reason=fields.REASON_INVALID,
                    text=text,
                    message=message,
                )
            )
        done.update(trail)
