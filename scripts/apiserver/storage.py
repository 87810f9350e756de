"""Store objects in memory, with watchers, and indexes by uid and owner.

All tables share one resourceVersion, and each table has a bounded history. Nothing here is awaited,
so a write, its entry in the history and its delivery to watchers are one step of the event loop.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from msgspec import Struct, field

from scripts.apiserver.objects import errors
from scripts.apiserver.objects.objects import (
    Frozen,
    Key,
    Object,
    TableId,
    key_of,
    metadata,
    owners_of,
    resource_version,
    with_version,
)

Place = tuple[TableId, Key]


class StoredChange(Frozen, eq=False):
    """A write to an object.

    `obj` is the new object. For a deletion, it is the last state with the resourceVersion of the
    deletion. `old` is the object before the write.
    """

    type: str
    version: int
    table: TableId
    obj: Object
    old: Object | None


class Watcher:
    """The changes that a watch has not sent yet."""

    def __init__(self) -> None:
        self.closed = False
        self._waiting: list[StoredChange] = []
        self._wake = asyncio.Event()

    def offer(self, change: StoredChange) -> None:
        self._waiting.append(change)
        self._wake.set()

    def close(self) -> None:
        self.closed = True
        self._wake.set()

    async def take(self, seconds: float) -> list[StoredChange]:
        """Return the changes that were not taken yet.

        If there are none, wait up to `seconds` for the first one, then return [].
        """
        if not self._waiting and not self.closed:
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
        changes = self._waiting
        self._waiting = []
        return changes


class Table(Struct):
    """The objects of a resource."""

    limit: int
    forgotten: int
    objects: dict[Key, Object] = {}
    watchers: set[Watcher] = set()
    _history: deque[StoredChange] = field(default_factory=deque)

    def keys(self, namespace: str = "") -> list[Key]:
        """Return the keys in `namespace`, or all keys if it is "", by namespace and name."""
        return sorted(key for key in self.objects if not namespace or key[0] == namespace)

    def items(self, namespace: str = "") -> list[Object]:
        return [self.objects[key] for key in self.keys(namespace)]

    def record(self, change: StoredChange) -> None:
        self._history.append(change)
        if len(self._history) > self.limit:
            self.forgotten = self._history.popleft().version
        for watcher in list(self.watchers):
            watcher.offer(change)

    def forget(self, version: int) -> None:
        """Clear the history, so that watches from a version before `version` get 410."""
        self._history.clear()
        self.forgotten = version

    def since(self, version: int) -> list[StoredChange]:
        """Return the changes after `version`. Raise 410 if the history begins later."""
        if version < self.forgotten:
            raise errors.gone(f"too old resource version: {version} ({self.forgotten})")
        return [change for change in self._history if change.version > version]

    def close(self) -> None:
        """End all watches."""
        for watcher in list(self.watchers):
            watcher.close()


class Storage(Struct):
    """All tables.

    `listeners` are called after each write, in order, and must not await.
    """

    history: int = 10_000
    version: int = 1
    listeners: list[Callable[[StoredChange], None]] = []
    uids: dict[str, Place] = {}
    tables: dict[TableId, Table] = {}
    _dependents: dict[str, dict[Place, None]] = {}
    _compacted: int = 0

    def table(self, table: TableId) -> Table:
        if table not in self.tables:
            self.tables[table] = Table(self.history, self._compacted)
        return self.tables[table]

    def get(self, table: TableId, key: Key) -> Object | None:
        return self.table(table).objects.get(key)

    def existing(self, table: TableId, key: Key) -> Object:
        """Return the object `key`. Raise 404 if there is none."""
        obj = self.get(table, key)
        if obj is None:
            raise errors.not_found(table, key[1])
        return obj

    def check_absent(self, table: TableId, key: Key) -> None:
        """Raise 409 if the object `key` exists."""
        if self.get(table, key) is not None:
            raise errors.already_exists(table, key[1])

    def in_namespace(self, namespace: str) -> list[Place]:
        """Return the table and key of each object in `namespace`."""
        return [
            (table, key)
            for table, objects in self.tables.items()
            for key in objects.keys(namespace)
        ]

    def dependents(self, uid: str) -> list[Place]:
        """Return the table and key of each object with an owner reference to `uid`."""
        return list(self._dependents.get(uid, ()))

    def insert(self, table: TableId, obj: Object) -> Object:
        self.check_absent(table, key_of(obj))
        return self._commit("ADDED", table, obj, None)

    def replace(self, table: TableId, obj: Object, version: str) -> Object:
        """Store `obj`.

        Raise 409 if the stored object does not have the resourceVersion `version`.
        """
        key = key_of(obj)
        old = self.existing(table, key)
        if resource_version(old) != version:
            raise errors.conflict(table, key[1])
        return self._commit("MODIFIED", table, obj, old)

    def remove(self, table: TableId, key: Key) -> Object:
        old = self.existing(table, key)
        return self._commit("DELETED", table, old, old)

    def compact(self) -> None:
        """Clear the history of all tables, like a compaction of etcd.

        Watches from older versions get 410.
        """
        self._compacted = self.version
        for table in self.tables.values():
            table.forget(self.version)

    def close(self) -> None:
        """End all watches."""
        for table in self.tables.values():
            table.close()

    def _commit(self, kind: str, table_id: TableId, obj: Object, old: Object | None) -> Object:
        self.version += 1
        obj = with_version(obj, str(self.version))
        table = self.table(table_id)
        key = key_of(obj)
        if old is not None:
            self._unindex(table_id, key, old)
        if kind == "DELETED":
            del table.objects[key]
        else:
            table.objects[key] = obj
            self._index(table_id, key, obj)

        change = StoredChange(kind, self.version, table_id, obj, old)
        table.record(change)
        for listener in self.listeners:
            listener(change)

        return obj

    def _index(self, table: TableId, key: Key, obj: Object) -> None:
        self.uids[metadata(obj)["uid"]] = (table, key)
        for owner in owners_of(obj):
            self._dependents.setdefault(owner.get("uid", ""), {})[table, key] = None

    def _unindex(self, table: TableId, key: Key, obj: Object) -> None:
        self.uids.pop(metadata(obj)["uid"], None)
        for owner in owners_of(obj):
            self._dependents.get(owner.get("uid", ""), {}).pop((table, key), None)
