"""Keep the facts of a cluster up to date, for the console and for the leader's reports.

Each kind is listed and watched once. If the user may not list a kind in all namespaces, there is a
list and watch for each namespace. `Snapshot.unseen` names the kinds that could not be read in full.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from app.base.groups import by_key
from app.base.value import Value
from app.cluster.command_clients import is_expired
from app.explain.reasons.reason import listed
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.kube.api import ClusterError
from app.stores.list_reader import OF_ALL_NAMESPACES
from app.stores.permitted import PermittedStores

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

NO_RIGHT = "no permission to list"
_STALE = 60.0
"""The seconds after which a snapshot is created again although no fact has changed."""
_LOOK = 1.0
"""The seconds between two searches for problems of the watches."""


class KindProgress(Value):
    """How much of the list of one kind has been read."""

    kind: str
    """The plural name of the resource, such as `pods`."""
    read: int
    total: int | None
    """The number of objects to read, or None if the API server does not give it."""


class Trouble(Value):
    """A problem that keeps the facts from being up to date."""

    message: str
    since: float
    """When problems began, in seconds since 1970. It stays the same until all are solved."""
    expired: bool = False
    """Has the API server rejected the credentials?"""
    command: str = ""
    """A command that renews the credentials, or "" if none is known."""


Renewal = Callable[[Exception], str]
"""A function that returns the command to renew rejected credentials, or "" if it knows none."""


class Live:
    """The current facts of the stores `watched`, and an index over them.

    `revision` grows with every change that a page could show. `trouble` is None unless a problem
    keeps the facts from being up to date. `clock` returns seconds since 1970.
    """

    def __init__(
        self,
        watched: PermittedStores,
        *,
        clock: Callable[[], float] = time.time,
        renewal: Renewal = lambda error: "",
    ) -> None:
        self.revision = 1
        self.trouble: Trouble | None = None
        self._watched = watched
        self._clock = clock
        self._renewal = renewal
        self._changed = asyncio.Event()
        self._facts: dict[str, tuple[Any, ...]] = {}
        self._snapshot = Snapshot()
        self._is_old = True
        self._index = Index(self._snapshot)
        # One thread: more would need an index each, and would not be faster in CPython.
        self._worker = ThreadPoolExecutor(1, "pages")
        watched.subscribe(self._note)

    async def run(self) -> NoReturn:
        """Read and watch all kinds, and look for problems of the watches, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_for_trouble(), name="trouble")
            tasks.create_task(self._watched.run(), name="watches")
        raise AssertionError("these tasks never end")

    @property
    def ready(self) -> bool:
        """Has every list been read, except for lists that the user may not read?"""
        return self._watched.ready

    async def until_ready(self) -> None:
        """Wait until the facts are `ready`."""
        while not self.ready:
            await self.changes(self.revision)

    def progress(self) -> list[KindProgress]:
        """Return the progress of the lists that are not complete yet."""
        return [
            KindProgress(row.resource.plural, len(store), store.total)
            for (row, _), store in self._watched.stores.items()
            if not store.synced
        ]

    def snapshot(self) -> Snapshot:
        """Return the current facts, dated at most a minute ago, because pages show ages.

        The last snapshot is returned again until something changes.
        """
        now = self._clock()
        if self._is_old or now - self._snapshot.now >= _STALE:
            self._snapshot = self.facts(now)
            self._is_old = False
        return self._snapshot

    async def in_thread(self, work: Callable[[Index, *Ts], T], *arguments: *Ts) -> T:
        """Return the result of `work` for the index of the current facts.

        One index follows all snapshots, so everything that uses it runs in the same thread.
        """
        facts = self.snapshot()

        def done() -> T:
            if self._index.given is not facts:
                self._index.follow(facts)
            return work(self._index, *arguments)

        return await asyncio.get_running_loop().run_in_executor(self._worker, done)

    def facts(self, now: float) -> Snapshot:
        """Return a new snapshot of the current facts, dated `now` (seconds since 1970).

        A field has the same tuple as before until one of its facts changes.
        """
        stores = by_key((row.name, store) for (row, _), store in self._watched.stores.items())
        for name in stores.keys() - self._facts.keys():
            values = (store.values() for store in stores[name])
            self._facts[name] = tuple(chain.from_iterable(values))

        absent = (
            name
            for name, of_name in stores.items()
            if all(store.synced and not store.served for store in of_name)
        )
        return Snapshot(
            **{name: facts for name, facts in self._facts.items() if name in stores},  # type: ignore[arg-type]
            unseen=self._unseen(),
            absent=frozenset(absent),
            now=now,
        )

    def _unseen(self) -> dict[str, str]:
        """Return the value of `Snapshot.unseen`: the kinds that could not be read in full."""
        places = by_key((row.name, namespace or "") for row, namespace in self._watched.denied)
        unseen = {
            name: f"{NO_RIGHT} in {listed(sorted(namespaces))}" if all(namespaces) else NO_RIGHT
            for name, namespaces in places.items()
        }
        by_namespace = {scope for scope in self._watched.stores if scope[1]}
        for row, _ in self._watched.denied | by_namespace:
            if row.resource in OF_ALL_NAMESPACES:
                cause = f"{NO_RIGHT} {row.resource.plural} of all namespaces"
                unseen[OF_ALL_NAMESPACES[row.resource]] = cause

        return unseen

    async def changes(self, seen: int) -> int:
        """Wait until the revision differs from `seen`, and return it."""
        while self.revision == seen:
            await self._changed.wait()
        return self.revision

    def touch(self) -> None:
        """Increase the revision, for which callers of `changes` wait."""
        self.revision += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def _note(self, name: str) -> None:
        """Record that facts of the field `name` have changed.

        The name is "" for other changes, such as a changed permission or a completed list.
        """
        self._facts.pop(name, None)
        self._is_old = True
        self.touch()

    async def _look_for_trouble(self) -> NoReturn:
        while True:
            await asyncio.sleep(_LOOK)
            problems = sorted(self._watched.problems(), key=lambda problem: problem[0])
            message = problems[0][0] if problems else ""
            expired = next((error for _, error in problems if error and is_expired(error)), None)
            before = self.trouble or Trouble("", self._clock())
            if (message, expired is not None) != (before.message, before.expired):
                trouble = await self._trouble(message, before.since, expired)
                self.trouble = trouble if message else None
                self.touch()

    async def _trouble(self, message: str, since: float, expired: ClusterError | None) -> Trouble:
        if not expired:
            return Trouble(message, since)
        command = await asyncio.to_thread(self._renewal, expired)
        return Trouble(message, since, expired=True, command=command)
