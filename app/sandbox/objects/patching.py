"""The patch types: JSON Merge Patch (RFC 7386), JSON Patch (RFC 6902) and strategic merge patch of known lists."""

from typing import Any

import jsonpatch
import jsonpointer

from app.sandbox.objects import errors
from app.sandbox.objects.objects import Object, copy

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

_MERGE_KEYS = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "reservedFor": "uid",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
    "webhooks": "name",
}
_PRIMITIVE_SETS = frozenset({"finalizers", "podCIDRs"})
_ORDER, _DELETED = "$setElementOrder/", "$deleteFromPrimitiveList/"


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
    """RFC 6902 on a copy. Raises 400 for what is no list of operations, 422 for one that doesn't apply."""
    if not isinstance(operations, list) or not all(isinstance(item, dict) for item in operations):
        raise errors.bad_request("the JSON patch is malformed: it must be a list of operations")
    patched = copy(obj)
    try:
        for operation in operations:
            patched = jsonpatch.apply_patch(patched, [_replacing(patched, operation)], in_place=True)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError) as error:
        message = "the server rejected our request due to an error in our request"
        raise errors.ApiError(422, "Invalid", message, {"causes": [{"message": str(error)}]}) from error
    return patched


def _replacing(obj: Object, operation: Object) -> Object:
    """In a map, `replace` also adds what isn't there: so has it the real server's library."""
    if operation.get("op") != "replace":
        return operation
    parent, key = jsonpointer.JsonPointer(operation.get("path") or "").to_last(obj)
    return {**operation, "op": "add"} if isinstance(parent, dict) and key is not None else operation


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
    """As `merge`, but known lists of maps merge by their key and directives are obeyed: `$patch`, `$retainKeys`,
    `$setElementOrder`, `$deleteFromPrimitiveList`. As in apimachinery's pkg/util/strategicpatch. Raises 500 for a
    directive or an item that can't be understood, as the real server does."""
    if "$patch" in patch:
        return _directed(patch)
    before: Object = current if isinstance(current, dict) else {}
    _check_retained(patch)
    target = {key: before[key] for key in before if key in patch.get("$retainKeys", before)}
    for key, value in patch.items():
        if key.startswith(_DELETED):
            name = key.removeprefix(_DELETED)
            target[name] = [item for item in target.get(name) or () if item not in value]
        elif value is None or (isinstance(value, dict) and value.get("$patch") == "delete"):
            target.pop(key, None)
        elif not key.startswith("$"):
            target[key] = _strategic_value(key, target.get(key), value)
    for key, order in patch.items():
        name = key.removeprefix(_ORDER)
        if name != key and isinstance(target.get(name), list):
            target[name] = _ordered(target[name], order, before.get(name) or [], _merge_key(name, order))
    return target


def _directed(patch: Object) -> Object:
    if patch["$patch"] not in ("replace", "delete"):
        raise _unreadable(f"unknown patch type: {patch['$patch']} in map: {_shown(patch)}")
    rest = {key: value for key, value in patch.items() if key != "$patch"}
    return rest if patch["$patch"] == "replace" else {}


def _check_retained(patch: Object) -> None:
    given = [key for key, value in patch.items() if value is not None and not key.startswith("$")]
    if any(key not in patch.get("$retainKeys", given) for key in given):
        raise errors.bad_request("invalid patch format of retainKeys")


def _strategic_value(name: str, current: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return _strategic(current, value)
    if not isinstance(value, list):
        return value
    if isinstance(current, list) and name in _PRIMITIVE_SETS:
        added = [item for item in value if item not in current]
        return _ordered([*current, *added], value, current, "")
    key = _merge_key(name, value)
    if isinstance(current, list) and key and all(isinstance(item, dict) for item in (*current, *value)):
        return _merge_list(current, value, key)
    return [_strategic({}, item) if isinstance(item, dict) else item for item in value if not _is_directive(item)]


def _merge_key(name: str, items: list[Any]) -> str:
    """What tells the items of a list apart; "" if the list is replaced as a whole. Ports of containers have another
    key than those of services."""
    if name == "ports":
        return next((key for key in ("containerPort", "port") if any(key in item for item in items)), "")
    return _MERGE_KEYS.get(name, "")


def _merge_list(current: list[Object], items: list[Object], key: str) -> list[Object]:
    """The items in the order of the real server, which puts new ones first."""
    directives = [item["$patch"] for item in items if _is_directive(item)]
    plain = [item for item in items if not _is_directive(item)]
    _check_items(items, key, directives)
    if "replace" in directives:
        return plain
    deleted = [item[key] for item in items if _is_directive(item)]
    merged = {item.get(key): item for item in current if item.get(key) not in deleted}
    for item in plain:
        merged[item[key]] = _strategic(merged.get(item[key]), item)
    return _ordered(list(merged.values()), plain, current, key)


def _check_items(items: list[Object], key: str, directives: list[Any]) -> None:
    for item in items:
        if _is_directive(item) and item["$patch"] not in ("replace", "delete"):
            raise _unreadable(f"unknown patch type: {item['$patch']} in map: {_shown(item)}")
        if key not in item and item.get("$patch") != "replace" and "replace" not in directives:
            raise _unreadable(f"map: {_shown(item)} does not contain declared merge key: {key}")


def _is_directive(item: Any) -> bool:
    return isinstance(item, dict) and "$patch" in item


def _ordered(merged: list[Any], wanted: list[Any], before: list[Any], key: str) -> list[Any]:
    """`merged` with the items of `wanted` in its order; each of the others goes in front of the first of them that it
    stood in front of in `before`, else to the end."""

    def identity(item: Any) -> Any:
        return item.get(key) if key else item

    order, stood = [identity(item) for item in wanted], [identity(item) for item in before]
    named = sorted((item for item in merged if identity(item) in order), key=lambda item: order.index(identity(item)))
    others = [item for item in merged if identity(item) not in order]
    ordered: list[Any] = []
    for item in named:
        place = stood.index(identity(item)) if identity(item) in stood else -1
        while others and stood.index(identity(others[0])) < place:
            ordered.append(others.pop(0))
        ordered.append(item)
    return ordered + others


def _unreadable(message: str) -> errors.ApiError:
    return errors.ApiError(500, "", message)


def _shown(value: Any) -> str:
    """As Go prints it."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_shown(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(_shown(item) for item in value)}]"
    return str(value)
