"""PersistentVolumeClaims and StorageClasses."""

from app.facts.identity import ClusterScoped, Namespaced, read_key
from app.objects.shape import JsonMap, map_at, text_at
from app.objects.time import seconds_since_1970

_IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"


class VolumeClaim(Namespaced):
    """A PersistentVolumeClaim."""

    kind = "PersistentVolumeClaim"
    phase: str = "Pending"
    storage_class: str | None = None
    """The StorageClass that it names, "" for a volume without a class, or None if it names none."""
    volume: str = ""
    """The PersistentVolume that it is bound to, or ""."""
    deleting: float | None = None
    """When its deletion was requested."""


class StorageClass(ClusterScoped):
    """A StorageClass."""

    kind = "StorageClass"
    waits: bool = False
    """Does it bind a volume only once a pod is placed?"""
    is_default: bool = False
    """Whether claims that name no class get it."""


def read_volume_claim(obj: JsonMap) -> VolumeClaim:
    metadata = map_at(obj, "metadata")
    spec = map_at(obj, "spec")
    name = spec.get("storageClassName")
    return VolumeClaim(
        *read_key(obj),
        text_at(map_at(obj, "status"), "phase") or "Pending",
        name if isinstance(name, str) else None,
        text_at(spec, "volumeName"),
        seconds_since_1970(metadata.get("deletionTimestamp")),
    )


def read_storage_class(obj: JsonMap) -> StorageClass:
    metadata = map_at(obj, "metadata")
    return StorageClass(
        text_at(metadata, "name"),
        obj.get("volumeBindingMode") == "WaitForFirstConsumer",
        map_at(metadata, "annotations").get(_IS_DEFAULT) == "true",
    )
