"""Keep stores up to date with as much as the permissions allow."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

from app.base.value import Value
from app.facts.rows import Row
from app.kube.api import ClusterError, Reader, Rejected, Selection, every
from app.kube.discovery import Discovery
from app.kube.store import WatchStore
from app.kube.watch import Pace, run_store
from app.objects.resource import NAMESPACE
from app.stores.stores import selection_of

Scope = tuple[Row[Any], str | None]
"""The objects of one watch: a row, and one namespace or all (None)."""


LIVELY = Pace(streams=False, page_size=100, slice_size=50, retry_most=10.0)
"""The pace for a person who waits: each turn of the event loop takes a few milliseconds.

Lists are read in pages, because a page reports the number of remaining objects, which is shown as
progress.
"""


MOST_FOR_PEOPLE = 2**20
"""The default of `least` (see PermittedStores), in bytes of JSON.

A person may ask about a large gang, with thousands of pods.
"""


class Namespaces(Value):
    """The namespaces to read one by one if the user may not read all namespaces at once."""

    names: Sequence[str] = ()
    """The names of the namespaces. If there are none, the API server is asked for all names."""
    own: str = ""
    """The namespace to read if namespaces can't be listed, or "" for none."""
    again: float = 60.0
    """The seconds after which a forbidden list is tried again."""


class PermittedStores:
    """Stores for `rows`, as far as the permissions allow.

    Each row has one store, or one for each namespace if not all namespaces can be read at once.
    `stores` has a store for each scope that is read, and `denied` has the forbidden scopes. The
    caller runs `discovery`, which knows the kinds that the cluster serves. The facts about an
    object may have `least` bytes of JSON, or more if the limit of their row is higher. With
    `bounds_namespaces`, a row's limit for all objects of a namespace also applies.
    """

    def __init__(
        self,
        client: Reader,
        rows: Iterable[Row[Any]],
        discovery: Discovery,
        namespaces: Namespaces = Namespaces(),
        pace: Pace = LIVELY,
        least: int = MOST_FOR_PEOPLE,
        bounds_namespaces: bool = False,
    ) -> None:
        self.rows = tuple(rows)
        self.stores: dict[Scope, WatchStore[Any]] = {}
        self.denied: set[Scope] = set()
        self._client = client
        self._discovery = discovery
        self._namespaces = namespaces
        self._names = tuple(namespaces.names)
        self._pace = pace
        self._least = least
        self._bounds_namespaces = bounds_namespaces
        self._subscribers: list[Callable[[str], None]] = []

    def subscribe(self, changed: Callable[[str], None]) -> None:
        """Call `changed` after each change, with the name of the row whose objects have changed.

        For other changes, such as a changed permission or a completed list, the name is "".
        """
        self._subscribers.append(changed)

    @property
    def ready(self) -> bool:
        """Whether each list has been read or is forbidden."""
        known = {row for row, _ in (*self.denied, *self.stores)}
        return len(known) == len(self.rows) and all(
            store.synced or scope in self.denied for scope, store in self.stores.items()
        )

    def problems(self) -> Iterator[tuple[str, ClusterError | None]]:
        """Yield why stores or discovery are not up to date: (text, error or None)."""
        for store in self.stores.values():
            if store.problem:
                yield store.problem, store.error
        if self._discovery.problem:
            yield self._discovery.problem, self._discovery.error

    async def run(self) -> NoReturn:
        """Read and watch the objects of all rows until cancelled."""
        await self._discovery.until_known()
        async with asyncio.TaskGroup() as tasks:
            for row in self.rows:
                tasks.create_task(self._follow(row), name=f"watch {row.resource}")
        raise AssertionError("these tasks never end")

    async def _follow(self, row: Row[Any]) -> NoReturn:
        """Keep the stores of a row up to date: one for all namespaces, or one for each namespace.

        If the objects of all namespaces can't be listed, read the namespaces one by one. If no
        namespace is known, or the resource is cluster-scoped, try again later.
        """
        everywhere = (row, None)
        while True:
            await self._keep(everywhere)
            names = await self._visible() if row.resource.namespaced else ()
            if names:
                self.denied.discard(everywhere)
                async with asyncio.TaskGroup() as tasks:
                    for name in names:
                        tasks.create_task(self._keep_trying((row, name)))
            await self._deny(everywhere)

    async def _keep_trying(self, scope: Scope) -> NoReturn:
        """Keep the store of a scope up to date. Try again later while its list is forbidden."""
        while True:
            await self._keep(scope)
            await self._deny(scope)

    async def _keep(self, scope: Scope) -> None:
        """Keep the store of a scope up to date until its list is forbidden."""
        row, namespace = scope
        store: WatchStore[Any] = WatchStore(
            row.read,
            most=max(self._least, row.most),
            most_decoded=row.most_decoded,
            most_of_namespace=row.most_of_namespace if self._bounds_namespaces else None,
            most_objects=row.most_objects if self._bounds_namespaces else None,
            rest=row.rest,
        )
        store.subscribe(lambda key, before, after: self._changed(row.name))
        self.stores[scope] = store
        noted = asyncio.create_task(self._note_sync(scope, store))
        try:
            await run_store(
                self._client,
                store,
                selection_of(row, namespace),
                pace=self._pace,
                served_changed=self._served_changed,
                not_found=self._discovery.trigger,
                needs_right=True,
            )
        except Rejected:
            self.stores.pop(scope, None)
            self._changed(row.name)
        finally:
            noted.cancel()

    async def _note_sync(self, scope: Scope, store: WatchStore[Any]) -> None:
        """Wait until the first list of a scope has been read, and then notify subscribers."""
        await store.until_synced()
        self.denied.discard(scope)
        self._changed()

    async def _deny(self, scope: Scope) -> None:
        """Record that a scope is forbidden, and wait until it can be tried again."""
        self.denied.add(scope)
        self._changed()
        await asyncio.sleep(self._namespaces.again)

    async def _served_changed(self) -> None:
        """Notify subscribers that a resource is not served, and wait until discovery changes."""
        self._changed()
        await self._discovery.changed()

    async def _visible(self) -> tuple[str, ...]:
        """Return the namespaces to read one by one, or () if none is known."""
        if self._names:
            return self._names
        try:
            found = await every(self._client, Selection(NAMESPACE))
        except ClusterError:
            return (self._namespaces.own,) if self._namespaces.own else ()
        self._names = tuple(obj["metadata"]["name"] for obj in found)
        return self._names

    def _changed(self, name: str = "") -> None:
        for changed in self._subscribers:
            changed(name)
