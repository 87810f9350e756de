"""Keep a store for each row up to date with a watch."""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, NoReturn, TypeVar

from app.facts.rows import Row
from app.kube.api import Client, Object, Selection
from app.kube.discovery import Discovery, watch_crds
from app.kube.store import WatchStore
from app.kube.watch import run_store
from app.stores.gc_pause import pause_until

T = TypeVar("T")


def selection_of(row: Row[Any], namespace: str | None = None) -> Selection:
    """Return the selection of objects for `row`, in `namespace` or in all namespaces."""
    return Selection(row.resource, namespace, row.labels, row.fields, row.metadata_only, row.form)


class Stores:
    """A store for each of `rows`, with the type of its row."""

    def __init__(self, rows: Iterable[Row[Any]]) -> None:
        self._stores: dict[Row[Any], WatchStore[Any]] = {
            row: WatchStore(
                row.read,
                row.lookups,
                most=row.most,
                most_decoded=row.most_decoded,
                most_of_namespace=row.most_of_namespace,
                most_objects=row.most_objects,
                is_cut=row.is_cut,
                rest=row.rest,
            )
            for row in rows
        }

    def __getitem__(self, row: Row[T]) -> WatchStore[T]:
        return self._stores[row]

    def __iter__(self) -> Iterator[tuple[Row[Any], WatchStore[Any]]]:
        return iter(self._stores.items())

    def by_name(self) -> dict[str, WatchStore[Any]]:
        """Return the stores by the plural names of their resources."""
        return {row.resource.plural: store for row, store in self._stores.items()}

    async def until_synced(self) -> None:
        """Wait until every store has its first list."""
        for store in self._stores.values():
            await store.until_synced()


def fill(store: WatchStore[Any], objects: Iterable[Object]) -> None:
    """Add `objects` to `store`, as if a list had delivered them, and mark it as synced."""
    store.begin_list()
    store.take_listed(objects)
    store.end_list("0")


async def run(stores: Stores, client: Client, discovery: Discovery) -> None:
    """Run discovery, and keep `stores` up to date, until cancelled.

    After an error of the API server, try again. Raise all other errors.
    """
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(discovery.run(), name="discovery")
        await discovery.until_known()
        tasks.create_task(watch_crds(client, discovery), name="watch crds")
        tasks.create_task(pause_until(stores.until_synced()), name="pause collector")
        _follow_all(tasks, stores, client, discovery)


async def run_from_empty(stores: Stores, client: Client, discovery: Discovery) -> None:
    """Empty `stores`, which only the leader needs, and keep them up to date until cancelled."""
    for _, store in stores:
        store.forget()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pause_until(stores.until_synced()), name="pause collector")
        _follow_all(tasks, stores, client, discovery)


async def run_hints(stores: Stores, client: Client, discovery: Discovery) -> None:
    """Keep `stores`, which only warnings need, up to date until cancelled.

    Discovery must run too. No part of the server waits for these lists.
    """
    await discovery.until_known()
    async with asyncio.TaskGroup() as tasks:
        _follow_all(tasks, stores, client, discovery)


def _follow_all(
    tasks: asyncio.TaskGroup, stores: Stores, client: Client, discovery: Discovery
) -> None:
    for row, store in stores:
        tasks.create_task(follow(row, store, client, discovery), name=f"watch {row.resource}")


async def follow(
    row: Row[Any], store: WatchStore[Any], client: Client, discovery: Discovery
) -> NoReturn:
    """Keep the store of one row up to date until cancelled.

    If the CRD of its resource changes, start again with a list, because an open watch would
    continue with the old schema.
    """
    while True:
        watching = run_store(
            client,
            store,
            selection_of(row),
            served_changed=discovery.changed,
            not_found=discovery.trigger,
        )
        await _until(watching, discovery.redefined(row.resource))


async def _until(
    watch: Coroutine[Any, Any, NoReturn], happened: Coroutine[Any, Any, object]
) -> None:
    """Run `watch` until `happened` returns. If `watch` fails first, raise its error."""
    watching = asyncio.create_task(watch)
    waiting = asyncio.create_task(happened)
    try:
        await asyncio.wait({watching, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            await watching
    finally:
        for task in (watching, waiting):
            task.cancel()
        await asyncio.gather(watching, waiting, return_exceptions=True)
