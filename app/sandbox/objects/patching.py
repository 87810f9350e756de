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
    "matchConditions": "name",
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
    """A copy of `obj` with `patch` applied. Raises 415 for a type that is not supported (strategic merge patch of a
    `custom` resource, server-side apply), 422 for a JSON Patch that cannot be applied, and 400 for a malformed one."""
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
    """A copy of `obj` with the `operations` (RFC 6902) applied. Raises 400 if they are not a list of operations, and
    422 if one of them cannot be applied."""
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
    """In a map, `replace` of a missing key adds the key, as in the library that kube-apiserver uses:
    https://github.com/evanphx/json-patch/blob/v4.12.0/patch.go."""
    if operation.get("op") != "replace":
        return operation
    parent, key = jsonpointer.JsonPointer(operation.get("path") or "").to_last(obj)
    return {**operation, "op": "add"} if isinstance(parent, dict) and key is not None else operation


def merge(current: Any, patch: Object) -> Object:
    """Applies `patch` to `current` in place (RFC 7386): null removes, maps are merged, everything else replaces."""
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
    """As `merge`, but known lists are merged by the key of their items, and the directives `$patch`, `$retainKeys`,
    `$setElementOrder` and `$deleteFromPrimitiveList` are applied:
    https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/. New items are appended,
    unless `$setElementOrder` gives them another place. Raises 400 for an item without its key."""
    if "$patch" in patch:
        return {key: value for key, value in patch.items() if key != "$patch" and patch["$patch"] == "replace"}
    before: Object = current if isinstance(current, dict) else {}
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
            target[name] = _ordered(target[name], order, _merge_key(name, order))
    return target


def _strategic_value(name: str, current: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return _strategic(current, value)
    if not isinstance(value, list):
        return value
    existing = current if isinstance(current, list) else []
    if name in _PRIMITIVE_SETS:
        return [*existing, *(item for item in value if item not in existing)]
    key = _merge_key(name, value)
    return _merge_list(existing, value, key) if key else value


def _merge_key(name: str, items: list[Any]) -> str:
    """The field that identifies the items of a list, or "" if the list is replaced as a whole. Ports of containers have
    another key than those of Services."""
    if not all(isinstance(item, dict) for item in items):
        return ""
    if name == "ports":
        return next((key for key in ("containerPort", "port") if any(key in item for item in items)), "")
    return _MERGE_KEYS.get(name, "")


def _merge_list(current: list[Object], items: list[Object], key: str) -> list[Object]:
    if any(item.get("$patch") == "replace" for item in items):
        return [item for item in items if "$patch" not in item]
    merged = {item.get(key): item for item in current}
    for item in items:
        if key not in item:
            raise errors.bad_request(f"the patch has an item without its merge key {key}: {item}")
        if item.get("$patch") == "delete":
            merged.pop(item[key], None)
        else:
            merged[item[key]] = _strategic(merged.get(item[key]), item)
    return list(merged.values())


def _ordered(items: list[Any], order: list[Any], key: str) -> list[Any]:
    """`items` in the order of `order`, which has their keys; items that it lacks come last."""

    def identity(item: Any) -> Any:
        return item.get(key) if key else item

    identities = [identity(item) for item in order]
    return sorted(
        items, key=lambda item: identities.index(identity(item)) if identity(item) in identities else len(identities)
    )
