"""Create, update, patch and delete, in the order of the real server: defaults, mutating webhooks, identity, schema,
validating webhooks, storage.

The only awaits are the webhook calls. What was read before them is compared again when the object is stored.
"""

import contextlib
from collections.abc import Callable
from dataclasses import replace

from app.sandbox import crd_names
from app.sandbox.admission.chain import Admission, Attributes
from app.sandbox.objects import errors, lifecycle, objectmeta, patching, resources
from app.sandbox.objects.objects import Caller, Key, Object, copy, is_deleting, metadata, resource_version, timestamp
from app.sandbox.objects.resources import CRDS, Registry, Served
from app.sandbox.storage.storage import Storage

_NAMESPACES = ("", "namespaces")
_IMMORTAL = ("default", "kube-system", "kube-public")
_ATTEMPTS = 5
Change = Callable[[Object], Object]


class Writer:
    """All writes to the storage, each with its admission. Objects go in and out in the version of `served`."""

    def __init__(self, storage: Storage, registry: Registry, admission: Admission) -> None:
        self._storage, self._registry, self._admission = storage, registry, admission

    async def create(self, served: Served, obj: Object, caller: Caller, namespace: str = "") -> Object:
        obj = copy(obj)
        lifecycle.check_identity(served, obj, namespace, "")
        lifecycle.strip_for_create(served, obj)
        self._check_namespace(served, namespace, metadata(obj).get("name") or "")
        settle = _settling(served, caller)
        settle(obj)
        name = metadata(obj).get("name") or ""
        shown_namespace = name if served.table == _NAMESPACES else namespace
        attributes = Attributes(served, "CREATE", shown_namespace, name, caller, obj)
        obj = await self._admission.mutate(attributes, settle) or obj
        lifecycle.complete_new(served, obj)
        _check(served, obj, None)
        await self._admission.validate(replace(attributes, name=metadata(obj)["name"], obj=obj))
        stored = served.write(obj)
        if caller.options.dry_run:
            self._check_absent(served, (namespace, metadata(obj)["name"]))
            return obj
        return served.read(self._defined(served, self._storage.insert(served.table, stored)))

    async def update(self, served: Served, key: Key, obj: Object, caller: Caller, subresource: str = "") -> Object:
        """PUT: Conflict if `obj` names a resourceVersion that isn't the current one."""

        def replaced(current: Object) -> Object:
            new = copy(obj)
            lifecycle.check_identity(served, new, *key)
            if served.custom and not resource_version(new):
                raise _unconditional(served, metadata(current)["name"])
            return new

        return await self._change(served, key, replaced, caller, subresource)

    async def patch(
        self, served: Served, key: Key, patch: object, media_type: str, caller: Caller, subresource: str = ""
    ) -> Object:
        """PATCH: applied to the current object, again if another write came between."""

        def patched(current: Object) -> Object:
            new = patching.apply_patch(current, patch, media_type, custom=served.custom)
            if metadata(new).get("resourceVersion") == resource_version(current) and not _names_version(patch):
                new["metadata"].pop("resourceVersion", None)
            lifecycle.check_identity(served, new, *key)
            return new

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
        """Removes the object, or marks it where finalizers hold it; gives its last state."""
        stored = self._get(served, key)
        if served.table == _NAMESPACES and key[1] in _IMMORTAL:
            raise errors.forbidden(served.group, served.plural, key[1], "this namespace may not be deleted")
        _check_preconditions(served, stored, preconditions or {})
        old = served.read(stored)
        name = "" if bulk else key[1]
        shown_namespace = key[1] if served.table == _NAMESPACES else key[0]
        attributes = Attributes(served, "DELETE", shown_namespace, name, caller, None, old)
        await self._admission.mutate(attributes, lambda obj: None)
        await self._admission.validate(attributes)
        if caller.options.dry_run:
            return old
        stored = self._get(served, key)
        _check_preconditions(served, stored, {"uid": metadata(old)["uid"], **(preconditions or {})})
        if caller.options.propagation == "Orphan":
            self._orphan(metadata(stored)["uid"])
        return served.read(self._remove_or_mark(served, key, stored))

    async def _change(self, served: Served, key: Key, change: Change, caller: Caller, subresource: str) -> Object:
        for _ in range(_ATTEMPTS):
            attempted = Caller(caller.user, caller.options)
            with contextlib.suppress(_RacedError):
                changed = await self._change_once(served, key, change, attempted, subresource)
                caller.warnings.extend(attempted.warnings)
                return changed
        raise errors.conflict(served.group, served.plural, key[1])

    async def _change_once(self, served: Served, key: Key, change: Change, caller: Caller, subresource: str) -> Object:
        stored = self._get(served, key)
        old = served.read(stored)
        new = change(old)
        wanted = resource_version(new)
        if wanted and wanted != resource_version(old):
            raise errors.conflict(served.group, served.plural, key[1])
        new = copy(lifecycle.carry_over(served, new, old, subresource))
        new["metadata"]["resourceVersion"] = resource_version(old)
        new = await self._admitted(served, key, new, old, caller, subresource)
        if caller.options.dry_run or lifecycle.is_unchanged(new, old):
            return new
        if self._storage.get(served.table, key) is not stored:
            raise errors.conflict(served.group, served.plural, key[1]) if wanted else _RacedError
        return served.read(self._defined(served, self._store_or_remove(served, key, served.write(new), stored)))

    async def _admitted(
        self, served: Served, key: Key, new: Object, old: Object, caller: Caller, subresource: str
    ) -> Object:
        settle = _settling(served, caller)
        settle(new)
        lifecycle.bump_generation(served, new, old)
        shown_namespace = key[1] if served.table == _NAMESPACES else key[0]
        attributes = Attributes(served, "UPDATE", shown_namespace, key[1], caller, new, old, subresource)
        new = await self._admission.mutate(attributes, settle) or new
        new = copy(lifecycle.carry_over(served, new, old, subresource))
        new["metadata"]["resourceVersion"] = resource_version(old)
        if not subresource:
            lifecycle.bump_generation(served, new, old)
        _check(served, new, old)
        lifecycle.check_finalizers(served, new, old)
        await self._admission.validate(replace(attributes, obj=new))
        return new

    def _store_or_remove(self, served: Served, key: Key, new: Object, stored: Object) -> Object:
        if is_deleting(new) and not self.is_held(served, new):
            removed = self._storage.remove(served.table, key)
            return {**new, "metadata": {**new["metadata"], "resourceVersion": resource_version(removed)}}
        return self._storage.replace(served.table, new, resource_version(stored))

    def _remove_or_mark(self, served: Served, key: Key, stored: Object) -> Object:
        if not self.is_held(served, stored):
            return self._storage.remove(served.table, key)
        if is_deleting(stored):
            return stored
        return self._storage.replace(served.table, lifecycle.marked_deleted(served, stored), resource_version(stored))

    def is_held(self, served: Served, obj: Object) -> bool:
        """Finalizers keep the object; a namespace is also kept by what is in it."""
        if metadata(obj).get("finalizers"):
            return True
        return served.table == _NAMESPACES and self.has_content(metadata(obj)["name"])

    def has_content(self, namespace: str) -> bool:
        return any(table.keys(namespace) for _, table in self._storage.tables())

    def _defined(self, served: Served, stored: Object) -> Object:
        """Serves what a stored definition defines if its names are accepted, and writes its status."""
        if served.table != CRDS or is_deleting(stored):
            return stored
        status = crd_names.accepted_status(stored, self._storage.table(CRDS).items(), timestamp())
        if _without_times(status) != _without_times(stored.get("status") or {}):
            stored = self._storage.replace(CRDS, {**stored, "status": status}, resource_version(stored))
            self.names_freed(stored["spec"]["group"])
        if crd_names.is_established(stored):
            self._registry.install(stored)
        return stored

    def names_freed(self, group: str) -> None:
        """Accepts the definitions of `group` that waited for a name which another one no longer has."""
        for crd in self._storage.table(CRDS).items():
            if crd["spec"]["group"] == group and crd_names.conflict(crd) is not None:
                self._defined(self._registry.for_table(CRDS), crd)

    def _orphan(self, uid: str) -> None:
        for table, key in self._storage.dependents(uid):
            obj = self._storage.get(table, key)
            if obj is not None:
                kept = [owner for owner in metadata(obj)["ownerReferences"] if owner.get("uid") != uid]
                self.set_owners(table, obj, kept)

    def set_owners(self, table: tuple[str, str], obj: Object, owners: list[Object]) -> None:
        """Replaces the owner references, as the garbage collector's own patches do."""
        meta = {key: value for key, value in metadata(obj).items() if key != "ownerReferences"}
        changed = {**obj, "metadata": {**meta, "ownerReferences": owners} if owners else meta}
        self._storage.replace(table, changed, resource_version(obj))

    def _get(self, served: Served, key: Key) -> Object:
        stored = self._storage.get(served.table, key)
        if stored is None:
            raise errors.not_found(served.group, served.plural, key[1])
        return stored

    def _check_absent(self, served: Served, key: Key) -> None:
        if self._storage.get(served.table, key) is not None:
            raise errors.already_exists(served.group, served.plural, key[1])

    def _check_namespace(self, served: Served, namespace: str, name: str) -> None:
        if not served.namespaced:
            return
        found = self._storage.get(_NAMESPACES, ("", namespace))
        if found is None:
            raise errors.not_found("", "namespaces", namespace)
        if is_deleting(found):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            refused = errors.forbidden(served.group, served.plural, name, why)
            said = f"namespace {namespace} is being terminated"
            cause = {"reason": "NamespaceTerminating", "message": said, "field": "metadata.namespace"}
            refused.details = {**(refused.details or {}), "causes": [cause]}
            raise refused


class _RacedError(Exception):
    """Another write came while webhooks were asked; the caller didn't name a version, so try again."""


def _without_times(status: Object) -> Object:
    """The status of a definition, to see whether it would change."""
    conditions = [{**one, "lastTransitionTime": None} for one in status.get("conditions") or ()]
    return {**status, "conditions": conditions}


def _unconditional(served: Served, name: str) -> errors.ApiError:
    """Custom resources are replaced in a version that the caller has seen only."""
    message = "Invalid value: 0x0: must be specified for an update"
    cause = {"reason": "FieldValueInvalid", "message": message, "field": "metadata.resourceVersion"}
    return errors.invalid(served.group, served.plural, name, [cause])


def _names_version(patch: object) -> bool:
    return isinstance(patch, dict) and bool((patch.get("metadata") or {}).get("resourceVersion"))


def _settling(served: Served, caller: Caller) -> Callable[[Object], None]:
    """Prunes metadata, prunes and defaults the rest by its schema. Fields that the caller sent in vain are refused or
    warned of, as fieldValidation says; those of webhooks are dropped silently."""
    first = True

    def settle(obj: Object) -> None:
        nonlocal first
        dropped = objectmeta.prune(obj) + (served.schema.prepare(obj) if served.schema else [])
        listed = [f'unknown field "{path}"' for path in dropped] if first else []
        first = False
        if listed and caller.options.field_validation == "Strict":
            raise errors.bad_request(
                f'{served.kind} in version "{served.version}" cannot be handled as a {served.kind}: '
                f"strict decoding error: {', '.join(listed)}"
            )
        if caller.options.field_validation in ("", "Warn"):
            caller.warnings.extend(listed)

    return settle


def _check(served: Served, obj: Object, old: Object | None) -> None:
    objectmeta.check(served, obj)
    causes = served.schema.validate(obj, old) if served.schema else []
    if causes:
        raise errors.invalid(served.group, served.kind, metadata(obj).get("name") or "", causes)
    if served.table == CRDS:
        resources.custom_resources(obj)


def _check_preconditions(served: Served, obj: Object, wanted: Object) -> None:
    for key, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        held = metadata(obj).get(key)
        if wanted.get(key) and wanted[key] != held:
            why = f"Precondition failed: {label} in precondition: {wanted[key]}, {label} in object meta: {held}"
            raise errors.conflict(served.group, served.plural, metadata(obj)["name"], why)
