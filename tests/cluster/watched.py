"""A cluster in memory with discovery, for caches that are kept in step by watches."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from app.facts.kinds import ALL
from app.kube.api import Object, Page, Selection
from app.kube.discovery import Discovery
from app.objects.resource import Resource
from tests.kube.memory.client import MemoryClient


@contextlib.asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs `work` until the block ends."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(240):
        while not true():  # noqa: ASYNC110 - what is waited for is a cache, which nothing announces
            await asyncio.sleep(0.005)


class WatchedMemory(MemoryClient):
    """A cluster in memory whose discovery reads what it serves."""

    def __init__(self, objects: Any = (), **options: Any) -> None:
        super().__init__(objects, **options)
        self.discovery = Discovery(self._read, ALL)

    async def _read(self, path: str) -> Object:
        parts = path.strip("/").split("/")
        if path == "/apis":
            groups = {resource.group for resource in self.served if resource.group}
            listed = [
                {
                    "name": group,
                    "versions": [
                        {"version": v}
                        for resource, v in self.served.items()
                        if resource.group == group
                    ],
                }
                for group in sorted(groups)
            ]
            return {"kind": "APIGroupList", "groups": listed}
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
        resources = [
            {"name": resource.plural, "kind": resource.kind, "namespaced": resource.namespaced}
            for resource, served in self.served.items()
            if (resource.group, served) == (group, version)
        ]
        return {
            "kind": "APIResourceList",
            "groupVersion": f"{group}/{version}",
            "resources": resources,
        }


class SlowMemory(WatchedMemory):
    """Its lists of `resource` are not answered before `answering` is set, as it is at first."""

    def __init__(self, resource: Resource, objects: Any = ()) -> None:
        super().__init__(objects)
        self.answering = asyncio.Event()
        self.answering.set()
        self._resource = resource

    async def list(self, selection: Selection, **options: Any) -> Page:
        if selection.resource == self._resource:
            await self.answering.wait()
        return await super().list(selection, **options)
