"""Reasons in PersistentVolumeClaims."""

from msgspec.structs import replace

from app.facts.kubernetes.volume import StorageClass, VolumeClaim
from tests.explain.fleet import NAMESPACE, NOW, pods
from tests.explain.table.row import Changes, Row

FAST = StorageClass("fast")
LATE = StorageClass("late", waits=True)


def claimed(claim: VolumeClaim | None, *classes: StorageClass) -> Changes:
    """All pods name the claim `data`."""
    return {
        "pods": pods(volumes=("data",)),
        "volume_claims": (claim,) if claim is not None else (),
        "storage_classes": classes,
    }


def data(**changes: object) -> VolumeClaim:
    return replace(VolumeClaim(NAMESPACE, "data"), **changes)


BOUND = data(phase="Bound", volume="pv-1", storage_class="fast")
NAMED = "PersistentVolumeClaim data, which 4 pods use,"

VOLUMES = (
    Row(
        "VolumeUnbound",
        "the claim does not exist",
        claimed(None, FAST),
        f"{NAMED} does not exist",
        "you",
        claimed(BOUND, FAST),
    ),
    Row(
        "VolumeUnbound",
        "its StorageClass does not exist",
        claimed(data(storage_class="quick"), FAST),
        f"{NAMED} names StorageClass quick, which does not exist; there are fast",
        "you",
        claimed(data(storage_class="late"), LATE),
    ),
    Row(
        "VolumeUnbound",
        "its StorageClass does not exist, and there is no other",
        claimed(data(storage_class="quick")),
        f"{NAMED} names StorageClass quick, which does not exist; there is none",
        "platform",
        claimed(data(storage_class="late"), LATE),
    ),
    Row(
        "VolumeUnbound",
        "its StorageClass binds before pods are placed",
        claimed(data(storage_class="fast"), FAST),
        f"{NAMED} is not bound, and StorageClass fast binds before pods are placed",
        "platform",
        claimed(data(storage_class="fast"), replace(FAST, waits=True)),
    ),
    Row(
        "VolumeUnbound",
        "it names no StorageClass, and there is no default",
        claimed(data(), FAST),
        f"{NAMED} names no StorageClass, and there is no default",
        "you",
        claimed(data(), replace(LATE, is_default=True)),
    ),
    Row(
        "VolumeUnbound",
        "it wants a volume that is made by hand",
        claimed(data(storage_class="")),
        f"{NAMED} is not bound, and no provisioner creates volumes for it",
        "platform",
        claimed(data(storage_class="", phase="Bound")),
    ),
    Row(
        "VolumeUnbound",
        "its volume is lost",
        claimed(replace(BOUND, phase="Lost")),
        f"{NAMED} has lost its volume pv-1",
        "you",
        claimed(BOUND),
    ),
    Row(
        "VolumeUnbound",
        "it is being deleted",
        claimed(replace(BOUND, deleting=NOW - 60)),
        f"{NAMED} is being deleted",
        "you",
        claimed(BOUND),
    ),
)
