"""`grove-admission sandbox`: a local API server, our server beside it, the real webhook configurations between them.

They meet over HTTPS and files only, as they would in a cluster. Start: API server -> our server -> its caches ->
webhook configurations -> ready.json. Stop: the reverse.
"""

import asyncio
import base64
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.cluster.client import HttpClient, Limits
from app.cluster.credentials import from_kubeconfig
from app.cluster.live import LiveCluster
from app.config import Configuration
from app.runtime import Served, serving, signalled
from app.sandbox.sandbox import Sandbox
from app.webhooks.configurations import ServiceTarget, webhook_configurations

NAMESPACE = "grove-system"
READY_SECONDS = 60.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """What `sandbox` was asked for. `state_dir` gets kubeconfig, certificates and, once all is ready, ready.json."""

    configuration: Configuration
    state_dir: Path
    port: int = 0
    crds: Path | None = None


async def run_sandbox(settings: SandboxSettings) -> None:
    """Runs until SIGTERM or SIGINT. OSError where a port can't be had."""
    ready = settings.state_dir / "ready.json"
    ready.unlink(missing_ok=True)
    server = settings.configuration.server
    api = Sandbox(
        port=settings.port,
        webhook_url=f"https://127.0.0.1:{server.port}",
        state_dir=settings.state_dir,
        crds=settings.crds,
    )
    await api.start()
    try:
        await api.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
        credentials = await from_kubeconfig(api.kubeconfig, "operator")
        client = settings.configuration.client
        limits = Limits(total=client.timeout_seconds, qps=client.queries_per_second, burst=client.burst)
        async with HttpClient(credentials, limits) as calls:
            await _serve(settings, api, calls, ready)
    finally:
        ready.unlink(missing_ok=True)
        await api.stop()


async def _serve(settings: SandboxSettings, api: Sandbox, client: HttpClient, ready: Path) -> None:
    configuration = settings.configuration
    certificates = settings.state_dir / "webhook"
    cluster = LiveCluster(
        client,
        topology_name=configuration.cluster_topology.name,
        topology_enabled=configuration.cluster_topology.enabled,
        node_labels=configuration.pod_binding.node_labels,
    )
    async with serving(configuration, certificates, cluster) as served:
        async with asyncio.timeout(READY_SECONDS):
            await _until(lambda: _is_ready(served))
        bundle = (certificates / "ca.crt").read_bytes()
        await api.apply([with_bundle(one, bundle) for one in webhook_configurations(ServiceTarget())])
        url = f"https://localhost:{served.listener.port}"
        _write(ready, {"apiServer": api.url, "webhook": url, "caFile": str(api.ca_file.resolve())})
        logger.info("sandbox ready: %s, webhooks at %s, kubeconfig %s", api.url, url, api.kubeconfig)
        await signalled()


def with_bundle(configuration: dict[str, Any], bundle: bytes) -> dict[str, Any]:
    """A webhook configuration that trusts `bundle` (PEM)."""
    encoded = base64.b64encode(bundle).decode("ascii")
    webhooks = [
        {**one, "clientConfig": {**one["clientConfig"], "caBundle": encoded}} for one in configuration["webhooks"]
    ]
    return {**configuration, "webhooks": webhooks}


def _is_ready(served: Served) -> bool:
    return all(problem is None for problem in served.readiness.ready().values())


async def _until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110 - several caches, and a check each
        await asyncio.sleep(0.02)


def _write(path: Path, content: dict[str, str]) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(json.dumps(content, indent=2) + "\n")
    temporary.replace(path)
