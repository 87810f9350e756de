"""Events on objects that the caches have no room for, so that people learn of them."""

import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from msgspec import Struct

from app.facts.grove.podcliqueset import MOST_PARTS
from app.facts.table import TOO_LARGE, Row
from app.kube.api import Key
from app.kube.events import Recorder, Regarding
from app.kube.store import WatchStore
from app.objects.resource import Resource
from app.objects.time import Clock

ALL = ("", "")
"""The only key: all objects at once."""

LOOK_SECONDS = 60.0
AGAIN_SECONDS = 1800.0
"""The time after which an event is recorded again: API servers keep events for an hour."""

MOST_OBJECTS = 50
"""The objects of a cache that are named. The metric counts all."""

_NOTE = (
    "is too large for the caches of grove-admission, which treat it as unknown: shorten its lists,"
    f" labels and annotations (a PodCliqueSet may have {MOST_PARTS} cliques and scaling groups)"
)

AnyStore = tuple[Row[Any], WatchStore[Any]]


class TooLargeReconciler(Struct):
    """A reconciler that records an event on each object in `too_large` of a store.

    `stores` returns the stores with their rows. `clock` is monotonic, in seconds.
    """

    name = "too-large"

    events: Recorder
    stores: Callable[[], Iterable[AnyStore]]
    clock: Clock = time.monotonic
    _said: dict[tuple[Resource, Key, str], float] = {}

    def begin(self) -> None:
        """Forget what was said in an earlier term as the leader."""
        self._said.clear()

    def all_keys(self) -> list[Key]:
        return [ALL]

    async def reconcile(self, key: Key) -> float | None:
        now = self.clock()
        current = {
            (row.resource, at, uid)
            for row, store in self.stores()
            for at, uid in islice(store.too_large.items(), MOST_OBJECTS)
        }
        said = {each: at for each, at in self._said.items() if each in current}
        for each in sorted(current, key=str):
            if now >= said.get(each, now - AGAIN_SECONDS) + AGAIN_SECONDS:
                resource, (namespace, name), uid = each
                regarding = Regarding.to(resource, name, namespace, uid)
                self.events.record(regarding, "Warning", TOO_LARGE, _NOTE)
                said[each] = now
        self._said = said
        return LOOK_SECONDS
