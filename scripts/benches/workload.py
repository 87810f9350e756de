"""Measure the leader with Pods of Workloads: 10,000 Pods of 200 groups, and a late Workload.

The sandbox and the server are separate processes. The server writes all PodGroups and annotations,
and its API calls are counted.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from app.facts.kinds import POD_GROUP, WORKLOAD
from app.kube.api import Selection
from app.kube.client import HttpClient
from app.objects.resource import POD
from benches.common import api_calls, process
from benches.reconcile import LEVELS, Server, connect, until
from scripts.apiserver.processes import free_port

LATE_SECONDS = 5.0


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        port = free_port()
        script = str(Path(__file__).with_name("reconcile.py"))
        with process([sys.executable, script, "--api", str(port), "--directory", name]):
            await until((directory / "listening").exists)
            async with await connect(directory) as client:
                await late(directory, port, client)
                await many(directory, port, client, arguments.pods, arguments.groups)


def workload(name: str) -> dict[str, object]:
    groups = [{"name": "workers", "policy": {"gang": {"minCount": 50}}}]
    return {"metadata": {"name": name}, "spec": {"podGroups": groups}}


def pod(name: str, workload: str) -> dict[str, object]:
    spec = {
        "schedulerName": "kai-scheduler",
        "workloadRef": {"name": workload, "podGroup": "workers"},
        "containers": [{"name": "main", "image": "registry.example/main:1"}],
    }
    return {"metadata": {"name": name}, "spec": spec}


async def late(directory: Path, port: int, client: HttpClient) -> None:
    """Create a Pod, then its Workload, and print the time from the Workload to the PodGroup."""
    server = Server(directory, port, LEVELS)
    await server.ready()
    await until(lambda: server.value("leader") == 1)
    await client.create(POD, pod("early", "late"), "default")
    await asyncio.sleep(LATE_SECONDS)
    version = (await client.list(Selection(POD_GROUP, "default"), limit=1)).resource_version
    watch = client.watch(Selection(POD_GROUP, "default"), resource_version=version)
    coming = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0.2)
    await client.create(WORKLOAD, workload("late"), "default")
    begin = time.monotonic()
    await coming
    print(
        f"a Workload {LATE_SECONDS:g} s late: its PodGroup came {(time.monotonic() - begin) * 1000:.0f} ms after it"
    )
    await watch.aclose()
    await until(lambda: calls(server, "pods", "patch") == 1)
    server.stop()


async def many(directory: Path, port: int, client: HttpClient, pods: int, groups: int) -> None:
    """Create all Workloads and Pods, then start a server, and print its calls, time and memory."""
    for number in range(groups):
        await client.create(WORKLOAD, workload(f"job-{number}"), "default")
    waiting = iter(range(pods))

    async def worker() -> None:
        for number in waiting:
            await client.create(POD, pod(f"p-{number}", f"job-{number % groups}"), "default")

    await asyncio.gather(*(worker() for _ in range(16)))
    server = Server(directory, port, LEVELS)
    begin = time.monotonic()
    await server.ready()
    await until(lambda: calls(server, "pods", "patch") >= pods, 0.2)
    seconds = time.monotonic() - begin
    await until(lambda: server.value("reconcile_queue_depth") == 0, 0.2)
    await asyncio.sleep(1)
    made = calls(server, str(POD_GROUP), "create")
    patched = calls(server, "pods", "patch")
    print(f"{pods:,} Pods of {groups} groups: {made} PodGroups created, {patched:,} Pods patched")
    print(f"  other calls, without lists and watches: {others(server)}")
    print(f"  {seconds:.1f} s from the start of the process, {server.resident():.0f} MiB resident")
    server.stop()


def calls(server: Server, resource: str, verb: str) -> int:
    return api_calls(server.metrics()).get((verb, resource), 0)


def others(server: Server) -> str:
    expected = {("create", str(POD_GROUP)), ("patch", "pods")}
    said = [
        f"{count} {verb} {name or 'discovery'}"
        for (verb, name), count in sorted(api_calls(server.metrics()).items())
        if (verb, name) not in expected and verb not in ("list", "watch")
    ]
    return ", ".join(said) or "none"


if __name__ == "__main__":
    asyncio.run(main())
