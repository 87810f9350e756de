"""Measure the cost of `waiting.enabled` for the leader.

The cluster has 15,000 nodes, 60,000 pods and 20,000 PodCliques, as in `console.py`.

First, a separate process reads the cluster over HTTP from `cluster.py`, with the limits of the
configuration, and checks it as the leader does. Its CPU time and memory are measured until the
first check is done, and then while a pod changes every 0.1 s.

The second measurement is in this process, without reading. `none` is the memory before, `facts` the
memory of the stores, and `looks` the memory that the first check adds. The CPU times are those of
the first check, and the medians of ten checks after a change of a pod and of a node.

The exit code is 1 if the separate process needs more than MOST_MIB or MOST_CPU_SECONDS.
"""

import argparse
import asyncio
import gc
import os
import resource as resource_usage
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from app.cluster.connect import limits
from app.config.schema import Configuration
from app.explain.state.snapshot import BY_RESOURCE, Snapshot
from app.kube.api import Object, WatchEvent
from app.kube.client import HttpClient
from app.kube.credentials import from_kubeconfig
from app.kube.events import Recorder
from app.kube.store import WatchStore
from app.objects.resource import NODE, POD, Resource
from app.waiting.overdue import Overdue
from app.waiting.watcher import RESOURCES, Looker, WaitingDuty
from benches.cluster import NODES, objects, pod
from benches.common import ENVIRONMENT, ROOT, process, until

PODS = 60_000
TIMES = 10
AFTER = 0.0
MOST_MIB = 512
MOST_CPU_SECONDS = 60
BUSY_SECONDS = 30


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pods", nargs="?", type=int, default=PODS, metavar="PODS")
    parser.add_argument("--duty", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.duty:
        return asyncio.run(over_http(arguments.duty))

    code = from_server(arguments.pods)
    in_memory(arguments.pods)
    print(f"load average of the last minutes: {', '.join(f'{x:.1f}' for x in os.getloadavg())}")
    return code


def from_server(pods: int) -> int:
    """Run this file with `--duty` against `cluster.py`, and return its exit code."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        server = [sys.executable, str(ROOT / "scripts" / "benches" / "cluster.py"), name, str(pods)]
        with process(server):
            until((directory / "kubeconfig").exists, 600.0)
            command = [sys.executable, __file__, "--duty", name]
            return subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, check=False).returncode


async def over_http(directory: Path) -> int:
    """Run the duty as the leader does, and print its figures. Return the exit code."""
    settings = Configuration.model_validate({"waiting": {"enabled": True, "afterSeconds": 0.001}})
    credentials = await from_kubeconfig(directory / "kubeconfig", None)
    none = resident()
    show("HTTP: none: MiB", none)
    async with HttpClient(credentials, RESOURCES, limits(settings)) as client:
        await client.discovery.refresh()
        events = Recorder(client, "bench")
        duty = WaitingDuty(client, events, settings)
        begun = time.process_time()
        running = asyncio.create_task(duty.run())
        await asyncio.to_thread(until, lambda: figure(duty, "waiting_look_seconds") > 0, 600.0)
        seconds = time.process_time() - begun
        show("HTTP: until the first look: CPU s", seconds)
        show("HTTP: first look: CPU ms", 1000 * figure(duty, "waiting_look_seconds"))

        begun = time.process_time()
        await busy(credentials.host)
        if running.done():
            running.result()
        show("HTTP: a pod changes 10/s: CPU %", 100 * (time.process_time() - begun) / BUSY_SECONDS)
        show("HTTP: a look then: CPU ms", 1000 * figure(duty, "waiting_look_seconds"))
        show("HTTP: gangs that wait", figure(duty, "waiting_gangs"))
        memory = peak() - none
        show("HTTP: peak: MiB more", memory)
        show("HTTP: at the end: MiB more", resident() - none)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    return int(memory > MOST_MIB or seconds > MOST_CPU_SECONDS)


async def busy(server: str) -> None:
    """Change a pod every 0.1 s, for BUSY_SECONDS."""
    async with httpx.AsyncClient(base_url=server) as changes:
        for number in range(BUSY_SECONDS * 10):
            await changes.get(f"/change/pod/{number * 41}/gpu-{number * 97 % NODES:05}")
            await asyncio.sleep(0.1)


def figure(duty: WaitingDuty, name: str) -> float:
    """Return the sum of the samples of a metric."""
    return sum(sample.value for sample in duty.samples() if sample.name == name)


def peak() -> float:
    """Return the peak memory of this process in MiB."""
    return resource_usage.getrusage(resource_usage.RUSAGE_SELF).ru_maxrss / 1024


def in_memory(pods: int) -> None:
    """Print the memory of the facts, and the CPU time of checks, without reading."""
    none = resident()
    stores = {resource: filled(resource) for resource in RESOURCES}
    for path, obj, _ in objects(pods):
        stores[resource_of(path)].apply(event("ADDED", obj))
    facts = resident() - none

    looker = Looker()
    first = looked(looker, stores)
    show("none: MiB", none)
    show("facts: MiB", facts)
    show("looks: MiB", resident() - none - facts)
    show("gangs that wait", len(first.gangs))
    show("first look: CPU ms", 1000 * looker.seconds)
    show("after a pod: CPU ms", changed(looker, stores, POD))
    show("after a node: CPU ms", changed(looker, stores, NODE))
    show("in all at the end: MiB", resident() - none)


def filled(resource: Resource) -> WatchStore[Any]:
    return WatchStore(BY_RESOURCE[resource].read)


def resource_of(path: str) -> Resource:
    """Return the resource of a list's path."""
    group = "/".join(path.split("/")[2:-2])
    plural = path.rpartition("/")[2]
    return next(
        resource for resource in RESOURCES if (resource.group, resource.plural) == (group, plural)
    )


def event(kind: Any, obj: Object) -> WatchEvent:
    """Return the event with which a watch reports an object."""
    metadata = {**obj["metadata"], "resourceVersion": str(event_number())}
    return WatchEvent(kind, {**obj, "metadata": metadata})


def event_number() -> int:
    return time.monotonic_ns()


def looked(looker: Looker, stores: dict[Resource, WatchStore[Any]]) -> Overdue:
    """Return the result of a check. A field of the facts is a new tuple only after a change."""
    for resource, store in stores.items():
        name = BY_RESOURCE[resource].name
        if name not in KEPT:
            KEPT[name] = tuple(store.values())
    return looker.at(Snapshot(**KEPT, skipped=frozenset({"events"}), now=time.time()), AFTER)


KEPT: dict[str, Any] = {}


def changed(looker: Looker, stores: dict[Resource, WatchStore[Any]], resource: Resource) -> float:
    """Return the median CPU time of checks after changes of an object, in milliseconds."""
    times = []
    for number in range(TIMES):
        if resource is POD:
            obj = pod("research", f"batch-{number * 41}", 1, f"gpu-{number * 97 % NODES:05}")
        else:
            obj = next(obj for _, obj, _ in objects(0))
            obj["spec"] = {"unschedulable": number % 2 == 0}
        stores[resource].apply(event("MODIFIED", obj))
        KEPT.pop(BY_RESOURCE[resource].name)
        looked(looker, stores)
        times.append(looker.seconds)
    return 1000 * statistics.median(times)


def show(label: str, value: float) -> None:
    print(f"{label:28}{value:10,.1f}", flush=True)


def resident() -> float:
    """Return the current memory of this process in MiB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    sys.exit(main())
