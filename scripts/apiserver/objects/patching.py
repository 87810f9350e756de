"""Apply patches of all supported types.

They are JSON Merge Patch (RFC 7386), JSON Patch (RFC 6902) and strategic merge patch. A strategic
merge patch merges only known lists.
"""

from typing import Any

import jsonpatch
import jsonpointer

from scripts.apiserver.objects import errors
from scripts.apiserver.objects.objects import Object, copy

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

_BY_NAME = (
    "containers",
    "env",
    "imagePullSecrets",
    "initContainers",
    "matchConditions",
    "resourceClaims",
    "schedulingGates",
    "secrets",
    "volumes",
    "webhooks",
)
_MERGE_KEYS = {
    **dict.fromkeys(_BY_NAME, "name"),
    "conditions": "type",
    "ownerReferences": "uid",
    "reservedFor": "uid",
    "topologySpreadConstraints": "topologyKey",
    "volumeMounts": "mountPath",
}
_DELETED = "$deleteFromPrimitiveList/"


def apply_patch(obj: Object, patch: Any, media_type: str, *, custom: bool = False) -> Object:
    """Return a copy of `obj` with `patch` applied.

    Raise 415 for a type that is not supported (strategic merge patch of a `custom` resource,
    server-side apply), 422 for a JSON Patch that cannot be applied, and 400 for a malformed one.
    """
    if media_type == JSON:
        return apply_json(obj, patch)
    if not isinstance(patch, dict):
        raise errors.bad_request("the patch must be an object")
    if media_type == MERGE or (media_type == STRATEGIC and not custom):
        return _merged(copy(obj), patch, media_type == STRATEGIC)
    if media_type == APPLY:
        why = (
            "the sandbox does not serve server-side apply: use kubectl apply without --server-side"
        )
        raise errors.unsupported_media_type(why)

    raise errors.unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: "
        f"{JSON}, {MERGE} (and {STRATEGIC} for built-in kinds), not {media_type!r}"
    )


def apply_json(obj: Object, operations: Any) -> Object:
    """Return a copy of `obj` with the `operations` (RFC 6902) applied.

    Raise 400 if they are not a list of operations, and 422 if one of them cannot be applied.
    """
    if not isinstance(operations, list) or not all(isinstance(item, dict) for item in operations):
        raise errors.bad_request("the JSON patch is malformed: it must be a list of operations")

    try:
        patched: Object = jsonpatch.apply_patch(copy(obj), operations, in_place=True)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError) as error:
        message = "the server rejected our request due to an error in our request"
        raise errors.ApiError(
            422, "Invalid", message, {"causes": [{"message": str(error)}]}
        ) from error

    return patched


def _merged(current: Any, patch: Object, strategic: bool) -> Object:
    """Return `current` with `patch` (RFC 7386).

    Null removes a value, maps are merged, and every other value replaces the current one.

    In a `strategic` patch, known lists are merged by the key of their items, and the directives
    that kubectl computes, `$patch: delete` of items and `$deleteFromPrimitiveList`, are applied:
    https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/.
    Other directives are ignored: new items are appended. Raise 400 for an item without its key, and
    for any other `$patch`.
    """
    if strategic and "$patch" in patch:
        raise errors.bad_request(
            f"the sandbox supports $patch only to delete items of lists: {patch}"
        )

    target: Object = {**current} if isinstance(current, dict) else {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            target[key] = _merged(target.get(key), value, strategic)
        elif strategic and isinstance(value, list):
            _merge_list(target, key, value)
        else:
            target[key] = value

    return _without_directives(target) if strategic else target


def _without_directives(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if not key.startswith("$")}


def _merge_list(target: Object, key: str, items: list[Any]) -> None:
    """Merge the list of a strategic patch into `target`, or delete the items that it lists."""
    if key.startswith(_DELETED):
        name = key.removeprefix(_DELETED)
        target[name] = [item for item in target.get(name) or () if item not in items]
    else:
        target[key] = _merged_list(key, target.get(key) or [], items)


def _merged_list(name: str, current: list[Any], items: list[Any]) -> list[Any]:
    if name == "finalizers":
        return [*current, *(item for item in items if item not in current)]

    key = _merge_key(name, items)
    if not key:
        return items

    merged = {item.get(key): item for item in current}
    for item in items:
        if key not in item:
            raise errors.bad_request(f"the patch has an item without its merge key {key}: {item}")
        if item.get("$patch") == "delete":
            merged.pop(item[key], None)
        else:
            merged[item[key]] = _merged(merged.get(item[key]), item, True)

    return list(merged.values())


def _merge_key(name: str, items: list[Any]) -> str:
    """Return the field that identifies the items of a list.

    It is "" if the whole list is replaced. The key differs between ports of containers and ports of
    Services.
    """
    if name == "ports":
        return next(
            (key for key in ("containerPort", "port") if any(key in item for item in items)), ""
        )
    return _MERGE_KEYS.get(name, "")
