"""Tables of meta.k8s.io/v1: the rows that `kubectl get` prints, made from printer columns."""

from datetime import UTC, datetime
from typing import Any

import orjson

from app.sandbox.objects.objects import Object, metadata
from app.sandbox.objects.resources import Column, Served
from app.sandbox.requests import jsonpath

_NAME = Column("Name", ".metadata.name")
_UNITS = (("d", 86400), ("h", 3600), ("m", 60))


def table(
    served: Served, objects: list[Object], include: str, list_metadata: Object, now: datetime | None = None
) -> Object:
    """A Table of stored objects. With `include` "Object" each row has its object, otherwise only the metadata."""
    now = now or datetime.now(UTC)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata,
        "columnDefinitions": [_definition(column) for column in (_NAME, *served.columns)],
        "rows": [_row(served, obj, include, now) for obj in objects],
    }


def _definition(column: Column) -> Object:
    form = "name" if column is _NAME else ""
    return {"name": column.name, "type": column.type, "format": form, "description": "", "priority": column.priority}


def _row(served: Served, obj: Object, include: str, now: datetime) -> Object:
    cells = [_cell(column, obj, now) for column in (_NAME, *served.columns)]
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
    """The time from `since` to `now`, such as `45s`, `3m`, `5h` or `2d`: from two of a unit on, it is in that unit."""
    try:
        seconds = max(int((now - datetime.fromisoformat(since)).total_seconds()), 0)
    except (ValueError, TypeError):
        return "<invalid>"
    unit, length = next(((unit, length) for unit, length in _UNITS if seconds >= 2 * length), ("s", 1))
    return f"{seconds // length}{unit}"
