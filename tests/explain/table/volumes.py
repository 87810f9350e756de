"""Reasons in PersistentVolumeClaims."""

from msgspec.structs import replace

from app.facts.kubernetes.pod import Shape
from app.facts.kubernetes.selectors import Requirement
from app.facts.kubernetes.volume import StorageClass, Volume, VolumeClaim
from tests.explain.fleet import HOST, NAMESPACE, NOW, ZONE, fill, nodes, pods
from tests.explain.table.row import ONE_NODE, Changes, Row, changed, labelled

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


def disk(key: str, *values: str) -> Volume:
    """The volume of the claim, for nodes with one of these labels."""
    return Volume("pv-1", ((Requirement(key, "In", values),),), "late", "Bound")


def tied(volume: Volume, **changes: object) -> Changes:
    """All pods name the claim, which has this volume."""
    claim = data(phase="Bound", volume="pv-1", storage_class="late")
    return {**claimed(claim, LATE), "volumes": (volume,), **changes}


def apart(zone: str) -> Changes:
    """The first and the last worker have a disk each. That of the last is in this zone."""
    first, *others, last = pods()
    bound = data(phase="Bound", volume="pv-1", storage_class="late")
    each = (replace(first, volumes=("data",)), *others, replace(last, volumes=("more",)))
    return {
        "pods": (*each, *fill("rack-b1", "rack-b2")),
        "volume_claims": (bound, replace(bound, name="more", volume="pv-2")),
        "storage_classes": (LATE,),
        "volumes": (disk(ZONE, "zone-a"), replace(disk(ZONE, zone), name="pv-2")),
    }


BOUND = data(phase="Bound", volume="pv-1", storage_class="fast")
NAMED = "PersistentVolumeClaim data, which 4 pods use,"
TIED = "PersistentVolumeClaim data is bound to volume pv-1, which only nodes with"
LOCAL = StorageClass("local", waits=True, provisions=False)
ONCE = ("ReadWriteOnce",)
FREE = Volume("pv-9", storage_class="other", phase="Available")


def by_hand(*hosts: str) -> Volume:
    """A free disk that one of these nodes can use."""
    term = (Requirement(HOST, "In", hosts),)
    return replace(FREE, name="pv-8", storage_class="local", places=(term,))


WITH_DATA = pods(volumes=("data",))
ZONE_B = tuple(node.name for node in nodes()[8:])
ON_ONE = Shape((("pods", 1000),), affinity=ONE_NODE)
SMALL = {"cpu": 64_000, "pods": 110_000, "nvidia.com/gpu": 4_000}
IN_ZONE_B = replace(LATE, places=((Requirement(ZONE, "In", ("zone-b",)),),))

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
        f"{NAMED} names StorageClass quick, which does not exist; the existing one is fast",
        "you",
        claimed(data(storage_class="late"), LATE),
    ),
    Row(
        "VolumeUnbound",
        "its StorageClass does not exist, and there is no other",
        claimed(data(storage_class="quick")),
        f"{NAMED} names StorageClass quick, which does not exist; the cluster has no StorageClass",
        "platform",
        claimed(data(storage_class="late"), LATE),
    ),
    Row(
        "VolumeUnbound",
        "its StorageClass binds before pods are placed",
        claimed(data(storage_class="fast"), FAST),
        f"{NAMED} is not bound, and StorageClass fast binds volumes before pods are placed",
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
    Row(
        "VolumeUnbound",
        "no volume of a class whose volumes are made by hand is free",
        {**claimed(data(storage_class="local"), LOCAL), "volumes": (FREE,)},
        f"{NAMED} is not bound: StorageClass local creates no volumes, and no PersistentVolume of"
        " it is available",
        "platform",
        {
            **claimed(data(storage_class="local"), LOCAL),
            "volumes": (replace(FREE, storage_class="local"),),
        },
    ),
    Row(
        "VolumeUnbound",
        "the free volumes made by hand are too small",
        {
            **claimed(data(storage_class="local", size=5 * 2**30 * 1000, modes=ONCE), LOCAL),
            "volumes": (replace(FREE, storage_class="local", size=2**30 * 1000, modes=ONCE),),
        },
        f"{NAMED} is not bound: StorageClass local creates no volumes, and no available"
        " PersistentVolume of it matches the claim (5 GiB and ReadWriteOnce)",
        "platform",
        {
            **claimed(data(storage_class="local", size=2**30 * 1000, modes=ONCE), LOCAL),
            "volumes": (replace(FREE, storage_class="local", size=2**30 * 1000, modes=ONCE),),
        },
    ),
    Row(
        "VolumeElsewhere",
        "the free disk made by hand is on a node that is closed",
        {
            **claimed(data(storage_class="local"), LOCAL),
            "volumes": (by_hand("gpu-00"),),
            "nodes": changed(("gpu-00",), unschedulable=True),
        },
        f"PersistentVolumeClaim data gets a volume of StorageClass local, which only nodes with"
        f" {HOST}=gpu-00 can use, and these take no pods: gpu-00 (cordoned)",
        "platform",
        {
            **claimed(data(storage_class="local"), LOCAL),
            "volumes": (by_hand("gpu-00"), replace(FREE, storage_class="local")),
            "nodes": changed(("gpu-00",), unschedulable=True),
        },
    ),
    Row(
        "VolumeElsewhere",
        "the zone of the disk is full",
        tied(disk(ZONE, "zone-b"), pods=(*WITH_DATA, *fill("rack-b1", "rack-b2"))),
        f"{TIED} {ZONE}=zone-b can use, and gpu-08, gpu-09, gpu-10, gpu-11 and 4 more have no room"
        " for the pod",
        "wait",
        tied(disk(ZONE, "zone-a"), pods=(*WITH_DATA, *fill("rack-b1", "rack-b2"))),
    ),
    Row(
        "VolumeElsewhere",
        "the node of the disk is gone",
        tied(disk(HOST, "gpu-99")),
        f"{TIED} {HOST}=gpu-99 can use, and there is no such node",
        "platform",
        tied(Volume("pv-1")),
    ),
    Row(
        "VolumeElsewhere",
        "the zone of the disk is closed",
        tied(disk(ZONE, "zone-b"), nodes=changed(ZONE_B, unschedulable=True)),
        f"{TIED} {ZONE}=zone-b can use, and these take no pods: gpu-08, gpu-09, gpu-10,"
        " gpu-11 and 4 more (cordoned)",
        "platform",
        tied(disk(ZONE, "zone-a"), nodes=changed(ZONE_B, unschedulable=True)),
        also=("NodesUnfit",),
    ),
    Row(
        "VolumeElsewhere",
        "the pods select other nodes than those of the disk",
        tied(disk(HOST, "gpu-04"), pods=pods(volumes=("data",), shape=ON_ONE)),
        f"{TIED} {HOST}=gpu-04 can use, and the pods do not select them (gpu-04)",
        "you",
        tied(disk(HOST, "gpu-00"), pods=pods(volumes=("data",), shape=ON_ONE)),
    ),
    Row(
        "VolumeElsewhere",
        "the nodes of the disk are in another pool",
        tied(disk(ZONE, "zone-b"), nodes=labelled(ZONE_B, pool="h100")),
        f"{TIED} {ZONE}=zone-b can use, and these (gpu-08, gpu-09, gpu-10, gpu-11 and 4 more) are"
        " not in the gang's node pool",
        "platform",
        tied(disk(ZONE, "zone-a"), nodes=labelled(ZONE_B, pool="h100")),
        also=("OutsidePool",),
    ),
    Row(
        "VolumeElsewhere",
        "the nodes of the disk are too small",
        tied(disk(HOST, "gpu-04"), nodes=changed(("gpu-04",), allocatable=SMALL)),
        f"{TIED} {HOST}=gpu-04 can use, and gpu-04 is too small for the pod, even if empty"
        " (too little nvidia.com/gpu)",
        "platform",
        tied(disk(ZONE, "zone-a"), nodes=changed(("gpu-04",), allocatable=SMALL)),
    ),
    Row(
        "VolumeElsewhere",
        "two disks are in different zones",
        {
            "pods": pods(volumes=("data", "more")),
            "volume_claims": (
                data(phase="Bound", volume="pv-1", storage_class="late"),
                replace(data(phase="Bound", volume="pv-2", storage_class="late"), name="more"),
            ),
            "storage_classes": (LATE,),
            "volumes": (disk(ZONE, "zone-a"), replace(disk(ZONE, "zone-b"), name="pv-2")),
        },
        f"{TIED} {ZONE}=zone-a can use, and no node can use all volumes of the pod; 1 other claim"
        " has the same problem",
        "you",
        tied(disk(ZONE, "zone-a")),
    ),
    Row(
        "VolumeElsewhere",
        "only the disk of the last pod is in a full zone",
        apart("zone-b"),
        f"PersistentVolumeClaim more is bound to volume pv-2, which only nodes with {ZONE}=zone-b"
        " can use, and gpu-08, gpu-09, gpu-10, gpu-11 and 4 more have no room for the pod",
        "wait",
        apart("zone-a"),
    ),
    Row(
        "VolumeElsewhere",
        "the node of the disk has room for one of its pods only",
        tied(disk(HOST, "gpu-00")),
        f"{TIED} {HOST}=gpu-00 can use, and gpu-00 has room for the pod, but the gang does not"
        " fit with it there",
        "you",
        tied(disk(ZONE, "zone-a")),
    ),
    Row(
        "VolumeElsewhere",
        "its StorageClass creates disks in another zone only",
        {
            **claimed(data(storage_class="late"), IN_ZONE_B),
            "pods": (*WITH_DATA, *fill("rack-b1", "rack-b2")),
        },
        "PersistentVolumeClaim data gets a volume of StorageClass late, which only nodes with"
        f" {ZONE}=zone-b can use, and gpu-08, gpu-09, gpu-10, gpu-11 and 4 more"
        " have no room for the pod",
        "wait",
        claimed(data(storage_class="late"), IN_ZONE_B),
    ),
)
