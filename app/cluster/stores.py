"""A typed store for each row of the table of facts."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from app.cluster.table import Fact
from app.kube.api import Object
from app.kube.store import WatchStore

T = TypeVar("T")


class Stores:
    """The stores of `facts`."""

    def __init__(self, facts: Iterable[Fact[Any]]) -> None:
        self._stores: dict[Fact[Any], WatchStore[Any]] = {
            fact: WatchStore(fact.project, fact.indexes) for fact in facts
        }

    def __getitem__(self, fact: Fact[T]) -> WatchStore[T]:
        return self._stores[fact]

    def __iter__(self) -> Iterator[tuple[Fact[Any], WatchStore[Any]]]:
        return iter(self._stores.items())

    def by_name(self) -> dict[str, WatchStore[Any]]:
        """Returns the stores by the plural of their resource."""
        return {fact.resource.plural: store for fact, store in self._stores.items()}

    async def until_synced(self) -> None:
        """Returns once every store has its first list."""
        for store in self._stores.values():
            await store.until_synced()


def fill(store: WatchStore[Any], objects: Iterable[Object]) -> None:
    """Replaces the content of `store` with `objects`."""
    store.begin_list()
    store.take_listed(objects)
    store.end_list("0")
