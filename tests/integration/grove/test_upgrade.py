"""Grove's operator is replaced by one of the next release, which has ClusterTopologyBindings, as
manifests/guide/upgrade.md says: a running workload keeps its constraints and its MNNVL resources, and
can be scaled afterwards.

GROVE_UPGRADE names the program and the CRDs of the next release: PROGRAM:FOLDER.
"""

import os
from pathlib import Path

import pytest

from app.facts.kinds import (
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    COMPUTE_DOMAIN,
    KAI_TOPOLOGY,
    POD_CLIQUE_SET,
)
from app.kube.api import Object, ObjectRef, Selection
from app.objects.resource import CRD
from app.server.serve import Running
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.manifests import load
from tests.integration.grove.conftest import LEVELS
from tests.integration.grove.operator import GroveOperator
from tests.integration.grove.test_lifecycle import Workload, workload
from tests.integration.system import Users, eventually, is_gone

UPGRADE = "GROVE_UPGRADE"


@pytest.fixture
def release(today: bool) -> tuple[Path, Path]:
    """The program and the CRDs of the next release."""
    if today:
        pytest.skip("this release of Grove has ClusterTopologyBindings already")
    program, separator, folder = os.environ.get(UPGRADE, "").partition(":")
    if not separator:
        pytest.skip(
            f"needs the next release of Grove: set {UPGRADE} to PROGRAM:FOLDER, its program and its CRDs"
        )
    return Path(program), Path(folder)


async def uids(clients: Users, namespace: str) -> dict[str, str]:
    items = (await clients.admin.list(Selection(COMPUTE_DOMAIN, namespace), limit=0)).items
    return {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in items}


async def conditions(clients: Users, namespace: str) -> dict[str, str]:
    status: Object = (await clients.admin.get(ObjectRef(POD_CLIQUE_SET, "train", namespace))).get(
        "status", {}
    )
    return {condition["type"]: condition["status"] for condition in status.get("conditions", [])}


async def test_a_running_workload_survives_the_upgrade(
    api: ApiServer,
    operator: GroveOperator,
    served: Running,
    clients: Users,
    namespace: str,
    release: tuple[Path, Path],
    tmp_path: Path,
) -> None:
    train = Workload(clients, namespace, today=False)
    await clients.user.create(POD_CLIQUE_SET, workload(today=False), namespace)
    await train.until(replicas=1, groups=2)
    packs = await train.packs("train-0")
    domains = await uids(clients, namespace)

    await api.apply(load(release[1]))
    await eventually(lambda: dialect(served), lambda name: name == "bindings")
    train.today = True
    await train.until(replicas=1, groups=2)
    await clients.admin.discovery.refresh()
    await clients.admin.delete(ObjectRef(CRD, str(CLUSTER_TOPOLOGY)))
    await eventually(lambda: is_bound(clients))
    named = {"template": {"topologyConstraint": {"topologyName": "grove-topology"}}}
    await train.patch("podcliquesets", "train", named)
    assert await train.packs("train-0") == packs

    await operator.stop()
    newer = GroveOperator(
        release[0], api, clients.admin, tmp_path / "newer", today=True, levels=LEVELS
    )
    await newer.prepare()
    await newer.start()
    available = {"TopologyLevelsUnavailable": "False"}
    assert await eventually(
        lambda: conditions(clients, namespace), lambda seen: available.items() <= seen.items()
    )
    assert await train.packs("train-0") == packs
    await train.patch("podcliquesets", "train", {"replicas": 2})
    await train.until(replicas=2, groups=2)
    assert (await uids(clients, namespace)).items() >= domains.items()
    (topology,) = (await clients.admin.list(Selection(KAI_TOPOLOGY), limit=0)).items
    assert [owner["kind"] for owner in topology["metadata"]["ownerReferences"]] == [
        CLUSTER_TOPOLOGY_BINDING.kind
    ]
    await newer.stop()


async def dialect(served: Running) -> str:
    return served.cluster.notes().get("dialect", "")


async def is_bound(clients: Users) -> bool:
    return not await is_gone(clients.admin, CLUSTER_TOPOLOGY_BINDING, "grove-topology")
