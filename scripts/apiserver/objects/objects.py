"""Define objects, keys, users and write options, and read the metadata of objects."""

from datetime import UTC, datetime
from typing import Any, dataclass_transform

import msgspec

Object = dict[str, Any]
"""A Kubernetes object as JSON. Stored objects are never changed in place: change a `copy`."""

Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is ""."""

TableId = tuple[str, str]
"""(group, plural) of a resource. A table stores the objects of all served versions."""


@dataclass_transform(frozen_default=True)
class Frozen(msgspec.Struct, frozen=True):
    """An immutable value. Values are compared and hashed by their fields."""


class User(Frozen):
    """An authenticated user."""

    name: str
    groups: tuple[str, ...]

    def info(self) -> Object:
        """Return the `userInfo` of an admission review."""
        return {"username": self.name, "uid": self.name, "groups": list(self.groups)}


def service_account(namespace: str, name: str) -> User:
    """Return the user of a ServiceAccount."""
    groups = (
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        "system:authenticated",
    )
    return User(f"system:serviceaccount:{namespace}:{name}", groups)


ADMIN = User("admin", ("system:masters", "system:authenticated"))
OPERATOR = service_account("grove-system", "grove-admission")
GROVE = service_account("grove-system", "grove-operator")
ALICE = User("alice", ("system:authenticated",))
COLLECTOR = service_account("kube-system", "generic-garbage-collector")


class Caller(msgspec.Struct):
    """The user and the write options of a request, and the warnings for its response."""

    user: User
    dry_run: bool = False
    field_validation: str = ""
    warnings: list[str] = []


def copy(obj: Object) -> Object:
    """Return a deep copy. msgspec is several times faster than copy.deepcopy."""
    copied: Object = msgspec.json.decode(msgspec.json.encode(obj))
    return copied


def metadata(obj: Object) -> Object:
    meta = obj.get("metadata")
    return meta if isinstance(meta, dict) else {}


def labels(obj: Object) -> dict[str, str]:
    return metadata(obj).get("labels") or {}


def owners_of(obj: Object) -> list[Object]:
    return metadata(obj).get("ownerReferences") or []


def key_of(obj: Object) -> Key:
    meta = metadata(obj)
    return meta.get("namespace") or "", meta.get("name") or ""


def resource_version(obj: Object) -> str:
    return str(metadata(obj).get("resourceVersion") or "")


def with_version(obj: Object, resource_version: str) -> Object:
    return {**obj, "metadata": {**metadata(obj), "resourceVersion": resource_version}}


def is_deleting(obj: Object) -> bool:
    return bool(metadata(obj).get("deletionTimestamp"))


def at(obj: Any, *path: str | int) -> Any:
    """Return the value at `path`, or None if there is none."""
    for step in path:
        if isinstance(obj, dict) and isinstance(step, str):
            obj = obj.get(step)
        elif isinstance(obj, list) and isinstance(step, int) and step < len(obj):
            obj = obj[step]
        else:
            return None
    return obj


def timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
