"""Handle get, list and watch, with two forms of answers: whole objects and only their metadata."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import msgspec
from msgspec import Struct

from scripts.apiserver.objects import errors
from scripts.apiserver.objects.objects import Frozen, Key, Object, metadata, with_version
from scripts.apiserver.objects.resources import Served
from scripts.apiserver.objects.selectors import Matches
from scripts.apiserver.storage import Storage, StoredChange, Watcher

_SNAPSHOTS = 64
_BATCH = 2**18
"""Bytes that a streaming list collects before it sends them."""


class Representation(Frozen):
    """The form of an answer: whole objects or only their metadata."""

    metadata_only: bool = False

    def of(self, served: Served, obj: Object) -> Object:
        """Return a stored object in the version of `served`."""
        return self.of_read(served.read(obj))

    def of_read(self, obj: Object) -> Object:
        """Return an object that already has the version of the answer."""
        if not self.metadata_only:
            return obj
        return {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata(obj),
        }

    def of_list(self, served: Served, objects: list[Object], list_metadata: Object) -> Object:
        kind = f"{served.kind}List"
        version = served.api_version
        if self.metadata_only:
            kind = "PartialObjectMetadataList"
            version = "meta.k8s.io/v1"
        items = [self.of(served, obj) for obj in objects]
        return {"kind": kind, "apiVersion": version, "metadata": list_metadata, "items": items}

    def bookmark(self, served: Served, version: int, *, ends_list: bool = False) -> Object:
        meta: Object = {"resourceVersion": str(version), "creationTimestamp": None}
        if ends_list:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        return self.of(
            served, {"kind": served.kind, "apiVersion": served.api_version, "metadata": meta}
        )


class Query(Frozen):
    """The options of a list or watch.

    Without a `namespace`, they apply to all namespaces. `timeout` is in seconds.
    """

    namespace: str = ""
    matches: Matches | None = None
    resource_version: int = 0
    limit: int = 0
    continue_token: str = ""
    timeout: float = 1800.0
    bookmarks: bool = False
    lists_first: bool = False


class ReadHandlers(Struct):
    """Handlers that read from the storage.

    A watch without changes gets a bookmark every `bookmark_seconds`.
    """

    storage: Storage
    bookmark_seconds: float = 60.0
    _snapshots: dict[int, tuple[int, list[Object]]] = {}
    _last_snapshot: int = 0

    def get(self, served: Served, key: Key, shown: Representation) -> Object:
        return shown.of(served, self.storage.existing(served.table, key))

    def select(self, served: Served, query: Query) -> list[Object]:
        objects = self.storage.table(served.table).items(query.namespace)
        return objects if query.matches is None else [obj for obj in objects if query.matches(obj)]

    def page(self, served: Served, query: Query, shown: Representation) -> Object:
        """Return one page of a list.

        Later pages come from the snapshot of the first one. Raise 410 if the snapshot is gone.
        """
        if query.continue_token:
            snapshot, start = _read_token(query.continue_token)
            if snapshot not in self._snapshots:
                raise errors.gone(
                    "The provided continue parameter is too old to display a consistent list"
                    " result."
                )
            version, objects = self._snapshots[snapshot]
        else:
            snapshot = 0
            start = 0
            version = self.storage.version
            objects = self.select(served, query)

        end = start + query.limit if query.limit else len(objects)
        list_metadata: Object = {"resourceVersion": str(version)}
        if end < len(objects):
            list_metadata["continue"] = f"{snapshot or self._remember(version, objects)}-{end}"
            if query.matches is None:
                list_metadata["remainingItemCount"] = len(objects) - end

        return shown.of_list(served, objects[start:end], list_metadata)

    def _remember(self, version: int, objects: list[Object]) -> int:
        self._last_snapshot += 1
        self._snapshots[self._last_snapshot] = version, objects
        self._snapshots.pop(self._last_snapshot - _SNAPSHOTS, None)
        return self._last_snapshot

    def forget_snapshots(self) -> None:
        self._snapshots.clear()

    async def watch(
        self, served: Served, query: Query, shown: Representation
    ) -> AsyncIterator[bytes]:
        """Yield the lines of a watch, until its timeout or until the storage closes.

        A resource version that is too old gives an ERROR line.
        """
        table = self.storage.table(served.table)
        watcher = Watcher()
        table.watchers.add(watcher)
        try:
            if query.resource_version and not query.lists_first:
                missed = table.since(query.resource_version)
                yield b"".join(_event(change, served, query, shown) for change in missed)
            else:
                version = self.storage.version
                for lines in _batches(self.select(served, query), served, shown):
                    yield lines
                if query.lists_first and query.bookmarks:
                    yield _line("BOOKMARK", shown.bookmark(served, version, ends_list=True))
            async for lines in self._later_lines(watcher, served, query, shown):
                yield lines
        except errors.ApiError as error:
            yield _line("ERROR", error.status())
        finally:
            table.watchers.discard(watcher)

    async def _later_lines(
        self, watcher: Watcher, served: Served, query: Query, shown: Representation
    ) -> AsyncIterator[bytes]:
        clock = asyncio.get_running_loop().time
        end = clock() + query.timeout
        while not watcher.closed and clock() < end:
            changes = await watcher.take(min(self.bookmark_seconds, end - clock()))
            if lines := b"".join(_event(change, served, query, shown) for change in changes):
                yield lines
            if query.bookmarks and not changes:
                yield _line("BOOKMARK", shown.bookmark(served, self.storage.version))


def _batches(objects: list[Object], served: Served, shown: Representation) -> Iterator[bytes]:
    """Yield the ADDED lines of objects in batches of about `_BATCH` bytes."""
    lines: list[bytes] = []
    length = 0
    for obj in objects:
        lines.append(_line("ADDED", shown.of(served, obj)))
        length += len(lines[-1])
        if length > _BATCH:
            yield b"".join(lines)
            lines = []
            length = 0
    yield b"".join(lines)


def _event(change: StoredChange, served: Served, query: Query, shown: Representation) -> bytes:
    """Return the line of a change, or b"" if the change is not part of the watch."""
    kind = _kind(change, query)
    if not kind:
        return b""
    obj = change.obj
    # the previous state, with the resource version of the change
    if kind == "DELETED" and change.old is not None:
        obj = with_version(change.old, str(change.version))
    return _line(kind, shown.of(served, obj))


def _kind(change: StoredChange, query: Query) -> str:
    if query.namespace and metadata(change.obj).get("namespace") != query.namespace:
        return ""
    if query.matches is None:
        return change.type
    after = change.type != "DELETED" and query.matches(change.obj)
    before = change.old is not None and query.matches(change.old)
    return {(True, True): "MODIFIED", (True, False): "ADDED", (False, True): "DELETED"}.get(
        (after, before), ""
    )


def _line(kind: str, obj: Object) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


def _read_token(token: str) -> tuple[int, int]:
    """Return the number of a snapshot, and the position in it, of a token `<number>-<position>`."""
    try:
        snapshot, start = map(int, token.split("-"))
    except ValueError as error:
        raise errors.bad_request(f"continue key is not valid: {error}") from error
    return snapshot, start
