"""Table representations: what `kubectl get` prints, made by the server from printer columns."""

from datetime import UTC, datetime
from typing import Any

import orjson

from app.sandbox import jsonpath
from app.sandbox.objects import Object, metadata
from app.sandbox.resources import Column, Served

_UNITS = ((365 * 86400, "y"), (86400, "d"), (3600, "h"), (60, "m"))


def table(
    served: Served, objects: list[Object], include: str, list_metadata: Object, now: datetime | None = None
) -> Object:
    """A meta.k8s.io/v1 Table of stored objects. `include` says what each row carries: None, Metadata or Object."""
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
        return {"cells": cells}
    return {"cells": cells, "object": served.read(obj) if include == "Object" else partial(obj)}


def partial(obj: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata(obj)}


def _cell(column: Column, obj: Object, now: datetime) -> Any:
    """The first value at the column's path: like the real server, the others of a [*] are not shown."""
    found = jsonpath.find(column.path, obj)
    if not found or found[0] is None:
        return None
    value = found[0]
    if column.type == "date":
        return age(str(value), now)
    if column.type == "string" and not isinstance(value, str):
        return orjson.dumps(value).decode()
    return value


def age(since: str, now: datetime) -> str:
    """`45s`, `3m`, `5h`, `2d`: kubectl's durations, in one unit."""
    try:
        seconds = int((now - datetime.fromisoformat(since)).total_seconds())
    except (ValueError, TypeError):
        return "<unknown>"
    for size, unit in _UNITS:
        if seconds >= 2 * size or (unit != "m" and seconds >= size):
            return f"{seconds // size}{unit}"
    return f"{max(seconds, 0)}s"
