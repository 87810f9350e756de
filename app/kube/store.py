"""Cache the objects of a resource, by key and by index.

Only a projection of each object is stored: the facts that are read from it. A list and a watch
deliver objects in the order of their changes, so each object replaces its stored version. Only
responses to writes may be newer or older than the watch. The versions of these responses are kept
until the watch has passed them.

Resource versions are compared as numbers, which Kubernetes guarantees since 1.35 (KEP-5504):
https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5504-comparable-resource-version.
If they are not numbers, the last object from the list or watch is stored, and responses to writes
are ignored.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from sys import intern
from typing import Generic, Self, TypeVar

from msgspec import Struct

from app.base.json import to_json
from app.base.sample import Sample, counter
from app.kube.api import ClusterError, Key, Object, Unavailable, WatchEvent
from app.objects.time import Clock

T = TypeVar("T")

Version = int | str
Projection = Callable[[Object], T | None]
IndexFunction = Callable[[T], Iterable[Key]]
Change = Callable[[Key, T | None, T | None], None]
"""A function that is called after a change of a store.

Its arguments are the key, the old value and the new value. None stands for no value.
"""


MOST_OF_REST = 4 * 2**10
"""The maximum size of the projection `rest` of an object that exceeds a limit, in bytes of JSON."""

FREE = 1024
"""The number of bytes of each projection that do not count toward the limit of its namespace.

Most projections are smaller, so the limit hardly affects the number of objects in a namespace.
"""

MOST_NAMED = 1_000
"""The maximum number of objects of a namespace in `too_large`.

A tenant may create any number of objects, and each takes 0.4 KB.
"""


class WatchStore(Generic[T]):
    """A cache of a resource that a watch fills (`app.kube.watch.run_store`).

    `project` returns the projection of an object, or None if the object is not stored. A function
    in `indexes` returns the index values of a projection. `clock` is monotonic, in seconds.

    Tenants decide on the size of their objects, so there are limits, of which None means no limit:

    - An object has at most `most_decoded` bytes of JSON.
    - A projection has at most `most` bytes of JSON.
    - The projections of a namespace have at most `most_of_namespace` bytes together. The first FREE
      bytes of each projection don't count.
    - A namespace has at most `most_objects` projections.

    An object that exceeds a limit is in `too_large` until it changes or is listed again. Of a
    namespace, at most MOST_NAMED objects are. Instead of its projection, the smaller projection
    that `rest` returns is stored, such as how much of a node a Pod uses, if it has at most
    MOST_OF_REST bytes. These bytes don't count toward the limit of the namespace, so `rest` must
    return None for objects that tenants can create in any number.

    An object is also in `too_large` if `is_cut` returns True for its projection, but then this
    projection is stored.
    """

    def __init__(
        self,
        project: Projection[T],
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        *,
        clock: Clock = time.monotonic,
        most: int = 2**20,
        most_decoded: int | None = None,
        most_of_namespace: int | None = None,
        most_objects: int | None = None,
        is_cut: Callable[[T], bool] = lambda value: False,
        rest: Projection[T] = lambda obj: None,
    ) -> None:
        self.too_large: dict[Key, str] = {}
        """The uids of the objects that are too large to be stored in full, by key."""
        self._unnamed_in: set[str] = set()
        """The namespaces with more such objects than `too_large` names, since the start."""
        self._named_in: Counter[str] = Counter()
        """The number of objects in `too_large` by namespace."""
        self.restarts: dict[str, int] = {}
        """The number of restarts of the watch by reason.

        The reasons are ended, quiet, silent, gone, error and not_served.
        """
        self.problem = ""
        """The reason why the store is not up to date, or ""."""
        self.error: ClusterError | None = None
        """The error that caused `problem`, or None without a problem."""
        self.total: int | None = None
        """The number of objects that the last list reported, or None if no list has reported it.

        A list that is streamed, or that fits into one page, reports no number.
        """
        self._project = project
        self._indexes = {name: _Index(function) for name, function in (indexes or {}).items()}
        self._clock = clock
        self._most = most
        self._most_decoded = most_decoded
        self._most_of_namespace = most_of_namespace
        self._most_objects = most_objects
        self._number_in: Counter[str] = Counter()
        """The number of stored projections by namespace."""
        self._excess: dict[Key, int] = {}
        """The bytes of JSON beyond FREE of each projection that counts for its namespace."""
        self._excess_in: Counter[str] = Counter()
        """The sum of `_excess` by namespace."""
        self._is_cut = is_cut
        self._rest = rest
        self._entries: dict[Key, T] = {}
        self._version: Version = 0
        """The version up to which the watch has delivered changes."""
        self._noted: dict[Key, Version] = {}
        """The versions of stored responses to writes that the watch has not passed yet."""
        self._listed: set[Key] = set()
        """The keys of the objects in the current list that have arrived."""
        self._list_version: Version = 0
        """The version of the current list. For a streaming list, that of its newest event."""
        self._subscribers: list[Change[T]] = []
        self._last_sign: float | None = None
        self.synced = False
        """Whether the first list has been read, or the resource is known not to be served."""
        self._has_synced = asyncio.Event()
        self.served = True
        """Whether the cluster serves the resource."""

    # Methods that read the store.

    async def until_synced(self) -> None:
        """Wait until the first list has been read, or the resource is known not to be served."""
        await self._has_synced.wait()

    def ready(self, resource: object) -> Self:
        """Return this store. Raise Unavailable, which names `resource`, if it isn't synced."""
        if not self.synced:
            raise Unavailable(
                f"the cache of {resource} is not filled yet; try again in a few seconds"
            )
        return self

    def read(self, obj: Object) -> T | None:
        """Return the projection of an object that the watch has not delivered, or None."""
        return self._project(obj)

    def get(self, namespace: str, name: str) -> T | None:
        """Return the projection of an object, or None if none is stored."""
        return self._entries.get((namespace, name))

    def by_index(self, index: str, value: Key) -> list[T]:
        """Return the projections that have `value` among their values in `index`.

        Raise KeyError if there is no such index.
        """
        return [self._entries[key] for key in self._indexes[index].keys(value)]

    def values(self) -> list[T]:
        """Return all stored projections."""
        return list(self._entries.values())

    def lacks_some_of(self, namespace: str) -> bool:
        """Return whether some objects of a namespace may be too large to be stored in full."""
        return self._named_in[namespace] > 0 or namespace in self._unnamed_in

    def known_keys(self) -> list[Key]:
        """Return the keys of all stored objects, and of objects that are too large to be stored."""
        return [*self._entries, *(self.too_large.keys() - self._entries.keys())]

    def __len__(self) -> int:
        return len(self._entries)

    def age(self) -> float | None:
        """Return the seconds since the store was last up to date, or None if it never was.

        Each list, event, bookmark and regular end of a watch shows that it is up to date.
        """
        return None if self._last_sign is None else self._clock() - self._last_sign

    def subscribe(self, change: Change[T]) -> None:
        """Call `change` after each change of a stored projection."""
        self._subscribers.append(change)

    # Methods for the rest of the program.

    def note(self, obj: Object) -> None:
        """Store the object in the response to a write, before the watch delivers it.

        The object is ignored if the watch has passed its version, because it may have been deleted
        since.
        """
        key = _key(obj)
        version = _version(obj)
        seen = self._list_version if key in self._listed else self._version
        passed = self._noted.get(key, seen)
        if _is_older(self._version, version) and not _is_older(version, passed):
            self._noted[key] = version
            self._set(key, self._projected(key, obj, 0))

    def forget(self) -> None:
        """Empty the store until the next list, because the watch was not running for some time."""
        self._empty()
        self._noted.clear()
        self.synced = False
        self._has_synced.clear()
        self._version = 0
        self._last_sign = None
        self.served = True

    # Methods for the watch.

    def begin_list(self) -> None:
        """Start to replace the stored objects with the objects of a list.

        Afterwards, call `take_listed` for slices of the list or `take_streamed` for its events,
        then `drop_unlisted` for slices of `known_keys`, and `end_list`. If a list is not finished,
        the store has old and new objects until the next list.
        """
        self._noted.clear()
        self._listed.clear()
        self._list_version = 0

    def take_listed(
        self, items: Iterable[Object], resource_version: str = "0", length: int = 0
    ) -> None:
        """Store objects of a list.

        `resource_version` is the list's version. `length` is the maximum size of an object in
        bytes, or 0 if it is not known.
        """
        self._list_version = _number(resource_version)
        for item in items:
            key = _key(item)
            self._listed.add(key)
            self._replace(key, item, length)

    def take_streamed(self, event: WatchEvent) -> None:
        """Store or remove the object of an event that comes before the end of a streaming list.

        The existing objects come first, in no particular order. Newer events about changes follow.
        The version of the newest event so far counts as the list's version: for an object that has
        arrived, `note` accepts only newer responses.
        """
        if event.type == "BOOKMARK":
            return
        key = _key(event.object)
        version = _version(event.object)
        if not _is_older(version, self._list_version):
            self._list_version = version
        if event.type == "DELETED":
            self._listed.discard(key)
            if not self._was_noted_after(key, version):
                self._noted.pop(key, None)
                self._remove(key)
            return
        self._listed.add(key)
        self._replace(key, event.object, event.length)

    def drop_unlisted(self, keys: Iterable[Key], resource_version: str) -> None:
        """Remove the objects with `keys` that are not in the list.

        Objects from responses to later writes are kept. `resource_version` is the list's version.
        """
        version = _number(resource_version)
        self._version = version
        for key in keys:
            if key not in self._listed and not self._was_noted_after(key, version):
                self._remove(key)

    def end_list(self, resource_version: str) -> None:
        """Note that all objects of a list are stored. `resource_version` is the list's version."""
        self._listed = set()
        self._version = _number(resource_version)
        self.served = True
        self._set_synced()
        self.sign_of_life()

    def apply(self, event: WatchEvent) -> Version:
        """Apply an event of the watch, which may be a bookmark.

        Return the resourceVersion from which the next watch can continue.
        """
        self.sign_of_life()
        version = _version(event.object)
        self._version = version
        if event.type == "BOOKMARK":
            return version
        key = _key(event.object)
        if event.type != "DELETED":
            self._replace(key, event.object, event.length)
        elif not self._was_noted_after(key, version):
            self._noted.pop(key, None)
            self._remove(key)
        return version

    def sign_of_life(self) -> None:
        """Note that the store is up to date now."""
        self.end_problem()
        self._last_sign = self._clock()

    def end_problem(self) -> None:
        """Note that the list or watch works again."""
        self.problem = ""
        self.error = None

    def mark_not_served(self) -> None:
        """Empty the store, because the cluster does not serve the resource.

        After that, the store is synced.
        """
        self._empty()
        self.served = False
        self.end_problem()
        self._version = 0
        self._set_synced()

    def _set_synced(self) -> None:
        self.synced = True
        self._has_synced.set()

    def fail(self, problem: str, error: ClusterError, *, restart: str = "error") -> None:
        """Note that the store is not up to date because of an error of a list or a watch.

        `restart` is the reason under which the restart of the watch is counted.
        """
        self.count_restart(restart)
        self.problem = problem
        self.error = error

    def count_restart(self, reason: str) -> None:
        """Count a restart of the watch under `reason`."""
        self.restarts[reason] = self.restarts.get(reason, 0) + 1

    def restart_samples(self, name: str) -> Iterator[Sample]:
        """Yield the number of restarts of the watch of the resource `name`, by reason."""
        text = "Restarts of watches, by reason."
        for reason, count in self.restarts.items():
            yield counter("watch_restarts_total", text, count, resource=name, reason=reason)

    def _was_noted_after(self, key: Key, version: Version) -> bool:
        """Return whether a response to a write that is newer than `version` is stored."""
        # The start of a list clears _noted: after a restore of etcd, versions may be lower.
        return key in self._noted and _is_older(version, self._noted[key])

    def _replace(self, key: Key, obj: Object, length: int) -> None:
        """Store an object that was read, unless a response to a later write is stored."""
        if not self._was_noted_after(key, _version(obj)):
            self._noted.pop(key, None)
            self._set(key, self._projected(key, obj, length))

    def _projected(self, key: Key, obj: Object, length: int) -> T | None:
        """Return the projection of `obj` to store, or None if it is not stored.

        Also add the object to `too_large`, or remove it from there. The object has at most `length`
        bytes of JSON, or an unknown number of bytes if `length` is 0.
        """
        most = self._most_decoded
        if most is not None and not 0 < length <= most and len(to_json(obj)) > most:
            return self._too_large(key, obj)

        value = self._project(obj)
        if value is not None and not (self._has_place(key) and self._is_small(key, value, length)):
            return self._too_large(key, obj)
        if value is None or not self._is_cut(value):
            self._unname(key)
        else:
            self._name(key, obj)
        return value

    def _too_large(self, key: Key, obj: Object) -> T | None:
        """Add an object that exceeds a limit to `too_large`, and return its `rest` to store.

        Return None if `rest` returns None or too many bytes.
        """
        self._name(key, obj)
        self._release(key)
        rest = self._rest(obj)
        return rest if rest is not None and len(to_json(rest)) <= MOST_OF_REST else None

    def _name(self, key: Key, obj: Object) -> None:
        """Add an object to `too_large`, unless this names MOST_NAMED objects of its namespace."""
        namespace = key[0]
        if key not in self.too_large:
            if self._named_in[namespace] >= MOST_NAMED:
                self._unnamed_in.add(namespace)
                return
            self._named_in[namespace] += 1
        self.too_large[key] = _uid(obj)

    def _unname(self, key: Key) -> None:
        """Remove an object from `too_large`, if it is there."""
        if self.too_large.pop(key, None) is not None:
            self._named_in[key[0]] -= 1

    def _has_place(self, key: Key) -> bool:
        """Return whether a projection is stored already, or its namespace may have one more."""
        if self._most_objects is None or not key[0]:
            return True
        is_stored = key in self._entries and key not in self.too_large
        return is_stored or self._number_in[key[0]] < self._most_objects

    def _is_small(self, key: Key, value: T, length: int) -> bool:
        """Return whether a projection is within its own limit and the limit of its namespace.

        If so, count its bytes beyond FREE in the namespace.
        """
        self._release(key)
        if 0 < length <= min(self._most, FREE):
            return True
        limit = self._most_of_namespace if key[0] else None
        is_known_small = 0 < length <= self._most
        if is_known_small and limit is None:
            return True
        size = len(to_json(value))
        if is_known_small:
            size = min(size, length)  # a value of type bytes is longer in JSON
        elif size > self._most:
            return False
        excess = size - FREE
        if limit is None or excess <= 0:
            return True
        if self._excess_in[key[0]] + excess > limit:
            return False
        self._excess[key] = excess
        self._excess_in[key[0]] += excess
        return True

    def _release(self, key: Key) -> None:
        """Stop counting the bytes of the stored projection of `key`."""
        excess = self._excess.pop(key, 0)
        if excess:
            self._excess_in[key[0]] -= excess

    def _remove(self, key: Key) -> None:
        self._unname(key)
        self._set(key, None)

    def _empty(self) -> None:
        for key in self.known_keys():
            self._remove(key)

    def _set(self, key: Key, value: T | None) -> None:
        """Store `value` under `key`, or remove `key` for None. Call the subscribers on a change."""
        before = self._entries.get(key)
        self._number_in[key[0]] += (value is not None) - (before is not None)
        if value is None:
            self._entries.pop(key, None)
            self._release(key)
        else:
            self._entries[key] = value

        if before == value:
            return

        for index in self._indexes.values():
            index.move(key, before, value)

        for change in self._subscribers:
            change(key, before, value)


class _Index(Struct, Generic[T]):
    """The keys of the stored projections by index value."""

    function: IndexFunction[T]
    """A function that returns the index values of a projection."""
    _keys: dict[Key, Key | dict[Key, None]] = {}
    """The keys by index value.

    Most index values have a single key. This key is stored without a dict, which would take 200
    bytes.
    """

    def keys(self, value: Key) -> list[Key]:
        """Return the keys of the projections that have this index value."""
        current = self._keys.get(value)
        if current is None:
            return []
        return list(current) if isinstance(current, dict) else [current]

    def move(self, key: Key, before: T | None, after: T | None) -> None:
        """Move `key` from the index values of the old projection to those of the new one."""
        values_before = set() if before is None else set(self.function(before))
        values_after = set() if after is None else set(self.function(after))
        for value in values_before - values_after:
            self._remove(value, key)
        for value in values_after - values_before:
            self._add(value, key)

    def _add(self, value: Key, key: Key) -> None:
        current = self._keys.get(value)
        if current is None:
            self._keys[value] = key
        elif isinstance(current, dict):
            current[key] = None
        else:
            self._keys[value] = {current: None, key: None}

    def _remove(self, value: Key, key: Key) -> None:
        current = self._keys.get(value)
        if isinstance(current, dict) and len(current) > 1:
            current.pop(key, None)
        elif current is not None:
            del self._keys[value]


def _key(obj: Object) -> Key:
    metadata = obj["metadata"]
    return intern(metadata.get("namespace") or ""), intern(metadata["name"])


def _uid(obj: Object) -> str:
    return str(obj["metadata"].get("uid") or "")


def _version(obj: Object) -> Version:
    return _number(obj["metadata"].get("resourceVersion") or "0")


def _number(version: str) -> Version:
    """Return a resourceVersion as a number, or unchanged if it is not a number."""
    return int(version) if version.isascii() and version.isdigit() else version


def _is_older(version: Version, other: Version) -> bool:
    """Return whether `version` is older than `other`, or False if they cannot be compared."""
    return isinstance(version, int) and isinstance(other, int) and version < other
