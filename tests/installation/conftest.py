"""What users install, as they install it: the rendered manifests, the commands of the README, two
replicas as processes under the rendered ServiceAccount. Each test has an API server of its own,
the sandbox or a real one.
"""

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.real import RealApiServer, find_binaries
from scripts.apiserver.sandbox import Sandbox
from tests.installation.cluster import Cluster, cluster_of
from tests.rendered import of_kind, rendered
from tests.servers import KINDS


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which API server: `sandbox`, or `real` if its binaries are on this machine."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl, which applies the manifests")
    return str(request.param)


@pytest.fixture
def host() -> str:
    """The address on loopback at which the API server listens."""
    return "127.0.0.1"


@pytest_asyncio.fixture
async def cluster(kind: str, host: str, tmp_path: Path) -> AsyncIterator[Cluster]:
    """Grove, KAI and NVIDIA's driver are there as CRDs.

    Our account has no rights but those that get installed.
    """
    rules = [of_kind(rendered("prerequisites"), "Namespace")]
    state_dir = tmp_path / "api"
    api: ApiServer
    if kind == "real":
        binaries = find_binaries(os.environ)
        api = RealApiServer(binaries=binaries, host=host, state_dir=state_dir, rules=rules)
    else:
        api = Sandbox(host=host, state_dir=state_dir, rules=rules)
    try:
        await api.start()
        async with cluster_of(api, tmp_path) as cluster:
            yield cluster
    finally:
        await api.stop()
