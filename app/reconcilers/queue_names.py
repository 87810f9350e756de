"""Keep the names of all Queues in one object, the parameter of admission policies.

A policy can't list objects. The object is not a ConfigMap because of a defect in API servers: once
the last policy with a ConfigMap as its parameter is deleted, an API server ignores ConfigMaps of
later policies until it restarts. https://github.com/kubernetes/kubernetes/issues/133827
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
"""The name of the object that lists the names of Queues."""

PAUSE_SECONDS = 3.0
"""The minimum time in seconds between two writes."""

MOST_BYTES = 1_300_000
"""The maximum size of all names in the object, in bytes. etcd accepts objects up to 1.5 MiB."""

_KEY = ("", NAME)
_QUOTES = 6
"""The number of characters of JSON for each name, besides the name itself."""


def listable(names: Iterable[str]) -> frozenset[str]:
    """Return `names`, or an empty set if they don't fit into one object.

    With an incomplete list, policies would warn about Queues that exist.
    """
    every = frozenset(names)
    length = sum(len(name) + _QUOTES for name in every)
    return every if length <= MOST_BYTES else frozenset()


class QueueNamesReconciler(Struct):
    """A reconciler of the object that lists the names of all Queues.

    It does nothing unless the CRD of that object is installed.
    """

    name = "queue-names"

    client: Client
    """Writes the QueueNames object."""
    queues: WatchStore[str]
    """The names of the cached Queues."""
    listed: WatchStore[frozenset[str]]
    """The cache of the object that lists the names."""
    clock: Clock = time.monotonic
    """Returns the monotonic time in seconds."""
    _next_write: float = 0.0
    """The earliest time of the next write, on `clock`."""

    def all_keys(self) -> list[Key]:
        return [_KEY]

    async def reconcile(self, key: Key) -> float | None:
        """Create the QueueNames object, or correct its names, at most once in PAUSE_SECONDS.

        Return the seconds until the next step, or None if none is needed.
        """
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
        """Create the QueueNames object, or add and remove the names that differ."""
        names = dict.fromkeys(sorted(desired - (stored or frozenset())), "")
        if stored is None:
            new = {"metadata": {"name": NAME}, "spec": {"names": names}}
            self.listed.note(await self.client.create(QUEUE_NAMES, new))
            return

        patch = {"spec": {"names": {**names, **dict.fromkeys(stored - desired)}}}
        self.listed.note(await self.client.patch(ObjectRef(QUEUE_NAMES, NAME), patch))


def subscribe(loop: Loop, stores: Iterable[WatchStore[Any]], discovery: Discovery) -> None:
    """Reconcile the QueueNames after it, a Queue or the served APIs change."""
    for store in stores:
        store.subscribe(loop.add_all)
    discovery.subscribe(loop.add_all)
