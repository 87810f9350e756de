"""Table representations: what `kubectl get` prints, made by the server from printer columns."""

from datetime import UTC, datetime
from typing import Any

import orjson

from app.sandbox.objects import errors
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
"""(below this many seconds, unit, the smaller unit that is shown with it)."""
_INCLUDES = ("", "Metadata", "Object", "None")


def table(
    served: Served, objects: list[Object], include: str, list_metadata: Object, now: datetime | None = None
) -> Object:
    """A meta.k8s.io/v1 Table of stored objects. `include` says what each row carries: None, Metadata or Object.
    Raises 400 for any other."""
    if include not in _INCLUDES:
        said = f"includeObject: Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
        raise errors.bad_request(f"Unable to convert to Table as requested: {said}")
    now = now or datetime.now(UTC)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata,
        "columnDefinitions": definitions(served),
        "rows": [_row(served, obj, include, now) for obj in objects],
    }


def definitions(served: Served) -> list[Object]:
    name = {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}
    return [name, *(_definition(column) for column in served.columns)]


def _definition(column: Column) -> Object:
    return {"name": column.name, "type": column.type, "format": "", "description": "", "priority": column.priority}


def _row(served: Served, obj: Object, include: str, now: datetime) -> Object:
    cells = [metadata(obj).get("name"), *(_cell(column, obj, now) for column in served.columns)]
    if include == "None":
        return {"cells": cells, "object": None}
    return {"cells": cells, "object": served.read(obj) if include == "Object" else partial(obj)}


def partial(obj: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata(obj)}


def _cell(column: Column, obj: Object, now: datetime) -> Any:
    """The first value at the column's path, if it is of the column's type: like the real server, the others of a
    [*] are not shown."""
    found = jsonpath.find(column.path, obj)
    value = found[0] if found else None
    match column.type:
        case "date":
            return age(value, now) if isinstance(value, str) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "integer" | "number":
            if not isinstance(value, (int, float)) or isinstance(value, bool):
                return None
            return int(value) if column.type == "integer" else value
        case "string" if value is not None and not isinstance(value, str):
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    return value


def age(since: str, now: datetime) -> str:
    """`45s`, `3m20s`, `5h`, `2d`: as apimachinery's duration.HumanDuration."""
    try:
        seconds = int((now - datetime.fromisoformat(since)).total_seconds())
    except (ValueError, TypeError):
        return "<invalid>"
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    unit, smaller = next(((unit, smaller) for below, unit, smaller in _STEPS if seconds < below), (_YEAR, 0))
    rest = seconds % unit // smaller if smaller else 0
    return f"{seconds // unit}{_UNITS[unit]}" + (f"{rest}{_UNITS[smaller]}" if rest else "")
