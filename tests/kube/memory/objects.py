"""What the API server does with one object, as pure functions: select, show, patch, check
preconditions.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from app.kube.api import (
    Conflict,
    Key,
    Object,
    ObjectRef,
    Patch,
    Rejected,
    Selection,
    error_from_status,
)
from app.objects.resource import Resource
from scripts.apiserver.objects import patching, selectors
from scripts.apiserver.objects.errors import ApiError


def copy_of(obj: Object) -> Object:
    copied: Object = msgspec.json.decode(msgspec.json.encode(obj))
    return copied


def key_of(obj: Object) -> Key:
    return obj["metadata"].get("namespace") or "", obj["metadata"]["name"]


def place(ref: ObjectRef) -> Key:
    return ref.namespace or "", ref.name


def without(obj: Object, *names: str) -> Object:
    return {name: value for name, value in obj.items() if name not in names}


def shown(obj: Object, metadata_only: bool) -> Object:
    if metadata_only:
        obj = {
            "apiVersion": "meta.k8s.io/v1",
            "kind": "PartialObjectMetadata",
            "metadata": obj["metadata"],
        }
    return copy_of(obj)


def is_selected(selection: Selection) -> Callable[[Object], bool]:
    """Return a predicate for the objects of a list or watch, by the selectors of the sandbox.

    Raises Rejected for a malformed selector.
    """
    resource = selection.resource
    namespace = selection.namespace
    try:
        table = (resource.group, resource.plural)
        by_fields = selectors.field_selector(selection.fields, table)
        matches = selectors.combined(selectors.label_selector(selection.labels), by_fields)
    except ApiError as error:
        raise error_from_status(error.status(), error.code) from None

    def selected(obj: Object) -> bool:
        in_namespace = namespace is None or obj["metadata"].get("namespace") == namespace
        return in_namespace and (matches is None or matches(obj))

    return selected


def patched(before: Object, patch: Patch) -> Object:
    kind = patching.JSON if isinstance(patch, list) else patching.MERGE
    try:
        result: Any = patching.apply_patch(before, patch, kind)
    except ApiError as error:
        raise error_from_status(error.status(), error.code) from None
    if not isinstance(result, dict) or not isinstance(result.get("metadata"), dict):
        raise Rejected("the patched object has no metadata", code=422, reason="Invalid")
    return copy_of(result)


def check_preconditions(
    resource: Resource, name: str, current: Object, preconditions: Object
) -> None:
    for field in ("uid", "resourceVersion"):
        asked = preconditions.get(field)
        actual = current["metadata"].get(field)
        if asked and asked != actual:
            text = f'Operation cannot be fulfilled on {resource} "{name}": {field} is {actual}, not {asked}'
            raise Conflict(text, code=409, reason="Conflict")


def server_metadata(before: Object, after: Object) -> Object:
    """The metadata a write leaves: what the server owns is as it was, whatever the caller wrote."""
    owned = (
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
    )
    kept = {name: before[name] for name in owned if name in before}
    return {**without(after, *owned), **kept}
