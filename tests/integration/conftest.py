"""One suite, two API servers: ours, and a real one where its binaries are on this machine.

A module's tests share an API server, our server and an event loop; each test has a namespace of its
own. A module that wants another configuration defines the fixture `configuration` itself.
"""

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from app.config.read import read_configuration
from app.config.schema import Configuration
from app.facts.kinds import CLUSTER_TOPOLOGY_BINDING
from app.facts.rows import TOPOLOGIES
from app.kube.api import NotFound, Object, ObjectRef
from app.objects.resource import CRD, Resource
from app.server.serve import Running
from scripts.apiserver.admission_server import READY_SECONDS, ApiServer, admission_server, until
from scripts.apiserver.manifests import BUILT_IN, load
from scripts.apiserver.processes import free_port
from scripts.apiserver.real import RealApiServer, find_binaries
from scripts.apiserver.sandbox import Sandbox
from tests.integration.system import Users, users
from tests.rendered import rendered
from tests.servers import KINDS, without_real

CONFIGURATION = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
clusterTopology:
  enabled: true
  levels:
    - {{domain: zone, key: topology.kubernetes.io/zone}}
    - {{domain: rack, key: topology.kubernetes.io/rack}}
    - {{domain: host, key: kubernetes.io/hostname}}
podBinding: {{nodeLabels: [example.com/nvlink-domain]}}
server: {{host: 127.0.0.1, port: {port}, toolsPort: 0, drainSeconds: 0}}
client: {{queriesPerSecond: 10000, burst: 10000}}
"""

MANIFESTS = Path(__file__).parents[2] / "manifests"
_NUMBERS = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests share the loop of their module's API server, so parallel workers don't share the tests
    of a module and kind of API server.

    A module's tests on one kind come before those on the other: pytest has them take turns if
    another parameter is of the module too, and each turn would start an API server.
    """
    modules = {path: number for number, path in enumerate(dict.fromkeys(i.path for i in items))}
    items.sort(key=lambda item: (modules[item.path], _kind(item)))
    here = f"{Path(__file__).parent}/"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)
            item.add_marker(pytest.mark.xdist_group(f"{item.path.stem} {_kind(item)}"))


def _kind(item: pytest.Item) -> str:
    """The kind of API server that a test is run on; "" if it needs none."""
    call = getattr(item, "callspec", None)
    return str(call.params.get("kind", "")) if call else ""


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which API server: `sandbox`, or `real` where its binaries are at hand.

    A module whose tests need a real one asks for it itself.
    """
    if request.param == "real" and without_real():
        pytest.skip(without_real())
    return str(request.param)


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    """What our server is told."""
    return read_configuration(CONFIGURATION.format(port=free_port()), "test")


def own_rules() -> list[Object]:
    """Our namespace, service account and RBAC, as they are installed, and the policies about this
    account: our server has no other rights.
    """
    accounts = {"ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"}
    accounts |= {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    namespaces = [obj for obj in rendered("prerequisites") if obj["kind"] == "Namespace"]
    return [
        *namespaces,
        *(obj for obj in rendered("overlays/self-managed") if obj["kind"] in accounts),
    ]


def own_crd() -> Object:
    """Our ClusterTopology CRD, as it is installed."""
    crd: Object = yaml.safe_load(
        (MANIFESTS / "crds" / "grove.io_clustertopologies.yaml").read_text()
    )
    return crd


@pytest.fixture(scope="module")
def former() -> Sequence[Resource]:
    """What a module needs in the words of the designs, which the CRDs of today's neighbours don't
    allow in new objects: it gets our minimal CRDs of these. A module defines this fixture
    itself, like `configuration`.
    """
    return ()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(
    kind: str,
    configuration: Configuration,
    former: Sequence[Resource],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[ApiServer]:
    """An API server with the CRDs, and nothing beside it.

    INTEGRATION_CRDS may name a folder with the neighbours' real CRDs, which are not ours to keep
    here; our ClusterTopology comes after them, as it does where we are installed.
    """
    named = os.environ.get("INTEGRATION_CRDS")
    crds = Path(named) if named else None
    folder = tmp_path_factory.mktemp("api")
    server: ApiServer
    if kind == "real":
        server = RealApiServer(
            binaries=find_binaries(os.environ), state_dir=folder, crds=crds, rules=own_rules()
        )
    else:
        server = Sandbox(state_dir=folder, crds=crds, rules=own_rules())
    try:
        await server.start()
        if crds is not None:
            await server.apply([own_crd()])
            if (crds / "grove.io_clustertopologybindings.yaml").exists():
                await server.apply(
                    [crd for crd in load(BUILT_IN) if crd["metadata"]["name"] in map(str, former)]
                )
            await without_bindings(server)
        yield server
    finally:
        await server.stop()


async def without_bindings(server: ApiServer) -> None:
    """Every suite begins in the dialect of the designs, also with today's CRDs; `test_dialects`
    installs the CRD of bindings itself.
    """
    async with users(server) as clients:
        with contextlib.suppress(NotFound):
            await clients.admin.delete(ObjectRef(CRD, str(CLUSTER_TOPOLOGY_BINDING)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(
    api: ApiServer, configuration: Configuration, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    """Our server, with its webhooks registered.

    If topology support is enabled, the ClusterTopology is there: a server is ready before it leads,
    and rejects PodGangs until then.
    """
    topology = configuration.cluster_topology
    async with admission_server(
        api, configuration, tmp_path_factory.mktemp("served"), readable=False
    ) as served:
        async with asyncio.timeout(READY_SECONDS):
            stored = served.cluster.stores[TOPOLOGIES]
            await until(lambda: not topology.enabled or stored.get("", topology.name) is not None)
        yield served


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def clients(api: ApiServer) -> AsyncIterator[Users]:
    async with users(api) as clients:
        yield clients


@pytest_asyncio.fixture(loop_scope="module")
async def namespace(clients: Users) -> str:
    """A namespace that no other test uses."""
    name = f"test-{next(_NUMBERS)}"
    await clients.api.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])
    return name
