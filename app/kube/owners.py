"""The top owner of an object: its controllers, followed upwards by metadata-only reads of any kind that we may read."""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from sys import intern
from typing import NamedTuple

from app.kube.api import Client, Forbidden, NotFound, Object
from app.objects.resource import Resource

FindKind = Callable[[str, str], Awaitable[Resource | None]]
"""The resource of an apiVersion and kind, None if the cluster doesn't serve it."""

MAX_DEPTH = 10
REMEMBERED = 10_000
FRESH_SECONDS = 30.0


class Controller(NamedTuple):
    """An owner reference with `controller: true`."""

    api_version: str
    kind: str
    name: str
    uid: str


class Owners:
    """Follows `ownerReferences` with `controller: true`. What was read is remembered for `FRESH_SECONDS`, by uid, for
    `REMEMBERED` objects at most: the Pods of a group share their owners. `clock` is monotonic, in seconds."""

    def __init__(self, client: Client, find_kind: FindKind, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._find_kind, self._clock = client, find_kind, clock
        self._read: OrderedDict[str, tuple[float, Object | None]] = OrderedDict()

    async def top_owner(self, namespace: str, reference: Controller) -> Object:
        """The last object that could be read on the way up from `reference`, as metadata with apiVersion and kind. An
        owner that can't be read (it is gone, or RBAC says no) ends the way; the reference itself stands for the first
        one. Raises ClusterError where the API server is in trouble."""
        top: Object = {
            "apiVersion": reference.api_version,
            "kind": reference.kind,
            "metadata": {"name": reference.name, "uid": reference.uid},
        }
        for _ in range(MAX_DEPTH):
            read = await self._owner(namespace, reference)
            if read is None:
                return top
            top = read
            above = controller_of(read)
            if above is None:
                return top
            reference = above
        return top

    async def _owner(self, namespace: str, reference: Controller) -> Object | None:
        cached = self._read.get(reference.uid)
        if cached is not None and self._clock() - cached[0] < FRESH_SECONDS:
            return cached[1]
        read = await self._fetch(namespace, reference)
        self._read[reference.uid] = (self._clock(), read)
        self._read.move_to_end(reference.uid)
        while len(self._read) > REMEMBERED:
            self._read.popitem(last=False)
        return read

    async def _fetch(self, namespace: str, reference: Controller) -> Object | None:
        resource = await self._find_kind(reference.api_version, reference.kind)
        if resource is None:
            return None
        where, version = namespace if resource.namespaced else None, resource.versions[0]
        try:
            read = await self._client.get(resource, reference.name, where, version=version, metadata_only=True)
        except (NotFound, Forbidden):
            return None
        if read["metadata"].get("uid") != reference.uid:
            return None
        return {**read, "apiVersion": reference.api_version, "kind": reference.kind}


def controller_of(obj: Object) -> Controller | None:
    """The owner reference of `obj` that controls it."""
    references = obj["metadata"].get("ownerReferences") or []
    controller = next((reference for reference in references if reference.get("controller") is True), None)
    return controller and Controller(*(intern(str(controller[key])) for key in ("apiVersion", "kind", "name", "uid")))


class Kinds:
    """Resources by apiVersion and kind, asked of the API server once and remembered; `read` gets a path as JSON."""

    def __init__(self, read: Callable[[str], Awaitable[Object]]) -> None:
        self._read = read
        self._lists: dict[str, dict[str, Resource]] = {}

    async def find(self, api_version: str, kind: str) -> Resource | None:
        if kind not in self._lists.get(api_version, {}):
            await self._ask(api_version)
        return self._lists.get(api_version, {}).get(kind)

    async def _ask(self, api_version: str) -> None:
        group, _, version = api_version.rpartition("/")
        try:
            answer = await self._read(f"/apis/{api_version}" if group else f"/api/{api_version}")
        except (NotFound, Forbidden):
            return
        self._lists[api_version] = {
            item["kind"]: Resource(group, item["name"], item["kind"], bool(item.get("namespaced")), (version,))
            for item in answer.get("resources") or []
            if "/" not in item["name"]
        }
