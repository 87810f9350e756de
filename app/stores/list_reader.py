"""Read each resource once, for commands.

Commands use lists instead of watches. Without permission to read a resource, a watch would be
retried forever, while a list reports the reason.
"""

from collections.abc import Mapping
from typing import Any

from app.facts import kinds
from app.facts.rows import CHANNELS, ROOM, Row
from app.kube.api import Client, ClusterError, NotFound, Object, Reader, Selection, pages
from app.kube.store import WatchStore
from app.objects.resource import POD, Resource
from app.stores.stores import Stores, selection_of

OF_ALL_NAMESPACES = {POD: ROOM, kinds.RESOURCE_CLAIM: CHANNELS}
"""The names of facts that need the objects of all namespaces, by resource.

If only one namespace can be read, these facts are recorded as unseen.
"""


async def read(
    stores: Stores, client: Client, namespace: str | None
) -> dict[Resource, ClusterError]:
    """Fill `stores` one after the other with the objects of `namespace`, or all objects for None.

    Cluster-scoped objects are read in both cases. Return the error of each resource that could not
    be read. The store of a resource that is not served is empty and synced.
    """
    unread: dict[Resource, ClusterError] = {}
    for row, store in stores:
        scope = namespace if row.resource.namespaced else None
        try:
            await _list(client, store, selection_of(row, scope))
        except NotFound:
            store.mark_not_served()
        except ClusterError as error:
            unread[row.resource] = error

    return unread


async def _list(client: Client, store: WatchStore[Any], selection: Selection) -> None:
    store.begin_list()
    async for page in pages(client, selection):
        store.take_listed(page.items)
    store.end_list("0")


class Reading:
    """A reader of lists that keeps the facts, and records why lists can't be read.

    `rows` has the row of each resource that may be read.
    """

    def __init__(self, client: Reader, rows: Mapping[Resource, Row[Any]]) -> None:
        self._client = client
        self.rows = rows
        self._facts: dict[str, list[Any]] = {row.name: [] for row in rows.values()}
        self._unseen: dict[str, str] = {}
        self._skipped: set[str] = set()
        self._served: set[str] = set()
        self._absent: set[str] = set()

    def found(self) -> Object:
        """Return the fields of a Snapshot: a tuple of facts for each row, by the row's name.

        There are three more fields:

        - `unseen`: the cause by name, for facts that are missing or incomplete because a list
          can't be read
        - `skipped`: the names of facts that need lists that were not requested
        - `absent`: the names of rows whose resource is not served
        """
        absent = self._absent - self._served
        unread = self._facts.keys() - self._served - self._absent
        lists: Object = {name: tuple(facts) for name, facts in self._facts.items()}
        return lists | {
            "unseen": dict(self._unseen),
            "skipped": frozenset((unread | self._skipped) - absent - self._unseen.keys()),
            "absent": frozenset(absent),
        }

    def of(self, field: str) -> list[Any]:
        """Return the facts that have been read so far for the row with the name `field`."""
        return self._facts[field]

    def skip(self, field: str) -> None:
        """Record that `field` needs lists that were not requested."""
        self._skipped.add(field)

    async def list(
        self, resource: Resource, namespace: str | None = None, *, selector: str = ""
    ) -> None:
        """Read the objects of `namespace`, or of all namespaces for None.

        `selector` is a label selector. If the objects can't be read, record the cause.
        """
        error = await self._try(resource, namespace, selector)
        if error is not None:
            self._unseen.setdefault(self.rows[resource].name, cause(error))

    async def list_one(self, resource: Resource, namespace: str, name: str) -> None:
        """Read the object `name`, if it exists. If it can't be read, record the cause."""
        error = await self._try(resource, namespace, name=name)
        if error is not None:
            self._unseen.setdefault(self.rows[resource].name, cause(error))

    async def list_everywhere(self, resource: Resource, namespace: str | None = None) -> None:
        """Read the objects of all namespaces, or of `namespace` if only that is permitted.

        If the objects can't be read, record the cause. If not all namespaces could be read and
        OF_ALL_NAMESPACES has the resource, record the cause for those facts too.
        """
        error = await self._try(resource, None)
        if error is None:
            return

        is_denied = error.code == 403
        if resource in OF_ALL_NAMESPACES:
            which = f" {resource.plural} of all namespaces" if is_denied else ""
            self._unseen[OF_ALL_NAMESPACES[resource]] = cause(error) + which
        if is_denied and namespace is not None:
            error = await self._try(resource, namespace)
        if error is not None:
            self._unseen.setdefault(self.rows[resource].name, cause(error))

    async def _try(
        self, resource: Resource, namespace: str | None, selector: str = "", *, name: str = ""
    ) -> ClusterError | None:
        """Read a list. Return its error, or None on success or if the resource is not served."""
        row = self.rows[resource]
        facts = self._facts[row.name]
        try:
            fields = f"metadata.name={name}" if name else ""
            selection = Selection(
                resource, namespace, labels=selector, fields=fields, form=row.form
            )
            async for page in pages(self._client, selection):
                facts += map(row.read, page.items)
            self._served.add(row.name)
        except NotFound:
            self._absent.add(row.name)
        except ClusterError as error:
            return error

        return None


def cause(error: ClusterError) -> str:
    """Return why a list could not be read: "no permission to list" for a 403, else the message."""
    return "no permission to list" if error.code == 403 else error.message
