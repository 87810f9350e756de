"""Read the conditions and the last errors in the status of Grove's objects."""

from app.base.value import Value
from app.objects.shape import JsonMap, maps_at, text_at
from app.objects.time import seconds_since_1970


class StatusCondition(Value):
    """A condition in the status of an object. Missing texts are ""."""

    type: str = ""
    status: str = ""
    """The status: True, False or Unknown."""
    reason: str = ""
    message: str = ""
    since: float | None = None
    """When the status last changed, in seconds since 1970, or None if that is not known."""


class LastError(Value):
    """An entry of Grove's `status.lastErrors`. Grove keeps it after the error is over."""

    text: str
    """The description of the error."""
    time: float | None
    """When Grove observed the error, in seconds since 1970, or None if that is not known."""


def read_conditions(status: JsonMap) -> tuple[StatusCondition, ...]:
    """Return the conditions in the status of an object, in the order of their list."""
    return tuple(
        StatusCondition(
            type=text_at(item, "type"),
            status=text_at(item, "status"),
            reason=text_at(item, "reason"),
            message=text_at(item, "message"),
            since=seconds_since_1970(item.get("lastTransitionTime")),
        )
        for item in maps_at(status, "conditions")
    )


def read_last_errors(status: JsonMap) -> tuple[LastError, ...]:
    """Return the errors in `lastErrors` of the status of an object of Grove."""
    return tuple(
        LastError(text_at(item, "description"), seconds_since_1970(item.get("observedAt")))
        for item in maps_at(status, "lastErrors")
    )
