"""Send calls to an API server, with the paths, parameters and media types of the Kubernetes API.

The generated API classes and the Watch of kubernetes_asyncio are not used: the classes decode every
object several times, and the Watch has no time limit.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from typing import Any, Self
from urllib.parse import quote

from msgspec.structs import replace

from app.base.sample import Checks, Part, Sample, counter
from app.kube.api import (
    MOST_PAGE_BYTES,
    NotServed,
    Object,
    ObjectRef,
    Page,
    Patch,
    Selection,
    Unavailable,
    WatchEvent,
    error_from_status,
)
from app.kube.credentials import Credentials
from app.kube.decoders import Items, decoded_event
from app.kube.discovery import Discovery
from app.kube.transport import JSON, ApiRequest, Call, CallLimits, Params, Transport
from app.objects.resource import Resource
from app.objects.shape import JsonMap

_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_MERGE_PATCH = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_WRITING: Params = {"fieldManager": "grove-admission"}
_EVENT_TYPES = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")


class HttpClient(Part):
    """A `Client` that calls an API server over HTTP.

    Use it as `async with HttpClient(credentials, resources, limits) as client`, and run
    `client.discovery`, which finds out in which versions the cluster serves `resources`.
    """

    def __init__(
        self, credentials: Credentials, resources: Iterable[Resource], limits: CallLimits
    ) -> None:
        self._transport = Transport(credentials, limits)
        self.call: Call = self._transport.call
        """The function that sends requests other than watches. Recording or replay replaces it."""
        self.discovery = Discovery(self.read, resources)

    def sibling(self, limits: CallLimits) -> "HttpClient":
        """Return a client of the same cluster with its own limits and connections.

        The two clients share discovery and metrics. Calls of one client do not delay calls of the
        other. Close the sibling separately.
        """
        transport = self._transport
        sibling = HttpClient(transport.credentials, (), limits)
        sibling.discovery = self.discovery
        sibling._transport.calls = transport.calls
        sibling._transport.reach = transport.reach
        return sibling

    @property
    def calls(self) -> dict[tuple[str, str, str], int]:
        """The number of requests by verb, resource and HTTP status.

        The status is "error" if there was no response.
        """
        return self._transport.calls

    def checks(self) -> Checks:
        return {"api-server": self._transport.reach.check()}

    def samples(self) -> Iterator[Sample]:
        yield from self._transport.reach.samples()
        for (verb, resource, code), count in self.calls.items():
            text = "Calls to the API server."
            yield counter(
                "api_requests_total", text, count, verb=verb, resource=resource, code=code
            )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def read(self, path: str) -> Object:
        """Return the JSON object at any path of the API server, such as /version.

        Raise ClusterError if the request fails.
        """
        return await self.call(ApiRequest("get", "", "GET", path))

    def served_version(self, resource: Resource) -> str | None:
        return self.discovery.served_version(resource)

    async def get(
        self, ref: ObjectRef, *, version: str | None = None, metadata_only: bool = False
    ) -> Object:
        path = self._path_of(ref, version=version)
        accept = _METADATA if metadata_only else JSON
        request = ApiRequest(
            "get", str(ref.resource), "GET", path, accept=accept, namespace=ref.namespace or ""
        )
        return await self.call(request)

    async def list(
        self, selection: Selection, *, limit: int = 500, continue_token: str = ""
    ) -> Page:
        resource = selection.resource
        params = _selectors(selection)
        params |= {"limit": str(limit)} if limit else {}
        params |= {"continue": continue_token} if continue_token else {}
        accept = _METADATA_LIST if selection.metadata_only else JSON
        path = self._path(resource, selection.namespace)
        lengths = [0]
        request = ApiRequest(
            verb="list",
            resource=str(resource),
            method="GET",
            path=path,
            params=params,
            accept=accept,
            most=MOST_PAGE_BYTES if limit > 1 else 0,
            namespace=selection.namespace or "",
            arrived=lengths.append,
        )
        answer = await self.call(request)
        return _page(answer, selection.form, lengths[-1])

    async def watch(
        self,
        selection: Selection,
        *,
        resource_version: str,
        timeout_seconds: int = 270,
        accepted: Callable[[], None] = lambda: None,
        list_first: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        resource = selection.resource
        params = _selectors(selection) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_seconds),
        }
        if resource_version:
            params["resourceVersion"] = resource_version
        if list_first:
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        accept = _METADATA if selection.metadata_only else JSON
        path = self._path(resource, selection.namespace)
        request = ApiRequest(
            verb="watch",
            resource=str(resource),
            method="GET",
            path=path,
            params=params,
            accept=accept,
        )
        async with aclosing(self._transport.lines(request, accepted)) as lines:
            async for line in lines:
                await self._transport.turns.take(len(line))
                event = _watch_event(line, selection.form)
                if event is not None:
                    yield event
                del line, event  # they may be large, and the next line may come minutes later

    async def create(self, resource: Resource, obj: Object, namespace: str | None = None) -> Object:
        return await self.call(self._creation(resource, obj, namespace))

    async def try_create(self, resource: Resource, obj: Object) -> None:
        """Send a dry run of creating the cluster-scoped object `obj`.

        The API server calls policies and webhooks, and stores nothing. Raise ClusterError if it
        would not create the object.
        """
        creation = self._creation(resource, obj, None)
        await self.call(replace(creation, params={**_WRITING, "dryRun": "All"}))

    def _creation(self, resource: Resource, obj: Object, namespace: str | None) -> ApiRequest:
        body = {
            **obj,
            "apiVersion": resource.api_version(self._version(resource)),
            "kind": resource.kind,
        }
        return ApiRequest(
            verb="create",
            resource=str(resource),
            method="POST",
            path=self._path(resource, namespace),
            params=_WRITING,
            body=body,
            namespace=namespace or "",
        )

    async def patch(self, ref: ObjectRef, patch: Patch, *, subresource: str = "") -> Object:
        path = self._path_of(ref, subresource=subresource)
        request = ApiRequest(
            verb="patch",
            resource=str(ref.resource),
            method="PATCH",
            path=path,
            params=_WRITING,
            body=patch,
            content_type=_JSON_PATCH if isinstance(patch, list) else _MERGE_PATCH,
            namespace=ref.namespace or "",
        )
        return await self.call(request)

    async def delete(
        self, ref: ObjectRef, *, uid: str | None = None, resource_version: str | None = None
    ) -> None:
        conditions = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {field: value for field, value in conditions.items() if value}
        body: Object = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
        }
        body |= {"preconditions": preconditions} if preconditions else {}
        request = ApiRequest(
            verb="delete",
            resource=str(ref.resource),
            method="DELETE",
            path=self._path_of(ref),
            body=body,
            namespace=ref.namespace or "",
        )
        await self.call(request)

    def _version(self, resource: Resource) -> str:
        version = self.served_version(resource)
        if version is None:
            raise NotServed(f"the cluster doesn't serve {resource}", code=404, reason="NotFound")
        return version

    def _path_of(self, ref: ObjectRef, *, subresource: str = "", version: str | None = None) -> str:
        path = self._path(ref.resource, ref.namespace, version)
        return "/".join(
            [path, *(quote(part, safe=":") for part in (ref.name, subresource) if part)]
        )

    def _path(self, resource: Resource, namespace: str | None, version: str | None = None) -> str:
        api_version = resource.api_version(version or self._version(resource))
        parts = ["apis" if resource.group else "api", api_version]
        parts += ["namespaces", quote(namespace, safe="")] if namespace else []
        parts += [resource.plural]
        return "/" + "/".join(parts)


def _selectors(selection: Selection) -> Params:
    selectors = {"labelSelector": selection.labels, "fieldSelector": selection.fields}
    return {name: text for name, text in selectors.items() if text}


def _page(answer: Object, form: Any, length: int) -> Page:
    """Return the page in the answer to a list request.

    `length` is the size of the answer in bytes, or 0 if it is not known.
    """
    metadata: JsonMap = answer.get("metadata") or {}
    kind = str(answer.get("kind", "")).removesuffix("List")
    items = Items(answer.get("items") or (), answer.get("apiVersion", ""), kind, form)
    version = str(metadata.get("resourceVersion", ""))
    token = metadata.get("continue") or ""
    return Page(
        items=items,
        resource_version=version,
        continue_token=token,
        remaining=metadata.get("remainingItemCount"),
        length=length,
    )


def _watch_event(line: bytes, form: Any) -> WatchEvent | None:
    """Return the event in a line of a watch, or None if its type is unknown.

    Raise the error in an ERROR event, and Unavailable if the line is not an event.
    """
    event = decoded_event(line, form)
    kind = event.get("type")
    obj = event.get("object")
    if not isinstance(obj, dict):
        raise Unavailable(
            f"the API server sent a watch event without an object: {line[:200]!r}", reason="Decode"
        )
    if kind == "ERROR":
        raise error_from_status(obj)
    return WatchEvent(kind, obj, len(line)) if kind in _EVENT_TYPES else None
