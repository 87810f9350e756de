"""Revisions of the cluster. The index of each is made from the index of the one before it."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from app.explain.known.index import Index
from app.explain.known.snapshot import Snapshot


@dataclass(frozen=True)
class Revision:
    """The facts at one revision. `time` is in seconds since 1970."""

    revision: int
    facts: Snapshot
    time: float
    make: Callable[[Snapshot], Index] = Index

    @cached_property
    def index(self) -> Index:
        """The index, which is made when it is first used.

        This takes some milliseconds, so it is not done in the thread of the event loop.
        """
        return self.make(self.facts)


class Revisions:
    """`last` is the latest snapshot, None if there is none yet."""

    def __init__(self) -> None:
        self.last: Revision | None = None
        self._index: Index | None = None
        self._lock = threading.Lock()

    def take(self, revision: int, facts: Snapshot, time: float) -> Revision:
        self.last = Revision(revision, facts, time, self._following)
        return self.last

    def _following(self, facts: Snapshot) -> Index:
        with self._lock:
            if self._index is None or self._index.facts is not facts:
                self._index = Index(facts, self._index)
            return self._index
