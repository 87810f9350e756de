"""The contract of `Client`, kept by the HTTP client on each API server."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from app.facts.kinds import ALL
from app.kube.api import Client
from app.kube.client import HttpClient
from app.kube.credentials import from_kubeconfig
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.sandbox import Sandbox
from tests.integration.system import FAST
from tests.kube.contract import ClientContract

pytestmark = pytest.mark.untraced


@pytest_asyncio.fixture(loop_scope="module")
async def client(api: ApiServer) -> AsyncIterator[HttpClient]:
    credentials = await from_kubeconfig(api.kubeconfig, "grove")
    async with HttpClient(credentials, ALL, FAST) as client:
        await client.discovery.refresh()
        yield client


class TestContract(ClientContract):
    @pytest.fixture(autouse=True)
    def _server(self, api: ApiServer) -> None:
        self._api = api

    async def compact(self, client: Client) -> None:
        """A real API server doesn't know what was before the CRD."""
        if isinstance(self._api, Sandbox):
            self._api.compact()
