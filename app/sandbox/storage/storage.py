"""Objects in memory: one global resourceVersion, a bounded history per table, watchers, and indexes by uid and owner.

Nothing here awaits: a write, its history entry and its delivery to watchers happen in one step of the event loop.
"""

import asyncio
import contextlib
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from app.sandbox.objects import errors
from app.sandbox.objects.objects import Key, Object, TableId, key_of, metadata, resource_version

Place = tuple[TableId, Key]


@dataclass(slots=True, eq=False)
class Change:
    """One write. `obj` is the object after it (for DELETED: the last state, with the deletion's resourceVersion),
    `old` what stood there before. `lines` keeps its encodings, so that a fan-out encodes once."""

    type: str
    version: int
    table: TableId
    obj: Object
    old: Object | None
    lines: dict[tuple[str, ...], bytes] = field(default_factory=dict)


class Watcher:
    """The mailbox of one watch. A reader that falls more than `limit` changes behind is cut off, as a real server
    does, instead of being remembered without bound."""

    def __init__(self, limit: int) -> None:
        self.closed = False
        self._limit = limit
        self._waiting: deque[Change] = deque()
        self._wake = asyncio.Event()

    def offer(self, change: Change) -> None:
        if len(self._waiting) >= self._limit:
            self.close()
            return
        self._waiting.append(change)
        self._wake.set()

    def close(self) -> None:
        self.closed = True
        self._wake.set()

    async def take(self, seconds: float) -> list[Change]:
        """Everything that has arrived; waits up to `seconds` for the first, and gives [] if none came."""
        if not self._waiting and not self.closed:
            self._wake.clear()
            # Not "nothing came": between the end of the time and this line something may have.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
        taken = list(self._waiting)
        self._waiting.clear()
        return taken


class Table:
    """The objects of one resource, in (namespace, name) order."""

    def __init__(self, history: int, forgotten: int = 0) -> None:
        self.objects: dict[Key, Object] = {}
        self.watchers: set[Watcher] = set()
        self.changed = 0
        self._keys: list[Key] = []
        self._history: deque[Change] = deque()
        self._limit = history
        self._forgotten = forgotten

    def put(self, key: Key, obj: Object) -> None:
        if key not in self.objects:
            insort(self._keys, key)
        self.objects[key] = obj

    def drop(self, key: Key) -> None:
        del self.objects[key]
        del self._keys[bisect_left(self._keys, key)]

    def keys(self, namespace: str = "") -> list[Key]:
        """All keys, or those of one namespace."""
        if not namespace:
            return list(self._keys)
        return self._keys[bisect_left(self._keys, (namespace, "")) : bisect_left(self._keys, (namespace + "\0", ""))]

    def items(self, namespace: str = "") -> list[Object]:
        return [self.objects[key] for key in self.keys(namespace)]

    def record(self, change: Change) -> None:
        self.changed = change.version
        self._history.append(change)
        if len(self._history) > self._limit:
            self._forgotten = self._history.popleft().version
        for watcher in list(self.watchers):
            watcher.offer(change)

    def forget(self, version: int) -> None:
        """Drops the whole history: watches from before `version` get 410."""
        self._history.clear()
        self._forgotten = version

    def since(self, version: int) -> list[Change]:
        """The changes after `version`; 410 if some of them are forgotten."""
        if version < self._forgotten:
            raise errors.gone(f"too old resource version: {version} ({self._forgotten})")
        found = []
        for change in reversed(self._history):
            if change.version <= version:
                break
            found.append(change)
        return found[::-1]


class Storage:
    """All tables. `listeners` are called after each write, in order, and must not await."""

    def __init__(self, history: int = 10_000) -> None:
        self.version = 1
        self.history = history
        self.listeners: list[Callable[[Change], None]] = []
        self.uids: dict[str, Place] = {}
        self._dependents: dict[str, dict[Place, None]] = {}
        self._tables: dict[TableId, Table] = {}
        self._compacted = 0

    def table(self, table: TableId) -> Table:
        found = self._tables.get(table)
        if found is None:
            found = self._tables[table] = Table(self.history, self._compacted)
        return found

    def tables(self) -> Iterator[tuple[TableId, Table]]:
        return iter(list(self._tables.items()))

    def get(self, table: TableId, key: Key) -> Object | None:
        return self.table(table).objects.get(key)

    def dependents(self, uid: str) -> list[Place]:
        """Where the objects are that name `uid` as an owner."""
        return list(self._dependents.get(uid, ()))

    def insert(self, table: TableId, obj: Object) -> Object:
        key = key_of(obj)
        if self.get(table, key) is not None:
            raise errors.already_exists(*table, key[1])
        return self._commit("ADDED", table, obj, None)

    def replace(self, table: TableId, obj: Object, seen: str) -> Object:
        """Stores `obj` if the stored one still has the resourceVersion `seen`; Conflict otherwise."""
        key = key_of(obj)
        old = self.get(table, key)
        if old is None:
            raise errors.not_found(*table, key[1])
        if resource_version(old) != seen:
            raise errors.conflict(*table, key[1])
        return self._commit("MODIFIED", table, obj, old)

    def remove(self, table: TableId, key: Key) -> Object:
        old = self.get(table, key)
        if old is None:
            raise errors.not_found(*table, key[1])
        return self._commit("DELETED", table, old, old)

    def compact(self) -> None:
        """Forgets all history, as an etcd compaction does: older watches are answered 410."""
        self._compacted = self.version
        for table in self._tables.values():
            table.forget(self.version)

    def close(self) -> None:
        """Ends all watches."""
        for table in self._tables.values():
            for watcher in list(table.watchers):
                watcher.close()

    def _commit(self, kind: str, table_id: TableId, obj: Object, old: Object | None) -> Object:
        self.version += 1
        obj = {**obj, "metadata": {**metadata(obj), "resourceVersion": str(self.version)}}
        table, key = self.table(table_id), key_of(obj)
        if old is not None:
            self._unindex(table_id, key, old)
        if kind == "DELETED":
            table.drop(key)
        else:
            table.put(key, obj)
            self._index(table_id, key, obj)
        change = Change(kind, self.version, table_id, obj, old)
        table.record(change)
        for listener in self.listeners:
            listener(change)
        return obj

    def _index(self, table: TableId, key: Key, obj: Object) -> None:
        self.uids[metadata(obj)["uid"]] = (table, key)
        for owner in metadata(obj).get("ownerReferences") or ():
            self._dependents.setdefault(owner.get("uid", ""), {})[table, key] = None

    def _unindex(self, table: TableId, key: Key, obj: Object) -> None:
        self.uids.pop(metadata(obj)["uid"], None)
        for owner in metadata(obj).get("ownerReferences") or ():
            held = self._dependents.get(owner.get("uid", ""), {})
            held.pop((table, key), None)
            if not held:
                self._dependents.pop(owner.get("uid", ""), None)
