"""The facts that all tabs show: one list and one watch of each kind, with the rights of the user.

Objects become facts as pages arrive, so only the facts are kept. What may not be read in all
namespaces is read in those that the user may see; what may not be read there either is noted in
`Snapshot.unseen`.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NoReturn

from app.cluster.connect import is_expired
from app.console.revision import Revision, Revisions
from app.explain.known.snapshot import BY_RESOURCE, Snapshot
from app.explain.reasons.words import listed
from app.facts.table import ROOM
from app.kube.api import ClusterError, Reader, Rejected, Selection
from app.kube.discovery import Discovery
from app.kube.store import WatchStore
from app.kube.watch import Pace, run_store
from app.objects.resource import NAMESPACE, POD, Resource

NO_RIGHT = "no right to list"
RIGHTS_AGAIN = 60.0
"""Seconds after which a list is tried again that the user had no right to."""
PAGE = 100
SLICE = 50
"""The objects of a page of a list, and of one turn of the event loop.

In a turn, they become facts: each takes few milliseconds.
"""
_STALE = 60.0
_LOOK = 1.0

Scope = tuple[Resource, str | None]


@dataclass(frozen=True, slots=True)
class KindProgress:
    """How many objects of one kind have been read.

    It also has how many there are, if the API server says so.
    """

    kind: str
    read: int
    total: int | None


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the facts are not up to date, and since when (seconds since 1970).

    If `expired`, the API server does not accept the credentials: `command` renews them, and `user`
    says which they are; each is "" if that is not known.
    """

    message: str
    since: float
    expired: bool = False
    command: str = ""
    user: str = ""


Renewal = Callable[[Exception], tuple[str, str]]
"""Gives the command that renews the credentials after an error, and which credentials they are."""


class Live:
    """One list and watch of each kind.

    `namespaces` are read one by one where there is no right to read all; without any, those that
    the user may list, else `own_namespace`, that of the context. `discovery` says when the kinds
    that the cluster serves are known, and when they change; somebody else runs it. Only `resources`
    are read. `revision` grows with every change that a page could show.
    """

    def __init__(
        self,
        client: Reader,
        namespaces: Sequence[str] = (),
        discovery: Discovery | None = None,
        *,
        clock: Callable[[], float] = time.time,
        pace: Pace | None = None,
        rights_again: float = RIGHTS_AGAIN,
        renewal: Renewal = lambda error: ("", ""),
        own_namespace: str = "",
        resources: Sequence[Resource] = tuple(BY_RESOURCE),
    ) -> None:
        self.revision = 1
        self.trouble: Trouble | None = None
        self.namespaces = tuple(namespaces)
        self._client = client
        self._discovery = discovery
        self._clock = clock
        self._again = rights_again
        self._pace = pace or Pace(page_size=PAGE, slice_size=SLICE, retry_most=10.0)
        self._renewal = renewal
        self._own_namespace = own_namespace
        self._resources = resources
        self._stores: dict[Scope, WatchStore[Any]] = {}
        self._denied: set[Scope] = set()
        self._changed = asyncio.Event()
        self._facts: dict[str, tuple[Any, ...]] = {}
        self.revisions = Revisions()

    async def run(self) -> NoReturn:
        """Read and watch everything. Never returns."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_for_trouble(), name="trouble")
            if self._discovery is not None:
                await self._discovery.until_known()
            for resource in self._resources:
                tasks.create_task(self._follow(resource), name=str(resource))
        raise AssertionError("these tasks never end")

    @property
    def ready(self) -> bool:
        """Whether every list has been read, or the user has no right to it."""
        known = {resource for resource, _ in (*self._denied, *self._stores)}
        return len(known) == len(self._resources) and all(
            store.synced or scope in self._denied for scope, store in self._stores.items()
        )

    async def until_ready(self) -> None:
        while not self.ready:
            await self.changes(self.revision)

    def progress(self) -> list[KindProgress]:
        """Return the progress of the lists that are not complete yet."""
        return [
            KindProgress(resource.plural, len(store), store.total)
            for (resource, _), store in self._stores.items()
            if not store.synced
        ]

    def snapshot(self) -> Revision:
        """Return the current facts.

        A snapshot is used again until something changes, or for a minute, because ages change.
        """
        now = self._clock()
        current = self.revisions.last
        if current is None or current.revision != self.revision or now - current.time >= _STALE:
            current = self.revisions.take(self.revision, self.facts(now), now)
        return current

    def facts(self, now: float) -> Snapshot:
        """Return the facts at `now` (seconds since 1970).

        A field keeps its tuple until one of its facts changes.
        """
        served: dict[str, bool] = {}
        for (resource, _), store in self._stores.items():
            name = BY_RESOURCE[resource].name
            served[name] = served.get(name, False) or store.served or not store.synced

        for name in served.keys() - self._facts.keys():
            values = (
                store.values()
                for (resource, _), store in self._stores.items()
                if BY_RESOURCE[resource].name == name
            )
            self._facts[name] = tuple(chain.from_iterable(values))

        return Snapshot(
            **{name: facts for name, facts in self._facts.items() if name in served},  # type: ignore[arg-type]
            unseen=self._unseen(),
            absent=frozenset(name for name, is_served in served.items() if not is_served),
            now=now,
        )

    def _unseen(self) -> dict[str, str]:
        places: dict[str, list[str]] = {}
        for resource, namespace in self._denied:
            places.setdefault(BY_RESOURCE[resource].name, []).append(namespace or "")

        unseen = {
            name: f"{NO_RIGHT} in {listed(sorted(namespaces))}" if all(namespaces) else NO_RIGHT
            for name, namespaces in places.items()
        }
        if any(resource is POD for resource, _ in self._denied) or any(
            resource is POD and namespace for resource, namespace in self._stores
        ):
            unseen[ROOM] = "no right to list pods of all namespaces"

        return unseen

    async def changes(self, seen: int) -> int:
        """Return the current revision, as soon as it differs from `seen`."""
        while self.revision == seen:
            await self._changed.wait()
        return self.revision

    def touch(self) -> None:
        """Notes that something has changed that pages show."""
        self.revision += 1
        self._changed.set()
        self._changed = asyncio.Event()

    # Following.

    async def _follow(self, resource: Resource) -> NoReturn:
        while True:
            try:
                await self._keep((resource, None))
            except Rejected:
                self._drop((resource, None))
            namespaces = await self._visible() if resource.namespaced else ()
            if namespaces:
                self._denied.discard((resource, None))
                async with asyncio.TaskGroup() as tasks:
                    for namespace in namespaces:
                        tasks.create_task(self._keep_trying((resource, namespace)))
            await self._deny((resource, None))

    async def _keep_trying(self, scope: Scope) -> NoReturn:
        while True:
            try:
                await self._keep(scope)
            except Rejected:
                self._drop(scope)
            await self._deny(scope)

    async def _deny(self, scope: Scope) -> None:
        self._denied.add(scope)
        self.touch()
        await asyncio.sleep(self._again)

    def _drop(self, scope: Scope) -> None:
        self._stores.pop(scope, None)
        self._note(scope[0])

    def _note(self, resource: Resource) -> None:
        """Notes that a fact of this kind has changed."""
        self._facts.pop(BY_RESOURCE[resource].name, None)
        self.touch()

    async def _keep(self, scope: Scope) -> NoReturn:
        resource, namespace = scope
        store: WatchStore[Any] = WatchStore(BY_RESOURCE[resource].read)
        store.subscribe(lambda key, before, after: self._note(resource))
        self._stores[scope] = store
        noted = asyncio.create_task(self._note_sync(scope, store))
        try:
            changed = self._discovery.changed if self._discovery is not None else None
            await run_store(
                self._client,
                store,
                Selection(resource, namespace),
                pace=self._pace,
                served_changed=changed,
                not_found=self._not_found,
                needs_right=True,
            )
        finally:
            noted.cancel()

    def _not_found(self) -> None:
        """Show at once that a kind is not served any more, even if it had no objects."""
        self.touch()
        if self._discovery is not None:
            self._discovery.trigger()

    async def _note_sync(self, scope: Scope, store: WatchStore[Any]) -> None:
        await store.until_synced()
        self._denied.discard(scope)
        self.touch()

    async def _visible(self) -> tuple[str, ...]:
        """Return the namespaces to read one by one."""
        if self.namespaces:
            return self.namespaces
        try:
            page = await self._client.list(Selection(NAMESPACE), limit=0)
        except ClusterError:
            return (self._own_namespace,) if self._own_namespace else ()
        self.namespaces = tuple(obj["metadata"]["name"] for obj in page.items)
        return self.namespaces

    async def _look_for_trouble(self) -> NoReturn:
        while True:
            await asyncio.sleep(_LOOK)
            problems = [
                (store.problem, store.error) for store in self._stores.values() if store.problem
            ]
            problems.sort(key=lambda problem: problem[0])
            if self._discovery is not None and self._discovery.problem:
                problems.append((self._discovery.problem, self._discovery.error))
            message = problems[0][0] if problems else ""
            if message != (self.trouble.message if self.trouble else ""):
                since = self.trouble.since if self.trouble else self._clock()
                expired = next(
                    (error for _, error in problems if error is not None and is_expired(error)),
                    None,
                )
                renewal = (
                    await asyncio.to_thread(self._renewal, expired)
                    if expired is not None
                    else ("", "")
                )
                self.trouble = (
                    Trouble(message, since, expired is not None, *renewal) if message else None
                )
                self.touch()
