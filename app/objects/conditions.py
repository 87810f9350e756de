"""Read conditions of Kubernetes objects (metav1.Condition), and merge them by type.

The transition time changes only with the status.
"""

from typing import Any, Literal

from app.base.value import Value
from app.objects.shape import JsonMap, Object, int_of, map_at, map_of, maps_of, text_at

Status = Literal["True", "False", "Unknown"]


class Condition(Value):
    """A metav1.Condition without its transition time."""

    type: str
    """The type of the condition, such as `Ready`."""
    status: Status
    """Whether the condition holds, or "" if the stored status is missing or malformed."""
    reason: str
    """The machine-readable reason, one CamelCase word."""
    message: str
    """The human-readable message."""
    generation: int
    """The generation of the object that the condition describes (`observedGeneration`)."""


def with_condition(conditions: Any, desired: Condition, now: str) -> list[Object]:
    """Return `conditions` with `desired`, which replaces the condition of the same type.

    `now` (RFC 3339) becomes the transition time, unless a condition of this type has the same
    status and a transition time.
    """
    merged = []
    replaced = False
    for condition in maps_of(conditions):
        if condition.get("type") == desired.type:
            replaced = True
            condition = _as_map(desired, condition, now)
        merged.append(condition)
    return merged if replaced else [*merged, _as_map(desired, {}, now)]


def condition_of(obj: JsonMap, type: str) -> JsonMap:
    """Return the condition of `obj` with this type as it is stored, or {} if it has none."""
    for condition in maps_of(map_of(obj.get("status")).get("conditions")):
        if condition.get("type") == type:
            return condition
    return {}


def read_condition(obj: JsonMap, type: str) -> Condition | None:
    """Return the condition of `obj` with this type, or None if it has none.

    A missing or malformed text becomes "", and a missing or malformed generation becomes 0.
    """
    stored = condition_of(obj, type)
    if not stored:
        return None
    return Condition(
        type=type,
        status=text_at(stored, "status"),  # type: ignore[arg-type]
        reason=text_at(stored, "reason"),
        message=text_at(stored, "message"),
        generation=int_of(stored.get("observedGeneration")),
    )


def status_patch(stored: Object, status: Object) -> Object:
    """Return a merge patch that writes `status`.

    The write gets a Conflict if the object has changed since `stored` was read.
    """
    return {
        "metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]},
        "status": status,
    }


def condition_patch(stored: Object, type: str, desired: Condition | None, now: str) -> Object:
    """Return a merge patch that sets the condition of this type to `desired`.

    If `desired` is None, the patch removes the condition. See `status_patch` and `with_condition`.
    """
    conditions = map_at(stored, "status").get("conditions")
    if desired is None:
        remaining = [item for item in maps_of(conditions) if item.get("type") != type]
    else:
        remaining = with_condition(conditions, desired, now)
    return status_patch(stored, {"conditions": remaining or None})


def _as_map(desired: Condition, stored: JsonMap, now: str) -> Object:
    since = stored.get("lastTransitionTime") if stored.get("status") == desired.status else None
    return {
        "type": desired.type,
        "status": desired.status,
        "observedGeneration": desired.generation,
        "lastTransitionTime": since or now,
        "reason": desired.reason,
        "message": desired.message,
    }
