"""Which ResourceClaims can be allocated."""

from typing import Any

import pytest

from app.config.schema import Configuration, Mnnvl
from app.doctor.claims import check_claims
from app.rules.kinds import DEVICE_CLASS, RESOURCE_CLAIM
from tests.kube.memory.client import MemoryClient

Object = dict[str, Any]
DESIGN = "compute-domain.nvidia.com"
DRIVER = "compute-domain-default-channel.nvidia.com"
FINE = [("ok", "no ResourceClaim for MNNVL lacks its DeviceClass")]
NEVER = f'ResourceClaims can never be allocated, because DeviceClass "{DESIGN}" does not exist: '
MODE = (
    "problem",
    f'mnnvl.claimMode is "shared", but DeviceClass "{DESIGN}" does not exist: claims that name no other class can '
    f"never be allocated",
)


def device_class(name: str) -> Object:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}}


def claim(name: str, *, ours: bool = True, allocated: bool = False) -> Object:
    labels = {"grove.io/mnnvl-managed": "true"} if ours else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "ml", "labels": labels},
        "spec": {
            "devices": {"requests": [{"name": "mnnvl", "exactly": {"deviceClassName": DESIGN}}]}
        },
        "status": {"allocation": {"devices": {}}} if allocated else {},
    }


@pytest.mark.parametrize(
    ("mode", "objects", "messages"),
    [
        pytest.param("shared", [], FINE, id="shared before a driver is installed"),
        pytest.param(
            "shared", [device_class(DESIGN)], FINE, id="shared with the class of the design"
        ),
        pytest.param(
            "shared", [device_class(DRIVER)], [MODE], id="shared with NVIDIA's own classes only"
        ),
        pytest.param(
            "auto", [device_class(DRIVER)], FINE, id="auto with NVIDIA's own classes only"
        ),
        pytest.param(
            "auto",
            [
                device_class(DRIVER),
                claim("b"),
                claim("a"),
                claim("theirs", ours=False),
                claim("old", allocated=True),
            ],
            [("problem", f"{NEVER}ml/a, ml/b")],
            id="claims from before the driver was installed",
        ),
        pytest.param(
            "auto",
            [device_class(DRIVER), *(claim(f"c{number}") for number in range(7))],
            [("problem", f"{NEVER}ml/c0, ml/c1, ml/c2, ml/c3, ml/c4 and 2 more")],
            id="many claims",
        ),
    ],
)
async def test_which_claims_can_be_allocated(
    mode: str, objects: list[Object], messages: list[tuple[str, str]]
) -> None:
    configuration = Configuration(mnnvl=Mnnvl.model_validate({"claimMode": mode}))
    checks = await check_claims(MemoryClient(objects), configuration)
    assert [(check.status, check.message) for check in checks] == messages
    assert all(check.remedy for check in checks if check.status != "ok")


async def test_a_cluster_without_dynamic_resource_allocation() -> None:
    client = MemoryClient()
    for resource in (DEVICE_CLASS, RESOURCE_CLAIM):
        del client.served[resource]
    checks = await check_claims(client, Configuration())
    assert [(check.status, check.message) for check in checks] == FINE
