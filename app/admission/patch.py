"""JSON Patch operations (RFC 6902) from edits, and their application. Operations are emitted directly: a generic diff
of two whole objects costs a thousand times more."""

import copy
import functools
from collections.abc import Iterable
from typing import Any

from app.domain.edits import ABSENT, Append, Change, Path, value_at
from app.domain.jsonpatch import apply_json_patch

Operation = dict[str, Any]


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


def applies(obj: Any, patch: Iterable[Operation]) -> bool:
    """Whether every operation finds its place in `obj`: a parent to add to, a value to replace or remove. For patches
    as `operations` makes them, where no operation reaches into what another one added."""
    for operation in patch:
        steps = operation["path"].split("/")
        last = _unescaped(steps.pop())
        parent = _resolve(obj, steps)
        if isinstance(parent, list):
            if last != "-":
                return False
        elif not isinstance(parent, dict) or (operation["op"] != "add" and last not in parent):
            return False
    return True


def _unescaped(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~") if "~" in step else step


def _resolve(target: Any, steps: list[str]) -> Any:
    """What stands at a pointer, split at its slashes (so the first step is empty); None where nothing does."""
    for step in steps[1:]:
        if isinstance(target, dict):
            target = target.get(_unescaped(step))
        elif isinstance(target, list) and step.isdecimal() and int(step) < len(target):
            target = target[int(step)]
        else:
            return None
    return target


def apply(obj: dict[str, Any], patch: Iterable[Operation]) -> dict[str, Any]:
    """`obj` with `patch` applied; the original is left alone. PatchError where an operation doesn't apply."""
    result: dict[str, Any] = apply_json_patch(copy.deepcopy(obj), copy.deepcopy(list(patch)))
    return result
