"""Read PersistentVolumeClaims, PersistentVolumes and StorageClasses."""

from collections.abc import Mapping

from msgspec import field

from app.facts.identity import ClusterScoped, Namespaced, read_key, read_name
from app.facts.kubernetes.selectors import (
    Requirement,
    Term,
    has_labels,
    label_selector,
    node_selector_terms,
)
from app.facts.quantity import amounts
from app.objects.shape import JsonMap, map_at, maps_at, text_at, texts_at
from app.objects.time import seconds_since_1970

AVAILABLE = "Available"
"""The phase of a volume that is bound to no claim."""
_IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
"""The provisioner of classes whose volumes are created by hand, such as local disks."""


class VolumeClaim(Namespaced):
    """A PersistentVolumeClaim, with the fields that decide where its pods can run."""

    kind = "PersistentVolumeClaim"
    phase: str = "Pending"
    """The phase: Pending, Bound or Lost."""
    storage_class: str | None = None
    """The StorageClass that the claim names, or None if it does not set the field.

    "" means a volume without a class.
    """
    volume: str = ""
    """The PersistentVolume that the claim is bound to, or ""."""
    deleting: float | None = None
    """When deletion of the claim was requested, in seconds since 1970, or None if it was not."""
    size: int = 0
    """The requested storage, in thousandths of a byte."""
    modes: tuple[str, ...] = ()
    """The access modes that it requests, and Block if it requests a block device."""
    selector: Term = ()
    """The requirements on the labels of its volume."""

    def matches(self, volume: "Volume") -> bool:
        """Return whether a volume is large enough, has the modes and labels, and is free for it."""
        if volume.reserved not in ("", f"{self.namespace}/{self.name}"):
            return False
        if not has_labels(self.selector, volume.labels):
            return False
        is_block = "Block" in self.modes
        has_modes = set(self.modes) <= set(volume.modes) and is_block == ("Block" in volume.modes)
        return self.size <= volume.size and has_modes


class Volume(ClusterScoped):
    """A PersistentVolume, with the nodes that can use it."""

    kind = "PersistentVolume"
    places: tuple[Term, ...] = ()
    """The terms of the node affinity, one of which a node must meet, or () for any node."""
    storage_class: str = ""
    """The name of the StorageClass, or ""."""
    phase: str = "Pending"
    """The phase, such as Available or Bound."""
    size: int = 0
    """The capacity, in thousandths of a byte."""
    modes: tuple[str, ...] = ()
    """The access modes, and Block if it is a block device."""
    reserved: str = ""
    """The claim that the volume is for, such as `ns/data`, or "" for any claim."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels, or none if the volume is not available."""


class StorageClass(ClusterScoped):
    """A StorageClass, with its rules for creating and binding volumes."""

    kind = "StorageClass"
    waits: bool = False
    """Whether a volume is bound only once a pod is placed (`WaitForFirstConsumer`)."""
    is_default: bool = False
    """Whether claims without the field `storageClassName` get this class."""
    provisions: bool = True
    """Whether a provisioner creates the volumes. If not, they are created by hand."""
    places: tuple[Term, ...] = ()
    """The terms of `allowedTopologies`, one of which a node must meet, or () for any node."""


def read_volume_claim(obj: JsonMap) -> VolumeClaim:
    """Read a PersistentVolumeClaim."""
    metadata = map_at(obj, "metadata")
    spec = map_at(obj, "spec")
    name = spec.get("storageClassName")
    return VolumeClaim(
        *read_key(obj),
        text_at(map_at(obj, "status"), "phase") or "Pending",
        name if isinstance(name, str) else None,
        text_at(spec, "volumeName"),
        seconds_since_1970(metadata.get("deletionTimestamp")),
        amounts(map_at(spec, "resources", "requests")).get("storage", 0),
        _modes(spec),
        label_selector(spec.get("selector")),
    )


def _modes(spec: JsonMap) -> tuple[str, ...]:
    block = ("Block",) if spec.get("volumeMode") == "Block" else ()
    return (*texts_at(spec, "accessModes"), *block)


def read_volume(obj: JsonMap) -> Volume:
    """Read a PersistentVolume."""
    spec = map_at(obj, "spec")
    claim = map_at(spec, "claimRef")
    phase = text_at(map_at(obj, "status"), "phase") or "Pending"
    labels = map_at(obj, "metadata", "labels") if phase == AVAILABLE else {}
    return Volume(
        read_name(obj),
        node_selector_terms(map_at(spec, "nodeAffinity", "required")),
        text_at(spec, "storageClassName"),
        phase,
        amounts(spec.get("capacity")).get("storage", 0),
        _modes(spec),
        f"{text_at(claim, 'namespace')}/{text_at(claim, 'name')}" if claim else "",
        {str(key): str(value) for key, value in labels.items()},
    )


def read_storage_class(obj: JsonMap) -> StorageClass:
    """Read a StorageClass."""
    metadata = map_at(obj, "metadata")
    return StorageClass(
        text_at(metadata, "name"),
        obj.get("volumeBindingMode") == "WaitForFirstConsumer",
        map_at(metadata, "annotations").get(_IS_DEFAULT) == "true",
        obj.get("provisioner") != _NO_PROVISIONER,
        tuple(
            tuple(
                Requirement(text_at(item, "key"), "In", tuple(texts_at(item, "values")))
                for item in maps_at(term, "matchLabelExpressions")
            )
            for term in maps_at(obj, "allowedTopologies")
        ),
    )
