"""Reads parts of objects that may not have the shape that their CRD requires.

A part of the wrong type counts as absent. All but `maps_at` and `texts_at` are called some fifty
times for each object that is read, so they don't call each other.
"""

from collections.abc import Iterable, Mapping
from typing import Any

Object = dict[str, Any]
"""A Kubernetes object, or another object of JSON."""

JsonMap = Mapping[str, Any]
"""The same, or a part of one, that is only read."""


def map_of(value: Any) -> JsonMap:
    """`value` if it is a map, else an empty map."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """`value` if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def maps_of(value: Any) -> list[Object]:
    """Return the maps in the list `value`. Empty if `value` is not a list."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


def int_of(value: Any, default: int = 0) -> int:
    """`value` if it is an integer, else `default`. A boolean is not an integer."""
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def text_of(value: Any) -> str:
    """`value` if it is a string, else an empty string."""
    return value if isinstance(value, str) else ""


def text_at(holder: JsonMap, key: str) -> str:
    """Return the string at `key` of a map, else an empty string."""
    value = holder.get(key)
    return value if isinstance(value, str) else ""


def map_at(obj: JsonMap, *path: str) -> JsonMap:
    """Return the map at a path of an object, which is empty if there is none."""
    for step in path:
        value = obj.get(step)
        obj = value if isinstance(value, dict) else {}
    return obj


def maps_at(obj: JsonMap, *path: str) -> list[dict[str, Any]]:
    """Return the maps in the list at a path of an object. Empty if there is none."""
    for step in path[:-1]:
        value = obj.get(step)
        obj = value if isinstance(value, dict) else {}

    return maps_of(obj.get(path[-1]))


def texts_at(holder: JsonMap, key: str) -> list[str]:
    """Return the strings in the list at `key` of a map. Empty if there is none."""
    return [item for item in list_of(holder.get(key)) if isinstance(item, str)]


def only(entries: JsonMap, keys: Iterable[str]) -> Object:
    """Return those of `entries` that have one of `keys`, in the order of these."""
    return {key: entries[key] for key in keys if key in entries}


# Metadata.


def string_map(holder: JsonMap, name: str) -> JsonMap:
    """Return the map `name` of the metadata, such as `labels`.

    It is empty if it is absent or not a map.
    """
    metadata = holder.get("metadata")
    value = metadata.get(name) if isinstance(metadata, dict) else None
    return value if isinstance(value, dict) else {}


def labels_of(obj: JsonMap) -> JsonMap:
    return string_map(obj, "labels")


def annotations_of(obj: JsonMap) -> JsonMap:
    return string_map(obj, "annotations")


def key_of(obj: JsonMap) -> tuple[str, str]:
    """Return the namespace of an object, "" if it has none, and its name."""
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]
