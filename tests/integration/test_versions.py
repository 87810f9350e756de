"""ResourceClaims in whatever version an API server serves."""

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from app.config.schema import Configuration
from app.facts.kinds import POD_CLIQUE, POD_CLIQUE_SET, RESOURCE_CLAIM
from app.facts.rows import SETS
from app.kube.api import ObjectRef
from app.server.serve import Running
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.real import RealApiServer, find_binaries
from scripts.apiserver.sandbox import Sandbox
from tests import builders
from tests.integration.conftest import own_rules
from tests.integration.system import Users, eventually

pytestmark = pytest.mark.untraced

OLDER = {
    "v1beta2": ("resource.k8s.io/v1",),
    "v1beta1": ("resource.k8s.io/v1", "resource.k8s.io/v1beta2"),
}


@pytest.fixture(scope="module", params=list(OLDER))
def version(request: pytest.FixtureRequest) -> str:
    """The newest version of ResourceClaim that is served."""
    return str(request.param)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(
    kind: str, version: str, configuration: Configuration, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ApiServer]:
    folder = tmp_path_factory.mktemp("api")
    unserved = OLDER[version]
    server: ApiServer
    if kind == "real":
        server = RealApiServer(
            binaries=find_binaries(os.environ),
            state_dir=folder,
            unserved=unserved,
            rules=own_rules(),
        )
    else:
        server = Sandbox(state_dir=folder, unserved=unserved, rules=own_rules())
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


async def test_a_claim_is_made_in_the_version_that_is_served(
    clients: Users, served: Running, namespace: str, version: str
) -> None:
    await clients.user.create(
        POD_CLIQUE_SET, builders.pod_clique_set("train", mnnvl=True), namespace
    )

    async def is_known() -> bool:
        return served.cluster.stores[SETS].get(namespace, "train") is not None

    await eventually(is_known)
    clique = builders.pod_clique("train-0-worker", builders.labels("train", 0, "train-0"))
    await clients.operator.create(POD_CLIQUE, clique, namespace)
    claim = await clients.user.get(ObjectRef(RESOURCE_CLAIM, "train-0-mnnvl-claim", namespace))
    assert claim["apiVersion"] == f"resource.k8s.io/{version}"
    (request,) = claim["spec"]["devices"]["requests"]
    assert (request if version == "v1beta1" else request["exactly"])["deviceClassName"]
    assert ("exactly" in request) == (version != "v1beta1")
