"""Read parts of objects that may not match their CRD.

A part of the wrong type is treated as absent. Most functions repeat a check instead of calling each
other, because they are called about fifty times for each object.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
"""An integer of at most 18 digits, which fits into 64 bits.

The limit is needed because `int` raises ValueError for more than 4,300 digits.
"""

Object = dict[str, Any]
"""A Kubernetes object or another JSON object."""

JsonMap = Mapping[str, Any]
"""A read-only JSON object, or a part of one."""


def map_of(value: Any) -> JsonMap:
    """Return `value` if it is a map, otherwise an empty map."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """Return `value` if it is a list, otherwise an empty list."""
    return value if isinstance(value, list) else []


def maps_of(value: Any) -> list[Object]:
    """Return the maps in the list `value`, or an empty list if `value` is not a list."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


def int_of(value: Any, default: int = 0) -> int:
    """Return `value` if it is an integer, otherwise `default`. A boolean is not an integer."""
    return value if type(value) is int else default


def integer_in(text: str) -> int | None:
    """Return `text` as an integer, or None if it is not an integer of at most 18 digits."""
    return int(text) if _INTEGER.fullmatch(text) else None


def text_of(value: Any) -> str:
    """Return `value` if it is a string, otherwise an empty string."""
    return value if isinstance(value, str) else ""


def text_at(obj: JsonMap, key: str) -> str:
    """Return the string at `key` of a map, or an empty string if there is none."""
    value = obj.get(key)
    return value if isinstance(value, str) else ""


def map_at(obj: JsonMap, *path: str) -> JsonMap:
    """Return the map at `path` of `obj`, or an empty map if there is none."""
    for step in path:
        value = obj.get(step)
        obj = value if isinstance(value, dict) else {}
    return obj


def maps_at(obj: JsonMap, *path: str) -> list[dict[str, Any]]:
    """Return the maps in the list at `path` of `obj`, or an empty list if there is none."""
    for step in path[:-1]:
        value = obj.get(step)
        obj = value if isinstance(value, dict) else {}

    return maps_of(obj.get(path[-1]))


def texts_at(obj: JsonMap, key: str) -> list[str]:
    """Return the strings in the list at `key` of a map, or an empty list if there is none."""
    return [item for item in list_of(obj.get(key)) if isinstance(item, str)]


def only(entries: JsonMap, keys: Iterable[str]) -> Object:
    """Return the entries with one of `keys`, in the order of `keys`."""
    return {key: entries[key] for key in keys if key in entries}


# Metadata.


def string_map(obj: JsonMap, name: str) -> JsonMap:
    """Return the map `name` of an object's metadata, such as `labels`, or an empty map."""
    metadata = obj.get("metadata")
    value = metadata.get(name) if isinstance(metadata, dict) else None
    return value if isinstance(value, dict) else {}


def labels_of(obj: JsonMap) -> JsonMap:
    """Return the labels of an object, or an empty map if it has none."""
    return string_map(obj, "labels")


def annotations_of(obj: JsonMap) -> JsonMap:
    """Return the annotations of an object, or an empty map if it has none."""
    return string_map(obj, "annotations")


def key_of(obj: JsonMap) -> tuple[str, str]:
    """Return (namespace, name) of an object. The namespace of a cluster-scoped object is ""."""
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]
