"""Define the command `python -m scripts.apiserver`.

It starts an API server on loopback, then our server. Once the caches of our server are filled, it
registers the webhook configurations and writes ready.json. The two servers communicate only by
HTTPS and files, as in a cluster. They are stopped in the opposite order.
"""

import argparse
import asyncio
import contextlib
import fcntl
import json
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import uvloop
from msgspec.structs import replace

from app.base import logs
from app.base.unusable import UnusableInput
from app.cli import run_command
from app.commands.console import announced
from app.commands.files import objects_in
from app.commands.options import (
    REFUSED,
    Command,
    add_config,
    add_log_level,
    complain,
    port_number,
)
from app.config.read import load_configuration, with_overrides
from app.config.schema import ClusterTopology, Configuration, TopologyLevel
from app.console.settings import ConsoleSettings
from app.dry_run.budget import OF_FILE
from app.facts.rows import BINDINGS, TOPOLOGIES
from app.kube.api import ClusterError, Object
from app.objects.shape import map_at, maps_at, text_at
from app.reconcilers.cluster_topology import CreationFailed
from app.server.process import signalled
from app.server.serve import alone
from scripts.apiserver.admission_server import READY_SECONDS, ApiServer, admission_server, until
from scripts.apiserver.objects.errors import ApiError
from scripts.apiserver.processes import free_port
from scripts.apiserver.real import RealApiServer, find_binaries
from scripts.apiserver.sandbox import Sandbox

_TO_CREATE = replace(OF_FILE, documents=100_000)
"""The limits of the file of `--objects`."""

_LEVELS = {
    "zone": "topology.kubernetes.io/zone",
    "block": "topology.kubernetes.io/block",
    "rack": "topology.kubernetes.io/rack",
    "host": "kubernetes.io/hostname",
}

logger = logging.getLogger(__name__)


def default_configuration() -> Configuration:
    """Return a configuration with topology support and the levels of `manifests/examples/facts`."""
    levels = tuple(TopologyLevel(domain=domain, key=key) for domain, key in _LEVELS.items())
    return Configuration().model_copy(
        update={"cluster_topology": ClusterTopology(enabled=True, levels=levels)}
    )


def api_server(arguments: argparse.Namespace) -> ApiServer:
    """Return the API server that the options select.

    Raise FileNotFoundError if its binaries are missing.
    """
    options = {"port": arguments.port, "state_dir": arguments.state_dir, "crds": arguments.crds}
    if arguments.real:
        return RealApiServer(binaries=find_binaries(os.environ), report=_report, **options)
    return Sandbox(**options)


async def run_sandbox(configuration: Configuration, arguments: argparse.Namespace) -> None:
    """Run until SIGTERM or SIGINT.

    If the signal arrives before everything is ready, all started parts are stopped. Raise OSError
    if a port is in use or binaries are missing.
    """
    running = asyncio.current_task()
    assert running is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)  # `signalled` takes over once all is ready

    try:
        await _run(configuration, arguments)
    except asyncio.CancelledError:
        _report("stopped before it was ready")


async def _run(configuration: Configuration, arguments: argparse.Namespace) -> None:
    with _alone_in(arguments.state_dir):
        ready = arguments.state_dir / "ready.json"
        ready.unlink(missing_ok=True)
        objects = objects_in(arguments.objects, _TO_CREATE) if arguments.objects else []
        api = api_server(arguments)
        try:
            await api.start()
            with alone(CreationFailed), alone(UnusableInput):
                await _until_signalled(api, configuration, arguments, ready, objects)
        finally:
            ready.unlink(missing_ok=True)
            await api.stop()


def _report(line: str) -> None:
    print(f"sandbox: {line}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _alone_in(state_dir: Path) -> Iterator[None]:
    """Lock `state_dir`. Raise OSError if another sandbox has locked it."""
    state_dir.mkdir(parents=True, exist_ok=True)
    with (state_dir / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OSError(
                f"another sandbox uses {state_dir}. Stop it, or choose another --state-dir"
            ) from None
        yield


async def _until_signalled(
    api: ApiServer,
    configuration: Configuration,
    arguments: argparse.Namespace,
    ready: Path,
    objects: list[Object],
) -> None:
    readable = logs.is_readable(arguments.log_format, sys.stdout)
    async with admission_server(api, configuration, arguments.state_dir, readable) as served:
        url = f"https://localhost:{served.listener.port}"
        if objects and configuration.cluster_topology.enabled:
            # Until the levels are in the cache, webhooks reject objects that need them.
            name = served.cluster.topology_name
            stores = (served.cluster.stores[TOPOLOGIES], served.cluster.stores[BINDINGS])
            async with asyncio.timeout(READY_SECONDS):
                await until(lambda: any(store.get("", name) for store in stores))
        await create(api, objects)
        _write(ready, {"apiServer": api.url, "webhook": url, "caFile": str(api.ca_file.resolve())})
        print(
            f"sandbox ready: {api.url}, webhooks at {url}, kubeconfig {api.kubeconfig}", flush=True
        )
        console: contextlib.AbstractAsyncContextManager[Any] = contextlib.nullcontext()
        if arguments.console:
            settings = ConsoleSettings(configuration, api.kubeconfig, "user", "user")
            console = announced(settings)
        async with console:
            await signalled()


async def create(api: ApiServer, objects: list[Object]) -> None:
    """Create `objects` in order. Raise UnusableInput for the first one that is rejected.

    Each object gets a new uid. Owner references get it too if the owner precedes its dependents.
    """
    uids: dict[str, str] = {}
    for obj in objects:
        try:
            (stored,) = await api.apply([_prepared(obj, uids)])
            uids[text_at(map_at(obj, "metadata"), "uid")] = stored["metadata"]["uid"]
        except (ApiError, KeyError) as problem:
            what = f"{obj.get('kind')} {map_at(obj, 'metadata').get('name')}"
            raise UnusableInput(f"--objects: {what} is not created: {problem}") from None


def _prepared(obj: Object, uids: Mapping[str, str]) -> Object:
    """Return `obj` without its uid, and with the new uids of its owners."""
    meta = {key: value for key, value in map_at(obj, "metadata").items() if key != "uid"}
    if owners := maps_at(obj, "metadata", "ownerReferences"):
        meta["ownerReferences"] = [
            {**owner, "uid": uids.get(text_at(owner, "uid"), owner.get("uid"))} for owner in owners
        ]
    return {**obj, "metadata": meta}


def _write(path: Path, content: dict[str, str]) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(json.dumps(content, indent=2) + "\n")
    temporary.replace(path)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state-dir",
        type=Path,
        required=True,
        metavar="DIR",
        help="directory for kubeconfig and ready.json",
    )
    parser.add_argument(
        "--port", type=port_number, default=0, help="port of the API server (default: a free one)"
    )
    add_config(parser, "an OperatorConfiguration")
    parser.add_argument(
        "--crds",
        type=Path,
        metavar="DIR",
        help="folder with CRDs to use instead of the minimal ones of Grove and KAI",
    )
    parser.add_argument(
        "--real",
        action="store_true",
        help=(
            "etcd and kube-apiserver of KUBEBUILDER_ASSETS (default: /usr/local/kubebuilder/bin)"
            " for an API server"
        ),
    )
    parser.add_argument(
        "--objects",
        type=Path,
        metavar="PATH",
        help="objects to create at the start, from a YAML or JSON file or a directory of them",
    )
    parser.add_argument(
        "--console", action="store_true", help="open a console too, and print its address"
    )
    add_log_level(parser)


def run(arguments: argparse.Namespace) -> int:
    logs.set_up(arguments.log_level, arguments.log_format)
    flags = {"host": "127.0.0.1", "port": free_port(), "tools_port": 0}
    configuration = (
        load_configuration(arguments.config) if arguments.config else default_configuration()
    )
    configuration = with_overrides(configuration, {}, flags)
    try:
        uvloop.run(run_sandbox(configuration, arguments))
    except (OSError, RuntimeError, ClusterError, CreationFailed) as problem:
        complain(f"cannot run the sandbox: {problem}")
        return REFUSED

    return 0


COMMAND = Command(
    "Run a local API server with the webhooks until SIGTERM or Ctrl-C.", add_options, run
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.apiserver", description=COMMAND.description
    )
    COMMAND.add_options(parser)
    return run_command(COMMAND, parser.parse_args(argv))
