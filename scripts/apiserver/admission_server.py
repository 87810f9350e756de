"""Run our server next to an API server on this machine."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol

from app.cluster.cluster import Cluster
from app.cluster.connect import limits
from app.commands.serve import further_duties
from app.config.schema import Configuration
from app.kube.api import Object
from app.kube.client import HttpClient
from app.kube.credentials import from_kubeconfig
from app.server.serve import Extras, Running, serving
from app.webhooks.configurations import UrlTarget, webhook_configurations

NAMESPACE = "grove-system"
READY_SECONDS = 60.0
AT_ONCE_SECONDS = 0.05
"""The seconds between a change of a CRD and discovery, which combines several changes."""


class ApiServer(Protocol):
    """An API server on loopback: the sandbox, or kube-apiserver.

    `kubeconfig` has the contexts admin, operator and user.
    """

    url: str
    ca_file: Path
    kubeconfig: Path
    collects_garbage: bool
    serves_at_once: bool
    """Does it serve a CRD as soon as the CRD is stored?"""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def apply(self, objects: list[Object]) -> list[Object]: ...


@contextlib.asynccontextmanager
async def admission_server(
    api: ApiServer, configuration: Configuration, state_dir: Path, readable: bool
) -> AsyncIterator[Running]:
    """Run our server as the user `operator` of `api`, with its webhooks registered."""
    async with unregistered(api, configuration, state_dir, readable) as served:
        await api.apply(configurations_of(served, served.certificate.ca_bundle() or b""))
        async with asyncio.timeout(READY_SECONDS):
            await until(lambda: trusts(served))
        yield served


def trusts(served: Running) -> bool:
    """Return whether the server accepts a token, so that reviews may cause writes."""
    return any(route.trusted for route in served.listener.serving.exchange.routes.values())


@contextlib.asynccontextmanager
async def unregistered(
    api: ApiServer, configuration: Configuration, state_dir: Path, readable: bool
) -> AsyncIterator[Running]:
    """Run our server as the user `operator` of `api`, without webhook configurations.

    Yield once it is ready.
    """
    await api.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
    resources, duties = further_duties(configuration)
    async with HttpClient(
        await from_kubeconfig(api.kubeconfig, "operator"), resources, limits(configuration)
    ) as client:
        if api.serves_at_once:
            client.discovery.settle_seconds = AT_ONCE_SECONDS

        cluster = Cluster(client, configuration, client.discovery)
        async with serving(
            configuration, state_dir / "webhook", cluster, client, Extras(readable, duties)
        ) as served:
            async with asyncio.timeout(READY_SECONDS):
                await until(lambda: served.readiness.is_ready)
            yield served


def configurations_of(served: Running, bundle: bytes) -> list[Object]:
    """Return webhook configurations with the URL of our server and the caBundle `bundle` (PEM)."""
    return webhook_configurations(UrlTarget(f"https://127.0.0.1:{served.listener.port}", bundle))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - several caches, and a check each
        await asyncio.sleep(0.02)
