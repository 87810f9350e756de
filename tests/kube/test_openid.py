"""Tokens of OpenID Connect in a kubeconfig that have expired: who is asked for another one."""

import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from app.kube.api import ClusterError
from app.kube.credentials import from_kubeconfig
from scripts.apiserver import pki
from scripts.apiserver.sandbox import LoopbackServer

# kubernetes_asyncio calls aiohttp in ways that will go
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Provider:
    """An identity provider, with what it was told."""

    def __init__(self) -> None:
        self.forms: list[dict[str, str]] = []
        self.url = ""

    def app(self) -> Starlette:
        paths = {"/.well-known/openid-configuration": self._configuration, "/token": self._token}
        methods = ["GET", "POST"]
        return Starlette(routes=[Route(path, do, methods=methods) for path, do in paths.items()])

    async def _configuration(self, request: Request) -> JSONResponse:
        return JSONResponse({"token_endpoint": f"{self.url}/token"})

    async def _token(self, request: Request) -> JSONResponse:
        self.forms.append(dict(parse_qsl((await request.body()).decode())))
        return JSONResponse({"id_token": "new", "refresh_token": "next"})


@contextlib.asynccontextmanager
async def provider(folder: Path) -> AsyncIterator[tuple[Provider, bytes]]:
    """A provider on loopback, and the CA of its certificate."""
    pair = pki.issue()
    asked = Provider()
    server = LoopbackServer(asked.app(), "127.0.0.1", 0, *pair.write(folder, "provider"))
    asked.url = f"https://localhost:{server.port}"
    server.start()
    try:
        yield asked, pair.ca
    finally:
        await server.stop(lambda: None)


def kubeconfig(folder: Path, issuer: str, **configuration: str) -> Path:
    user = {
        "auth-provider": {
            "name": "oidc",
            "config": {
                "client-id": "kubernetes",
                "client-secret": "hush",
                "idp-issuer-url": issuer,
                "refresh-token": "former",
                **configuration,
            },
        }
    }
    path = folder / "config"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "a",
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:7"}}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    return path


async def test_a_provider_whose_certificate_is_not_trusted_is_told_nothing(tmp_path: Path) -> None:
    async with provider(tmp_path) as (asked, _):
        with pytest.raises(ClusterError, match=r"no credentials for the cluster: .*certificate"):
            await from_kubeconfig(kubeconfig(tmp_path, asked.url), None)
        assert asked.forms == []


async def test_a_provider_with_the_ca_of_the_kubeconfig_gives_a_token(tmp_path: Path) -> None:
    async with provider(tmp_path) as (asked, ca):
        data = base64.b64encode(ca).decode()
        path = kubeconfig(tmp_path, asked.url, **{"idp-certificate-authority-data": data})
        credentials = await from_kubeconfig(path, None)
        assert await credentials.authorization() == "Bearer new"
        assert asked.forms == [{"grant_type": "refresh_token", "refresh_token": "former"}]


def token(expires: float) -> str:
    payload = base64.urlsafe_b64encode(json.dumps({"exp": expires}).encode()).decode().rstrip("=")
    return f"head.{payload}.signature"


async def test_a_token_is_used_until_it_expires(tmp_path: Path) -> None:
    async with provider(tmp_path) as (asked, ca):
        (tmp_path / "ca.crt").write_bytes(ca)
        given = {"idp-certificate-authority": "ca.crt"}
        valid = token(time.time() + 60)
        path = kubeconfig(tmp_path, asked.url, **given, **{"id-token": valid})
        assert await (await from_kubeconfig(path, None)).authorization() == f"Bearer {valid}"
        assert asked.forms == []
        path = kubeconfig(tmp_path, asked.url, **given, **{"id-token": token(time.time() - 60)})
        assert await (await from_kubeconfig(path, None)).authorization() == "Bearer new"
        assert len(asked.forms) == 1


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({"id-token": "x"}, "the id-token in the kubeconfig is not a JSON Web Token"),
        ({"refresh-token": ""}, "user u has no valid id-token, and no refresh-token"),
    ],
)
async def test_a_user_without_a_usable_token_is_told(
    configuration: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ClusterError, match=message):
        await from_kubeconfig(kubeconfig(tmp_path, "http://localhost:1", **configuration), None)
