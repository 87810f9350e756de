"""What is kept of claims of volumes, of volumes, and of StorageClasses."""

from typing import Any

import pytest

from app.facts.kubernetes.selectors import Requirement
from app.facts.kubernetes.volume import (
    StorageClass,
    Volume,
    VolumeClaim,
    read_storage_class,
    read_volume,
    read_volume_claim,
)
from app.objects.shape import JsonMap


def one(key: str, operator: str, *values: str) -> dict[str, Any]:
    """One of `matchExpressions`."""
    return {"key": key, "operator": operator, "values": list(values)}


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


def test_a_class_may_create_no_volumes_or_only_in_some_places() -> None:
    zones = {"key": "zone", "values": ["a", "b"]}
    obj = {
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "allowedTopologies": [{"matchLabelExpressions": [zones]}],
    }
    term = (Requirement("zone", "In", ("a", "b")),)
    assert read_storage_class(obj) == StorageClass("local", provisions=False, places=(term,))


def test_a_volume_says_which_nodes_can_use_it() -> None:
    host = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}}
    obj = {
        "metadata": {"name": "pv-1"},
        "spec": {"nodeAffinity": affinity, "storageClassName": "local"},
        "status": {"phase": "Bound"},
    }
    term = (Requirement("kubernetes.io/hostname", "In", ("n1",)),)
    assert read_volume(obj) == Volume("pv-1", (term,), "local", "Bound")
    assert read_volume({"metadata": {"name": "nfs"}}) == Volume("nfs")


def test_a_volume_must_be_large_enough_and_have_the_modes_of_the_claim() -> None:
    modes = {"accessModes": ["ReadWriteOnce"], "volumeMode": "Block"}
    spec = {**modes, "resources": {"requests": {"storage": "1Gi"}}}
    claim = read_volume_claim({"metadata": {"namespace": "ns", "name": "data"}, "spec": spec})
    assert (claim.size, claim.modes) == (2**30 * 1000, ("ReadWriteOnce", "Block"))

    def volume(size: str, *access: str, mode: str = "Block") -> Volume:
        spec = {"capacity": {"storage": size}, "accessModes": list(access), "volumeMode": mode}
        return read_volume({"metadata": {"name": "pv"}, "spec": spec})

    assert claim.matches(volume("1Gi", "ReadWriteOnce", "ReadOnlyMany"))
    assert not claim.matches(volume("1023Mi", "ReadWriteOnce"))
    assert not claim.matches(volume("1Gi", "ReadOnlyMany"))
    assert not claim.matches(volume("1Gi", "ReadWriteOnce", mode="Filesystem"))


def test_a_volume_may_be_for_one_claim() -> None:
    reserved = {"spec": {"claimRef": {"namespace": "ns", "name": "data"}}}
    volume = read_volume({"metadata": {"name": "pv"}, **reserved})
    assert VolumeClaim("ns", "data").matches(volume)
    assert not VolumeClaim("other", "data").matches(volume)


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ({}, {}, True),
        ({"matchLabels": {"tier": "fast"}}, {"tier": "fast", "x": "y"}, True),
        ({"matchLabels": {"tier": "fast"}}, {"tier": "slow"}, False),
        ({"matchLabels": {"tier": "fast"}}, {}, False),
        ({"matchExpressions": [one("tier", "NotIn", "slow")]}, {"tier": "fast"}, True),
        ({"matchExpressions": [one("tier", "NotIn", "slow")]}, {"tier": "slow"}, False),
        ({"matchExpressions": [one("tier", "Exists")]}, {"tier": ""}, True),
        ({"matchExpressions": [one("tier", "Exists")]}, {}, False),
        ({"matchExpressions": [one("tier", "DoesNotExist")]}, {}, True),
        ({"matchExpressions": [one("tier", "DoesNotExist")]}, {"tier": ""}, False),
        ({"matchExpressions": [one("tier", "Near", "fast")]}, {"tier": "fast"}, False),
    ],
)
def test_a_claim_may_select_volumes_by_their_labels(
    selector: JsonMap, labels: dict[str, str], matches: bool
) -> None:
    claim = read_volume_claim({"metadata": {"name": "c"}, "spec": {"selector": selector}})
    volume = {"metadata": {"name": "v", "labels": labels}, "status": {"phase": "Available"}}
    assert claim.matches(read_volume(volume)) is matches


def test_the_labels_of_a_volume_in_use_are_not_kept() -> None:
    volume = {"metadata": {"name": "v", "labels": {"a": "b"}}, "status": {"phase": "Bound"}}
    assert read_volume(volume).labels == {}
