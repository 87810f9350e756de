"""The dialect in force, and what objects report."""

from typing import Any

import pytest

from app.doctor.topology import check_dialects
from app.facts.kinds import CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING, COMPUTE_DOMAIN
from app.kube.api import ObjectRef
from tests import builders
from tests.kube.memory.client import MemoryClient

Object = dict[str, Any]
FORMER = [builders.cluster_topology(f"t{number}", rack="k/rack") for number in range(7)]


def binding(status: str) -> Object:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": "gb200"},
        "spec": {"levels": []},
        "status": {
            "conditions": [{"type": "LevelsCovered", "status": status, "message": "no node has it"}]
        },
    }


def domain(name: str, *finalizers: str) -> Object:
    metadata = {"name": name, "namespace": "ml", "finalizers": list(finalizers)}
    return {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": metadata,
    }


async def said(client: MemoryClient) -> list[tuple[str, str]]:
    checks = await check_dialects(client)
    assert all(check.remedy for check in checks if check.status != "ok")
    return [(check.status, check.message) for check in checks]


@pytest.mark.parametrize(
    ("bindings", "objects", "messages"),
    [
        pytest.param(
            False,
            FORMER[:1],
            [("ok", 'the dialect of Grove\'s topology API is "design"')],
            id="the design",
        ),
        pytest.param(
            True,
            [*FORMER, binding("False")],
            [
                ("ok", 'the dialect of Grove\'s topology API is "bindings"'),
                (
                    "warning",
                    "ClusterTopologyBinding gb200 has LevelsCovered=False: no node has it",
                ),
            ],
            id="an upgrade, and levels without nodes",
        ),
        pytest.param(
            True,
            [binding("True")],
            [("ok", 'the dialect of Grove\'s topology API is "bindings"')],
            id="today's Grove",
        ),
    ],
)
async def test_what_is_said(
    bindings: bool, objects: list[Object], messages: list[tuple[str, str]]
) -> None:
    client = MemoryClient()
    if bindings:
        client.served[CLUSTER_TOPOLOGY_BINDING] = "v1alpha1"
    client.load(objects)
    assert await said(client) == messages


async def test_nothing_installed() -> None:
    client = MemoryClient()
    for resource in (CLUSTER_TOPOLOGY, COMPUTE_DOMAIN):
        del client.served[resource]
    assert await said(client) == [("ok", 'the dialect of Grove\'s topology API is "none"')]


async def test_compute_domains_that_groves_finalizer_holds() -> None:
    client = MemoryClient(
        [domain("ours", "a/b"), domain("theirs", "grove.io/computedomain-finalizer")]
    )
    assert len(await said(client)) == 1
    for name in ("ours", "theirs"):
        await client.delete(ObjectRef(COMPUTE_DOMAIN, name, "ml"))
    assert (await said(client))[1:] == [
        (
            "problem",
            "deleted ComputeDomains that Grove's finalizer keeps, and that Grove does not create again: ml/theirs",
        )
    ]
