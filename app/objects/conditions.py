"""Conditions of Kubernetes objects (metav1.Condition), merged by type; a transition is where the status changes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True)
class Condition:
    """What is to be said. `reason` is one CamelCase word, `message` for people."""

    type: str
    status: Status
    reason: str
    message: str
    generation: int


def with_condition(conditions: Any, wanted: Condition, now: str) -> list[dict[str, Any]]:
    """`conditions` as stored, with `wanted` in the place of its type or at the end; the others as they were. `now`
    (RFC 3339) becomes the time of transition where the status is another than before."""
    merged, found = [], False
    for one in _maps(conditions):
        if one.get("type") == wanted.type:
            found = True
            one = _written(wanted, one, now)
        merged.append(one)
    return merged if found else [*merged, _written(wanted, {}, now)]


def without_condition(conditions: Any, kind: str) -> list[dict[str, Any]]:
    return [one for one in _maps(conditions) if one.get("type") != kind]


def says(conditions: Any, wanted: Condition) -> bool:
    """Whether `conditions` say just that already."""
    return any(_is(one, wanted) for one in _maps(conditions))


def _is(one: Mapping[str, Any], wanted: Condition) -> bool:
    held = tuple(one.get(key) for key in ("type", "status", "reason", "message", "observedGeneration"))
    return held == (wanted.type, wanted.status, wanted.reason, wanted.message, wanted.generation)


def _written(wanted: Condition, before: Mapping[str, Any], now: str) -> dict[str, Any]:
    since = before.get("lastTransitionTime") if before.get("status") == wanted.status else None
    return {
        "type": wanted.type,
        "status": wanted.status,
        "observedGeneration": wanted.generation,
        "lastTransitionTime": since or now,
        "reason": wanted.reason,
        "message": wanted.message,
    }


def _maps(conditions: Any) -> list[dict[str, Any]]:
    return [one for one in conditions if isinstance(one, dict)] if isinstance(conditions, list) else []
