"""What the server itself does to an object around a write: identity, names, generation, and who owns `status`."""

import secrets
import uuid

from app.sandbox.objects import errors
from app.sandbox.objects.objects import Object, is_deleting, metadata, timestamp
from app.sandbox.objects.resources import Served

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED_LENGTH = 63
_NAMESPACES = ("", "namespaces")
_SERVER_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def check_identity(served: Served, obj: Object, namespace: str, name: str) -> None:
    """The body must mean the object that the path names; fills in what it leaves out. Raises 400."""
    said = (obj.get("apiVersion") or served.api_version, obj.get("kind") or served.kind)
    if said != (served.api_version, served.kind):
        raise errors.bad_request(
            f'{said[1]} in version "{said[0]}" cannot be handled as a {served.kind} in version "{served.api_version}"'
        )
    obj["apiVersion"], obj["kind"] = said
    if not isinstance(obj.setdefault("metadata", {}), dict):
        raise errors.bad_request("metadata must be an object")
    meta = obj["metadata"]
    if served.namespaced and (meta.setdefault("namespace", namespace) or namespace) != namespace:
        raise errors.bad_request(
            f"the namespace of the object ({meta['namespace']}) does not match that on the request ({namespace})"
        )
    if not served.namespaced:
        meta.pop("namespace", None)
    if name and (meta.setdefault("name", name) or name) != name:
        message = f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
        raise errors.bad_request(message)


def strip_for_create(served: Served, obj: Object) -> None:
    """Takes from a new object what only the server writes."""
    meta = obj["metadata"]
    if meta.get("resourceVersion"):
        raise errors.bad_request("resourceVersion should not be set on objects to be created")
    for key in (*_SERVER_FIELDS, "resourceVersion", "selfLink"):
        meta.pop(key, None)
    if served.has_status:
        obj.pop("status", None)


def complete_new(served: Served, obj: Object) -> None:
    """After mutating and before validating admission: name, uid, creationTimestamp, generation, first status."""
    meta = obj["metadata"]
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = _generated(meta["generateName"])
    meta |= {"uid": str(uuid.uuid4()), "creationTimestamp": timestamp()}
    if served.has_generation:
        meta["generation"] = 1
    if served.table == _NAMESPACES:
        keep_own_label(served, obj)
        obj["spec"] = {**(obj.get("spec") or {}), "finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}
    if served.table == ("", "pods"):
        obj["status"] = {"phase": "Pending"}


def _generated(prefix: str) -> str:
    """A long prefix is cut: what is generated also fits into a label."""
    suffix = "".join(secrets.choice(_SUFFIX) for _ in range(5))
    return prefix[: _GENERATED_LENGTH - len(suffix)] + suffix


def keep_own_label(served: Served, obj: Object) -> None:
    """A namespace always carries its name as a label, which webhooks select it by."""
    if served.table == _NAMESPACES:
        meta = obj["metadata"]
        meta["labels"] = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": meta.get("name") or ""}


def carry_over(served: Served, new: Object, old: Object, subresource: str) -> Object:
    """What an update may change of `old`: /status only the status, the main endpoint everything but the status."""
    meta, before = new["metadata"], metadata(old)
    if meta.get("uid") and meta["uid"] != before["uid"]:
        why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {before['uid']}"
        raise errors.conflict(served.group, served.plural, before["name"], why)
    if subresource == "status":
        changed = {**old, "metadata": dict(before)}
        changed.pop("status", None)
        return {**changed, "status": new["status"]} if "status" in new else changed
    for key in _SERVER_FIELDS:
        meta.pop(key, None)
        if key in before:
            meta[key] = before[key]
    if served.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    keep_own_label(served, new)
    return new


def bump_generation(served: Served, new: Object, old: Object) -> None:
    if served.has_generation and _desired(served, new) != _desired(served, old):
        new["metadata"]["generation"] = (metadata(old).get("generation") or 0) + 1


def _desired(served: Served, obj: Object) -> Object:
    passed_over = ("metadata", "status") if served.has_status else ("metadata",)
    return {key: value for key, value in obj.items() if key not in passed_over}


def is_unchanged(new: Object, old: Object) -> bool:
    """A write of this is a no-op: nothing but the resourceVersion differs."""
    if any(new.get(key) != old.get(key) for key in {*new, *old} - {"metadata"}):
        return False
    mine, theirs = dict(metadata(new)), dict(metadata(old))
    mine.pop("resourceVersion", None)
    theirs.pop("resourceVersion", None)
    return mine == theirs


def check_finalizers(served: Served, new: Object, old: Object) -> None:
    """An object that is being deleted may lose finalizers, not gain any."""
    added = set(metadata(new).get("finalizers") or ()) - set(metadata(old).get("finalizers") or ())
    if is_deleting(old) and added:
        said = "no new finalizers can be added if the object is being deleted, found new finalizers"
        listed = ", ".join(f'"{one}"' for one in sorted(added))
        message = f"Forbidden: {said} []string{{{listed}}}"
        cause = {"reason": "FieldValueForbidden", "message": message, "field": "metadata.finalizers"}
        raise errors.invalid(served.group, served.kind, metadata(old)["name"], [cause])


def marked_deleted(served: Served, obj: Object) -> Object:
    """`obj` on its way out: it stays until its finalizers are gone."""
    meta = {**metadata(obj), "deletionTimestamp": timestamp(), "deletionGracePeriodSeconds": 0}
    if meta.get("generation"):
        meta["generation"] += 1
    marked = {**obj, "metadata": meta}
    if served.table == _NAMESPACES:
        marked["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
    return marked
