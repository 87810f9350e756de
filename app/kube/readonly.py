"""A client that can only read: what commands for people are given, so that no code of theirs can write."""

from collections.abc import AsyncGenerator
from typing import Protocol

from app.kube.api import Object, Page, WatchEvent
from app.objects.resource import Resource


class Reader(Protocol):
    """The part of `Client` that sends GET requests and nothing else."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object: ...

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
    ) -> Page: ...

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
    ) -> AsyncGenerator[WatchEvent, None]: ...

    def served_version(self, resource: Resource) -> str | None: ...


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
