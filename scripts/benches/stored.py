"""Measure the peak memory of a server in a cluster with large objects of tenants.

The sandbox serves the cluster in a separate process. It streams lists unless `--pages` is given, as
Kubernetes before 1.34 does not. In the sandbox, objects share their large parts, so thousands of
them take little memory. The server may have `--memory` MiB of data.

There are two measurements. For `starts`, the objects are stored before the server starts. For
`running`, they are stored while the server runs. In both, all watches are cut 10 s later, so that
the server lists the objects again.

The column `leads` says whether the server leads in the end, and how many of its caches have no list
yet.
"""

import argparse
import asyncio
import contextlib
import os
import resource
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

from app.facts import kinds
from app.objects.resource import NODE, POD, Resource
from benches.common import ENVIRONMENT, ROOT, memory
from benches.memory import IN_A_POD, service_account
from scripts.apiserver.http import messages
from scripts.apiserver.processes import free_port
from scripts.apiserver.sandbox import Sandbox

Object = dict[str, Any]

CONFIGURATION = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
clusterTopology:
  enabled: true
  levels:
    - {domain: rack, key: topology.kubernetes.io/rack}
    - {domain: host, key: kubernetes.io/hostname}
client: {queriesPerSecond: 1000, burst: 1000}
mnnvl: {collectAfterSeconds: 1}
"""
LARGE = 1_400_000
"""The size of an object in bytes. An API server stores at most 1.5 MiB."""

PATIENCE = 600.0


def filler(size: int) -> list[Object]:
    """Return as many environment variables as fit into `size` bytes."""
    return [{"name": f"V{n:07}", "value": "x" * 1000} for n in range(size // 1045)]


def container(env: list[Object]) -> Object:
    return {
        "name": "main",
        "image": "x",
        "env": env,
        "resources": {"limits": {"nvidia.com/gpu": 8}},
    }


UNIT = {"grove.io/mnnvl-unit": "unit", "grove.io/podgang": "a"}
MANAGED = {
    "app.kubernetes.io/managed-by": "grove-admission",
    "grove.io/mnnvl-managed": "true",
    "grove.io/pcs-name": "a",
    "grove.io/pcs-replica-index": "0",
}


def pods(number: int, env: list[Object]) -> Iterator[tuple[Resource, Object]]:
    spec = {
        "schedulerName": "kai-scheduler",
        "schedulingGroup": {"podGroupName": "a"},
        "containers": [container(env)],
    }
    for n in range(number):
        yield POD, {"metadata": {"name": f"p{n:05}", "labels": UNIT}, "spec": spec}


def sets(number: int, cliques: int) -> Iterator[tuple[Resource, Object]]:
    parts = [
        {"name": f"c{n:04}", "spec": {"replicas": 1, "roleName": f"c{n:04}", "podSpec": {}}}
        for n in range(cliques)
    ]
    for n in range(number):
        spec = {"replicas": 1, "template": {"cliques": parts}}
        yield kinds.POD_CLIQUE_SET, {"metadata": {"name": f"s{n:04}"}, "spec": spec}


def of_each_kind(number: int) -> Iterator[tuple[Resource, Object]]:
    """Yield `number` objects of each kind. Most of them have one very large field."""
    env = filler(LARGE)
    template: Object = {"podSpec": {"containers": [container(env)]}, "replicas": 1, "roleName": "a"}
    clique = {"name": "a", "spec": template}
    references = [{"namespace": "default", "name": f"p{n:036}"} for n in range(LARGE // 75)]
    specs: dict[Resource, Object] = {
        kinds.POD_CLIQUE_SET: {"replicas": 1, "template": {"cliques": [clique]}},
        kinds.POD_CLIQUE: template,
        kinds.POD_GANG: {"podgroups": [{"name": "a", "podReferences": references}]},
        kinds.COMPUTE_DOMAIN: {"numNodes": 0, "more": env},
        kinds.RESOURCE_CLAIM: {"devices": {"config": env}},
        kinds.POD_GROUP: {"subGroups": env},
        kinds.WORKLOAD: {"podGroups": env},
        kinds.K8S_POD_GROUP: {"more": env},
        kinds.QUEUE: {"more": env},
        kinds.DEVICE_CLASS: {"config": env},
        kinds.RESOURCE_SLICE: {"driver": "gpu.nvidia.com", "devices": env},
        kinds.PRIORITY_CLASS: {},
        NODE: {"more": env},
    }
    yield from pods(number, env)
    for kind, spec in specs.items():
        for n in range(number):
            metadata: Object = {"name": f"x{n:05}-cd", "labels": MANAGED}
            if kind in (kinds.QUEUE, kinds.PRIORITY_CLASS, kinds.DEVICE_CLASS):
                metadata["managedFields"] = env
            status = {"images": env} if kind == NODE else {}
            yield kind, {"metadata": metadata, "spec": spec, "status": status}


def with_owners(number: int) -> Iterator[tuple[Resource, Object]]:
    """Yield ComputeDomains and nodes that are large in fields that a server keeps."""
    owners = [
        {"apiVersion": "v1", "kind": "Pod", "name": f"o{n:05}", "uid": f"{n:036}"}
        for n in range(LARGE // 100)
    ]
    labels = {f"example.com/{n:08}": "x" * 60 for n in range(LARGE // 90)}
    for n in range(number):
        metadata = {"name": f"x{n:05}-cd", "labels": MANAGED, "ownerReferences": owners}
        yield kinds.COMPUTE_DOMAIN, {"metadata": metadata, "spec": {"numNodes": 0}}
        yield NODE, {"metadata": {"name": f"n{n:05}", "labels": labels}}


def nobody_asks(number: int) -> Iterator[tuple[Resource, Object]]:
    """Yield ComputeDomains that no PodClique requests, and large Pods."""
    yield from pods(number, filler(LARGE))
    for n in range(400):
        metadata = {
            "name": f"a-{n}-cd",
            "labels": {**MANAGED, "grove.io/pcs-replica-index": f"{n}"},
        }
        yield kinds.COMPUTE_DOMAIN, {"metadata": metadata, "spec": {"numNodes": 0}}


ATTACKS: dict[str, Callable[[], Iterator[tuple[Resource, Object]]]] = {
    "nothing": lambda: iter(()),
    "150 Pods": lambda: pods(150, filler(LARGE)),
    "2,000 Pods": lambda: pods(2000, filler(LARGE)),
    "57 sets": lambda: sets(57, 9_990),
    "2,000 sets": lambda: sets(2000, 9_990),
    "each kind": lambda: of_each_kind(150),
    "each kind, 2,000": lambda: of_each_kind(2000),
    "owners, labels": lambda: with_owners(150),
    "nobody asks": lambda: nobody_asks(150),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("attacks", nargs="*", metavar="NAME", help=", ".join(ATTACKS))
    parser.add_argument("--api", type=Path, help=argparse.SUPPRESS)
    parser.add_argument(
        "--pages", action="store_true", help="let the API server refuse to stream lists"
    )
    parser.add_argument(
        "--memory",
        type=int,
        default=512,
        metavar="MIB",
        help="limit of the server's data (default: 512)",
    )
    parser.add_argument("--tree", type=Path, default=ROOT, help="checkout of the server")
    parser.add_argument(
        "--seconds", type=float, default=40.0, help="seconds to run with the objects (default: 40)"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=300.0,
        help="seconds to wait until the server is ready (default: 300)",
    )
    parser.add_argument(
        "--when", nargs="*", default=["starts", "running"], choices=["starts", "running"]
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.attacks) - set(ATTACKS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}. Known: {', '.join(ATTACKS)}")
    if arguments.api:
        asyncio.run(run_api(arguments.api, arguments.attacks[0], pages=arguments.pages))
        return 0

    print(f"{'stored':20} {'server':8} {'ready, s':>9} {'peak, MiB':>10} {'CPU, s':>7}  leads")
    for name in arguments.attacks or ATTACKS:
        for when in arguments.when:
            print(row(name, arguments, running=when == "running"), flush=True)
    return 0


def row(name: str, arguments: argparse.Namespace, *, running: bool) -> str:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        api = [sys.executable, __file__, "--api", folder, name]
        api += ["--pages"] if arguments.pages else []
        with subprocess.Popen(api, env=ENVIRONMENT, stderr=subprocess.DEVNULL) as serving:
            wait_for(directory / "started")
            if not running:
                store(directory)
            server = started(directory, arguments.tree, arguments.memory)
            peaks = [0]
            watching = threading.Thread(target=watch, args=(server, peaks), daemon=True)
            watching.start()
            try:
                seconds = ready(server, directory, arguments.patience)
                if running and seconds:
                    store(directory)
                    wait_for(directory / "cut")
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(arguments.seconds)
                spent = cpu_seconds(server)
                fate = leads(directory) if server.poll() is None else f"ended: {server.returncode}"
                if not seconds and server.poll() is None:
                    fate = "never ready"
            finally:
                server.kill()
                server.wait()
                serving.kill()
        if server.returncode not in (None, -signal.SIGKILL):
            print("\n".join((directory / "log").read_text().splitlines()[-20:]))
    took = f"{seconds:9.1f}" if seconds else f"{'-':>9}"
    when = "running" if running else "starts"
    return f"{name:20} {when:8} {took} {max(peaks) / 2**20:10.0f} {spent:7.1f}  {fate}"


def cpu_seconds(server: subprocess.Popen[bytes]) -> float:
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def leads(directory: Path) -> str:
    """Return a text that says whether the server leads, and how many caches have no list yet.

    If it does not answer, return the reason.
    """
    url = f"https://localhost:{(directory / 'tools-port').read_text()}/metrics"
    unverified = ssl._create_unverified_context()
    try:
        with httpx.Client(verify=unverified, timeout=30) as client:
            lines = client.get(url).text.splitlines()
    except httpx.HTTPError as problem:
        return f"does not answer: {problem!r}"
    unsynced = sum(
        line.startswith("grove_admission_cache_synced{") and line.endswith(" 0.0") for line in lines
    )
    is_leader = "grove_admission_leader 1.0" in lines
    return f"{'yes' if is_leader else 'no'}, {unsynced} caches to read"


def watch(server: subprocess.Popen[bytes], peaks: list[int]) -> None:
    """Append the peak memory of a process, in bytes, to `peaks` every 0.1 s until it ends."""
    while server.poll() is None:
        with contextlib.suppress(OSError, TypeError):  # the process is ending
            peaks.append(memory(server.pid, "VmHWM"))
        time.sleep(0.1)


def wait_for(file: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not file.exists():
        if time.monotonic() > end:
            raise SystemExit(f"{file.name}: nothing happened for {PATIENCE:g} s")
        time.sleep(0.05)


def store(directory: Path) -> None:
    (directory / "go").touch()
    wait_for(directory / "stored")


def started(directory: Path, tree: Path, most: int) -> subprocess.Popen[bytes]:
    (directory / "config.yaml").write_text(CONFIGURATION)
    port, tools_port = free_port(), free_port()
    (directory / "port").write_text(str(port))
    (directory / "tools-port").write_text(str(tools_port))
    options = ["--config", str(directory / "config.yaml"), "--certs", str(directory / "webhook")]
    options += ["--host", "127.0.0.1", "--port", str(port), "--log-level", "warning"]
    if (tree / "app" / "server" / "tools.py").exists():  # since 0.10.0
        options += ["--tools-port", str(tools_port)]
    else:
        (directory / "tools-port").write_text(str(port))
    command = [sys.executable, "-c", IN_A_POD, str(directory), "serve", *options]
    environment = {**ENVIRONMENT, **service_account(directory), "PYTHONPATH": str(tree)}

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (most * 2**20, most * 2**20))

    with (directory / "log").open("wb") as log:
        return subprocess.Popen(
            command, cwd=tree, env=environment, stdout=log, stderr=log, preexec_fn=limit
        )


def ready(server: subprocess.Popen[bytes], directory: Path, patience: float) -> float:
    """Return the seconds until the server is ready, or 0 if it ends or needs over `patience` s."""
    begin = time.monotonic()
    url = f"https://localhost:{(directory / 'port').read_text()}/readyz"
    unverified = ssl._create_unverified_context()
    with httpx.Client(verify=unverified) as client:
        while server.poll() is None and time.monotonic() < begin + patience:
            try:
                if client.get(url, timeout=5).status_code == 200:
                    return time.monotonic() - begin
            except httpx.HTTPError:
                pass
            time.sleep(0.05)
    return 0.0


async def run_api(directory: Path, name: str, *, pages: bool) -> None:
    """Run the API server. Store the objects of the attack `name` once the file `go` exists.

    Cut all watches 10 s later.
    """
    if pages:
        refusal = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is on"
        messages._problem_of_streaming = lambda params: ("sendInitialEvents", refusal)
    sandbox = Sandbox(state_dir=directory)
    sandbox.collects_garbage = False
    await sandbox.start()
    grove_system = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "grove-system"},
    }
    await sandbox.apply([grove_system])
    (directory / "started").touch()
    while not (directory / "go").exists():  # noqa: ASYNC110 - another process creates it
        await asyncio.sleep(0.05)

    storage = sandbox._storage
    for number, (kind, obj) in enumerate(ATTACKS[name]()):
        metadata = {"uid": f"{number:036}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        metadata |= obj["metadata"] | ({"namespace": "default"} if kind.namespaced else {})
        version = kind.api_version(kind.versions[0])
        whole = {**obj, "apiVersion": version, "kind": kind.kind, "metadata": metadata}
        storage.insert((kind.group, kind.plural), whole)
        if number % 20 == 0:
            await asyncio.sleep(0)
    (directory / "stored").touch()
    await asyncio.sleep(10)
    storage.version += 1  # no watch has seen this version, so all get 410
    storage.compact()
    storage.close()
    (directory / "cut").touch()
    await asyncio.Event().wait()


if __name__ == "__main__":
    os.nice(5)
    raise SystemExit(main())
