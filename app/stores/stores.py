"""A store for each row."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from app.facts.table import Row
from app.kube.api import Object, Selection
from app.kube.store import WatchStore

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
