"""A store for each row, filled by a watch that keeps it in step with the cluster."""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, NoReturn, TypeVar

from app.facts.table import Row
from app.kube.api import Client, Object, Selection
from app.kube.discovery import Discovery, watch_crds
from app.kube.store import WatchStore
from app.kube.watch import Pace, run_store
from app.stores.collector import pause_until

T = TypeVar("T")


def selection_of(row: Row[Any], namespace: str | None = None) -> Selection:
    """Return what is listed and watched for a row: of one namespace, or of all."""
    return Selection(row.resource, namespace, row.labels, row.fields, row.metadata_only, row.form)


class Stores:
    """A store for each of `rows`, with the type of its row."""

    def __init__(self, rows: Iterable[Row[Any]]) -> None:
        self._stores: dict[Row[Any], WatchStore[Any]] = {
            row: WatchStore(row.read, row.lookups) for row in rows
        }

    def __getitem__(self, row: Row[T]) -> WatchStore[T]:
        return self._stores[row]

    def __iter__(self) -> Iterator[tuple[Row[Any], WatchStore[Any]]]:
        return iter(self._stores.items())

    def by_name(self) -> dict[str, WatchStore[Any]]:
        """Return the stores by the plural of their resource."""
        return {row.resource.plural: store for row, store in self._stores.items()}

    async def until_synced(self) -> None:
        """Return once every store has its first list."""
        for store in self._stores.values():
            await store.until_synced()


def fill(store: WatchStore[Any], objects: Iterable[Object]) -> None:
    """Replace the content of `store` with `objects`."""
    store.begin_list()
    store.take_listed(objects)
    store.end_list("0")


# Watches.


async def run(stores: Stores, client: Client, discovery: Discovery) -> None:
    """Keep every one of `stores` in step until cancelled.

    Errors of the API server are retried; any other error is raised.
    """
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(discovery.run(), name="discovery")
        await discovery.until_known()
        tasks.create_task(watch_crds(client, discovery), name="watch crds")
        tasks.create_task(pause_until(stores.until_synced()), name="pause collector")
        _follow_all(tasks, stores, client, discovery)


async def run_from_empty(stores: Stores, client: Client, discovery: Discovery) -> None:
    """Empty `stores`, which only the leader needs, and keep them in step until cancelled.

    What another leader has written meanwhile is not in them.
    """
    for _, store in stores:
        store.forget()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pause_until(stores.until_synced()), name="pause collector")
        _follow_all(tasks, stores, client, discovery)


async def run_hints(stores: Stores, client: Client, discovery: Discovery) -> None:
    """Keep `stores`, which nothing waits for, in step until cancelled."""
    await discovery.until_known()
    async with asyncio.TaskGroup() as tasks:
        _follow_all(tasks, stores, client, discovery)


def _follow_all(
    tasks: asyncio.TaskGroup,
    stores: Stores,
    client: Client,
    discovery: Discovery,
) -> None:
    for row, store in stores:
        tasks.create_task(follow(row, store, client, discovery), name=f"watch {row.resource}")


async def follow(
    row: Row[Any],
    store: WatchStore[Any],
    client: Client,
    discovery: Discovery,
) -> NoReturn:
    """Keep the store of one row in step until cancelled.

    It is listed again if its CRD has changed.
    """
    while True:
        watching = run_store(
            client,
            store,
            selection_of(row),
            pace=Pace(page_size=row.page),
            served_changed=discovery.changed,
            not_found=discovery.trigger,
        )
        await _until(watching, discovery.redefined(row.resource))


async def _until(
    watch: Coroutine[Any, Any, NoReturn], happened: Coroutine[Any, Any, object]
) -> None:
    """Run `watch` until `happened` returns. Errors of `watch` are raised."""
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
