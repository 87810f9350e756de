"""The calls to a cluster as Protocols, and their errors.

The errors are made from HTTP responses and Status objects. `client.py` implements `Client`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from app.base.json import NotJson, from_json
from app.base.value import Value
from app.objects.resource import Resource
from app.objects.shape import Object as Object
from app.objects.shape import key_of
from app.objects.tokens import without_tokens

Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is ""."""

Patch = Object | list[Object]
"""A merge patch (a map), or a JSON patch (a list of operations)."""


class ClusterError(Exception):
    """A call failed.

    `code` is the HTTP status (0 without a response), `reason` the machine-readable reason of the
    API server, and `retry_after` the seconds after which the API server wants to be called again.
    """

    def __init__(
        self, message: str, *, code: int = 0, reason: str = "", retry_after: float | None = None
    ) -> None:
        message = without_tokens(message)  # an API server shows the URL of a webhook
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.retry_after = retry_after


class NotFound(ClusterError):
    """404: there is no such object.

    If `no_resource` is true, the cluster does not serve the resource.
    """

    no_resource = False


class NotServed(NotFound):
    """The cluster does not serve this resource in a known version."""

    no_resource = True


class Conflict(ClusterError):
    """409: another write came first.

    The object exists already (reason AlreadyExists), or has changed since it was read (reason
    Conflict).
    """

    @property
    def already_exists(self) -> bool:
        return self.reason == "AlreadyExists"


class Gone(ClusterError):
    """410: the resource version is too old; list again."""


class Rejected(ClusterError):
    """400, 401, 403, 405, 413, 415 or 422: the same call would fail again."""

    @property
    def passes(self) -> bool:
        """May the call succeed later?

        It may if the cause goes away: an expired token is replaced, a namespace that is being
        deleted is created again, or an API server looks for the kind of a new CRD in owner
        references, which it does only every 30 s.
        """
        passing = ("because it is being terminated", "cannot find RESTMapping")
        return self.code == 401 or any(text in self.message for text in passing)


class Unavailable(ClusterError):
    """429, 5xx, a timeout or a broken connection: the same call may succeed later."""


class TooLong(ClusterError):
    """A page of a list exceeds the limit of one read: ask for fewer objects."""


class ObjectRef(Value):
    """The place of one object. `namespace` is None for cluster-scoped resources."""

    resource: Resource
    name: str
    namespace: str | None = None


class Selection(Value):
    """The objects that a list or a watch is about.

    Without a `namespace`, all namespaces are selected. `labels` and `fields` are selectors in
    the syntax of the API server. `metadata_only` reads PartialObjectMetadata. Objects of a list may
    have only the fields of `form`, a TypedDict.
    """

    resource: Resource
    namespace: str | None = None
    labels: str = ""
    fields: str = ""
    metadata_only: bool = False
    form: Any = None


class Page(Value):
    """A page of a list.

    `items` have apiVersion and kind. They may be decoded again at each iteration, so that a page is
    never in memory as a whole. `length` is the size of the page in bytes, or 0 if it is not known.
    """

    items: Sequence[Object]
    resource_version: str
    """The resourceVersion of the list."""
    continue_token: str = ""
    """The token of the next page, or "" on the last page."""
    remaining: int | None = None
    """The number of items on later pages, if the API server gives it."""
    length: int = 0


INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the list at the beginning of a watch."""


class WatchEvent(Value):
    """An event of a watch. ERROR events are raised as exceptions: 410 as Gone."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: Object
    length: int = 0
    """The size of the event in bytes, or 0 if it is not known."""

    @property
    def ends_list(self) -> bool:
        """Whether all objects of a streaming list have been sent."""
        if self.type != "BOOKMARK":
            return False
        annotations = self.object["metadata"].get("annotations") or {}
        return bool(annotations.get(INITIAL_EVENTS_END) == "true")


class Lists(Protocol):
    """Lists of objects in the version that discovery gives."""

    async def list(
        self, selection: Selection, *, limit: int = 500, continue_token: str = ""
    ) -> Page: ...

    def served_version(self, resource: Resource) -> str | None:
        """Return the preferred known version in which the cluster serves `resource`.

        Return None if it serves none.
        """
        ...


class Objects(Lists, Protocol):
    """Calls for objects, without watches.

    Every call has a time limit and raises only ClusterErrors.

    Without a `version`, the version that discovery gives is used. `metadata_only` reads
    PartialObjectMetadata.
    """

    async def get(
        self, ref: ObjectRef, *, version: str | None = None, metadata_only: bool = False
    ) -> Object: ...

    async def create(
        self, resource: Resource, obj: Object, namespace: str | None = None
    ) -> Object: ...

    async def patch(self, ref: ObjectRef, patch: Patch, *, subresource: str = "") -> Object:
        """Apply a merge patch (a map) or a JSON patch (a list of operations).

        Raise Conflict if the patch sets `metadata.resourceVersion` and this is not the current
        one.
        """
        ...


class Reader(Lists, Protocol):
    """The part of `Client` that sends only GET requests."""

    async def get(self, ref: ObjectRef) -> Object: ...

    def watch(
        self,
        selection: Selection,
        *,
        resource_version: str,
        timeout_seconds: int = 270,
        accepted: Callable[[], None] = lambda: None,
        list_first: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield the changes after `resource_version`, and bookmarks.

        With `list_first`, the stored objects are sent first, one ADDED event each, then a bookmark
        for which `ends_list` is true, and then the changes. `resource_version` is "" for that. An
        API server without streaming lists raises Rejected.

        `accepted` is called once the API server has accepted the request, which may be long before
        the first event. The API server ends the stream. A caller that stops earlier must close it
        (`contextlib.aclosing`). Raise Gone if the version is too old.
        """
        ...


class Client(Objects, Reader, Protocol):
    """All calls: objects, watches and deletion."""

    async def delete(
        self, ref: ObjectRef, *, uid: str | None = None, resource_version: str | None = None
    ) -> None:
        """Delete an object. Its dependents are deleted in the background.

        Raise Conflict if it does not have this `uid` or `resource_version`.
        """
        ...


async def find(
    client: Objects, ref: ObjectRef, *, metadata_only: bool = False, version: str | None = None
) -> Object | None:
    """Return the object as `client.get` does, or None.

    None means that it does not exist or its resource is not served. Raise any other ClusterError.
    """
    try:
        return await client.get(ref, metadata_only=metadata_only, version=version)
    except NotFound:
        return None


async def find_living(
    client: Objects, ref: ObjectRef, uid: str, *, version: str | None = None
) -> Object | None:
    """Return the metadata of the object with this uid.

    Return None if it does not exist, is being deleted, or has another uid. Raise ClusterError if a
    request fails.
    """
    obj = await find(client, ref, metadata_only=True, version=version)
    if obj is None or obj["metadata"].get("uid") != uid:
        return None
    return None if obj["metadata"].get("deletionTimestamp") is not None else obj


async def list_all(client: Lists, selection: Selection) -> list[Object]:
    """Return all objects of `selection`. Return none if the resource is not served.

    Raise any other ClusterError.
    """
    try:
        return await every(client, selection)
    except NotFound:
        return []


async def every(client: Lists, selection: Selection) -> list[Object]:
    """Return all objects of `selection`. Raise ClusterError, even if the resource is not served."""
    return [obj async for page in pages(client, selection) for obj in page.items]


def error_from(code: int, headers: Mapping[str, str], body: bytes) -> ClusterError:
    """Return the error for an HTTP response with a status of 300 or more.

    If the body is not a Status, for example a proxy's page, its text is the message.
    """
    status = _status_in(body) or {"message": body[:500].decode("utf-8", "replace").strip()}
    return error_from_status(status, code, _seconds(headers.get("Retry-After")))


def error_from_status(status: Object, code: int = 0, wait: float | None = None) -> ClusterError:
    """Return the error for a Status in a response, or in an ERROR event of a watch."""
    code = code or int(status.get("code") or 500)
    details = status.get("details") or {}
    message = str(status.get("message") or f"HTTP {code}")
    if code == 401:
        message = f"the API server doesn't accept these credentials: {message}"

    retry_after = _seconds(details.get("retryAfterSeconds"))
    kind = _kind_of_error(code)
    if code == 404 and not details.get("name"):
        kind = NotServed

    return kind(
        message,
        code=code,
        reason=str(status.get("reason") or ""),
        retry_after=wait if retry_after is None else retry_after,
    )


def _kind_of_error(code: int) -> type[ClusterError]:
    exact: dict[int, type[ClusterError]] = {
        404: NotFound,
        409: Conflict,
        410: Gone,
        408: Unavailable,
        429: Unavailable,
    }
    return exact.get(code, Unavailable if code >= 500 else Rejected)


def _status_in(body: bytes) -> Object | None:
    try:
        decoded = from_json(body)
    except NotJson:
        return None
    return decoded if isinstance(decoded, dict) and decoded.get("kind") == "Status" else None


def _seconds(value: Any) -> float | None:
    """Return the seconds in a header or a Status, or None for zero, a date, or anything else."""
    try:
        return float(value) or None
    except (TypeError, ValueError):
        return None


# Pages.


PAGE = 500
"""The maximum number of objects in a page."""

PAGE_BYTES = 2 * 2**20
"""The target size of a page, in bytes: 500 Pods of 4 KB, a common size."""

MOST_PAGE_BYTES = 4 * 2**20
"""The maximum size of a page with several objects, in bytes.

A longer page is read again with fewer objects.
"""

_FIRST_PAGE = 25


class PageSize(Struct):
    """The number of objects to request, so that a page takes about PAGE_BYTES.

    The size of objects is not known before the first page, and tenants can choose it.
    """

    most: int = PAGE
    next: int = 0

    def __post_init__(self) -> None:
        self.next = min(self.most, _FIRST_PAGE)

    def note(self, page: Page) -> None:
        """Choose the next size by the bytes of `page`."""
        if not page.length or not page.items:
            self.next = self.most
            return
        fitting = PAGE_BYTES * len(page.items) // page.length
        self.next = max(1, min(self.most, fitting))

    def shrink(self) -> bool:
        """Ask for fewer objects after a page that was too long. Return False if it had only one."""
        if self.next == 1:
            return False
        self.next = max(1, self.next // 5)
        return True


class _Position(Struct):
    """The position in a list.

    The objects of a namespace are in the order of their names. The order of the namespaces does not
    matter.
    """

    is_again: bool = False
    """Whether the list was started again, so that objects may come twice."""
    _finished: set[str] = set()
    _namespace: str | None = None
    _name: str = ""

    def rest_of(self, items: Sequence[Object]) -> list[Object]:
        """Return the decoded objects after the position, and move it to the last of them."""
        rest = [obj for obj in items if not (self.is_again and self._is_past(*key_of(obj)))]
        for namespace, name in map(key_of, rest):
            if self._namespace is not None and namespace != self._namespace:
                self._finished.add(self._namespace)
            self._namespace = namespace
            self._name = name
        return rest

    def _is_past(self, namespace: str, name: str) -> bool:
        return namespace in self._finished or (namespace == self._namespace and name <= self._name)


async def pages(
    client: Lists, selection: Selection, *, limit: int = PAGE
) -> AsyncGenerator[Page, None]:
    """Yield each object once, in pages of at most `limit` objects and about PAGE_BYTES.

    The API server makes the next page while this one is read. In a large cluster, that saves up to
    a fifth of the time (`./scripts/bench mcp`). The objects of a page are decoded when it is
    yielded, and dropped before the next page is decoded.

    A list expires after some minutes (Gone). It is then started again, and the objects that were
    returned before are skipped. Raise Gone if this happens again without progress, and any other
    ClusterError.
    """
    size = PageSize(limit)

    def ask(token: str) -> asyncio.Task[Page]:
        return asyncio.create_task(client.list(selection, limit=size.next, continue_token=token))

    position = _Position()
    token = ""
    coming = ask(token)
    expired = False
    try:
        while True:
            try:
                page = await coming
            except TooLong:
                if not size.shrink():
                    raise
                coming = ask(token)
                continue
            except Gone:
                if expired or not token:
                    raise
                token = ""
                coming = ask(token)
                expired = position.is_again = True
                continue

            size.note(page)
            token = page.continue_token
            if token:
                coming = ask(token)
                await asyncio.sleep(0)  # otherwise, it would be sent after this page is read
            items = position.rest_of(page.items)
            if items:
                expired = False
                yield replace(page, items=items)
                items.clear()
            if not token:
                return
    finally:
        coming.cancel()
