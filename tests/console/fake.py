"""A console over lists in memory: any state of a cluster, any rights, without a socket."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Collection, Mapping, Sequence
from typing import Any

import httpx
import uvicorn

from app.config.schema import Configuration
from app.console.app import HIDDEN
from app.console.events import Streams
from app.console.findings import Examination
from app.console.listing import WaitingList
from app.console.playground import Judge
from app.console.routes import Console, build_app
from app.explain.live import Live
from app.explain.state.snapshot import BY_RESOURCE
from app.kube.api import (
    NotFound,
    Object,
    ObjectRef,
    Page,
    Rejected,
    Selection,
    Unavailable,
    WatchEvent,
)
from app.kube.discovery import Discovery
from app.kube.read_only import ReadOnlyClient
from app.objects.resource import Resource
from app.stores.permitted import Namespaces, PermittedStores

TOKEN = "token-of-the-test"
HOST = "127.0.0.1:4711"
NOW = 1_800_000_000.0
_BOOKMARK_SECONDS = 20.0


class Lists:
    """A client of lists.

    `denied` are plurals, or `plural/namespace`, that may not be listed; `broken` answers nothing.
    `unserved` are plurals that the cluster does not serve. `change` sends an event to the watches.
    """

    def __init__(
        self,
        objects: Mapping[str, Sequence[Object]] | None = None,
        *,
        denied: Collection[str] = (),
        unserved: Collection[str] = ("clustertopologybindings", "podgangmaps"),
        broken: bool = False,
        remaining: int | None = None,
    ) -> None:
        self.objects = {plural: list(items) for plural, items in (objects or {}).items()}
        self.denied = set(denied)
        self.unserved = set(unserved)
        self.broken = broken
        self.remaining = remaining
        self.calls: list[tuple[str, str]] = []
        self._queues: dict[str, list[asyncio.Queue[WatchEvent]]] = {}

    def served_version(self, resource: Resource) -> str | None:
        return None if resource.plural in self.unserved else resource.versions[0]

    def _objects(self, resource: Resource) -> list[Object]:
        """Those of the resource's group: two groups have PodGroups."""
        return [
            obj
            for obj in self.objects.get(resource.plural, ())
            if str(obj.get("apiVersion", "")).rpartition("/")[0] == resource.group
        ]

    async def get(self, ref: ObjectRef, **_: Any) -> Object:
        self.calls.append(("get", str(ref.resource)))
        if ref.resource.plural in self.denied:
            raise Rejected(f"{ref.resource.plural} is forbidden", code=403)
        items = self._objects(ref.resource)
        named = [obj for obj in items if obj["metadata"]["name"] == ref.name]
        if not named:
            raise NotFound("no such object", code=404)
        return named[0]

    async def list(self, selection: Selection, **_: Any) -> Page:
        resource = selection.resource
        namespace = selection.namespace
        self.calls.append(("list", str(resource)))
        if self.broken:
            raise Unavailable("https://cluster: Connection refused", reason="Connection")
        if self.served_version(resource) is None:
            raise NotFound("not served", code=404)
        scope = f"{resource.plural}/{namespace}" if namespace else resource.plural
        if scope in self.denied:
            raise Rejected(f"{resource.plural} is forbidden", code=403)
        items = self._objects(resource)
        inside = [obj for obj in items if namespace in (None, obj["metadata"].get("namespace"))]
        return Page(inside, "1", "", self.remaining)

    async def watch(self, selection: Selection, **_: Any) -> AsyncGenerator[WatchEvent]:
        queue: asyncio.Queue[WatchEvent] = asyncio.Queue()
        self._queues.setdefault(selection.resource.plural, []).append(queue)
        version = "1"
        while True:
            # a watch that is silent is taken for broken
            event = await _within(queue.get(), _BOOKMARK_SECONDS)
            metadata = {"resourceVersion": version}
            event = event or WatchEvent("BOOKMARK", {"metadata": metadata})
            version = event.object["metadata"].get("resourceVersion", version)
            yield event

    async def create(
        self, resource: Resource, obj: Object, namespace: str | None = None, **_: Any
    ) -> Object:
        self.calls.append(("create", str(resource)))
        return {"status": {"allowed": True}}

    async def patch(self, *_: Any, **__: Any) -> Object:
        raise AssertionError("the console sent a patch")

    async def delete(self, *_: Any, **__: Any) -> None:
        raise AssertionError("the console sent a delete")

    async def read(self, path: str) -> Object:
        self.calls.append(("read", path))
        return {"groups": [], "resources": []}

    def change(self, plural: str, obj: Object, kind: Any = "MODIFIED") -> None:
        for queue in self._queues.get(plural, ()):
            queue.put_nowait(WatchEvent(kind, obj))


async def _within(event: Awaitable[WatchEvent], seconds: float) -> WatchEvent | None:
    try:
        async with asyncio.timeout(seconds):
            return await event
    except TimeoutError:
        return None


async def discovered() -> Discovery:
    """What was discovered in a cluster, without any resource that is optional."""

    async def read(path: str) -> Object:
        return {}

    discovery = Discovery(read, ())
    await discovery.assume()
    return discovery


@contextlib.asynccontextmanager
async def console(
    lists: Lists,
    namespaces: Sequence[str] = (),
    *,
    context: str = "test",
    configuration: Configuration | None = None,
    rights_again: float = 60.0,
) -> AsyncIterator[tuple[httpx.AsyncClient, Console]]:
    """A console over lists, and a client of it; the lists are in, as far as they may be read."""
    configuration = configuration or Configuration()
    watched = PermittedStores(
        lists,
        BY_RESOURCE.values(),
        await discovered(),
        Namespaces(namespaces, again=rights_again),
    )
    live = Live(watched, clock=lambda: NOW)
    looking = ReadOnlyClient(lists, hidden=HIDDEN)
    examination = Examination(looking, lists.read, configuration, live, clock=lambda: NOW)
    streams = Streams(live, pause=0.0, tick=60.0)
    made = Console(
        live,
        WaitingList(clock=lambda: 0.0),  # explains all workloads, however slow the machine is
        streams,
        examination,
        Judge(looking, configuration, live),
        looking,
        context,
        "1.0",
    )
    transport = httpx.ASGITransport(build_app(made, TOKEN))
    running = asyncio.create_task(live.run())
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}/{TOKEN}") as client:
        try:
            if not lists.broken:
                async with asyncio.timeout(240):
                    while not live.ready:
                        await live.changes(live.revision)
            yield client, made
        finally:
            examination.stop()
            running.cancel()
            await asyncio.wait({running})


@contextlib.asynccontextmanager
async def served(made: Console) -> AsyncIterator[str]:
    """The address of a console on loopback, for a browser; the server ends with the block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(build_app(made, TOKEN), lifespan="off", log_config=None)
        config.timeout_graceful_shutdown = 1
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/{TOKEN}/"
        finally:
            made.streams.close()
            server.should_exit = True
            await serving
