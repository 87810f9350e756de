"""Keeps the names of all Queues in one object, which policies of API servers read.

A policy can't look for an object: it gets its parameter. This is no ConfigMap, because once the
last policy with one as its parameter is deleted, API servers don't read ConfigMaps again until they
are restarted: https://github.com/kubernetes/kubernetes/issues/133827
"""

import time
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from app.facts.kinds import QUEUE_NAMES
from app.kube.api import Client, Key, ObjectRef
from app.kube.discovery import Discovery
from app.kube.loop import Loop
from app.kube.store import WatchStore
from app.objects.time import Clock

NAME = "grove-admission"
"""The name of the object."""

PAUSE_SECONDS = 3.0
"""The time between two writes, however many Queues are made."""

MOST_BYTES = 1_300_000
"""The length of all names with which an object still fits into etcd, which takes 1.5 MiB."""

_KEY = ("", NAME)
_QUOTES = 6
"""Characters of JSON around each name."""


def listable(names: Iterable[str]) -> frozenset[str]:
    """Return `names`, or none of them if they don't fit: names must not be missing in part."""
    every = frozenset(names)
    length = sum(len(name) + _QUOTES for name in every)
    return every if length <= MOST_BYTES else frozenset()


class QueueNamesReconciler(Struct):
    """A reconciler of one object, which exists if its CRD is installed.

    `queues` has the names of the Queues, and `listed` those in the object. `clock` is monotonic.
    """

    name = "queue-names"

    client: Client
    queues: WatchStore[str]
    listed: WatchStore[frozenset[str]]
    clock: Clock = time.monotonic
    _next_write: float = 0.0

    def all_keys(self) -> list[Key]:
        return [_KEY]

    async def reconcile(self, key: Key) -> float | None:
        if self.client.served_version(QUEUE_NAMES) is None:
            return None
        if not (self.listed.synced and self.listed.served and self.queues.synced):
            return PAUSE_SECONDS

        desired = listable(self.queues.values())
        stored = self.listed.get(*_KEY)
        if stored == desired:
            return None

        now = self.clock()
        if now < self._next_write:
            return self._next_write - now
        self._next_write = now + PAUSE_SECONDS
        await self._write(stored, desired)
        return None

    async def _write(self, stored: frozenset[str] | None, desired: frozenset[str]) -> None:
        """Write what differs."""
        names = dict.fromkeys(sorted(desired - (stored or frozenset())), "")
        if stored is None:
            new = {"metadata": {"name": NAME}, "spec": {"names": names}}
            self.listed.note(await self.client.create(QUEUE_NAMES, new))
            return

        patch = {"spec": {"names": {**names, **dict.fromkeys(stored - desired)}}}
        self.listed.note(await self.client.patch(ObjectRef(QUEUE_NAMES, NAME), patch))


def subscribe(loop: Loop, stores: Iterable[WatchStore[Any]], discovery: Discovery) -> None:
    """Reconcile the object after a change of it or of a Queue, and once its CRD is installed."""
    for store in stores:
        store.subscribe(loop.add_all)
    discovery.subscribe(loop.add_all)
