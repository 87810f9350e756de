"""Labels and annotations of an object."""

from collections.abc import Mapping
from typing import Any


def string_map(holder: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the map `name` of the metadata, such as `labels`.

    It is empty if it is absent or not a map.
    """
    metadata = holder.get("metadata")
    value = metadata.get(name) if isinstance(metadata, dict) else None
    return value if isinstance(value, dict) else {}


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return string_map(obj, "labels")


def annotations_of(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return string_map(obj, "annotations")
