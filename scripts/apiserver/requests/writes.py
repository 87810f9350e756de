"""Handle create, update, patch and delete.

The order is that of kube-apiserver: defaults, mutating webhooks, identity, schema, validating
webhooks, storage.

Only webhook calls are awaited. After them, the stored object is compared with the one that was read
before.
"""

import contextlib
import functools
from collections.abc import Callable

from msgspec.structs import replace

from scripts.apiserver.admission.attributes import Attributes
from scripts.apiserver.admission.chain import Admission
from scripts.apiserver.objects import errors, lifecycle, objectmeta, patching, resources
from scripts.apiserver.objects.errors import cause
from scripts.apiserver.objects.objects import (
    Caller,
    Frozen,
    Key,
    Object,
    at,
    copy,
    is_deleting,
    metadata,
    resource_version,
    timestamp,
    with_version,
)
from scripts.apiserver.objects.resources import CRDS, NAMESPACES, Registry, Served
from scripts.apiserver.storage import Storage

_ATTEMPTS = 5
Change = Callable[[Object], Object]


class Writer(Frozen):
    """Handlers that write to the storage, with admission.

    Arguments and return values are in the version of `served`.
    """

    storage: Storage
    registry: Registry
    admission: Admission

    async def create(
        self, served: Served, obj: Object, caller: Caller, namespace: str = ""
    ) -> Object:
        obj = copy(obj)
        lifecycle.check_identity(served, obj, namespace, "")
        lifecycle.strip_for_create(served, obj)
        name = metadata(obj).get("name") or ""
        self._check_namespace(served, namespace, name)

        settle = functools.partial(_settle, served)
        _check_known(served, settle(obj), caller)
        admitted = _admitted_namespace(served, (namespace, name))
        attributes = Attributes(served, "CREATE", admitted, name, caller, obj)
        obj = await self.admission.mutate(attributes, settle) or obj
        lifecycle.complete_new(served, obj)
        _check(served, obj, None)
        await self.admission.validate(replace(attributes, name=metadata(obj)["name"], obj=obj))

        stored = served.write(obj)
        if caller.dry_run:
            self.storage.check_absent(served.table, (namespace, metadata(obj)["name"]))
            return obj

        return served.read(self._defined(served, self.storage.insert(served.table, stored)))

    async def update(
        self, served: Served, key: Key, obj: Object, caller: Caller, subresource: str = ""
    ) -> Object:
        """Replace an object.

        Raise 409 if `obj` has a uid or a resourceVersion that is not the current one.
        """

        def replaced(current: Object) -> Object:
            replacement = copy(obj)
            lifecycle.check_identity(served, replacement, *key)
            lifecycle.check_preconditions(
                served, current, {"uid": metadata(replacement).get("uid")}
            )
            if served.schema and not resource_version(replacement):
                message = "Invalid value: 0x0: must be specified for an update"
                missing = cause("Invalid", message, ("metadata", "resourceVersion"))
                raise errors.invalid(served.table, key[1], [missing])
            return replacement

        return await self._change(served, key, replaced, caller, subresource)

    async def patch(
        self,
        served: Served,
        key: Key,
        patch: object,
        media_type: str,
        caller: Caller,
        subresource: str = "",
    ) -> Object:
        """Patch an object.

        Unless the patch has a resourceVersion, it is applied again if the object was changed in the
        meantime.
        """

        def patched(current: Object) -> Object:
            result = patching.apply_patch(
                current, patch, media_type, custom=served.schema is not None
            )
            is_named = bool(at(patch, "metadata", "resourceVersion"))
            if not is_named and resource_version(result) == resource_version(current):
                result["metadata"].pop("resourceVersion", None)
            lifecycle.check_identity(served, result, *key)
            return result

        return await self._change(served, key, patched, caller, subresource)

    async def delete(
        self,
        served: Served,
        key: Key,
        caller: Caller,
        *,
        preconditions: Object | None = None,
        bulk: bool = False,
    ) -> Object:
        """Remove an object, or set its deletionTimestamp if it has finalizers.

        Return its last state. `bulk` marks a deletion as part of the deletion of a collection, in
        which webhooks get no name.
        """
        stored = self.storage.existing(served.table, key)
        lifecycle.check_preconditions(served, stored, preconditions or {})
        old = served.read(stored)
        name = "" if bulk else key[1]
        attributes = Attributes(
            served, "DELETE", _admitted_namespace(served, key), name, caller, None, old
        )
        await self.admission.mutate(attributes, lambda obj: None)
        await self.admission.validate(attributes)
        if caller.dry_run:
            return old

        stored = self.storage.existing(served.table, key)
        lifecycle.check_preconditions(
            served, stored, {"uid": metadata(old)["uid"], **(preconditions or {})}
        )

        return served.read(self._remove_or_mark(served, key, stored))

    async def _change(
        self, served: Served, key: Key, change: Change, caller: Caller, subresource: str
    ) -> Object:
        for _ in range(_ATTEMPTS):
            attempted = Caller(caller.user, caller.dry_run, caller.field_validation)
            with contextlib.suppress(_RacedError):
                changed = await self._change_once(served, key, change, attempted, subresource)
                caller.warnings.extend(attempted.warnings)
                return changed
        raise errors.conflict(served.table, key[1])

    async def _change_once(
        self, served: Served, key: Key, change: Change, caller: Caller, subresource: str
    ) -> Object:
        stored = self.storage.existing(served.table, key)
        old = served.read(stored)
        new = change(old)
        version = resource_version(new)
        if version and version != resource_version(old):
            raise errors.conflict(served.table, key[1])

        new = copy(lifecycle.carry_over(served, new, old, subresource))
        namespace = _admitted_namespace(served, key)
        new = await self._admitted(
            Attributes(served, "UPDATE", namespace, key[1], caller, new, old, subresource), new, old
        )
        if caller.dry_run or with_version(new, resource_version(old)) == old:
            return new
        if self.storage.get(served.table, key) is not stored:
            raise errors.conflict(served.table, key[1]) if version else _RacedError

        return served.read(
            self._defined(served, self._store_or_remove(served, key, served.write(new), stored))
        )

    async def _admitted(self, attributes: Attributes, new: Object, old: Object) -> Object:
        """Return the object that replaces `old`, after the admission of `new`."""
        served = attributes.served
        subresource = attributes.subresource
        settle = functools.partial(_settle, served)
        _check_known(served, settle(new), attributes.caller)
        lifecycle.bump_generation(served, new, old)
        new = await self.admission.mutate(attributes, settle) or new
        new = copy(lifecycle.carry_over(served, new, old, subresource))
        if not subresource:
            lifecycle.bump_generation(served, new, old)

        _check(served, new, old)
        await self.admission.validate(replace(attributes, obj=new))

        return new

    def _store_or_remove(self, served: Served, key: Key, new: Object, stored: Object) -> Object:
        if is_deleting(new) and not self._must_stay(served, new):
            removed = self.storage.remove(served.table, key)
            return with_version(new, resource_version(removed))
        return self.storage.replace(served.table, new, resource_version(stored))

    def _remove_or_mark(self, served: Served, key: Key, stored: Object) -> Object:
        if not self._must_stay(served, stored):
            return self.storage.remove(served.table, key)
        if is_deleting(stored):
            return stored
        return self.storage.replace(
            served.table, lifecycle.marked_deleted(served, stored), resource_version(stored)
        )

    def _must_stay(self, served: Served, obj: Object) -> bool:
        """Return whether the object stays: it has finalizers, or it is a namespace with content."""
        if metadata(obj).get("finalizers"):
            return True
        return served.table == NAMESPACES and bool(self.storage.in_namespace(metadata(obj)["name"]))

    def _defined(self, served: Served, stored: Object) -> Object:
        """Return `stored`. If it is a CRD, update its status and serve its resources."""
        if served.table != CRDS or is_deleting(stored):
            return stored
        status = resources.established_status(stored, timestamp())
        if at(stored, "status", "acceptedNames") != status["acceptedNames"]:
            stored = self.storage.replace(
                CRDS, {**stored, "status": status}, resource_version(stored)
            )
        self.registry.install(stored)
        return stored

    def set_owners(self, table: tuple[str, str], obj: Object, owners: list[Object]) -> None:
        """Replace the owner references, without admission."""
        meta = {key: value for key, value in metadata(obj).items() if key != "ownerReferences"}
        changed = {**obj, "metadata": {**meta, "ownerReferences": owners} if owners else meta}
        self.storage.replace(table, changed, resource_version(obj))

    def _check_namespace(self, served: Served, namespace: str, name: str) -> None:
        if not served.namespaced:
            return
        if is_deleting(self.storage.existing(NAMESPACES, ("", namespace))):
            why = (
                f"unable to create new content in namespace {namespace} because it is being"
                " terminated"
            )
            raise errors.forbidden(served.table, name, why)


class _RacedError(Exception):
    """The object was changed during the webhook calls.

    The caller gave no resourceVersion, so the write is tried again.
    """


def _admitted_namespace(served: Served, key: Key) -> str:
    """Return the namespace for admission reviews. For a Namespace, it is its own name."""
    return key[1] if served.table == NAMESPACES else key[0]


def _settle(served: Served, obj: Object) -> list[str]:
    """Prune an object and add its defaults.

    Return the paths of the unknown fields that it removes.
    """
    return objectmeta.prune(obj) + (served.schema.prepare(obj) if served.schema else [])


def _check_known(served: Served, dropped: list[str], caller: Caller) -> None:
    """Raise 400 or add warnings for unknown fields, depending on fieldValidation."""
    listed = [f'unknown field "{path}"' for path in dropped]
    if listed and caller.field_validation == "Strict":
        raise errors.bad_request(
            f'{served.kind} in version "{served.version}" cannot be handled as a {served.kind}: '
            f"strict decoding error: {', '.join(listed)}"
        )
    if caller.field_validation in ("", "Warn"):
        caller.warnings.extend(listed)


def _check(served: Served, obj: Object, old: Object | None) -> None:
    objectmeta.check(served, obj)
    causes = served.schema.validate(obj, old) if served.schema else []
    if causes:
        raise errors.invalid((served.group, served.kind), metadata(obj).get("name") or "", causes)
    if served.table == CRDS:
        resources.custom_resources(obj)
