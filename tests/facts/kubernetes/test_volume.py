"""What is kept of claims of volumes, and of StorageClasses."""

from app.facts.kubernetes.volume import (
    StorageClass,
    VolumeClaim,
    read_storage_class,
    read_volume_claim,
)


def test_a_claim_is_read() -> None:
    obj = {
        "metadata": {
            "namespace": "ns",
            "name": "data",
            "deletionTimestamp": "1970-01-01T00:01:00Z",
        },
        "spec": {"storageClassName": "fast", "volumeName": "pv-1"},
        "status": {"phase": "Bound"},
    }
    assert read_volume_claim(obj) == VolumeClaim("ns", "data", "Bound", "fast", "pv-1", 60.0)


def test_a_claim_without_a_class_is_not_one_that_wants_none() -> None:
    metadata = {"namespace": "ns", "name": "data"}
    assert read_volume_claim({"metadata": metadata}) == VolumeClaim("ns", "data")

    without = read_volume_claim({"metadata": metadata, "spec": {"storageClassName": ""}})
    assert without == VolumeClaim("ns", "data", storage_class="")


def test_a_class_may_wait_and_may_be_the_default() -> None:
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    obj = {
        "metadata": {"name": "local", "annotations": default},
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    assert read_storage_class(obj) == StorageClass("local", waits=True, is_default=True)

    at_once = {"metadata": {"name": "fast"}, "volumeBindingMode": "Immediate"}
    assert read_storage_class(at_once) == StorageClass("fast")
