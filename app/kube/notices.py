"""Warnings as events, once for as long as the trouble lasts: a level-driven look sees it again and again."""

from collections import OrderedDict
from collections.abc import Collection

from app.kube.api import Key
from app.kube.events import Recorder, Regarding

MAX_KEYS = 10_000


class Notices:
    """What was said of each key and is still so; of the last `MAX_KEYS` keys at most."""

    def __init__(self, events: Recorder) -> None:
        self._events = events
        self._said: OrderedDict[Key, set[tuple[Regarding, str, str]]] = OrderedDict()

    def say(self, key: Key, regarding: Collection[Regarding], reason: str, note: str) -> None:
        """An event on each of `regarding`, but for those that have heard just that; instead of all that was said of
        `key` before. `note` tells no figures that change from look to look."""
        before = self._said.pop(key, set())
        self._said[key] = {(target, reason, note) for target in regarding}
        while len(self._said) > MAX_KEYS:
            self._said.popitem(last=False)
        for target in regarding:
            if (target, reason, note) not in before:
                self._events.record(target, "Warning", reason, note)

    def forget(self, key: Key) -> None:
        """All is well again, or nobody is left to hear it."""
        self._said.pop(key, None)
