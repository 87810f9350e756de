"""The cluster as all tabs see it: one list and one watch of each kind, with the rights of the user.

Objects become facts as pages arrive, so only the facts are kept. What may not be read in all namespaces is read in
those that the user may see; what may not be read there either is noted in `Facts.unseen`.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NoReturn

from app.explain.facts import BY_RESOURCE, ROOM, Facts
from app.explain.index import Index
from app.explain.words import listed
from app.kube.api import ClusterError, Forbidden, Object, Page, Reader, WatchEvent
from app.kube.discovery import Discovery
from app.kube.store import WatchStore
from app.kube.watch import Pace, run_store
from app.objects.resource import NAMESPACE, POD, Resource

NO_RIGHT = "no right to list"
RIGHTS_AGAIN = 60.0
"""Seconds until a right that was missing is looked for again."""
_STALE = 60.0
_LOOK = 1.0

Scope = tuple[Resource, str | None]


class NoRight(Exception):
    """A list that the user may not read. No ClusterError, so that it ends the watch instead of being retried."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The facts at one revision. `time` is in seconds since 1970."""

    revision: int
    index: Index
    time: float


@dataclass(frozen=True, slots=True)
class Progress:
    """Of one kind: objects read, and how many there are, as far as the API server has said."""

    kind: str
    read: int
    total: int | None


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the picture is not up to date, and since when (seconds since 1970). `expired`: the credentials are not
    accepted."""

    message: str
    since: float
    expired: bool


class Live:
    """`namespaces` are read one by one where there is no right to read all; without any, those that the user may list.
    `discovery` says when the kinds that the cluster serves are known, and when they change; somebody else runs it.
    `revision` grows with every change that a page could show."""

    def __init__(
        self,
        client: Reader,
        namespaces: Sequence[str] = (),
        discovery: Discovery | None = None,
        *,
        clock: Callable[[], float] = time.time,
        pace: Pace | None = None,
        rights_again: float = RIGHTS_AGAIN,
    ) -> None:
        self.revision = 1
        self.trouble: Trouble | None = None
        self.namespaces = tuple(namespaces)
        self._client, self._discovery = _Noting(client, self), discovery
        self._clock, self._pace, self._again = clock, pace or Pace(retry_most=10.0), rights_again
        self._stores: dict[Scope, WatchStore[Any]] = {}
        self._denied: set[Scope] = set()
        self._totals: dict[Scope, int] = {}
        self._changed = asyncio.Event()
        self._snapshot: Snapshot | None = None

    async def run(self) -> NoReturn:
        """Follows the cluster for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_for_trouble(), name="trouble")
            if self._discovery is not None:
                await self._discovery.until_known()
            for resource in BY_RESOURCE:
                tasks.create_task(self._follow(resource), name=str(resource))
        raise AssertionError("these tasks never end")

    @property
    def ready(self) -> bool:
        """Whether every list is in, or known to be out of reach."""
        known = {resource for resource, _ in (*self._denied, *self._stores)}
        return len(known) == len(BY_RESOURCE) and all(
            store.synced or scope in self._denied for scope, store in self._stores.items()
        )

    def progress(self) -> list[Progress]:
        """How far the first lists are."""
        return [
            Progress(resource.plural, len(store), self._totals.get((resource, namespace)))
            for (resource, namespace), store in self._stores.items()
            if not store.synced
        ]

    def snapshot(self) -> Snapshot:
        """The facts of now. One index is used until something changes, or for a minute, because ages grow."""
        now = self._clock()
        current = self._snapshot
        if current is None or current.revision != self.revision or now - current.time >= _STALE:
            current = self._snapshot = Snapshot(self.revision, Index(self.facts(now)), now)
        return current

    def facts(self, now: float) -> Facts:
        values: dict[str, list[Any]] = {}
        served: dict[str, bool] = {}
        for (resource, _), store in self._stores.items():
            name = BY_RESOURCE[resource].field
            values.setdefault(name, []).extend(store.values())
            served[name] = served.get(name, False) or store.served or not store.synced
        return Facts(
            **{name: tuple(facts) for name, facts in values.items()},  # type: ignore[arg-type]
            unseen=self._unseen(),
            absent=frozenset(name for name, is_served in served.items() if not is_served),
            now=now,
        )

    def _unseen(self) -> dict[str, str]:
        places: dict[str, list[str]] = {}
        for resource, namespace in self._denied:
            places.setdefault(BY_RESOURCE[resource].field, []).append(namespace or "")
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
        """The revision, as soon as it is another one than `seen`."""
        while self.revision == seen:
            await self._changed.wait()
        return self.revision

    def touch(self) -> None:
        """Something that pages show has changed."""
        self.revision += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def note_total(self, scope: Scope, page: Page) -> None:
        """How many objects a list has, from its page."""
        if page.remaining is not None and scope not in self._totals:
            self._totals[scope] = len(page.items) + page.remaining
        self.touch()

    # Following.

    async def _follow(self, resource: Resource) -> NoReturn:
        while True:
            try:
                await self._keep((resource, None))
            except NoRight:
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
            except NoRight:
                self._drop(scope)
            await self._deny(scope)

    async def _deny(self, scope: Scope) -> None:
        self._denied.add(scope)
        self.touch()
        await asyncio.sleep(self._again)

    def _drop(self, scope: Scope) -> None:
        self._stores.pop(scope, None)
        self.touch()

    async def _keep(self, scope: Scope) -> NoReturn:
        resource, namespace = scope
        store: WatchStore[Any] = WatchStore(BY_RESOURCE[resource].project)
        store.subscribe(lambda key, before, after: self.touch())
        self._stores[scope] = store
        noted = asyncio.create_task(self._note_sync(scope, store))
        try:
            changed = self._discovery.changed if self._discovery is not None else None
            await run_store(self._client, store, resource, namespace=namespace, pace=self._pace, served_changed=changed)
        finally:
            noted.cancel()

    async def _note_sync(self, scope: Scope, store: WatchStore[Any]) -> None:
        await store.until_synced()
        self._denied.discard(scope)
        self.touch()

    async def _visible(self) -> tuple[str, ...]:
        """The namespaces to read one by one."""
        if self.namespaces:
            return self.namespaces
        try:
            page = await self._client.list(NAMESPACE, limit=0)
        except (ClusterError, NoRight):
            return ()
        self.namespaces = tuple(obj["metadata"]["name"] for obj in page.items)
        return self.namespaces

    async def _look_for_trouble(self) -> NoReturn:
        while True:
            await asyncio.sleep(_LOOK)
            problems = sorted({store.problem for store in self._stores.values() if store.problem})
            problems += [self._discovery.problem] if self._discovery and self._discovery.problem else []
            message = problems[0] if problems else ""
            if message != (self.trouble.message if self.trouble else ""):
                since = self.trouble.since if self.trouble else self._clock()
                expired = self._client.unauthorized
                self.trouble = Trouble(message, since, expired) if message else None
                self.touch()


class _Noting:
    """A reader whose lists end with NoRight where a right is missing, and which notes how long lists are."""

    def __init__(self, client: Reader, live: Live) -> None:
        self._client, self._live = client, live
        self.unauthorized = False
        self.served_version = client.served_version

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        return await self._client.get(resource, name, namespace)

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
        metadata_only: bool = False,
    ) -> Page:
        try:
            page = await self._client.list(resource, namespace, limit=limit, continue_token=continue_token)
        except Forbidden as error:
            self.unauthorized = error.code == 401
            if error.code == 403:
                raise NoRight from error
            raise
        self.unauthorized = False
        self._live.note_total((resource, namespace), page)
        return page

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        timeout_seconds: int = 270,
    ) -> AsyncGenerator[WatchEvent, None]:
        stream = self._client.watch(
            resource, namespace, resource_version=resource_version, timeout_seconds=timeout_seconds
        )
        try:
            async with aclosing(stream):
                async for event in stream:
                    self.unauthorized = False
                    yield event
        except Forbidden as error:
            self.unauthorized = error.code == 401
            raise
