"""Record events on objects that are too large for the caches, so that users learn about them."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from app.base.fair_queue import FairQueue
from app.facts.grove.podcliqueset import MOST_PARTS
from app.facts.rows import TOO_LARGE, Row
from app.kube.api import Key
from app.kube.events import Recorder, Regarding
from app.kube.store import WatchStore
from app.objects.resource import Resource
from app.objects.time import Clock

ALL = ("", "")
"""The only key, which stands for all objects."""

LOOK_SECONDS = 60.0
"""The interval in seconds between two checks of the caches."""
AGAIN_SECONDS = 1800.0
"""The minimum interval in seconds between two events on the same object.

By default, API servers keep events for an hour.
"""

MOST_OBJECTS = 50
"""The maximum number of objects of a cache that get an event.

Namespaces take turns, so that one tenant's objects do not crowd out those of others. A metric
counts all objects that are too large.
"""

_NOTE = (
    "grove-admission does not use this object, because it is too large to be cached, or because all"
    " objects of its kind in this namespace together are. Shorten the object's lists, labels and"
    f" annotations (a PodCliqueSet may have at most {MOST_PARTS} cliques and scaling groups, and"
    f" {MOST_PARTS} cliqueNames), or delete other objects of this kind in this namespace"
)

AnyStore = tuple[Row[Any], WatchStore[Any]]


class TooLargeReconciler(Struct):
    """A reconciler that records events on objects that the stores list as too large."""

    name = "too-large"

    events: Recorder
    """Records the events."""
    stores: Callable[[], Iterable[AnyStore]]
    """Returns the stores to check, as pairs of a row and its store."""
    clock: Clock = time.monotonic
    """Returns the monotonic time in seconds."""
    _reported_at: dict[tuple[Resource, Key, str], float] = {}
    """The time of the last event on each object, by (resource, key, uid)."""

    def begin(self) -> None:
        """Forget the events of an earlier term as the leader."""
        self._reported_at.clear()

    def all_keys(self) -> list[Key]:
        return [ALL]

    async def reconcile(self, key: Key) -> float | None:
        """Record the events that are due, and return the seconds until the next check."""
        now = self.clock()
        current = {
            (row.resource, at, uid)
            for row, store in self.stores()
            for at, uid in _first_in_turn(store.too_large)
        }
        reported_at = {each: at for each, at in self._reported_at.items() if each in current}
        for each in sorted(current, key=str):
            if now >= reported_at.get(each, now - AGAIN_SECONDS) + AGAIN_SECONDS:
                resource, (namespace, name), uid = each
                regarding = Regarding.to(resource, name, namespace, uid)
                self.events.record(regarding, "Warning", TOO_LARGE, _NOTE)
                reported_at[each] = now
        self._reported_at = reported_at
        return LOOK_SECONDS


def _first_in_turn(too_large: Mapping[Key, str]) -> Iterator[tuple[Key, str]]:
    """Yield the keys and uids of at most MOST_OBJECTS objects in `too_large`.

    The namespaces take turns.
    """
    queue = FairQueue[tuple[Key, str]](MOST_OBJECTS)
    for key, uid in too_large.items():
        queue.put(key[0], (key, uid))
    for _ in range(min(MOST_OBJECTS, len(queue))):
        yield queue.take()
