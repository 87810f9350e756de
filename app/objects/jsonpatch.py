"""JSON Merge Patch (RFC 7386) and JSON Patch (RFC 6902, without `move` and `copy`), as pure functions."""

import copy
from collections.abc import Iterable
from typing import Any

Operation = dict[str, Any]
"""An operation of a JSON Patch."""


class PatchError(ValueError):
    """An operation doesn't apply. The message names it."""


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """Returns `target` with `patch` merged in: null deletes a member, maps are
    merged, lists and scalars are replaced. Neither argument is changed."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), value)
    return result


def apply_json_patch(target: Any, operations: list[Operation]) -> Any:
    """Applies `operations` to `target`, which is changed, and returns the result.
    PatchError if an operation doesn't apply."""
    for operation in operations:
        target = _apply(target, operation)
    return target


def _apply(target: Any, operation: Operation) -> Any:
    name, path = operation.get("op"), str(operation.get("path", ""))
    if name not in ("add", "replace", "remove", "test"):
        raise _refused(operation, f"unsupported operation {name!r}")
    if name != "remove" and "value" not in operation:
        raise _refused(operation, "no value")
    tokens = _tokens(operation, path)
    if not tokens:
        return _apply_to_root(target, operation)
    parent = target
    for token in tokens[:-1]:
        parent = _child(parent, token, operation)
    _apply_to_child(parent, tokens[-1], operation)
    return target


def _tokens(operation: Operation, path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise _refused(operation, "a path begins with /")
    return [_unescaped(token) for token in path.split("/")[1:]]


def _apply_to_root(target: Any, operation: Operation) -> Any:
    if operation["op"] == "remove":
        raise _refused(operation, "the whole object can't be removed")
    if operation["op"] == "test":
        _test(target, operation)
        return target
    return operation["value"]


def _apply_to_child(parent: Any, token: str, operation: Operation) -> None:
    if operation["op"] == "add":
        _add(parent, token, operation)
        return
    current = _child(parent, token, operation)
    key: Any = int(token) if isinstance(parent, list) else token
    if operation["op"] == "test":
        _test(current, operation)
    elif operation["op"] == "replace":
        parent[key] = operation["value"]
    else:
        del parent[key]


def _add(parent: Any, token: str, operation: Operation) -> None:
    if isinstance(parent, dict):
        parent[token] = operation["value"]
    elif isinstance(parent, list):
        position = len(parent) if token == "-" else _position(token, len(parent) + 1, operation)
        parent.insert(position, operation["value"])
    else:
        raise _refused(operation, "the parent is neither a map nor a list")


def _child(parent: Any, token: str, operation: Operation) -> Any:
    if isinstance(parent, dict) and token in parent:
        return parent[token]
    if isinstance(parent, list):
        return parent[_position(token, len(parent), operation)]
    raise _refused(operation, "no such path")


def _position(token: str, length: int, operation: Operation) -> int:
    if not token.isascii() or not token.isdigit() or int(token) >= length:
        raise _refused(operation, "no such list position")
    return int(token)


def _test(current: Any, operation: Operation) -> None:
    if current != operation["value"]:
        raise _refused(operation, "the test failed")


def _refused(operation: Operation, reason: str) -> PatchError:
    return PatchError(f"JSON patch operation {operation.get('op')} {operation.get('path')!r} doesn't apply: {reason}")


def applies(obj: Any, patch: Iterable[Operation]) -> bool:
    """Whether every operation applies to `obj`, which is not changed: there is a parent to add to, or a value to
    replace or remove. For patches made by `edits.operations`, in which no operation changes what another one added."""
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
    """Returns the value at a JSON pointer that was split at its slashes, or None. The first step is empty."""
    for step in steps[1:]:
        if isinstance(target, dict):
            target = target.get(_unescaped(step))
        elif isinstance(target, list) and step.isdecimal() and int(step) < len(target):
            target = target[int(step)]
        else:
            return None
    return target


def apply(obj: dict[str, Any], patch: Iterable[Operation]) -> dict[str, Any]:
    """Returns a copy of `obj` to which `patch` was applied. PatchError if an operation doesn't apply."""
    result: dict[str, Any] = apply_json_patch(copy.deepcopy(obj), copy.deepcopy(list(patch)))
    return result
