"""A real API server with the neighbours' real CRDs, and Grove's real operator.

GROVE_OPERATOR names its program, and INTEGRATION_CRDS the CRDs of its release. The program has to
find its namespace in the file `namespace` of its working folder, and its certificate has to be
valid for `localhost`.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from app.config.read import read_configuration
from app.config.schema import Configuration
from app.kube.api import Object
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.manifests import load
from scripts.apiserver.processes import free_port
from scripts.apiserver.real import RealApiServer, find_binaries
from tests import builders
from tests.integration.conftest import own_crd, own_rules
from tests.integration.grove import cluster
from tests.integration.grove.operator import GroveOperator
from tests.integration.system import Users, users

CRDS = "INTEGRATION_CRDS"
OPERATOR = "GROVE_OPERATOR"
KEYS = {
    "zone": "topology.kubernetes.io/zone",
    "block": "topology.kubernetes.io/block",
    "rack": "topology.kubernetes.io/rack",
    "host": "kubernetes.io/hostname",
}
LEVELS: list[Object] = [{"domain": domain, "key": key} for domain, key in KEYS.items()]
CONFIGURATION = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
clusterTopology: {{enabled: {enabled}, levels: {levels}}}
server: {{host: 127.0.0.1, port: {port}, toolsPort: 0, drainSeconds: 0}}
mnnvl: {{collectAfterSeconds: 5}}
"""


def nodes() -> list[Object]:
    """Eight nodes with eight GPUs each: two in a rack, two racks in a block, a block in a zone."""
    return [
        {
            **builders.node(
                f"n{number}",
                **{
                    KEYS["zone"]: f"z{number // 4}",
                    KEYS["block"]: f"b{number // 4}",
                    KEYS["rack"]: f"k{number // 2}",
                    KEYS["host"]: f"n{number}",
                    "nvidia.com/gpu.count": "8",
                },
            ),
        }
        for number in range(8)
    ]


@pytest.fixture(scope="module")
def program() -> Path:
    name = os.environ.get(OPERATOR)
    if not name:
        pytest.skip(f"needs Grove's operator: set {OPERATOR} to its program")
    if not os.environ.get(CRDS):
        pytest.skip(f"needs the CRDs of Grove's release: set {CRDS} to their folder")
    return Path(name)


@pytest.fixture(scope="module")
def crds(program: Path) -> Path:
    return Path(os.environ[CRDS])


@pytest.fixture(scope="module")
def today(crds: Path) -> bool:
    """Whether the CRDs are those of a Grove that has ClusterTopologyBindings."""
    return any(crd["metadata"]["name"] == "clustertopologybindings.grove.io" for crd in load(crds))


@pytest.fixture(scope="module")
def configuration(today: bool) -> Configuration:
    """Ours: the topology of today's Grove is managed by administrators."""
    levels = [] if today else LEVELS
    text = CONFIGURATION.format(enabled=str(not today).lower(), levels=levels, port=free_port())
    return read_configuration(text, "test")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(crds: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ApiServer]:
    """In place of that of the folder above: with the CRDs of the release, and then ours."""
    try:
        binaries = find_binaries(os.environ)
    except FileNotFoundError as missing:
        pytest.skip(f"needs a real API server: {missing}")
    server = RealApiServer(
        binaries=binaries, state_dir=tmp_path_factory.mktemp("api"), crds=crds, rules=own_rules()
    )
    try:
        await server.start()
        await server.apply([own_crd(), *nodes()])
        yield server
    finally:
        await server.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def clients(api: ApiServer) -> AsyncIterator[Users]:
    async with users(api) as clients:
        yield clients


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(
    program: Path,
    api: ApiServer,
    clients: Users,
    today: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[GroveOperator]:
    folder = tmp_path_factory.mktemp("operator") / "work"
    operator = GroveOperator(program, api, clients.admin, folder, today=today, levels=LEVELS)
    await operator.prepare()
    await operator.start()
    beside = asyncio.create_task(cluster.run(clients))
    yield operator
    beside.cancel()
    await asyncio.wait({beside})
    await operator.stop()
    if not beside.cancelled():
        beside.result()
