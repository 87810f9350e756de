"""What the rest of the program may know of a cluster: Protocols and errors, no implementation.

`client.py` implements `Client` over HTTP, `store.py` implements `Store` over a watch, `memory.py` implements both in
memory. All of them pass `tests/cluster/contract.py`.
"""

from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from app.objects.resource import Resource

Object = dict[str, Any]
"""A Kubernetes object as the API server sent it: JSON, nothing added, nothing lost."""

Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is ""."""

Patch = Object | list[Object]
"""A merge patch (a map), or a JSON patch (a list of operations)."""

PatchKind = Literal["merge", "json"]
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class ClusterError(Exception):
    """The cluster did not do what it was asked. `code` is the HTTP status (0 if there was none), `reason` the
    API server's machine-readable reason, `retry_after` its wish in seconds."""

    def __init__(self, message: str, *, code: int = 0, reason: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message, self.code, self.reason, self.retry_after = message, code, reason, retry_after


class NotFound(ClusterError):
    """404: no such object, or (`no_resource`) the cluster doesn't serve such a resource."""

    no_resource = False


class NotServed(NotFound):
    """The cluster doesn't serve this resource in any version that we know."""

    no_resource = True


class Conflict(ClusterError):
    """409: the object exists (reason AlreadyExists), or was changed since it was read (reason Conflict)."""

    @property
    def already_exists(self) -> bool:
        return self.reason == "AlreadyExists"


class Gone(ClusterError):
    """410: the resource version is too old; list again."""


class Forbidden(ClusterError):
    """The API server will not do it however often it is asked: 400, 401, 403, 405, 413, 415, 422."""

    @property
    def passes(self) -> bool:
        """Whether it may be done later all the same: a token that has expired is replaced, and a namespace that is
        being deleted may be created again."""
        return self.code == 401 or "because it is being terminated" in self.message


class Unavailable(ClusterError):
    """429, 5xx, time-outs and broken connections: the same call may go through later."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: raw items (with apiVersion and kind filled in), the list's resourceVersion, the token of the
    next page ("" at the end), and how many items are on later pages, if the server says so."""

    items: list[Object]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch. `type` is ADDED, MODIFIED, DELETED or BOOKMARK (ERROR lines are raised, 410 as Gone)."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: Object


class Objects(Protocol):
    """Single objects, as raw JSON both ways. Every call has a time limit and raises only ClusterErrors.

    `namespace` is None for cluster-scoped resources. `version` None means the served version found by discovery.
    `metadata_only` reads PartialObjectMetadata.
    """

    async def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        version: str | None = None,
        metadata_only: bool = False,
    ) -> Object: ...

    async def create(
        self, resource: Resource, obj: Object, namespace: str | None = None, *, dry_run: bool = False
    ) -> Object: ...

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
        """Merge patch (a map) or JSON patch (a list of operations). A `metadata.resourceVersion` that a patch writes
        is a precondition: Conflict if it is not the current one."""
        ...

    def served_version(self, resource: Resource) -> str | None:
        """The best version of `resource` that the cluster serves and we know; None if it serves none."""
        ...


class Reader(Protocol):
    """The part of `Client` that sends GET requests and nothing else. In `list` and `watch`, `namespace` None means all
    namespaces."""

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
    ) -> AsyncGenerator[WatchEvent, None]:
        """The changes after `resource_version`, bookmarks included, until the server ends the stream. A caller that
        stops early closes it (`contextlib.aclosing`). Raises Gone if the version is too old."""
        ...

    def served_version(self, resource: Resource) -> str | None: ...


class Client(Objects, Reader, Protocol):
    """All calls: single objects, lists, watches and deletion."""

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        """Background deletion; `uid` and `resource_version` are preconditions (Conflict if they don't hold)."""
        ...


Change = Callable[[Key, T | None, T | None], None]
"""Called after a store has changed, with the key, what stood there before and what stands there now."""


class Store(Protocol[T_co]):
    """A cache of one resource, projected to what is needed of each object. Reads never wait."""

    @property
    def synced(self) -> bool:
        """The first list is in, or the resource is known not to be served."""
        ...

    @property
    def served(self) -> bool: ...

    def get(self, namespace: str, name: str) -> T_co | None: ...

    def by_index(self, index: str, value: Key) -> Iterable[T_co]:
        """The objects whose index function gave `value`. KeyError if no such index was declared."""
        ...

    def values(self) -> Iterable[T_co]: ...

    def __len__(self) -> int: ...

    def note(self, obj: Object) -> None:
        """Takes in an object that the API server just answered a write with, so that the next read sees it before
        the watch does; an older version than the one cached is passed over."""
        ...

    def subscribe(self, change: Change[T_co]) -> None: ...
