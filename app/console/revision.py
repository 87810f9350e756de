"""Revisions of the cluster, and the index that follows them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

from app.explain.known.index import Index
from app.explain.known.snapshot import Snapshot
from app.value import Value

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Revision(Value, dict=True):
    """The facts at one revision. `time` is in seconds since 1970."""

    revision: int
    facts: Snapshot
    time: float
    follow: Callable[[Snapshot], Index]

    @property
    def index(self) -> Index:
        """The index, which becomes that of this revision.

        This takes some milliseconds, so it is not done in the thread of the event loop.
        """
        return self.follow(self.facts)


class Revisions:
    """`last` is the latest revision, None if there is none yet.

    One index follows all revisions, so everything that uses it runs in one thread.
    """

    def __init__(self) -> None:
        self.last: Revision | None = None
        self._index = Index(Snapshot())
        # more threads would need more memory, and be no faster
        self._worker = ThreadPoolExecutor(1, "pages")

    def take(
        self,
        revision: int,
        facts: Snapshot,
        time: float,
    ) -> Revision:
        self.last = Revision(revision, facts, time, self._following)
        return self.last

    def _following(self, facts: Snapshot) -> Index:
        if self._index.facts is not facts:
            self._index.follow(facts)
        return self._index

    async def in_thread(self, work: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Return what `work` gives, which may use the index of a revision."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, work, *arguments)
