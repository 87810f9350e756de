"""`grove-admission sandbox`: an API server on loopback, our server beside it, the real webhook configurations between.

They meet over HTTPS and files only, as they would in a cluster. Start: API server -> our server -> its caches ->
webhook configurations -> ready.json. Stop: the reverse.
"""

import argparse
import asyncio
import base64
import contextlib
import fcntl
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import uvloop

from app import logs
from app.cluster.cluster import Cluster
from app.cluster.connect import limits
from app.cluster.table import TOPOLOGIES
from app.commands.console import announcement
from app.commands.options import REFUSED, Command, add_log_level, port_number
from app.config.environment import with_overrides
from app.config.read import load_configuration
from app.config.schema import ClusterTopology, Configuration, TopologyLevel
from app.dry_run.documents import UnusableInput
from app.kube.api import ClusterError, Object
from app.kube.client import HttpClient
from app.kube.credentials import from_kubeconfig
from app.reconcilers.cluster_topology import CreationFailed
from app.rules.kinds import ALL
from app.server.listener import free_port
from app.server.process import signalled
from app.server.serve import Running, alone, serving
from app.webhooks.configurations import ServiceTarget, UrlTarget, webhook_configurations

NAMESPACE = "grove-system"
READY_SECONDS = 60.0
_LEVELS = {
    "zone": "topology.kubernetes.io/zone",
    "block": "topology.kubernetes.io/block",
    "rack": "topology.kubernetes.io/rack",
    "host": "kubernetes.io/hostname",
}

logger = logging.getLogger(__name__)


class ApiServer(Protocol):
    """An API server on loopback: ours, or a real one. `kubeconfig` has the contexts admin, operator and user."""

    url: str
    ca_file: Path
    kubeconfig: Path
    collects_garbage: bool
    reaches_services: bool
    """Whether it calls webhooks through their Service; else it needs their URL."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def apply(self, objects: list[Object]) -> None: ...


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """What `sandbox` was asked for. `state_dir` gets kubeconfig, certificates and, once all is ready, ready.json.
    `real` asks for a real API server, `crds` is a folder with CRDs of the neighbours in place of our minimal ones.
    `fleet` fills the cluster with nodes and workloads to look at, and `console` opens a console for the user.
    A `readable` log of verdicts is for people."""

    configuration: Configuration
    state_dir: Path
    port: int = 0
    crds: Path | None = None
    real: bool = False
    fleet: bool = False
    console: bool = False
    readable: bool = False


def default_configuration() -> Configuration:
    """Topology support with four levels, those of `manifests/examples/facts`."""
    levels = tuple(TopologyLevel(domain=domain, key=key) for domain, key in _LEVELS.items())
    return Configuration().model_copy(update={"cluster_topology": ClusterTopology(enabled=True, levels=levels)})


def api_server(settings: SandboxSettings) -> ApiServer:
    """FileNotFoundError if a real one is asked for and its binaries aren't there, UnusableInput if the libraries of the
    sandbox are not installed."""
    try:
        from app.sandbox.real import RealApiServer, find_binaries
        from app.sandbox.sandbox import Sandbox
    except ImportError as problem:
        raise UnusableInput(f"the sandbox needs more packages ({problem}): install grove-admission[sandbox]") from None
    options = {"port": settings.port, "state_dir": settings.state_dir, "crds": settings.crds}
    if settings.real:
        return RealApiServer(binaries=find_binaries(os.environ), report=_report, **options)  # type: ignore[arg-type]
    return Sandbox(**options)  # type: ignore[arg-type]


async def run_sandbox(settings: SandboxSettings) -> None:
    """Runs until SIGTERM or SIGINT. If one arrives before all is ready, what was started is stopped again. OSError if a
    port can't be had or binaries are missing."""
    running = asyncio.create_task(_run(settings))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)  # `signalled` takes over once all is ready
    try:
        await asyncio.wait({running})
    finally:
        running.cancel()
        await asyncio.wait({running})
    if running.cancelled():
        _report("stopped before it was ready")
    else:
        running.result()


async def _run(settings: SandboxSettings) -> None:
    with _alone_in(settings.state_dir):
        ready = settings.state_dir / "ready.json"
        ready.unlink(missing_ok=True)
        api = api_server(settings)
        try:
            await api.start()
            with alone(CreationFailed):
                await _until_signalled(api, settings, ready)
        finally:
            ready.unlink(missing_ok=True)
            await api.stop()


def _report(line: str) -> None:
    print(f"sandbox: {line}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _alone_in(state_dir: Path) -> Iterator[None]:
    """Keeps a second sandbox from writing over the first one's files. OSError if there is one."""
    state_dir.mkdir(parents=True, exist_ok=True)
    with (state_dir / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OSError(f"another sandbox has {state_dir}: end that one, or give another --state-dir") from None
        yield


async def _until_signalled(api: ApiServer, settings: SandboxSettings, ready: Path) -> None:
    async with beside(api, settings.configuration, settings.state_dir, settings.readable) as served:
        url = f"https://localhost:{served.listener.port}"
        if settings.fleet:
            await _apply_fleet(api, served.cluster, waits=settings.configuration.cluster_topology.enabled)
        _write(ready, {"apiServer": api.url, "webhook": url, "caFile": str(api.ca_file.resolve())})
        print(f"sandbox ready: {api.url}, webhooks at {url}, kubeconfig {api.kubeconfig}", flush=True)
        async with _console(api, settings):
            await signalled()


async def _apply_fleet(api: ApiServer, cluster: Cluster, *, waits: bool) -> None:
    """Creates the fleet; if it `waits`, not before the levels are known: webhooks would refuse it until then."""
    from app.sandbox.fleet import fleet

    if waits:
        async with asyncio.timeout(READY_SECONDS):
            await _until(lambda: cluster.stores[TOPOLOGIES].get("", cluster.topology_name) is not None)
    await api.apply(fleet())


@contextlib.asynccontextmanager
async def _console(api: ApiServer, settings: SandboxSettings) -> AsyncIterator[None]:
    """A console with the rights of the sandbox's user, if it was asked for, while the block runs."""
    if not settings.console:
        yield
        return
    try:
        from app.console.app import ConsoleSettings, opened
    except ImportError as problem:
        raise UnusableInput(f"the console needs more packages ({problem}): install grove-admission[console]") from None
    asked = ConsoleSettings(settings.configuration, api.kubeconfig, "user", "user")
    async with opened(asked) as console:
        print(announcement(console.url, console.file, terminal=sys.stdout.isatty()), flush=True)
        yield


@contextlib.asynccontextmanager
async def beside(
    api: ApiServer, configuration: Configuration, state_dir: Path, readable: bool = False
) -> AsyncIterator[Running]:
    """Our server beside `api`, as the operator's user, with its webhooks registered, while the block runs."""
    async with unregistered(api, configuration, state_dir, readable) as served:
        await api.apply(registered(api, served, served.certificate.ca_bundle() or b""))
        yield served


@contextlib.asynccontextmanager
async def unregistered(
    api: ApiServer, configuration: Configuration, state_dir: Path, readable: bool = False
) -> AsyncIterator[Running]:
    """Our server, ready; the API server asks it nothing yet."""
    await api.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
    async with HttpClient(await from_kubeconfig(api.kubeconfig, "operator"), ALL, limits(configuration)) as client:
        cluster = Cluster(client, configuration, client.discovery)
        async with serving(configuration, state_dir / "webhook", cluster, client, readable) as served:
            async with asyncio.timeout(READY_SECONDS):
                await _until(lambda: served.readiness.is_ready)
            yield served


def registered(api: ApiServer, served: Running, bundle: bytes) -> list[Object]:
    """The webhook configurations, and the Service that they name. A real API server can't reach one here, so it is told
    the URL."""
    if not api.reaches_services:
        return webhook_configurations(UrlTarget(f"https://127.0.0.1:{served.listener.port}", bundle))
    target = ServiceTarget()
    configurations = [with_bundle(configuration, bundle) for configuration in webhook_configurations(target)]
    return [*service_at(target, served.listener.port), *configurations]


def service_at(target: ServiceTarget, port: int) -> list[Object]:
    """The Service as it is installed, and its one endpoint: nobody else writes that here."""
    metadata: Object = {"name": target.name, "namespace": target.namespace}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"ports": [{"name": "https", "port": 443, "targetPort": port}]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**metadata, "labels": {"kubernetes.io/service-name": target.name}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
            "ports": [{"name": "https", "port": port}],
        },
    ]


def with_bundle(configuration: dict[str, Any], bundle: bytes) -> dict[str, Any]:
    """A webhook configuration that trusts `bundle` (PEM)."""
    encoded = base64.b64encode(bundle).decode("ascii")
    webhooks = [
        {**webhook, "clientConfig": {**webhook["clientConfig"], "caBundle": encoded}}
        for webhook in configuration["webhooks"]
    ]
    return {**configuration, "webhooks": webhooks}


async def _until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110 - several caches, and a check each
        await asyncio.sleep(0.02)


def _write(path: Path, content: dict[str, str]) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(json.dumps(content, indent=2) + "\n")
    temporary.replace(path)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state-dir", type=Path, required=True, metavar="DIR", help="kubeconfig and ready.json go here"
    )
    parser.add_argument("--port", type=port_number, default=0, help="of the API server (default: a free one)")
    parser.add_argument("--webhook-port", type=port_number, help="of the webhook server (default: a free one)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="an OperatorConfiguration")
    parser.add_argument("--crds", type=Path, metavar="DIR", help="CRDs in place of our minimal ones of the neighbours")
    parser.add_argument(
        "--real",
        action="store_true",
        help="etcd and kube-apiserver of KUBEBUILDER_ASSETS (default: /usr/local/kubebuilder/bin) for an API server",
    )
    parser.add_argument("--fleet", action="store_true", help="64 nodes and three workloads, one of them stuck")
    parser.add_argument("--console", action="store_true", help="open a console too, and print its address")
    add_log_level(parser)


def run(arguments: argparse.Namespace) -> int:
    logs.set_up(arguments.log_level, arguments.log_format)
    flags = {"host": "127.0.0.1", "port": arguments.webhook_port or free_port()}
    configuration = load_configuration(arguments.config) if arguments.config else default_configuration()
    configuration = with_overrides(configuration, {}, flags)
    settings = SandboxSettings(
        configuration,
        arguments.state_dir,
        arguments.port,
        arguments.crds,
        arguments.real,
        arguments.fleet,
        arguments.console,
        logs.is_readable(arguments.log_format, sys.stdout),
    )
    try:
        uvloop.run(run_sandbox(settings))
    except (OSError, RuntimeError, ClusterError, CreationFailed) as problem:
        print(f"can't run the sandbox: {problem}", file=sys.stderr)
        return REFUSED
    return 0


COMMAND = Command("A local API server with the webhooks, until SIGTERM or Ctrl-C.", add_options, run)
