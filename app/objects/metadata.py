"""The key, labels and annotations of an object."""

from app.objects.shape import JsonMap


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
