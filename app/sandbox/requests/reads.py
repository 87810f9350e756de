"""Get, list and watch, in three representations: whole objects, metadata only, and tables."""

import asyncio
import base64
import binascii
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass

import orjson

from app.sandbox.objects import errors
from app.sandbox.objects.objects import Key, Object, metadata, resource_version
from app.sandbox.objects.resources import Served
from app.sandbox.objects.selectors import Matches
from app.sandbox.requests.table import definitions, partial, table
from app.sandbox.storage.storage import Change, Storage, Watcher

_SNAPSHOTS = 64


@dataclass(frozen=True, slots=True)
class Representation:
    """The form of an answer. `kind` is object, metadata or table; `include` is the `includeObject` of a table."""

    kind: str = "object"
    include: str = "Metadata"

    def of(self, served: Served, obj: Object) -> Object:
        if self.kind == "metadata":
            return partial(obj)
        if self.kind == "table":
            return table(served, [obj], self.include, {"resourceVersion": resource_version(obj)})
        return served.read(obj)

    def of_list(self, served: Served, objects: list[Object], list_metadata: Object) -> Object:
        if self.kind == "table":
            return table(served, objects, self.include, list_metadata)
        if self.kind == "metadata":
            items, kind, version = [partial(obj) for obj in objects], "PartialObjectMetadataList", "meta.k8s.io/v1"
        else:
            items, kind, version = [served.read(obj) for obj in objects], f"{served.kind}List", served.api_version
        return {"kind": kind, "apiVersion": version, "metadata": list_metadata, "items": items}

    def bookmark(self, served: Served, version: int) -> Object:
        meta: Object = {"resourceVersion": str(version), "creationTimestamp": None}
        if self.kind == "table":
            shape: Object = {"columnDefinitions": definitions(served), "rows": []}
            return {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta, **shape}
        if self.kind == "metadata":
            return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
        return {"kind": served.kind, "apiVersion": served.api_version, "metadata": meta}


@dataclass(frozen=True, slots=True)
class Query:
    """The options of a list or watch. Without a `namespace`, it is of all namespaces; `timeout` is in seconds."""

    namespace: str = ""
    matches: Matches | None = None
    resource_version: str = ""
    limit: int = 0
    continue_token: str = ""
    timeout: float = 1800.0
    bookmarks: bool = False


class Reader:
    """Reads from the storage. A watch without changes gets a bookmark every `bookmark_seconds`."""

    def __init__(self, storage: Storage, bookmark_seconds: float = 60.0) -> None:
        self._storage, self._bookmark_seconds = storage, bookmark_seconds
        self._snapshots: OrderedDict[int, tuple[int, list[Object]]] = OrderedDict()
        self._last_snapshot = 0

    def get(self, served: Served, key: Key, shown: Representation) -> Object:
        obj = self._storage.get(served.table, key)
        if obj is None:
            raise errors.not_found(served.group, served.plural, key[1])
        return shown.of(served, obj)

    def select(self, served: Served, query: Query) -> list[Object]:
        objects = self._storage.table(served.table).items(query.namespace)
        return objects if query.matches is None else [obj for obj in objects if query.matches(obj)]

    def page(self, served: Served, query: Query, shown: Representation) -> Object:
        """One page of a list. Later pages come from the snapshot of the first one: 410 if the snapshot is gone."""
        if query.continue_token:
            snapshot, start = _read_token(query.continue_token)
            if snapshot not in self._snapshots:
                raise errors.gone("The provided continue parameter is too old to display a consistent list result.")
            version, objects = self._snapshots[snapshot]
        else:
            self._check_version(query)
            snapshot, start, version, objects = 0, 0, self._storage.version, self.select(served, query)
        end = start + query.limit if query.limit else len(objects)
        list_metadata: Object = {"resourceVersion": str(version)}
        if end < len(objects):
            snapshot = snapshot or self._remember(version, objects)
            list_metadata["continue"] = _token(snapshot, end)
            if query.matches is None:
                list_metadata["remainingItemCount"] = len(objects) - end
        return shown.of_list(served, objects[start:end], list_metadata)

    def _check_version(self, query: Query) -> None:
        requested = int(query.resource_version or "0")
        if requested > self._storage.version:
            message = f"Timeout: Too large resource version: {requested}, current: {self._storage.version}"
            raise errors.ApiError(504, "Timeout", message, {"causes": [{"reason": "ResourceVersionTooLarge"}]})

    def _remember(self, version: int, objects: list[Object]) -> int:
        self._last_snapshot += 1
        self._snapshots[self._last_snapshot] = version, objects
        while len(self._snapshots) > _SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return self._last_snapshot

    def forget_snapshots(self) -> None:
        self._snapshots.clear()

    async def watch(self, served: Served, query: Query, shown: Representation) -> AsyncIterator[bytes]:
        """The lines of a watch, until its timeout or until the storage closes. A resource version that is too old gives
        an ERROR line."""
        watchers = self._storage.table(served.table).watchers
        watcher = Watcher(self._storage.history)
        stream = _Stream(served, query, shown)
        watchers.add(watcher)
        try:
            try:
                yield self._first_lines(served, query, shown, stream)
            except errors.ApiError as error:
                yield _line("ERROR", error.status())
                return
            async for lines in self._later_lines(watcher, stream):
                yield lines
        finally:
            watchers.discard(watcher)

    def _first_lines(self, served: Served, query: Query, shown: Representation, stream: "_Stream") -> bytes:
        if query.resource_version in ("", "0"):
            return b"".join(_line("ADDED", shown.of(served, obj)) for obj in self.select(served, query))
        missed = self._storage.table(served.table).since(int(query.resource_version))
        return b"".join(stream.line(change) for change in missed)

    async def _later_lines(self, watcher: Watcher, stream: "_Stream") -> AsyncIterator[bytes]:
        clock = asyncio.get_running_loop().time
        end = clock() + stream.query.timeout
        bookmark = clock() + self._bookmark_seconds
        while not watcher.closed and clock() < end:
            changes = await watcher.take(max(0.0, min(end, bookmark) - clock()))
            if lines := b"".join(stream.line(change) for change in changes):
                yield lines
            if stream.query.bookmarks and not changes and clock() >= min(end, bookmark):
                yield stream.bookmark(self._storage.version)
            if clock() >= bookmark:
                bookmark = clock() + self._bookmark_seconds


@dataclass(frozen=True, slots=True)
class _Stream:
    """One watch: which changes of a table it has, and in which form."""

    served: Served
    query: Query
    shown: Representation

    def line(self, change: Change) -> bytes:
        """The encoded event, which the change keeps for other watches; b"" if the event is not part of this watch."""
        kind = self._kind(change)
        if not kind:
            return b""
        key = (kind, self.served.group, self.served.version, self.shown.kind, self.shown.include)
        line = change.lines.get(key)
        if line is None:
            obj = _deleted(change) if kind == "DELETED" else change.obj
            line = change.lines[key] = _line(kind, self.shown.of(self.served, obj))
        return line

    def bookmark(self, version: int) -> bytes:
        return _line("BOOKMARK", self.shown.bookmark(self.served, version))

    def _kind(self, change: Change) -> str:
        if self.query.namespace and metadata(change.obj).get("namespace") != self.query.namespace:
            return ""
        matches = self.query.matches
        if matches is None:
            return change.type
        after = change.type != "DELETED" and matches(change.obj)
        before = change.old is not None and matches(change.old)
        return {(True, True): "MODIFIED", (True, False): "ADDED", (False, True): "DELETED"}.get((after, before), "")


def _deleted(change: Change) -> Object:
    """The state before the change, with the resource version of the change."""
    obj = change.old or change.obj
    return {**obj, "metadata": {**metadata(obj), "resourceVersion": str(change.version)}}


def _line(kind: str, obj: Object) -> bytes:
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


def _token(snapshot: int, start: int) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([snapshot, start])).decode()


def _read_token(token: str) -> tuple[int, int]:
    try:
        snapshot, start = orjson.loads(base64.urlsafe_b64decode(token))
        return int(snapshot), int(start)
    except (binascii.Error, ValueError, TypeError) as error:
        raise errors.bad_request(f"continue key is not valid: {error}") from error
