"""Delete the objects that the controllers of a cluster delete.

These are objects whose owners are gone, the content of deleted namespaces, and the objects of
deleted CRDs.

Deletion is in the background: the owner is deleted first, then its dependents. Deletions pass
admission. Rejected ones are tried again.
"""

import asyncio
import logging

from scripts.apiserver.objects.errors import ApiError
from scripts.apiserver.objects.objects import (
    COLLECTOR,
    Caller,
    Key,
    Object,
    TableId,
    is_deleting,
    metadata,
    owners_of,
)
from scripts.apiserver.objects.resources import CRDS, NAMESPACES, Registry
from scripts.apiserver.requests.writes import Writer
from scripts.apiserver.storage import Place, Storage, StoredChange

_LOG = logging.getLogger(__name__)


class Collector:
    """A collector that gets the changes of the storage, and deletes objects in `run`.

    Failed deletions are tried again after `retry_seconds`.
    """

    def __init__(
        self, storage: Storage, registry: Registry, writer: Writer, retry_seconds: float = 2.0
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._writer = writer
        self._retry_seconds = retry_seconds
        self._waiting: asyncio.Queue[Place] = asyncio.Queue()
        self._deleted_owners: set[str] = set()
        storage.listeners.append(self._noticed)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            table, key = await self._waiting.get()
            try:
                await self._collect(table, key)
            except ApiError as error:
                _LOG.warning("could not clean up %s %s: %s", table[1], "/".join(key), error.message)
                asyncio.get_running_loop().call_later(
                    self._retry_seconds, self._waiting.put_nowait, (table, key)
                )

    def _noticed(self, change: StoredChange) -> None:
        meta = metadata(change.obj)
        if change.type == "DELETED":
            self._removed(change)
        elif any(owner.get("uid") not in self._storage.uids for owner in owners_of(change.obj)):
            self._waiting.put_nowait((change.table, (meta.get("namespace") or "", meta["name"])))

        if change.type == "MODIFIED" and change.table == NAMESPACES and is_deleting(change.obj):
            for place in self._storage.in_namespace(meta["name"]):
                self._waiting.put_nowait(place)

    def _removed(self, change: StoredChange) -> None:
        meta = metadata(change.obj)
        for place in self._storage.dependents(meta["uid"]):
            self._deleted_owners.add(meta["uid"])
            self._waiting.put_nowait(place)

        self._namespace_emptied(meta.get("namespace") or "")
        if change.table == CRDS:
            self._definition_removed(change.obj)

    def _namespace_emptied(self, name: str) -> None:
        namespace = (
            self._storage.get(NAMESPACES, ("", name)) if self._is_terminating(name) else None
        )
        if (
            namespace
            and not metadata(namespace).get("finalizers")
            and not self._storage.in_namespace(name)
        ):
            self._storage.remove(NAMESPACES, ("", name))

    def _definition_removed(self, crd: Object) -> None:
        table_id = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        self._registry.uninstall(crd)
        table = self._storage.table(table_id)
        for key in list(table.objects):
            self._storage.remove(table_id, key)
        table.close()

    async def _collect(self, table: TableId, key: Key) -> None:
        obj = self._storage.get(table, key)
        if obj is None or is_deleting(obj):
            return
        owners = owners_of(obj)
        alive = [owner for owner in owners if self._may_live(owner, key[0])]
        if self._is_terminating(key[0]) or (owners and not alive):
            await self._delete(table, key, metadata(obj)["uid"])
        elif len(alive) < len(owners):
            self._writer.set_owners(table, obj, alive)

    async def _delete(self, table: TableId, key: Key, uid: str) -> None:
        served = self._registry.versions(table)[0]
        try:
            await self._writer.delete(served, key, Caller(COLLECTOR), preconditions={"uid": uid})
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    def _is_terminating(self, namespace: str) -> bool:
        stored = self._storage.get(NAMESPACES, ("", namespace)) if namespace else None
        return stored is not None and is_deleting(stored)

    def _may_live(self, owner: Object, namespace: str) -> bool:
        """Return whether the owner may exist.

        An owner whose kind is not served counts as existing, unless its deletion was seen, for
        example with its CRD.
        """
        if owner.get("uid", "") in self._deleted_owners:
            return False
        served = self._registry.for_kind(owner.get("apiVersion", ""), owner.get("kind", ""))
        if served is None:
            return True
        place = self._storage.uids.get(owner.get("uid", ""))
        expected = (namespace if served.namespaced else "", owner.get("name", ""))
        return place == (served.table, expected) or (served.namespaced and not namespace)
