"""GPUs that DRA allocates to pods that request them by the name of a resource.

Tests `Index.claimed`, and the shapes in `app/explain/gangs/assembly.py` that follow from it.
"""

import pytest
from msgspec.structs import replace

from app.explain.reasons.reason import Reason
from app.explain.state.snapshot import Snapshot
from app.facts.kubernetes.claim import Device, DeviceClass, ResourceClaim
from app.facts.kubernetes.pod import Shape
from tests.explain.fleet import GPU, answer, facts, nodes, pods, shape
from tests.explain.table.devices import DRIVER, WITHOUT_PLUGIN, gpus

BY_NAME = (DeviceClass(DRIVER, DRIVER, DRIVER, GPU),)
BY_CLAIM = (DeviceClass(DRIVER, DRIVER, DRIVER),)
MIG = "nvidia.com/mig-1g.24gb"


def asking(
    requests: Shape, classes: tuple[DeviceClass, ...] = BY_NAME, **changes: object
) -> Snapshot:
    """All pods of the gang have this shape, on nodes whose GPUs are only in ResourceSlices."""
    state = {
        "nodes": WITHOUT_PLUGIN,
        "pods": pods(shape=requests),
        "slices": tuple(gpus(node.name) for node in nodes()),
        "device_classes": classes,
    }
    return facts(**state | changes)


def found(snapshot: Snapshot, id: str) -> list[Reason]:
    return [reason for reason in answer(snapshot).reasons if reason.id == id]


def named(resource: str, count: int = 1) -> Shape:
    return replace(shape(0), requests=(*shape(0).requests, (resource, 1000 * count)))


@pytest.mark.parametrize(
    ("requests", "classes"),
    [
        pytest.param(shape(8), BY_NAME, id="the name in the class"),
        pytest.param(
            named(f"deviceclass.resource.kubernetes.io/{DRIVER}"), BY_CLAIM, id="implicit"
        ),
        pytest.param(
            named(MIG), (DeviceClass("mig.nvidia.com", "", DRIVER, MIG),), id="parts of GPUs"
        ),
    ],
)
def test_no_device_plugin_is_needed(requests: Shape, classes: tuple[DeviceClass, ...]) -> None:
    assert found(asking(requests, classes), "NeverFits") == []


def test_the_gpus_of_a_node_are_still_counted() -> None:
    [reason] = found(asking(shape(9)), "NeverFits")
    assert reason.text == "No node has 9 GPUs, which a pod requests; the largest has 8 GPUs"


def test_a_claim_that_the_scheduler_made_for_such_a_pod_holds_its_gpus() -> None:
    holder = replace(
        pods(shape=shape(8))[0],
        namespace="research",
        name="x",
        uid="uid-x",
        node="gpu-00",
        group="",
    )
    others = tuple(
        ResourceClaim(
            "research",
            f"{node.name}-extended",
            (DRIVER,),
            True,
            tuple(Device(DRIVER, node.name, f"gpu-{number}") for number in range(8)),
        )
        for node in nodes()
    )
    state = asking(shape(8))
    full = replace(state, pods=(*state.pods, holder), claims=others)
    assert found(full, "NoDomainFits")
    assert found(full, "NeverFits") == []


def test_a_resource_that_nodes_have_is_not_a_claim() -> None:
    both = (*nodes()[:1], *WITHOUT_PLUGIN[1:])
    assert found(asking(shape(8), nodes=both, slices=()), "NeverFits")


def test_gpus_without_such_a_name_are_only_for_claims() -> None:
    """Without the DeviceClasses, it is not known whether one has such a name."""
    unread = asking(shape(8), (), unseen={"device_classes": "no permission to list"})
    [reason] = found(unread, "NeverFits")
    assert "only for ResourceClaims" not in reason.text
    [reason] = found(asking(shape(8), BY_CLAIM), "NeverFits")
    assert reason.text.endswith(f"; the GPUs of driver {DRIVER} are only for ResourceClaims")
    assert reason.remedy.startswith("Request GPUs with a ResourceClaim instead")
    assert reason.who == "you"


def test_other_resources_stay_missing() -> None:
    [reason] = found(asking(named("example.com/nic"), BY_NAME), "NeverFits")
    assert "only for ResourceClaims" not in reason.text


def offering(*names: str) -> dict[str, object]:
    """All nodes offer these devices too."""
    more = dict.fromkeys(names, 4000)
    return {"nodes": tuple(replace(n, allocatable={**n.allocatable, **more}) for n in nodes())}


@pytest.mark.parametrize(
    ("asked", "offered", "words"),
    [
        ("rdma/ib", ("rdma/shared_ib",), "Request rdma/shared_ib if the pods can use it"),
        ("openshift.io/a", ("openshift.io/nic-b", "openshift.io/nic-c"), "Request one of these"),
        ("nvidia.com/hostdev", (), ""),
        ("rdma/ib", ("vpc.amazonaws.com/efa",), ""),
    ],
)
def test_other_devices_of_the_same_plugin_are_named(
    asked: str, offered: tuple[str, ...], words: str
) -> None:
    [reason] = found(facts(pods=pods(shape=named(asked)), **offering(*offered)), "NeverFits")
    assert reason.text.startswith(f"No node offers {asked}, which a pod requests")
    assert ("16 nodes offer" in reason.text) is bool(words)
    assert words in reason.remedy
    assert (reason.who == "you") is bool(words)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((), "there is no ResourceSlice of this driver"),
        (("gpu-00",), "the ResourceSlice of gpu-00 lists no GPU"),
        (("gpu-00", "gpu-01"), "the ResourceSlices of gpu-00 and gpu-01 list no GPU"),
    ],
)
def test_gpus_to_claim_are_offered_by_no_device_plugin(parts: tuple[str, ...], words: str) -> None:
    empty = tuple(replace(gpus(name), gpus=()) for name in parts)
    [reason] = found(asking(named(f"{DRIVER}/gpu"), BY_CLAIM, slices=empty), "NeverFits")
    assert reason.text == f"No node offers GPUs of driver {DRIVER}, which pods claim: {words}"
    assert f"kubelet plugin of {DRIVER}" in reason.remedy
    assert "device plugin" not in reason.remedy
