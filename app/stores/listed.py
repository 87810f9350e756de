"""Fills stores with one list each, for commands that read a cluster once.

If a resource may not be read, a watch would wait for ever, while a list reports the reason.
"""

from typing import Any

from app.kube.api import Client, ClusterError, Gone, NotFound, Selection
from app.kube.store import WatchStore
from app.kube.watch import Pace, list_into
from app.objects.resource import Resource
from app.stores.stores import Stores, selection_of

_TRIES = 3


async def read(
    stores: Stores, client: Client, namespace: str | None
) -> dict[Resource, ClusterError]:
    """List each of `stores` once, in their order.

    The objects are those of `namespace`, or of all namespaces if that is None.

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
    """List into `store`.

    If the list expires while its pages are read, it is begun again a few times.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            await list_into(client, store, selection, Pace())
            return
        except Gone:
            if not tries_left:
                raise
