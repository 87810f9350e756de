"""Define the calls to a cluster as Protocols, and their errors. Read lists in pages.

`client.py` implements `Client`.
"""

import asyncio
import math
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
    """A call to the API server failed.

    `code` is the status of an HTTP error, otherwise 0. `reason` is the machine-readable reason of
    the API server, or our own. `retry_after` is the pause, in seconds, for which the API server has
    asked, or None.
    """

    def __init__(
        self, message: str, *, code: int = 0, reason: str = "", retry_after: float | None = None
    ) -> None:
        # an API server quotes the URL of a webhook, which may contain a token
        message = without_tokens(message)
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
    """404: the cluster does not serve this resource."""

    no_resource = True


class Conflict(ClusterError):
    """409: another write came first.

    Either an object with the name already exists (reason AlreadyExists), or the stored object has
    another resourceVersion or uid than the call states (reason Conflict).
    """

    @property
    def already_exists(self) -> bool:
        """Whether an object with this name already exists."""
        return self.reason == "AlreadyExists"


class Gone(ClusterError):
    """410: the resource version is too old; list again."""


class Rejected(ClusterError):
    """Another 3xx or 4xx, such as 400, 401, 403 or 422: the same call usually fails again."""

    @property
    def is_temporary(self) -> bool:
        """Whether the same call may nevertheless succeed later.

        It may succeed once an expired token is replaced, or a namespace that is being deleted is
        created again. It may also succeed if an owner reference has the kind of a new CRD, because
        the API server looks for new kinds only every 30 s.
        """
        temporary = ("because it is being terminated", "cannot find RESTMapping")
        return self.code == 401 or any(text in self.message for text in temporary)


class Unavailable(ClusterError):
    """The same call may succeed later.

    The cause is, for example, a 429 or 5xx, a timeout, a broken connection, or credentials that
    can't be read.
    """


class TooLong(ClusterError):
    """A response has more bytes than allowed. If it is a page of a list, ask for fewer objects."""


class ObjectRef(Value):
    """The resource, namespace and name of an object.

    The namespace of a cluster-scoped object is None.
    """

    resource: Resource
    name: str
    namespace: str | None = None


class Selection(Value):
    """The objects that a list or a watch returns, and the fields that are read of each object."""

    resource: Resource
    namespace: str | None = None
    """The namespace of the objects, or None for all namespaces."""
    labels: str = ""
    """A label selector in the syntax of the API server, or "" for all objects."""
    fields: str = ""
    """A field selector in the syntax of the API server, or "" for all objects."""
    metadata_only: bool = False
    """Whether only the metadata of the objects is read (PartialObjectMetadata)."""
    form: Any = None
    """A TypedDict with the fields that are needed. Other fields may be missing. None means all."""


class Page(Value):
    """One page of a list, as the API server returns it."""

    items: Sequence[Object]
    """The objects, with apiVersion and kind.

    The objects may be decoded again at each iteration, so that they are never in memory together.
    """
    resource_version: str
    """The resourceVersion of the list."""
    continue_token: str = ""
    """The token of the next page, or "" if this is the last one."""
    remaining: int | None = None
    """The number of objects on later pages, or None if the API server does not report it."""
    length: int = 0
    """The size of the page in bytes, or 0 if it is not known."""


INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the list at the beginning of a watch."""


class WatchEvent(Value):
    """An event of a watch. ERROR events are raised as a ClusterError instead, such as Gone."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: Object
    length: int = 0
    """The size of the event in bytes, or 0 if it is not known."""

    @property
    def ends_list(self) -> bool:
        """Whether this is the bookmark after the last object of a streaming list."""
        if self.type != "BOOKMARK":
            return False
        annotations = self.object["metadata"].get("annotations") or {}
        return bool(annotations.get(INITIAL_EVENTS_END) == "true")


class Lists(Protocol):
    """Calls that list objects, in the version that `served_version` returns."""

    async def list(
        self, selection: Selection, *, limit: int = 500, continue_token: str = ""
    ) -> Page:
        """Return the page at `continue_token`, or the first one, with at most `limit` objects.

        Raise NotServed if the cluster does not serve the resource, Gone if the token has expired,
        TooLong if the page has too many bytes, or another ClusterError.
        """
        ...

    def served_version(self, resource: Resource) -> str | None:
        """Return the version that calls of `resource` use, or None if it is not served.

        Known versions that the cluster serves are preferred to later, unknown versions.
        """
        ...


class Objects(Lists, Protocol):
    """Calls that read and write objects, without watches and deletion.

    Every call has a time limit and raises only ClusterErrors. Without a `version`, the result of
    `served_version` is used. With `metadata_only`, only metadata is read (PartialObjectMetadata).
    """

    async def get(
        self, ref: ObjectRef, *, version: str | None = None, metadata_only: bool = False
    ) -> Object:
        """Return the object at `ref`. Raise NotFound if the object does not exist."""
        ...

    async def create(self, resource: Resource, obj: Object, namespace: str | None = None) -> Object:
        """Create `obj`, and return the stored object. Raise Conflict if the name is taken."""
        ...

    async def patch(self, ref: ObjectRef, patch: Patch, *, subresource: str = "") -> Object:
        """Apply `patch`, and return the patched object.

        Raise Conflict if the patch sets a `metadata.resourceVersion` other than the current one.
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

        With `list_first` and `resource_version` "", the stored objects are sent first, one ADDED
        event each, then a bookmark for which `ends_list` is true, and then the changes. Raise
        Rejected if the API server refuses to stream lists.

        `accepted` is called once the API server has accepted the request, which may be long before
        the first event. The API server ends the stream after `timeout_seconds`. A caller that stops
        earlier must close the generator (`contextlib.aclosing`). Raise Gone if `resource_version`
        is too old, or another ClusterError if the watch fails.
        """
        ...


class Client(Objects, Reader, Protocol):
    """All calls to a cluster: those of `Objects` and `Reader`, and deletion."""

    async def delete(
        self, ref: ObjectRef, *, uid: str | None = None, resource_version: str | None = None
    ) -> None:
        """Delete an object. Its dependents are deleted in the background.

        Raise Conflict if `uid` or `resource_version` is given and differs from the object's, and
        NotFound if the object does not exist.
        """
        ...


async def find(
    client: Objects, ref: ObjectRef, *, metadata_only: bool = False, version: str | None = None
) -> Object | None:
    """Return the object at `ref`, or None if it does not exist or its resource is not served.

    Raise any other ClusterError.
    """
    try:
        return await client.get(ref, metadata_only=metadata_only, version=version)
    except NotFound:
        return None


async def find_living(
    client: Objects, ref: ObjectRef, uid: str, *, version: str | None = None
) -> Object | None:
    """Return the object at `ref`, with only metadata, if it has this uid and is not being deleted.

    Otherwise, or if the resource is not served, return None. Raise any ClusterError but NotFound.
    """
    obj = await find(client, ref, metadata_only=True, version=version)
    if obj is None or obj["metadata"].get("uid") != uid:
        return None
    return None if obj["metadata"].get("deletionTimestamp") is not None else obj


async def list_all(client: Lists, selection: Selection) -> list[Object]:
    """Return all objects of `selection`, or [] if the resource is not served.

    Raise any other ClusterError.
    """
    try:
        return await every(client, selection)
    except NotFound:
        return []


async def every(client: Lists, selection: Selection) -> list[Object]:
    """Return all objects of `selection`. Raise a ClusterError, such as NotServed, on failure."""
    return [obj async for obj in each(client, selection)]


async def each(
    client: Lists, selection: Selection, *, optional: bool = False
) -> AsyncGenerator[Object, None]:
    """Yield the objects of `selection`. Only the objects of one page are decoded at a time.

    Raise ClusterError if a request fails. With `optional`, yield nothing if the resource is not
    served.
    """
    try:
        async for page in pages(client, selection):
            for obj in page.items:
                yield obj
    except NotFound:
        if not optional:
            raise


def error_from(code: int, headers: Mapping[str, str], body: bytes) -> ClusterError:
    """Return the error for an HTTP response with a status of 300 or more.

    If the body is not a Status, for example a proxy's page, its first 500 bytes are the message.
    """
    status = _status_in(body) or {"message": body[:500].decode("utf-8", "replace").strip()}
    return error_from_status(status, code, _seconds(headers.get("Retry-After")))


def error_from_status(status: Object, code: int = 0, wait: float | None = None) -> ClusterError:
    """Return the error for a Status in a response, or in an ERROR event of a watch.

    `code` is the HTTP status, or 0 to use the code of the Status. `wait` is the Retry-After header
    in seconds. It is used if the Status has no retryAfterSeconds.
    """
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
    """Return the Status in a body, or None if the body is not one."""
    try:
        decoded = from_json(body)
    except NotJson:
        return None
    return decoded if isinstance(decoded, dict) and decoded.get("kind") == "Status" else None


def _seconds(value: Any) -> float | None:
    """Return the seconds in a header or a Status, or None if `value` is not a positive number."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if 0 < seconds < math.inf else None


PAGE = 500
"""The maximum number of objects in a page."""

PAGE_BYTES = 2 * 2**20
"""The target size of a page, in bytes: 500 Pods of 4 KB, a common size."""

MOST_PAGE_BYTES = 4 * 2**20
"""The maximum size of a page with several objects, in bytes.

A longer page is read again with fewer objects.
"""

_FIRST_PAGE = 25
"""The number of objects in the first page, before the size of the objects is known."""


class PageSize(Struct):
    """The number of objects to request, so that a page has about PAGE_BYTES.

    The first page is small, because tenants can choose the size of their objects.
    """

    most: int = PAGE
    """The maximum number of objects in a page."""
    next: int = 0
    """The number of objects to request in the next page."""

    def __post_init__(self) -> None:
        self.next = min(self.most, _FIRST_PAGE)

    def note(self, page: Page) -> None:
        """Set `next` by the size of the objects in `page`, or to `most` if the size is unknown."""
        if not page.length or not page.items:
            self.next = self.most
            return
        fitting = PAGE_BYTES * len(page.items) // page.length
        self.next = max(1, min(self.most, fitting))

    def shrink(self) -> bool:
        """Lower `next` after a page that was too long. Return False if it is already 1."""
        if self.next == 1:
            return False
        self.next = max(1, self.next // 5)
        return True


class _Position(Struct):
    """The position in a list up to which its objects have been returned.

    The API server sorts the objects of a namespace by name. The order of the namespaces does not
    matter.
    """

    is_again: bool = False
    """Whether the list was started again, so that objects may come twice."""
    _finished: set[str] = set()
    """The namespaces whose objects have all been returned."""
    _namespace: str | None = None
    _name: str = ""
    """The namespace and name of the last object that was returned."""

    def rest_of(self, items: Sequence[Object]) -> list[Object]:
        """Decode `items`, return those after the position, and move the position to the last one.

        Unless the list was started again, return all items.
        """
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
    """Yield each object of `selection` once, in pages of about PAGE_BYTES.

    A page has at most `limit` objects. The next page is requested before a page is yielded. In a
    large cluster, that saves up to a fifth of the time (`./scripts/bench mcp`). The objects of a
    page are decoded just before it is yielded, and removed before the next page is decoded.

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
                await asyncio.sleep(0)  # otherwise, the request would be sent after this page
            items = position.rest_of(page.items)
            if items:
                expired = False
                yield replace(page, items=items)
                items.clear()
            if not token:
                return
    finally:
        coming.cancel()
