"""What is said of the managed ClusterTopology and its KAI Topology."""

from typing import Any

import pytest

from app.doctor.topology import check_topology
from app.facts.grove.topology import Level
from app.facts.kinds import CLUSTER_TOPOLOGY_BINDING, KAI_TOPOLOGY
from tests import builders
from tests.kube.memory.client import MemoryClient

Object = dict[str, Any]
NAME = "grove-topology"
LEVELS = (Level("rack", "k/rack"),)


def topology(status: str | None = "True", message: str = "m") -> Object:
    made = builders.cluster_topology(NAME, rack="k/rack")
    made["metadata"]["uid"] = "uid-topology"
    if status is not None:
        made["status"] = {"conditions": [{"type": "Ready", "status": status, "message": message}]}
    return made


def kai(owner: str = "uid-topology", key: str = "k/rack") -> Object:
    references = [
        {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopology", "name": NAME, "uid": owner}
    ]
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {
            "name": NAME,
            "ownerReferences": [{**reference, "controller": True} for reference in references],
        },
        "spec": {"levels": [{"nodeLabel": key}]},
    }


HELD = ("ok", "ClusterTopology grove-topology: rack=k/rack")
READY = ("ok", "ClusterTopology grove-topology is Ready")
SAME = ("ok", "KAI Topology grove-topology has the same levels as the ClusterTopology")


@pytest.mark.parametrize(
    ("objects", "levels", "said"),
    [
        pytest.param([topology(), kai()], LEVELS, [HELD, READY, SAME], id="all well"),
        pytest.param(
            [topology(), kai()], (), [HELD, READY, SAME], id="well, whatever the configuration has"
        ),
        pytest.param(
            [],
            LEVELS,
            [
                (
                    "problem",
                    "ClusterTopology grove-topology does not exist: PodCliqueSets with constraints, and all PodGangs, cannot be created",
                )
            ],
            id="not there",
        ),
        pytest.param(
            [topology(), kai()],
            (Level("host", "k/host"),),
            [
                (
                    "problem",
                    "ClusterTopology grove-topology: rack=k/rack; the configuration has host=k/host",
                ),
                READY,
                SAME,
            ],
            id="other levels than configured",
        ),
        pytest.param(
            [topology("False", "KAI says no"), kai()],
            LEVELS,
            [HELD, ("problem", "ClusterTopology grove-topology is not Ready: KAI says no"), SAME],
            id="not ready",
        ),
        pytest.param(
            [topology(None), kai()],
            LEVELS,
            [
                HELD,
                (
                    "warning",
                    "ClusterTopology grove-topology is not Ready: the condition has no message yet",
                ),
                SAME,
            ],
            id="without a status",
        ),
        pytest.param(
            [topology()],
            LEVELS,
            [HELD, READY, ("problem", "KAI Topology grove-topology does not exist")],
            id="no KAI's",
        ),
        pytest.param(
            [topology(), kai("another")],
            LEVELS,
            [
                HELD,
                READY,
                (
                    "problem",
                    "KAI Topology grove-topology is not controlled by ClusterTopology grove-topology, so the leader does not change it",
                ),
            ],
            id="a KAI Topology of somebody's",
        ),
        pytest.param(
            [topology(), kai(key="k/host")],
            LEVELS,
            [
                HELD,
                READY,
                (
                    "problem",
                    "the levels of KAI Topology grove-topology differ from the ClusterTopology's",
                ),
            ],
            id="drift",
        ),
    ],
)
async def test_with_topology_support(
    objects: list[Object], levels: tuple[Level, ...], said: list[tuple[str, str]]
) -> None:
    checks = await check_topology(MemoryClient(objects), NAME, enabled=True, levels=levels)
    assert [(check.status, check.message) for check in checks] == said
    assert all(bool(check.remedy) is (check.status != "ok") for check in checks)


async def test_without_kai_nothing_is_said_of_it() -> None:
    client = MemoryClient([topology()])
    client.served.pop(KAI_TOPOLOGY)
    checks = await check_topology(client, NAME, enabled=True, levels=LEVELS)
    assert [(check.status, check.message) for check in checks] == [HELD, READY]


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        pytest.param([], ("ok", "clusterTopology.enabled is false"), id="gone"),
        pytest.param(
            [topology()],
            (
                "warning",
                "clusterTopology.enabled is false, but ClusterTopology grove-topology still exists",
            ),
            id="still there",
        ),
    ],
)
async def test_without_topology_support(objects: list[Object], said: tuple[str, str]) -> None:
    (check,) = await check_topology(MemoryClient(objects), NAME, enabled=False, levels=())
    assert (check.status, check.message) == said


def binding(*levels: tuple[str, str]) -> Object:
    listed = [{"domain": domain, "key": key} for domain, key in levels]
    head = {
        "apiVersion": CLUSTER_TOPOLOGY_BINDING.api_version(),
        "kind": CLUSTER_TOPOLOGY_BINDING.kind,
    }
    return {**head, "metadata": {"name": NAME}, "spec": {"levels": listed}}


@pytest.mark.parametrize(
    ("objects", "enabled", "expected"),
    [
        pytest.param(
            [],
            False,
            (
                "ok",
                "clusterTopology.enabled is false, so no ClusterTopologyBinding is managed; ClusterTopologyBindings are still validated, and Grove uses them",
            ),
            id="off",
        ),
        pytest.param(
            [],
            True,
            (
                "problem",
                'ClusterTopologyBinding grove-topology does not exist: new PodCliqueSets with topologyName "grove-topology" are rejected',
            ),
            id="missing",
        ),
        pytest.param(
            [binding(("rack", "k/rack"))],
            True,
            ("ok", "ClusterTopologyBinding grove-topology: rack=k/rack"),
            id="the same",
        ),
        pytest.param(
            [binding()],
            True,
            (
                "problem",
                "ClusterTopologyBinding grove-topology: no levels; the configuration has rack=k/rack",
            ),
            id="other levels",
        ),
    ],
)
async def test_a_grove_with_bindings(
    objects: list[Object], enabled: bool, expected: tuple[str, str]
) -> None:
    client = MemoryClient(objects, served={CLUSTER_TOPOLOGY_BINDING: "v1alpha1"})
    checks = await check_topology(client, NAME, enabled=enabled, levels=LEVELS)
    assert [(check.status, check.message) for check in checks] == [expected]


def kai_of_an_administrator() -> Object:
    other = kai(key="k/zone")
    other["metadata"]["name"] = "own"
    return other


EXTERNAL = [{"schedulerName": "kai-scheduler", "topologyReference": "own"}]


@pytest.mark.parametrize(
    ("stored", "external", "expected"),
    [
        pytest.param(
            [kai()],
            [],
            ("ok", "KAI Topology grove-topology has the same levels as the ClusterTopologyBinding"),
            id="same levels",
        ),
        pytest.param(
            [],
            [],
            (
                "warning",
                "KAI Topology grove-topology does not exist, so KAI places no gang by the levels",
            ),
            id="Grove has not created it",
        ),
        pytest.param(
            [kai()],
            EXTERNAL,
            ("warning", "KAI Topology own does not exist, so KAI places no gang by the levels"),
            id="of an administrator, missing",
        ),
        pytest.param(
            [kai(), kai_of_an_administrator()],
            EXTERNAL,
            ("warning", "the levels of KAI Topology own differ from the ClusterTopologyBinding's"),
            id="of an administrator, other levels",
        ),
        pytest.param(
            [kai(key="k/zone")],
            [],
            (
                "warning",
                "the levels of KAI Topology grove-topology differ from the ClusterTopologyBinding's",
            ),
            id="other levels",
        ),
    ],
)
async def test_the_kai_topology_of_a_binding(
    stored: list[Object], external: list[Object], expected: tuple[str, str]
) -> None:
    bound = binding(("rack", "k/rack"))
    bound["spec"]["schedulerTopologyBindings"] = external
    served = {CLUSTER_TOPOLOGY_BINDING: "v1alpha1", KAI_TOPOLOGY: "v1alpha1"}
    checks = await check_topology(
        MemoryClient([bound, *stored], served=served), NAME, enabled=True, levels=LEVELS
    )
    assert [(check.status, check.message) for check in checks[1:]] == [expected]
    remedy = "Check that Grove's operator runs"
    if external:
        remedy = "Create KAI Topology own with the levels"
        remedy = remedy if not stored[1:] else "Give KAI Topology own the levels"
    assert all(check.remedy.startswith(remedy) for check in checks[1:] if check.status != "ok")


@pytest.mark.parametrize("enabled", [True, False])
async def test_a_topology_that_was_managed_under_another_name_is_reported(enabled: bool) -> None:
    former = topology()
    former["metadata"] |= {"name": "former", "uid": "uid-former"}
    of_a_user = builders.cluster_topology("of-a-user", rack="k/rack")
    client = MemoryClient([former, of_a_user, *([topology(), kai()] if enabled else [])])
    checks = await check_topology(client, NAME, enabled=enabled, levels=LEVELS)
    assert [(check.message, check.remedy) for check in checks if check.status == "warning"] == [
        (
            "ClusterTopology former is left over: clusterTopology.name is now grove-topology",
            "Delete it with its KAI Topology: kubectl delete clustertopologies.grove.io former.",
        )
    ]


async def test_a_level_below_the_hostname_is_reported() -> None:
    stored = builders.cluster_topology(NAME, host="kubernetes.io/hostname", numa="k/numa")
    stored["metadata"]["uid"] = "uid-topology"
    client = MemoryClient([stored, kai(key="kubernetes.io/hostname")])
    checks = await check_topology(client, NAME, enabled=True, levels=())
    assert [
        check.status for check in checks if "below kubernetes.io/hostname" in check.message
    ] == ["warning"]
    assert SAME in [(check.status, check.message) for check in checks]
