"""Read everything once, for commands.

Lists are used instead of watches. If the user has no permission to read a resource, a watch would
wait forever, while a list reports the reason.
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
"""The facts that are known only if the objects of all namespaces are known, by resource."""


async def read(
    stores: Stores, client: Client, namespace: str | None
) -> dict[Resource, ClusterError]:
    """Fill each of `stores` once, in order, with the objects of `namespace`; None means all.

    Return the reason for each resource that could not be read. The store of a resource that isn't
    installed is empty and synced.
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
    """A reader of a list for each of `rows`, which records the lists that could not be read.

    Objects are converted to facts as pages arrive, so that only the needed facts are kept. An error
    is recorded with its cause, and the remaining lists are still read.
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
        """Return the facts as a tuple for each name, with `unseen`, `skipped` and `absent`.

        `unseen` has the cause for each name that could not be read completely. The lists of the
        names in `skipped` were not requested, and those in `absent` are not served.
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
        return self._facts[field]

    def skip(self, field: str) -> None:
        self._skipped.add(field)

    async def list(
        self, resource: Resource, namespace: str | None = None, *, selector: str = ""
    ) -> None:
        """Read a list, and record an error."""
        error = await self._try(resource, namespace, selector)
        if error is not None:
            self._unseen.setdefault(self.rows[resource].name, cause(error))

    async def list_one(self, resource: Resource, namespace: str, name: str) -> None:
        """Read one object of a list, and record an error."""
        error = await self._try(resource, namespace, name=name)
        if error is not None:
            self._unseen.setdefault(self.rows[resource].name, cause(error))

    async def list_everywhere(self, resource: Resource, namespace: str | None = None) -> None:
        """List all namespaces. If that is forbidden, list `namespace` if one is given."""
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
        """Read a list. Return its error. Return None if there is none or the resource
        isn't served.
        """
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
    """Return the reason why a list could not be read, in a few words."""
    return "no permission to list" if error.code == 403 else error.message
