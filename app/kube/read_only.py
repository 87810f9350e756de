"""Restrict a client to reads."""

from collections.abc import AsyncGenerator, Collection
from typing import Any

from app.kube.api import Client, Object, ObjectRef, Page, Patch, Rejected, Selection, WatchEvent
from app.objects.resource import ACCESS_REVIEW, SELF_ACCESS_REVIEW, Resource


class ReadOnlyClient:
    """A `Client` for commands that can't write to the cluster.

    It sends reads, and it creates access reviews, which are not stored. All other writes, and reads
    of `hidden` resources, raise Rejected, and no request is sent.
    """

    def __init__(self, client: Client, hidden: Collection[Resource] = ()) -> None:
        self._client = client
        self._hidden = frozenset(hidden)
        self.served_version = client.served_version

    async def get(self, ref: ObjectRef, **options: Any) -> Object:
        self._require_shown(ref.resource)
        return await self._client.get(ref, **options)

    async def list(self, selection: Selection, **options: Any) -> Page:
        self._require_shown(selection.resource)
        return await self._client.list(selection, **options)

    def watch(self, selection: Selection, **options: Any) -> AsyncGenerator[WatchEvent, None]:
        self._require_shown(selection.resource)
        return self._client.watch(selection, **options)

    async def create(self, resource: Resource, obj: Object, namespace: str | None = None) -> Object:
        if resource not in (ACCESS_REVIEW, SELF_ACCESS_REVIEW):
            raise _read_only("create", resource)
        return await self._client.create(resource, obj, namespace)

    async def patch(self, ref: ObjectRef, patch: Patch, **options: Any) -> Object:
        raise _read_only("patch", ref.resource)

    async def delete(self, ref: ObjectRef, **options: Any) -> None:
        raise _read_only("delete", ref.resource)

    def _require_shown(self, resource: Resource) -> None:
        if resource in self._hidden:
            raise Rejected(f"the console never reads {resource}", code=403, reason="Forbidden")


def _read_only(verb: str, resource: Resource) -> Rejected:
    return Rejected(
        f"this client only reads, so it does not {verb} {resource}", code=403, reason="Forbidden"
    )
