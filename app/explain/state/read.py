"""Read snapshots, from a cluster with the permissions of the user or from files.

Only GET requests are sent. If a kind can't be read, for example without permission, the cause is
recorded, and the other kinds are still read.
"""

from collections.abc import Iterable
from typing import Any

from app.explain.state.snapshot import BY_RESOURCE, ON_REQUEST, Snapshot, projected
from app.facts.identity import Ref
from app.facts.rows import CHANNELS, ROOM
from app.kube.api import Reader
from app.objects.resource import Resource
from app.objects.shape import JsonMap
from app.stores.gc_pause import paused
from app.stores.list_reader import Reading
from app.stores.related_lists import read_everywhere, read_namespace


async def read_list(
    client: Reader, namespace: str, *, room: bool, now: float, asked: Ref | None = None
) -> Snapshot:
    """Return the facts that explain `asked`, or the pending workloads of a namespace.

    The namespace "" stands for all. Without `room`, the nodes, the ResourceSlices, and the pods,
    claims and PodGroups of other namespaces are not read. If `asked` is a PodCliqueSet, the
    PodCliques of other sets are not read. If it is a workload such as a Job, its status is read.
    """
    reading = Reading(client, ON_REQUEST)
    with paused():
        await read_namespace(reading, namespace, room=room, asked=asked)
    return Snapshot(**reading.found(), now=now)


async def read_all(
    client: Reader, *, now: float, only: Iterable[Resource] = BY_RESOURCE
) -> Snapshot:
    """Return the facts of the kinds `only`, by default of all kinds, in the whole cluster."""
    reading = Reading(client, BY_RESOURCE)
    with paused():
        await read_everywhere(reading, only)
    return Snapshot(**reading.found(), now=now)


def facts_of(documents: Iterable[JsonMap], now: float) -> Snapshot:
    """Return the facts in files. Kinds without a document count as skipped, not as empty.

    The pods and claims of all namespaces count as skipped too, unless the files have both nodes and
    pods.
    """
    facts = projected(documents)
    missing = {row.name for row in BY_RESOURCE.values()} - facts.keys()
    wide = set() if {"nodes", "pods"} <= facts.keys() else {ROOM, CHANNELS}
    values: dict[str, Any] = {name: tuple(values) for name, values in facts.items()}
    return Snapshot(**values, skipped=frozenset(missing | wide), now=now)
