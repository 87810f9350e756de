"""The contract of `Client`, kept by the HTTP client on each API server."""

import pytest

from app.commands.beside import ApiServer
from app.kube.api import Client
from app.kube.client import HttpClient
from app.sandbox.sandbox import Sandbox
from tests.integration.system import Users
from tests.kube.contract import ClientContract

pytestmark = pytest.mark.untraced


@pytest.fixture
def client(clients: Users) -> HttpClient:
    return clients.operator


class TestContract(ClientContract):
    @pytest.fixture(autouse=True)
    def _server(self, api: ApiServer) -> None:
        self._api = api

    async def compact(self, client: Client) -> None:
        """A real API server doesn't know what was before the CRD."""
        if isinstance(self._api, Sandbox):
            self._api.compact()
