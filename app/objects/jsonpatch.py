"""Apply a JSON Merge Patch (RFC 7386), and check whether a JSON Patch (RFC 6902) applies.

This module does not apply JSON Patches: callers use the library jsonpatch for that.
"""

from collections.abc import Iterable
from typing import Any

Operation = dict[str, Any]
"""An operation of a JSON Patch."""


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """Return `target` with `patch` applied. Neither argument is changed.

    null deletes a member, maps are merged, and lists and scalars are replaced.
    """
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), value)
    return result


def applies(obj: Any, patch: Iterable[Operation]) -> bool:
    """Return whether every operation of `patch` can be applied to `obj`, which is not changed.

    An `add` needs an existing parent. A `replace` or `remove` needs an existing value. Directly in
    a list, only appending (`-`) is accepted. The check is only valid for patches of
    `edits.operations`, in which no operation changes a value that another operation has added.
    """
    for operation in patch:
        path = operation["path"]
        steps = path.split("/")
        if "~" in path:
            steps = [step.replace("~1", "/").replace("~0", "~") for step in steps]
        last = steps.pop()
        parent = _resolve(obj, steps)
        if isinstance(parent, list):
            if last != "-":
                return False
        elif not isinstance(parent, dict) or (operation["op"] != "add" and last not in parent):
            return False
    return True


def _resolve(target: Any, steps: list[str]) -> Any:
    """Return the value at a JSON pointer, or None if it does not exist.

    `steps` is the pointer split at its slashes, so that its first item is empty.
    """
    for step in steps[1:]:
        if isinstance(target, dict):
            target = target.get(step)
        elif isinstance(target, list) and step.isdecimal() and int(step) < len(target):
            target = target[int(step)]
        else:
            return None
    return target
