"""Warnings as Events, one for each problem, although a level-driven reconciler sees the problem again and again."""

from collections import OrderedDict
from collections.abc import Collection

from app.kube.api import Key
from app.kube.events import Recorder, Regarding

MAX_KEYS = 10_000


class Notices:
    """Records Events, and remembers the current ones of the last `MAX_KEYS` keys."""

    def __init__(self, events: Recorder) -> None:
        self._events = events
        self._current: OrderedDict[Key, set[tuple[Regarding, str, str]]] = OrderedDict()

    def say(self, key: Key, regarding: Collection[Regarding], reason: str, note: str) -> None:
        """Records a warning on each of `regarding` that does not have it already. It replaces the former warnings of
        `key`. `note` must not have figures that change often."""
        before = self._current.pop(key, set())
        self._current[key] = {(target, reason, note) for target in regarding}
        while len(self._current) > MAX_KEYS:
            self._current.popitem(last=False)
        for target in regarding:
            if (target, reason, note) not in before:
                self._events.record(target, "Warning", reason, note)

    def forget(self, key: Key) -> None:
        """Forgets the warnings of `key`, so that the next problem is recorded again."""
        self._current.pop(key, None)
