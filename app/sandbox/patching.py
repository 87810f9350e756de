"""The patch types: JSON Merge Patch (RFC 7386), JSON Patch (RFC 6902) and a useful part of strategic merge patch."""

from collections.abc import Iterable
from typing import Any

import jsonpatch
import jsonpointer

from app.sandbox import errors
from app.sandbox.objects import Object, copy

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

_MERGE_KEYS = {
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "resourceClaims": "name",
    "secrets": "name",
    "taints": "key",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
    "webhooks": "name",
}
_PRIMITIVE_SETS = frozenset({"finalizers"})


def apply_patch(obj: Object, patch: Any, media_type: str, *, custom: bool = False) -> Object:
    """`obj` (left untouched) with `patch` applied. Raises 415 for a type that isn't served (strategic merge patch of
    a `custom` resource, server-side apply), 422 for a JSON Patch that doesn't apply, 400 for a malformed one."""
    if media_type == JSON:
        return apply_json(obj, patch)
    if not isinstance(patch, dict):
        raise errors.bad_request("the patch must be an object")
    if media_type == MERGE:
        return merge(copy(obj), patch)
    if media_type == STRATEGIC and not custom:
        return _strategic(copy(obj), patch)
    raise errors.unsupported_media_type(_unsupported(media_type))


def _unsupported(media_type: str) -> str:
    if media_type == APPLY:
        return "the sandbox does not serve server-side apply: use kubectl apply without --server-side"
    return (
        "the body of the request was in an unknown format - accepted media types include: "
        f"{JSON}, {MERGE} (and {STRATEGIC} for built-in kinds), not {media_type!r}"
    )


def apply_json(obj: Object, operations: Any) -> Object:
    try:
        patched: Object = jsonpatch.apply_patch(copy(obj), operations)
    except (jsonpatch.InvalidJsonPatch, TypeError) as error:
        raise errors.bad_request(f"the JSON patch is malformed: {error}") from error
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
        message = "the server rejected our request due to an error in our request"
        raise errors.ApiError(422, "Invalid", message, {"causes": [{"message": str(error)}]}) from error
    return patched


def merge(current: Any, patch: Object) -> Object:
    """RFC 7386, in place: null removes, maps merge, everything else replaces."""
    target: Object = current if isinstance(current, dict) else {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            target[key] = merge(target.get(key), value)
        else:
            target[key] = value
    return target


def _strategic(current: Any, patch: Object) -> Object:
    """As `merge`, but known lists of maps merge by their key and `$patch`, `$deleteFromPrimitiveList` are obeyed;
    `$setElementOrder` and `$retainKeys` are passed over."""
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    target: Object = current if isinstance(current, dict) else {}
    for key, value in patch.items():
        if key.startswith("$"):
            _directive(target, key, value)
        elif value is None or (isinstance(value, dict) and value.get("$patch") == "delete"):
            target.pop(key, None)
        else:
            target[key] = _strategic_value(key, target.get(key), value)
    return target


def _directive(target: Object, key: str, value: Any) -> None:
    if key.startswith("$deleteFromPrimitiveList/"):
        name = key.partition("/")[2]
        target[name] = [item for item in target.get(name) or () if item not in value]


def _strategic_value(key: str, current: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return _strategic(current, value)
    if not isinstance(value, list) or not isinstance(current, list):
        return _stripped(value)
    if key in _PRIMITIVE_SETS:
        return current + [item for item in value if item not in current]
    if key in _MERGE_KEYS and all(isinstance(item, dict) for item in (*current, *value)):
        return _merge_list(current, value, _MERGE_KEYS[key])
    return value


def _merge_list(current: list[Object], items: Iterable[Object], key: str) -> list[Object]:
    items = list(items)
    if any(item.get("$patch") == "replace" for item in items):
        return [item for item in items if "$patch" not in item]
    merged = {item.get(key): item for item in current}
    for item in items:
        if item.get("$patch") == "delete":
            merged.pop(item.get(key), None)
        else:
            merged[item.get(key)] = _strategic(merged.get(item.get(key)), item)
    return list(merged.values())


def _stripped(value: Any) -> Any:
    """A list that meets no current one: without the elements that only say what to delete."""
    if not isinstance(value, list):
        return value
    return [item for item in value if not (isinstance(item, dict) and "$patch" in item)]
