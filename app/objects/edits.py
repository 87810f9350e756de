"""What a rule wants changed in an object: values set at paths, or taken away. `operations` and the reconcilers
turn edits into patches; a rule never touches the object itself."""

import functools
from dataclasses import dataclass
from typing import Any

from app.objects.jsonpatch import Operation

Path = tuple[str | int, ...]


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()
"""The value of a path that isn't there, and the value to set where a path is to go."""


@dataclass(frozen=True, slots=True)
class Edit:
    """`value` is to stand at `path`; ABSENT means that nothing may stand there. Missing parents are made."""

    path: Path
    value: Any


@dataclass(frozen=True, slots=True)
class Append:
    """`value` is to be the last item of the list at `path`, which is made where it is missing or null."""

    path: Path
    value: Any


Change = Edit | Append


def value_at(obj: Any, path: Path) -> Any:
    """What stands at `path`, or ABSENT."""
    for step in path:
        if isinstance(obj, dict):
            obj = obj.get(step, ABSENT)
        elif isinstance(obj, list) and isinstance(step, int) and 0 <= step < len(obj):
            obj = obj[step]
        else:
            return ABSENT
    return obj


@functools.lru_cache(maxsize=4096)
def pointer(path: Path) -> str:
    """RFC 6901: `/` and `~` escaped. The same few paths are written in every object of a kind."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


def operations(obj: dict[str, Any], changes: list[Change]) -> list[Operation]:
    """The operations that make `changes` true of `obj`, in their order; none for what is already so.

    Missing or null parents are made, in one operation with what first goes into them. `obj` is not changed.
    """
    builder = _Builder(obj)
    for change in changes:
        if isinstance(change, Append):
            builder.append(change.path, change.value)
        elif change.value is ABSENT:
            builder.remove(change.path)
        else:
            builder.put(change.path, change.value)
    return builder.operations


class _Builder:
    """Emits operations; `fresh` holds the containers that it made itself, which later changes fill in place."""

    def __init__(self, obj: dict[str, Any]) -> None:
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

    def append(self, path: Path, value: Any) -> None:
        current = self._at(path)
        if path in self._fresh:
            self._fresh[path].append(value)
        elif isinstance(current, list):
            self.operations.append({"op": "add", "path": f"{pointer(path)}/-", "value": value})
        else:
            self._emit("add", path, [value])

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
