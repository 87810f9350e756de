"""What `waiting.enabled` costs the leader in a cluster of 15,000 nodes, 60,000 pods and 20,000
PodCliques, beside reading it, which costs what it costs the console: see `bench console`.

The objects are those of `bench_console`. `facts` are the resident MiB of the stores that keep what
is needed of them, `looks` those of the lookups that are made of it. A look takes CPU time: the
first, and the middle of ten after a change of a pod and of a node. After each, ten times as long is
waited, so the share of a core is bounded by a tenth. `none` are the MiB of the process before.
"""

import argparse
import gc
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from bench_cluster import NODES, objects, pod

from app.explain.known.snapshot import BY_RESOURCE, Snapshot
from app.kube.api import Object, WatchEvent
from app.kube.store import WatchStore
from app.objects.resource import NODE, POD, Resource
from app.waiting.overdue import Overdue
from app.waiting.watcher import RESOURCES, Looker

PODS = 60_000
TIMES = 10
AFTER = 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pods", nargs="?", type=int, default=PODS, metavar="PODS")
    arguments = parser.parse_args()

    none = resident()
    stores = {resource: filled(resource) for resource in RESOURCES}
    for path, obj, _ in objects(arguments.pods):
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
    print(f"load average of the last minutes: {', '.join(f'{x:.1f}' for x in os.getloadavg())}")
    return 0


def filled(resource: Resource) -> WatchStore[Any]:
    return WatchStore(BY_RESOURCE[resource].project)


def resource_of(path: str) -> Resource:
    """The resource of a list, by its path."""
    group = "/".join(path.split("/")[2:-2])
    plural = path.rpartition("/")[2]
    return next(one for one in RESOURCES if (one.group, one.plural) == (group, plural))


def event(kind: Any, obj: Object) -> WatchEvent:
    """What a watch says of an object."""
    metadata = {**obj["metadata"], "resourceVersion": str(event_number())}
    return WatchEvent(kind, {**obj, "metadata": metadata})


def event_number() -> int:
    return time.monotonic_ns()


def looked(looker: Looker, stores: dict[Resource, WatchStore[Any]]) -> Overdue:
    """A look at what the stores have, as the duty takes it: a field keeps its tuple."""
    for resource, store in stores.items():
        name = BY_RESOURCE[resource].field
        if name not in KEPT:
            KEPT[name] = tuple(store.values())
    return looker.at(Snapshot(**KEPT, skipped=frozenset({"events"}), now=time.time()), AFTER)


KEPT: dict[str, Any] = {}


def changed(looker: Looker, stores: dict[Resource, WatchStore[Any]], resource: Resource) -> float:
    """The middle CPU time of looks after changes, in milliseconds."""
    times = []
    for number in range(TIMES):
        if resource is POD:
            obj = pod("research", f"batch-{number * 41}", 1, f"gpu-{number * 97 % NODES:05}")
        else:
            obj = next(obj for _, obj, _ in objects(0))
            obj["spec"] = {"unschedulable": number % 2 == 0}
        stores[resource].apply(event("MODIFIED", obj))
        KEPT.pop(BY_RESOURCE[resource].field)
        looked(looker, stores)
        times.append(looker.seconds)
    return 1000 * statistics.median(times)


def show(label: str, value: float) -> None:
    print(f"{label:28}{value:10,.1f}", flush=True)


def resident() -> float:
    """MiB of this process now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    sys.exit(main())
