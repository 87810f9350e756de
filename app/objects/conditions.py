"""Conditions of Kubernetes objects (metav1.Condition), merged by type. The transition time changes only
with the status."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition to write. `reason` is one CamelCase word, `message` is for people."""

    type: str
    status: Status
    reason: str
    message: str
    generation: int


def with_condition(conditions: Any, desired: Condition, now: str) -> list[dict[str, Any]]:
    """`conditions` with `desired` in the place of its type, or at the end. The others are not changed. `now` (RFC 3339)
    becomes the time of transition if the status differs from the stored one."""
    merged, replaced = [], False
    for condition in _maps(conditions):
        if condition.get("type") == desired.type:
            replaced = True
            condition = _written(desired, condition, now)
        merged.append(condition)
    return merged if replaced else [*merged, _written(desired, {}, now)]


def without_condition(conditions: Any, kind: str) -> list[dict[str, Any]]:
    """`conditions` without those of type `kind`."""
    return [condition for condition in _maps(conditions) if condition.get("type") != kind]


def says(conditions: Any, desired: Condition) -> bool:
    """Whether `conditions` contain `desired`, apart from the time of transition."""
    return any(_is(condition, desired) for condition in _maps(conditions))


def _is(condition: Mapping[str, Any], desired: Condition) -> bool:
    stored = tuple(condition.get(key) for key in ("type", "status", "reason", "message", "observedGeneration"))
    return stored == (desired.type, desired.status, desired.reason, desired.message, desired.generation)


def _written(desired: Condition, before: Mapping[str, Any], now: str) -> dict[str, Any]:
    since = before.get("lastTransitionTime") if before.get("status") == desired.status else None
    return {
        "type": desired.type,
        "status": desired.status,
        "observedGeneration": desired.generation,
        "lastTransitionTime": since or now,
        "reason": desired.reason,
        "message": desired.message,
    }


def _maps(conditions: Any) -> list[dict[str, Any]]:
    return [item for item in conditions if isinstance(item, dict)] if isinstance(conditions, list) else []
