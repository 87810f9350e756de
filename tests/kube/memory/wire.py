"""The connection of one server to a cluster in memory, on which tests let calls fail."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from app.kube.api import Object, Page, Selection, WatchEvent
from app.objects.resource import Resource
from tests.kube.memory.client import MemoryClient

T = TypeVar("T")


class Wire:
    """A client whose calls and watch events all pass one function each, which a subclass writes."""

    def __init__(self, cluster: MemoryClient) -> None:
        self.cluster = cluster

    async def through(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make `call`, or not, or lose its answer."""
        return await call()

    async def delivers(self, selection: Selection) -> None:
        """Return when the next event of a watch arrives."""

    def served_version(self, resource: Resource) -> str | None:
        return self.cluster.served_version(resource)

    async def get(self, *arguments: Any, **options: Any) -> Object:
        return await self.through(lambda: self.cluster.get(*arguments, **options))

    async def list(self, *arguments: Any, **options: Any) -> Page:
        return await self.through(lambda: self.cluster.list(*arguments, **options))

    async def create(self, *arguments: Any, **options: Any) -> Object:
        return await self.through(lambda: self.cluster.create(*arguments, **options))

    async def patch(self, *arguments: Any, **options: Any) -> Object:
        return await self.through(lambda: self.cluster.patch(*arguments, **options))

    async def delete(self, *arguments: Any, **options: Any) -> None:
        await self.through(lambda: self.cluster.delete(*arguments, **options))

    async def watch(self, selection: Selection, **options: Any) -> AsyncGenerator[WatchEvent, None]:
        async with aclosing(self.cluster.watch(selection, **options)) as events:
            async for event in events:
                await self.delivers(selection)
                yield event
