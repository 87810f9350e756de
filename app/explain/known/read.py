"""Snapshots of a cluster, with the rights of whoever asks, and of documents.

Only GET requests are sent. What may not be read is noted, with the cause, and the rest is read all
the same.
"""

from collections.abc import Iterable
from typing import Any

from app.explain.known.snapshot import BY_RESOURCE, Snapshot, projected
from app.facts.named import Ref
from app.facts.table import CHANNELS, ROOM
from app.kube.api import Reader
from app.objects.resource import Resource
from app.objects.shape import JsonMap
from app.stores.around import read_everywhere, read_namespace
from app.stores.collector import paused
from app.stores.listed import Reading


async def read_list(
    client: Reader, namespace: str, *, room: bool, now: float, asked: Ref | None = None
) -> Snapshot:
    """Return what tells which workloads of a namespace wait and why; of all namespaces for "".

    Without `room`, or if only the object `asked` is to be explained, it is less than that.
    """
    reading = Reading(client, BY_RESOURCE)
    with paused():
        await read_namespace(reading, namespace, room=room, asked=asked)
    return Snapshot(**reading.found(), now=now)


async def read_all(
    client: Reader, *, now: float, only: Iterable[Resource] = BY_RESOURCE
) -> Snapshot:
    """Return every kind, or `only` these, for the whole cluster."""
    reading = Reading(client, BY_RESOURCE)
    with paused():
        await read_everywhere(reading, only)
    return Snapshot(**reading.found(), now=now)


def facts_of(documents: Iterable[JsonMap], now: float) -> Snapshot:
    """Return the facts of files. Kinds of which there is no document are not judged."""
    facts = projected(documents)
    missing = {row.name for row in BY_RESOURCE.values()} - facts.keys()
    wide = set() if {"nodes", "pods"} <= facts.keys() else {ROOM, CHANNELS}
    values: dict[str, Any] = {name: tuple(values) for name, values in facts.items()}
    return Snapshot(**values, skipped=frozenset(missing | wide), now=now)
