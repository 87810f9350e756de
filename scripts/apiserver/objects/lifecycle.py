"""Set the fields that the server sets.

These are identity, names, generation and deletion. Updates of `status` are kept apart from other
updates.
"""

import secrets
import uuid

from scripts.apiserver.objects import errors
from scripts.apiserver.objects.objects import Object, metadata, timestamp
from scripts.apiserver.objects.resources import NAMESPACES, Served

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_SERVER_FIELDS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)


def check_identity(served: Served, obj: Object, namespace: str, name: str) -> None:
    """Add the apiVersion, kind, namespace and name of the request to `obj` if they are missing.

    Raise 400 if those of `obj` differ.
    """
    version = obj.get("apiVersion") or served.api_version
    kind = obj.get("kind") or served.kind
    if (version, kind) != (served.api_version, served.kind):
        raise errors.bad_request(
            f'{kind} in version "{version}" cannot be handled as a {served.kind} in version'
            f' "{served.api_version}"'
        )

    obj["apiVersion"], obj["kind"] = version, kind
    if not isinstance(obj.setdefault("metadata", {}), dict):
        raise errors.bad_request("metadata must be an object")

    meta = obj["metadata"]
    if served.namespaced:
        _check_namespace(meta, namespace)
    else:
        meta.pop("namespace", None)
    if name and (meta.setdefault("name", name) or name) != name:
        message = (
            f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
        )
        raise errors.bad_request(message)


def _check_namespace(meta: Object, namespace: str) -> None:
    if (meta.setdefault("namespace", namespace) or namespace) != namespace:
        raise errors.bad_request(
            f"the namespace of the object ({meta['namespace']}) does not match that on the request"
            f" ({namespace})"
        )


def strip_for_create(served: Served, obj: Object) -> None:
    """Remove the fields that only the server sets. Raise 400 for a resourceVersion."""
    meta = obj["metadata"]
    if meta.get("resourceVersion"):
        raise errors.bad_request("resourceVersion should not be set on objects to be created")
    for key in (*_SERVER_FIELDS, "resourceVersion", "selfLink"):
        meta.pop(key, None)
    if served.has_status:
        obj.pop("status", None)


def complete_new(served: Served, obj: Object) -> None:
    """Set the name, uid, creationTimestamp, generation and first status.

    This is done between mutating and validating admission.
    """
    meta = obj["metadata"]
    if not meta.get("name") and meta.get("generateName"):
        # cut a long prefix so that the name also fits into a label (63 characters)
        suffix = "".join(secrets.choice(_SUFFIX) for _ in range(5))
        meta["name"] = meta["generateName"][:58] + suffix

    meta |= {"uid": str(uuid.uuid4()), "creationTimestamp": timestamp()}
    if served.has_generation:
        meta["generation"] = 1
    if served.table == NAMESPACES:
        keep_own_label(served, obj)
        obj["spec"] = {**(obj.get("spec") or {}), "finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}

    if served.table == ("", "pods"):
        obj["status"] = {"phase": "Pending"}


def keep_own_label(served: Served, obj: Object) -> None:
    """Set the label of a Namespace that contains its name, for namespaceSelectors."""
    if served.table == NAMESPACES:
        meta = obj["metadata"]
        meta["labels"] = {
            **(meta.get("labels") or {}),
            "kubernetes.io/metadata.name": meta.get("name") or "",
        }


def carry_over(served: Served, new: Object, old: Object, subresource: str) -> Object:
    """Return `new` with the fields of `old` that the update cannot change.

    An update of `status` changes only the status. If the resource has a status subresource, other
    updates do not change the status. Raise 422 if the uid differs.
    """
    meta = new["metadata"]
    before = metadata(old)
    if subresource == "status":
        return _with_status_of(new, old)
    if meta.get("uid") not in (None, "", before.get("uid")):
        shown = f"Invalid value: {errors.shown(meta['uid'])}: field is immutable"
        immutable = errors.cause("Invalid", shown, ("metadata", "uid"))
        raise errors.invalid((served.group, served.kind), before["name"], [immutable])

    own = {key: value for key, value in meta.items() if key not in _SERVER_FIELDS}
    kept = (*_SERVER_FIELDS, "resourceVersion")
    new["metadata"] = own | {key: before[key] for key in kept if key in before}
    keep_own_label(served, new)

    return _with_status_of(old, new) if served.has_status else new


def _with_status_of(other: Object, obj: Object) -> Object:
    rest = {key: value for key, value in obj.items() if key != "status"}
    return {**rest, "status": other["status"]} if "status" in other else rest


def check_preconditions(served: Served, obj: Object, preconditions: Object) -> None:
    """Raise 409 if `obj` does not have the uid or resourceVersion in `preconditions`."""
    for name, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        expected = preconditions.get(name)
        actual = metadata(obj).get(name)
        if expected and expected != actual:
            why = (
                f"Precondition failed: {label} in precondition: {expected}, {label} in object meta:"
                f" {actual}"
            )
            raise errors.conflict(served.table, metadata(obj)["name"], why)


def bump_generation(served: Served, new: Object, old: Object) -> None:
    if served.has_generation and _desired(served, new) != _desired(served, old):
        new["metadata"]["generation"] = (metadata(old).get("generation") or 0) + 1


def _desired(served: Served, obj: Object) -> Object:
    ignored = ("metadata", "status") if served.has_status else ("metadata",)
    return {key: value for key, value in obj.items() if key not in ignored}


def marked_deleted(served: Served, obj: Object) -> Object:
    """Return `obj` with a deletionTimestamp. It stays until it has no finalizers."""
    meta = {**metadata(obj), "deletionTimestamp": timestamp(), "deletionGracePeriodSeconds": 0}
    if meta.get("generation"):
        meta["generation"] += 1
    marked = {**obj, "metadata": meta}
    if served.table == NAMESPACES:
        marked["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
    return marked
