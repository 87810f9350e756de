"""Describe edits of an object, which set or remove values at paths.

Rules return edits and never change the object itself. `operations` turns edits into a JSON Patch.
"""

import functools
from collections.abc import Iterable
from typing import Any

from app.base.value import Value
from app.objects.jsonpatch import Operation
from app.objects.shape import Object

Path = tuple[str | int, ...]


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()
"""The value of a path that doesn't exist. An edit with this value removes its path."""


class Edit(Value):
    """A change of one value of an object. Setting a value also creates its missing parents."""

    path: Path
    """The path of the value to set or remove."""
    value: Any
    """The value to set, or ABSENT to remove the path."""


def value_at(obj: Any, path: Path) -> Any:
    """Return the value at `path` of `obj`, or ABSENT if the path doesn't exist."""
    for step in path:
        if isinstance(obj, dict):
            obj = obj.get(step, ABSENT)
        elif isinstance(obj, list) and isinstance(step, int) and 0 <= step < len(obj):
            obj = obj[step]
        else:
            return ABSENT
    return obj


def pointer(path: Path) -> str:
    """Return `path` as a JSON pointer (RFC 6901)."""
    if any(isinstance(step, str) and len(step) > _LONGEST for step in path):
        return _pointer(path)
    return _cached_pointer(path)


def _pointer(path: Path) -> str:
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


_cached_pointer = functools.lru_cache(maxsize=4096)(_pointer)
"""`_pointer` with a cache, because most objects of a kind are edited at the same few paths."""

_LONGEST = 317
"""The length of the longest label key. Paths with a longer step are not cached.

Anybody can send a review with keys of several megabytes, which must not stay in memory.
"""


def operations(obj: Object, changes: Iterable[Edit]) -> list[Operation]:
    """Return the JSON Patch operations that apply `changes` to `obj`, in order.

    `obj` itself is not changed. A change whose value is already there needs no operation. Missing
    or null parents are created by one operation, together with their first content.
    """
    builder = _Builder(obj)
    for change in changes:
        if change.value is ABSENT:
            builder.remove(change.path)
        else:
            builder.put(change.path, change.value)
    return builder.operations


class _Builder:
    """A list of JSON Patch operations that grows with each change of an object.

    `_fresh` has the maps and lists that these operations add, by path. A later change inside such a
    value changes the value itself, so that no further operation is needed.
    """

    def __init__(self, obj: Object) -> None:
        self.operations: list[Operation] = []
        self._obj = obj
        self._fresh: dict[Path, Any] = {}
        self._removed: set[Path] = set()

    def put(self, path: Path, value: Any) -> None:
        current = self._at(path)
        if current == value and type(current) is type(value):
            return
        op = "replace" if current is not ABSENT else "add"
        self._emit(op, path, value)

    def remove(self, path: Path) -> None:
        if self._at(path) is ABSENT:
            return
        parent = self._fresh.get(path[:-1])
        if parent is not None:
            del parent[path[-1]]
        else:
            self.operations.append({"op": "remove", "path": pointer(path)})
            self._removed.add(path)

    def _at(self, path: Path) -> Any:
        if not self._fresh and not self._removed:
            return value_at(self._obj, path)
        for depth in range(len(path), 0, -1):
            if path[:depth] in self._fresh:
                return value_at(self._fresh[path[:depth]], path[depth:])
            if path[:depth] in self._removed:
                return ABSENT
        return value_at(self._obj, path)

    def _emit(self, op: str, path: Path, value: Any) -> None:
        parent = path[:-1]
        if parent in self._fresh:
            self._fresh[parent][path[-1]] = value
        elif parent and self._at(parent) in (ABSENT, None):
            self._emit("add", parent, {path[-1]: value})
        else:
            self.operations.append({"op": op, "path": pointer(path), "value": value})
        if isinstance(value, (dict, list)):
            self._fresh[path] = value
            self._removed.discard(path)
