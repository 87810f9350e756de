"""Tables of meta.k8s.io/v1: the rows that `kubectl get` prints, made from printer columns."""

from datetime import UTC, datetime
from typing import Any

import orjson

from app.sandbox.objects.objects import Object, metadata
from app.sandbox.objects.resources import Column, Served
from app.sandbox.requests import jsonpath

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
_UNITS = {1: "s", _MINUTE: "m", _HOUR: "h", _DAY: "d", _YEAR: "y"}
_STEPS = (
    (2 * _MINUTE, 1, 0),
    (10 * _MINUTE, _MINUTE, 1),
    (3 * _HOUR, _MINUTE, 0),
    (8 * _HOUR, _HOUR, _MINUTE),
    (2 * _DAY, _HOUR, 0),
    (8 * _DAY, _DAY, _HOUR),
    (2 * _YEAR, _DAY, 0),
    (8 * _YEAR, _YEAR, _DAY),
)
"""Upper limit in seconds, unit, and the smaller unit that is shown too (0 for none)."""


def table(
    served: Served, objects: list[Object], include: str, list_metadata: Object, now: datetime | None = None
) -> Object:
    """A Table of stored objects. With `include` "Object" each row has its object, otherwise only the metadata."""
    now = now or datetime.now(UTC)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata,
        "columnDefinitions": definitions(served),
        "rows": [_row(served, obj, include, now) for obj in objects],
    }


def definitions(served: Served) -> list[Object]:
    """The columns of the table, the name first."""
    name = {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}
    return [name, *(_definition(column) for column in served.columns)]


def _definition(column: Column) -> Object:
    return {"name": column.name, "type": column.type, "format": "", "description": "", "priority": column.priority}


def _row(served: Served, obj: Object, include: str, now: datetime) -> Object:
    cells = [metadata(obj).get("name"), *(_cell(column, obj, now) for column in served.columns)]
    return {"cells": cells, "object": served.read(obj) if include == "Object" else partial(obj)}


def partial(obj: Object) -> Object:
    """The PartialObjectMetadata of `obj`."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata(obj)}


def _cell(column: Column, obj: Object, now: datetime) -> Any:
    """The first value at the path of the column, or None."""
    value = next(iter(jsonpath.find(column.path, obj)), None)
    if column.type == "date":
        return age(value, now) if isinstance(value, str) else None
    if column.type == "string" and value is not None and not isinstance(value, str):
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    return value


def age(since: str, now: datetime) -> str:
    """The time from `since` to `now`, such as `45s`, `3m20s`, `5h` or `2d`, in the format of HumanDuration:
    https://github.com/kubernetes/apimachinery/blob/v0.34.0/pkg/util/duration/duration.go."""
    try:
        seconds = max(int((now - datetime.fromisoformat(since)).total_seconds()), 0)
    except (ValueError, TypeError):
        return "<invalid>"
    unit, smaller = next(((unit, smaller) for limit, unit, smaller in _STEPS if seconds < limit), (_YEAR, 0))
    remainder = seconds % unit // smaller if smaller else 0
    return f"{seconds // unit}{_UNITS[unit]}" + (f"{remainder}{_UNITS[smaller]}" if remainder else "")
