"""A cluster in memory: the `Client` that tests, offline checks and `serve --objects` run against.

It keeps the API server's contract where this program depends on it (versions, preconditions, the
status subresource, watches, finalizers, owner references) and knows no schema, no defaulting and no
admission. `calls` records every call made, so that a test can prove that none was; `fail_next`
makes calls fail.
"""

import asyncio
import itertools
import uuid
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from app.base.value import Value
from app.facts import kinds
from app.kube.api import (
    INITIAL_EVENTS_END,
    ClusterError,
    Conflict,
    Gone,
    Key,
    NotFound,
    NotServed,
    Object,
    ObjectRef,
    Page,
    Patch,
    Rejected,
    Selection,
    WatchEvent,
)
from app.objects import resource as core
from app.objects.resource import Resource
from tests.kube.memory.garbage import Places, orphans, with_missing_owners
from tests.kube.memory.objects import (
    check_preconditions,
    copy_of,
    is_selected,
    key_of,
    patched,
    place,
    server_metadata,
    shown,
    without,
)

EVERYTHING: Mapping[Resource, str] = {
    resource: resource.versions[0]
    for resource in kinds.ALL
    if resource not in (kinds.CLUSTER_TOPOLOGY_BINDING, kinds.POD_GANG_MAP, kinds.QUEUE_NAMES)
}
"""What a cluster of the designs serves."""
WITHOUT_STATUS: Collection[Resource] = frozenset(
    {core.EVENT, core.SECRET, core.LEASE, core.MUTATING_WEBHOOKS, core.VALIDATING_WEBHOOKS}
)


Objects = list[Object]


class Call(Value):
    """One call of a client: verb is get, list, watch, create, patch or delete."""

    verb: str
    resource: Resource
    namespace: str | None = None
    name: str = ""
    subresource: str = ""


class _Change(Value):
    """One write, in the order they were made.

    `before` is None for a new object, `after` for one that is gone; `last` is the object as the
    DELETED event shows it.
    """

    version: int
    resource: Resource
    before: Object | None
    after: Object | None
    last: Object


@dataclass(slots=True)
class _Fault:
    verb: str
    resource: Resource | None
    error: ClusterError
    times: int
    after_effect: bool


Calls = list[Call]
_Changes = list[_Change]
_Faults = list[_Fault]


class MemoryClient:
    """`Client` over a map of objects.

    `served` maps each resource that this cluster serves to its version; change it to install or
    remove an API. `without_status` names the resources whose status is an ordinary field. `history`
    bounds how many changes a watch can catch up on before it is Gone. `streams` is what comes of a
    watch that asks for a list first: it is served, refused with a 422 as by Kubernetes before 1.34,
    or the wish is ignored.
    """

    def __init__(
        self,
        objects: Iterable[Object] = (),
        *,
        served: Mapping[Resource, str] = EVERYTHING,
        without_status: Collection[Resource] = WITHOUT_STATUS,
        history: int = 10_000,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        streams: Literal["served", "refused", "ignored"] = "served",
    ) -> None:
        self.streams = streams
        self.served: dict[Resource, str] = dict(served)
        self.without_status = set(without_status)
        self.calls: Calls = []
        self._now = now
        self._objects: dict[Resource, dict[Key, Object]] = {}
        self._version = 1
        self._oldest = 1
        self._history: deque[_Change] = deque(maxlen=history)
        self._pages: dict[str, tuple[Objects, int]] = {}
        self._tokens = itertools.count(1)
        self._latest: dict[Resource, int] = {}
        self._ticks: defaultdict[Resource, asyncio.Event] = defaultdict(asyncio.Event)
        """One for each resource: a change that wakes all watches costs most of what tests do."""
        self._cut: tuple[int, ClusterError | None] = (0, None)
        self._faults: _Faults = []
        self.load(objects)

    # What tests and offline commands add to the Protocol.

    def load(self, objects: Iterable[Object]) -> Objects:
        """Puts objects in as they are, status and uid included; lists (kind List) are unpacked.

        Only the resourceVersion is always new. Raises NotServed for a kind that isn't served.
        """
        return [copy_of(self._load_one(obj)) for document in objects for obj in _unpacked(document)]

    def objects(self, resource: Resource) -> Objects:
        """Every stored object of `resource`, by namespace and name. Not recorded as a call."""
        return [copy_of(obj) for _, obj in sorted(self._objects.get(resource, {}).items())]

    def writes(self) -> Calls:
        """The recorded calls that change something."""
        return [call for call in self.calls if call.verb in ("create", "patch", "delete")]

    def fail_next(
        self,
        verb: str,
        resource: Resource | None,
        error: ClusterError,
        *,
        times: int = 1,
        after_effect: bool = False,
    ) -> None:
        """Lets the next `times` calls of `verb` on `resource` (None: on any) raise `error`; with
        `after_effect` only once the write has been done, as when the answer is lost on the way.
        """
        self._faults.append(_Fault(verb, resource, error, times, after_effect))

    def drop_watches(self, error: ClusterError | None = None) -> None:
        """Ends every open watch, with `error` or as a server does that has closed the stream."""
        self._cut = (self._cut[0] + 1, error)
        for resource in tuple(self._ticks):
            self._wake(resource)

    def forget_history(self) -> None:
        """Watches from any earlier version, and the later pages of lists under way, are Gone from
        now on.
        """
        self._version += 1
        self._oldest = self._version
        self._history.clear()
        self._pages.clear()

    def collect_garbage(self) -> Places:
        """Deletes what has owners of which none exists any more, until nothing changes, and removes
        references to missing owners from the rest, as the garbage collector does. Gives what was
        deleted (or began to be).
        """
        collected: Places = []
        while doomed := orphans(self._objects, self.served):
            for resource, key in doomed:
                self._delete(resource, key)
            collected += doomed
        for (resource, key), kept in with_missing_owners(self._objects, self.served):
            obj = self._objects[resource][key]
            self._store(
                resource,
                key,
                obj,
                {**obj, "metadata": {**obj["metadata"], "ownerReferences": kept}},
            )
        return collected

    # The Protocol.

    def served_version(self, resource: Resource) -> str | None:
        return self.served.get(resource)

    async def get(
        self,
        ref: ObjectRef,
        *,
        version: str | None = None,
        metadata_only: bool = False,
    ) -> Object:
        resource = ref.resource
        await self._begin(Call("get", resource, ref.namespace, ref.name))
        if version is not None and version != self.served[resource]:
            raise _not_served(resource)
        return shown(self._existing(resource, place(ref)), metadata_only)

    async def list(
        self, selection: Selection, *, limit: int = 500, continue_token: str = ""
    ) -> Page:
        resource = selection.resource
        await self._begin(Call("list", resource, selection.namespace))
        if continue_token:
            if continue_token not in self._pages:
                raise Gone("the provided continue parameter is too old", code=410, reason="Expired")
            rest, version = self._pages.pop(continue_token)
        else:
            selected = is_selected(selection)
            stored = sorted(self._objects.get(resource, {}).items())
            rest = [obj for _, obj in stored if selected(obj)]
            version = self._version
        page, rest = (rest[:limit], rest[limit:]) if limit else (rest, [])
        token = f"page-{next(self._tokens)}" if rest else ""
        if token:
            self._pages[token] = (rest, version)
        items = [shown(obj, selection.metadata_only) for obj in page]
        return Page(items, str(version), token)

    async def watch(
        self,
        selection: Selection,
        *,
        resource_version: str,
        timeout_seconds: int = 270,
        accepted: Callable[[], None] = lambda: None,
        list_first: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        resource = selection.resource
        metadata_only = selection.metadata_only
        await self._begin(Call("watch", resource, selection.namespace))
        if list_first and self.streams == "refused":
            raise Rejected(
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the"
                " WatchList feature gate is enabled",
                code=422,
                reason="Invalid",
            )
        accepted()
        selected = is_selected(selection)
        since = int(resource_version or 0)
        cut = self._cut[0]
        if since == 0:
            since = self._version
            for obj in [
                obj for _, obj in sorted(self._objects.get(resource, {}).items()) if selected(obj)
            ]:
                yield WatchEvent("ADDED", shown(obj, metadata_only))
            if list_first and self.streams == "served":
                yield self._bookmark(resource, since, metadata_only, {INITIAL_EVENTS_END: "true"})
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        while not self._is_cut(cut) and await self._changed_since(resource, since, cut, deadline):
            for change in self._changes_since(since):
                since = change.version
                event = _event(change, selected) if change.resource == resource else None
                if event is not None:
                    yield WatchEvent(event.type, shown(event.object, metadata_only))
        if not self._is_cut(cut):
            yield self._bookmark(resource, self._version, metadata_only, {})

    def _bookmark(
        self, resource: Resource, version: int, metadata_only: bool, annotations: dict[str, str]
    ) -> WatchEvent:
        kind, api_version = _kind_of(resource, self.served, metadata_only)
        metadata: Object = {"resourceVersion": str(version)}
        metadata |= {"annotations": annotations} if annotations else {}
        return WatchEvent(
            "BOOKMARK", {"apiVersion": api_version, "kind": kind, "metadata": metadata}
        )

    async def create(
        self,
        resource: Resource,
        obj: Object,
        namespace: str | None = None,
    ) -> Object:
        new = self._prepared(resource, obj, namespace)
        key = key_of(new)
        await self._begin(Call("create", resource, namespace, key[1]))
        if key in self._objects.get(resource, {}):
            raise Conflict(
                f'{resource} "{key[1]}" already exists', code=409, reason="AlreadyExists"
            )
        if resource not in self.without_status:
            new.pop("status", None)
        self._assign_identity(resource, new)
        return self._finish("create", resource, key, None, new)

    async def patch(
        self,
        ref: ObjectRef,
        patch: Patch,
        *,
        subresource: str = "",
    ) -> Object:
        resource = ref.resource
        call = Call("patch", resource, ref.namespace, ref.name, subresource)
        await self._begin(call)
        key = place(ref)
        before = self._existing(resource, key)
        if subresource and (subresource != "status" or resource in self.without_status):
            raise _not_found(resource, ref.name)
        after = patched(before, patch)
        check_preconditions(resource, ref.name, before, after.get("metadata") or {})
        after = self._merged(resource, before, after, subresource)
        if after == before:
            return copy_of(before)
        return self._finish("patch", resource, key, before, after)

    async def delete(
        self, ref: ObjectRef, *, uid: str | None = None, resource_version: str | None = None
    ) -> None:
        resource = ref.resource
        await self._begin(Call("delete", resource, ref.namespace, ref.name))
        key = place(ref)
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        check_preconditions(resource, ref.name, self._existing(resource, key), preconditions)
        self._delete(resource, key)
        self._raise_fault("delete", resource, after_effect=True)

    # Calls and faults.

    async def _begin(self, call: Call) -> None:
        self.calls.append(call)
        await asyncio.sleep(0)
        self._raise_fault(call.verb, call.resource, after_effect=False)
        if call.resource not in self.served:
            raise _not_served(call.resource)

    def _raise_fault(self, verb: str, resource: Resource, *, after_effect: bool) -> None:
        for fault in self._faults:
            if (fault.verb, fault.after_effect) == (verb, after_effect) and fault.resource in (
                None,
                resource,
            ):
                fault.times -= 1
                if fault.times <= 0:
                    self._faults.remove(fault)
                raise fault.error

    # Objects. What is stored is never changed in place: pages and history refer to it.

    def _existing(self, resource: Resource, key: Key) -> Object:
        try:
            return self._objects[resource][key]
        except KeyError:
            raise _not_found(resource, key[1]) from None

    def _load_one(self, obj: Object) -> Object:
        group = str(obj.get("apiVersion", "")).rpartition("/")[0]
        known = (r for r in self.served if (r.group, r.kind) == (group, obj.get("kind")))
        resource = next(known, None)
        if resource is None:
            raise NotServed(
                f"no served resource for {obj.get('apiVersion')} {obj.get('kind')}", code=404
            )
        new = copy_of(obj)
        metadata = new.setdefault("metadata", {})
        if resource.namespaced:
            metadata.setdefault("namespace", "default")
        metadata = new["metadata"] = {**self._identity(resource, key_of(new)), **metadata}
        return self._store(
            resource, key_of(new), self._objects.get(resource, {}).get(key_of(new)), new
        )

    def _prepared(self, resource: Resource, obj: Object, namespace: str | None) -> Object:
        """A copy of `obj` with its name, namespace, kind and apiVersion in place."""
        new = copy_of(obj)
        metadata = new.setdefault("metadata", {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName']}{self._version:05d}"
        if not metadata.get("name"):
            raise Rejected(
                "metadata.name: Required value: name or generateName", code=422, reason="Invalid"
            )
        if (
            resource.namespaced != bool(namespace)
            or metadata.get("namespace", namespace) != namespace
        ):
            raise Rejected(
                "the namespace of the object doesn't match the request",
                code=400,
                reason="BadRequest",
            )
        if metadata.get("resourceVersion"):
            raise Rejected("resourceVersion should not be set on objects to be created", code=400)
        if new.setdefault("kind", resource.kind) != resource.kind:
            raise Rejected(
                f"a {new['kind']} can't be created as {resource}", code=400, reason="BadRequest"
            )
        new.setdefault("apiVersion", resource.api_version(self.served.get(resource)))
        if namespace:
            metadata["namespace"] = namespace
        return new

    def _identity(self, resource: Resource, key: Key) -> Object:
        name = f"{resource}/{key[0]}/{key[1]}/{self._version}"
        stamp = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "uid": str(uuid.uuid5(uuid.NAMESPACE_URL, name)),
            "creationTimestamp": stamp,
            "generation": 1,
        }

    def _assign_identity(self, resource: Resource, obj: Object) -> None:
        for server_side in ("deletionTimestamp", "deletionGracePeriodSeconds"):
            obj["metadata"].pop(server_side, None)
        obj["metadata"] |= self._identity(resource, key_of(obj))

    def _merged(
        self, resource: Resource, before: Object, after: Object, subresource: str
    ) -> Object:
        """What a write of `after` leaves: the server's own metadata stays, and a write reaches
        either the status or everything else.
        """
        if subresource:
            kept = {**before, "status": after.get("status")}
            return {k: v for k, v in kept.items() if k != "status" or v is not None}
        merged = {**after, "apiVersion": before["apiVersion"], "kind": before["kind"]}
        if resource not in self.without_status:
            merged.pop("status", None)
            merged |= {"status": before["status"]} if "status" in before else {}
        merged["metadata"] = server_metadata(before["metadata"], after.get("metadata") or {})
        if without(merged, "metadata", "status") != without(before, "metadata", "status"):
            merged["metadata"]["generation"] = before["metadata"].get("generation", 1) + 1
        return merged

    def _finish(
        self,
        verb: str,
        resource: Resource,
        key: Key,
        before: Object | None,
        after: Object,
    ) -> Object:
        stored = self._store(resource, key, before, after)
        if stored["metadata"].get("deletionTimestamp") and not stored["metadata"].get("finalizers"):
            self._remove(resource, key)
        self._raise_fault(verb, resource, after_effect=True)
        return copy_of(stored)

    def _store(self, resource: Resource, key: Key, before: Object | None, after: Object) -> Object:
        stored = copy_of(
            {**after, "metadata": {**after["metadata"], "resourceVersion": str(self._version + 1)}}
        )
        self._objects.setdefault(resource, {})[key] = stored
        self._record(resource, before, stored, stored)
        return stored

    def _delete(self, resource: Resource, key: Key) -> None:
        before = self._existing(resource, key)
        metadata = before["metadata"]
        if not metadata.get("finalizers"):
            self._remove(resource, key)
        elif not metadata.get("deletionTimestamp"):
            stamp = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
            generation = metadata.get("generation", 1) + 1
            self._store(
                resource,
                key,
                before,
                {
                    **before,
                    "metadata": {**metadata, "deletionTimestamp": stamp, "generation": generation},
                },
            )

    def _remove(self, resource: Resource, key: Key) -> None:
        before = self._objects[resource].pop(key)
        last = {
            **before,
            "metadata": {**before["metadata"], "resourceVersion": str(self._version + 1)},
        }
        self._record(resource, before, None, last)

    # Watches.

    def _record(
        self, resource: Resource, before: Object | None, after: Object | None, last: Object
    ) -> None:
        self._version += 1
        if len(self._history) == self._history.maxlen:
            self._oldest = self._history[0].version
        self._history.append(_Change(self._version, resource, before, after, last))
        self._latest[resource] = self._version
        self._wake(resource)

    def _wake(self, resource: Resource) -> None:
        self._ticks.pop(resource, asyncio.Event()).set()

    def _is_cut(self, cut: int) -> bool:
        """Whether watches that began at `cut` were dropped; raises the error they were dropped
        with.
        """
        now, error = self._cut
        if now != cut and error is not None:
            raise error
        return now != cut

    async def _changed_since(
        self, resource: Resource, since: int, cut: int, deadline: float
    ) -> bool:
        """Waits until there is a change of `resource` later than `since`, or the watches are cut;
        False once `deadline` is past.
        """
        self._check_not_gone(since)
        try:
            async with asyncio.timeout_at(deadline):
                while self._latest.get(resource, 0) <= since and self._cut[0] == cut:
                    await self._ticks[resource].wait()
        except TimeoutError:
            return False
        return True

    def _check_not_gone(self, since: int) -> None:
        if since < self._oldest:
            raise Gone(
                f"too old resource version: {since} ({self._oldest})", code=410, reason="Expired"
            )

    def _changes_since(self, since: int) -> _Changes:
        self._check_not_gone(since)
        later = itertools.takewhile(lambda change: change.version > since, reversed(self._history))
        return list(later)[::-1]


def _unpacked(obj: Object) -> list[Object]:
    return list(obj.get("items") or []) if obj.get("kind") == "List" else [obj]


def _kind_of(
    resource: Resource, served: Mapping[Resource, str], metadata_only: bool
) -> tuple[str, str]:
    if metadata_only:
        return "PartialObjectMetadata", "meta.k8s.io/v1"
    return resource.kind, resource.api_version(served.get(resource))


def _event(change: _Change, selected: Callable[[Object], bool]) -> WatchEvent | None:
    """What a watch with a selection says of a change: an object that leaves the selection is
    DELETED for it.
    """
    was = change.before is not None and selected(change.before)
    is_now = change.after is not None and selected(change.after)
    if is_now:
        return WatchEvent("MODIFIED" if was else "ADDED", change.last)
    return WatchEvent("DELETED", change.last) if was else None


def _not_found(resource: Resource, name: str) -> NotFound:
    return NotFound(f'{resource} "{name}" not found', code=404, reason="NotFound")


def _not_served(resource: Resource) -> NotServed:
    return NotServed(f"the cluster doesn't serve {resource}", code=404, reason="NotFound")
