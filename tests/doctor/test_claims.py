"""Which ResourceClaims can be allocated."""

from typing import Any

import pytest

from app.config.schema import Configuration, Mnnvl
from app.doctor.claims import check_claims, check_lost_claims, check_owners
from app.facts.kinds import DEVICE_CLASS, POD_CLIQUE, POD_CLIQUE_SET, RESOURCE_CLAIM
from app.rules.mnnvl.lost_claims import PUT_BACK
from tests.audit import test_claims as lost
from tests.audit.test_audit import admitted
from tests.kube.memory.client import MemoryClient
from tests.kube.memory.counting import CountingClient
from tests.reconcilers.test_units import domain

Object = dict[str, Any]
DESIGN = "compute-domain.nvidia.com"
DRIVER = "compute-domain-default-channel.nvidia.com"
FINE = [("ok", "no ResourceClaim for MNNVL lacks its DeviceClass")]
NO_CLASS = [("warning", "no DeviceClass exists, so no claim for MNNVL can be allocated")]
NEVER = f'these ResourceClaims cannot be allocated, because DeviceClass "{DESIGN}" does not exist: '
MODE = (
    "problem",
    f'mnnvl.claimMode is "shared", but DeviceClass "{DESIGN}" does not exist: claims that name it cannot be allocated',
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
        pytest.param("auto", [claim("a"), claim("b")], NO_CLASS, id="claims without any driver"),
        pytest.param("auto", [claim("old", allocated=True)], FINE, id="a driver was removed"),
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
        pytest.param(
            "auto",
            [device_class(DRIVER), claim("a")],
            [("problem", f"{NEVER.replace('these ResourceClaims', 'this ResourceClaim')}ml/a")],
            id="one claim",
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


async def test_a_claim_that_pods_use_although_it_is_being_deleted_is_a_problem() -> None:
    pods = [lost.pod("a", "train-0-worker", lost.OURS), lost.pod("b", "train-0-worker", lost.OURS)]
    resources = lost.resources("a", "b", **lost.DELETED)
    checks = await check_claims(MemoryClient([*resources, *pods]), Configuration())
    assert [(check.status, check.message, check.remedy) for check in checks[1:]] == [
        (
            "problem",
            "ResourceClaim ml/train-0-mnnvl-claim is being deleted, but Pods a, b still use it: no other Pod can get it",
            "Delete these Pods together: kubectl -n ml delete pod a b. The claim is then deleted, the leader creates it again, and the new Pods start.",
        )
    ]


EVERY = ("ok", "every PodClique that requests an MNNVL claim has one", "")
LACKING = (
    "problem",
    "PodCliques without their MNNVL claim, whose new Pods run outside of their NVLink domain: ml/train-0-lost",
    PUT_BACK,
)
WITHOUT = (
    "problem",
    "Pods that lack the MNNVL claim of their PodClique, and so cannot use NVLink between nodes: ml/a",
    "Delete each Pod without the claim when its workload can spare it: Grove's operator replaces the Pod, and the new one gets the claim. List all of them: grove-admission audit",
)


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([], [EVERY], id="nothing at all"),
        pytest.param(
            [lost.pcs(), admitted(lost.clique("train-0-worker"))], [EVERY], id="all is well"
        ),
        pytest.param([lost.clique("train-0-lost")], [EVERY], id="a PodClique whose set is gone"),
        pytest.param([lost.pcs(), lost.clique("train-0-lost")], [LACKING], id="a lost claim"),
        pytest.param(
            [
                lost.pcs(),
                admitted(lost.clique("train-0-worker")),
                lost.pod("a", "train-0-worker"),
                lost.pod("of-another", "train-0-other"),
            ],
            [EVERY, WITHOUT],
            id="a Pod from before the claim came back",
        ),
    ],
)
async def test_claims_that_podcliques_and_pods_have_lost(
    objects: list[Object], expected: list[tuple[str, str, str]]
) -> None:
    checks = await check_lost_claims(MemoryClient(objects))
    assert [(check.status, check.message, check.remedy) for check in checks] == expected


async def test_without_grove_no_claim_is_lost() -> None:
    client = MemoryClient()
    for resource in (POD_CLIQUE, POD_CLIQUE_SET):
        del client.served[resource]
    checks = await check_lost_claims(client)
    assert [(check.status, check.message, check.remedy) for check in checks] == [EVERY]


@pytest.mark.parametrize(
    ("classes", "messages"),
    [
        pytest.param([DRIVER], FINE, id="the class of the driver"),
        pytest.param([], NO_CLASS, id="no driver yet"),
        pytest.param(
            [DESIGN],
            [
                (
                    "problem",
                    f'Pods of this ComputeDomain cannot be placed, because DeviceClass "{DRIVER}" does not exist: ns/lws-a-2-cd',
                )
            ],
            id="another class",
        ),
    ],
)
async def test_units_of_pods_need_the_class_of_the_driver(
    classes: list[str], messages: list[tuple[str, str]]
) -> None:
    client = MemoryClient([domain(), *map(device_class, classes)])
    checks = await check_claims(client, Configuration())
    assert [(check.status, check.message) for check in checks] == messages


def numbered(number: int) -> Object:
    """A claim of a class of its own, which does not exist."""
    made = claim(f"c{number:03}")
    made["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = f"class-{number:03}"
    return made


async def test_a_tenant_with_many_claims_hides_no_other_check_and_takes_no_memory() -> None:
    """The doctor also runs in the Pod of a replica, whose memory is limited."""
    client = CountingClient([device_class(DRIVER), *map(numbered, range(200))])
    checks = await check_claims(client, Configuration())
    assert len(checks) == 21
    assert checks[0].message.endswith('DeviceClass "class-000" does not exist: ml/c000')
    assert (checks[-1].message, checks[-1].remedy) == (
        "problems of ResourceClaims that are not shown: 180",
        "List them all: grove-admission audit",
    )
    await check_owners(client, Configuration())
    assert client.most_kept <= 60
