"""A real API server with Kubernetes' controllers, NVIDIA's for ComputeDomains, and those of
workloads.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from app.config.read import read_configuration
from app.config.schema import Configuration
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.manifests import load
from scripts.apiserver.processes import free_port
from scripts.apiserver.real import RealApiServer, find_binaries
from tests import builders
from tests.integration.conftest import CONFIGURATION, own_rules
from tests.integration.units.controllers import (
    FOLDER,
    KUBERNETES,
    NVIDIA,
    NVIDIA_NAMESPACE,
    Controller,
)
from tests.integration.units.machines import NODES

COLLECT = "mnnvl: {{collectAfterSeconds: 3}}\n"


@pytest.fixture(scope="module")
def folder() -> Path:
    name = os.environ.get(FOLDER)
    if not name:
        pytest.skip(f"needs controllers of workloads: set {FOLDER} to the folder of their programs")
    return Path(name)


@pytest.fixture(scope="module")
def programs(folder: Path) -> dict[str, Path]:
    files = (path for path in folder.iterdir() if path.is_file())
    return {path.name: path for path in files if os.access(path, os.X_OK)}


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return read_configuration((CONFIGURATION + COLLECT).format(port=free_port()), "test")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ApiServer]:
    """In place of that of the folder above: with the CRDs of the controllers."""
    try:
        binaries = find_binaries(os.environ)
    except FileNotFoundError as missing:
        pytest.skip(f"needs a real API server: {missing}")
    if KUBERNETES not in binaries:
        pytest.skip(f"needs a {KUBERNETES} beside the API server")
    state = tmp_path_factory.mktemp("api")
    server = RealApiServer(binaries=binaries, state_dir=state, rules=own_rules())
    try:
        await server.start()
        namespace = {"apiVersion": "v1", "kind": "Namespace"}
        nodes = [builders.node(f"n{number}") for number in range(NODES)]
        await server.apply([{**namespace, "metadata": {"name": NVIDIA_NAMESPACE}}, *nodes])
        await server.apply(load(folder / "crds"))
        yield server
    finally:
        await server.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def controllers(
    programs: dict[str, Path], api: ApiServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[str, Controller]]:
    """All that there are, by name. Those of workloads have not started yet."""
    assert isinstance(api, RealApiServer)
    programs[KUBERNETES] = find_binaries(os.environ)[KUBERNETES]
    state = tmp_path_factory.mktemp("controllers")
    made = {name: Controller(path, api, state / name) for name, path in programs.items()}
    try:
        for name in (KUBERNETES, NVIDIA):
            await made[name].start()
        yield made
    finally:
        for controller in made.values():
            await controller.stop()
