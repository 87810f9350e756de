"""Clients that can only read: what commands for people are given, so that no code of theirs can write."""

from collections.abc import AsyncGenerator, Collection
from typing import Protocol

from app.kube.api import Client, Forbidden, Object, Page, Patch, PatchKind, Reader, WatchEvent
from app.objects.resource import ACCESS_REVIEW, SELF_ACCESS_REVIEW, Resource


class CountingReader(Reader, Protocol):
    """A reader that counts its calls by (verb, resource, HTTP status)."""

    calls: dict[tuple[str, str, str], int]


class ReadOnlyClient:
    """The reading methods of a client, and its counts; its writing methods can't be reached from here."""

    def __init__(self, client: CountingReader) -> None:
        self.get = client.get
        self.list = client.list
        self.watch = client.watch
        self.served_version = client.served_version
        self.calls = client.calls


class LookingClient:
    """`Client` for examinations that a person runs: it reads, and it asks the API server what somebody may do. All
    other writes, and reads of `hidden` resources, end here with Forbidden: no request is sent."""

    def __init__(self, client: Client, hidden: Collection[Resource] = ()) -> None:
        self._client, self._hidden = client, frozenset(hidden)
        self.served_version = client.served_version

    async def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        version: str | None = None,
        metadata_only: bool = False,
    ) -> Object:
        self._need_shown(resource)
        return await self._client.get(resource, name, namespace, version=version, metadata_only=metadata_only)

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
        metadata_only: bool = False,
    ) -> Page:
        self._need_shown(resource)
        return await self._client.list(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            continue_token=continue_token,
            metadata_only=metadata_only,
        )

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        timeout_seconds: int = 270,
    ) -> AsyncGenerator[WatchEvent, None]:
        self._need_shown(resource)
        return self._client.watch(
            resource,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
            metadata_only=metadata_only,
            timeout_seconds=timeout_seconds,
        )

    async def create(
        self, resource: Resource, obj: Object, namespace: str | None = None, *, dry_run: bool = False
    ) -> Object:
        if resource not in (ACCESS_REVIEW, SELF_ACCESS_REVIEW):
            raise _read_only("create", resource)
        return await self._client.create(resource, obj, namespace)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str | None = None,
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        raise _read_only("patch", resource)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        raise _read_only("delete", resource)

    def _need_shown(self, resource: Resource) -> None:
        if resource in self._hidden:
            raise Forbidden(f"{resource} are not read here", code=403, reason="Forbidden")


def _read_only(verb: str, resource: Resource) -> Forbidden:
    return Forbidden(f"this client only reads: {verb} of {resource} is not sent", code=403, reason="Forbidden")
