"""Find the owners of an object by metadata-only reads, from its controller to the top owner."""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from msgspec import Struct, field

from app.base.json import to_json
from app.base.value import Value
from app.kube.api import NotFound, Object, ObjectRef, Objects, Rejected
from app.objects.names import MAX_LABEL, is_label, is_subdomain
from app.objects.owners import COPIES, OwnerRef, controller_of
from app.objects.resource import Resource
from app.objects.shape import maps_at, only, text_at
from app.objects.time import Clock

FindKind = Callable[[str, str], Awaitable[Resource | None]]
"""A function that returns the resource of an apiVersion and kind, or None if it is not served."""

MAX_DEPTH = 10
REMEMBERED = 10_000
REMEMBERED_BYTES = 8 * 2**20
FRESH_SECONDS = 30.0
"""The default maximum age of a cached owner, in seconds."""


_READ = ("name", "uid", "labels", "annotations", "ownerReferences")
"""The fields of an owner's metadata that are kept."""


class _Read(Value):
    """The cached result of reading an owner."""

    at: float
    """The time of the read, by the monotonic clock."""
    owner: Object | None
    """The owner with only its metadata, or None if the owner can't be read."""
    size: int
    """The size of `owner` as JSON, in bytes."""


class Owners(Struct):
    """A reader of owners, which follows references with `controller: true`.

    Owners are cached, because the Pods of a group have the same owners. The cache holds at most
    `REMEMBERED` owners with `REMEMBERED_BYTES` of JSON, because tenants can write large
    annotations. Callers choose how old a cached owner may be, in seconds. The key of the cache is
    the whole reference, because anybody can write a reference with the uid of another owner.
    """

    client: Objects
    """The client that reads the owners."""
    find_kind: FindKind
    """A function that returns the resource of an apiVersion and kind."""
    clock: Clock = time.monotonic
    """A monotonic clock, in seconds."""
    _read: OrderedDict[tuple[str, OwnerRef], _Read] = field(default_factory=OrderedDict)
    _bytes: int = 0
    """The size of all cached owners as JSON, in bytes."""

    async def top_owner(
        self, namespace: str, reference: OwnerRef, *, fresh_seconds: float = FRESH_SECONDS
    ) -> Object:
        """Return the last owner, from `reference` upwards, that can be read.

        The object has only metadata, apiVersion and kind. If not even the first owner can be read,
        create the object from `reference`. Raise ClusterError if a read fails and may succeed
        later.
        """
        chain = await self.chain(namespace, reference, fresh_seconds=fresh_seconds)
        if chain:
            return chain[-1]
        return {
            "apiVersion": reference.api_version,
            "kind": reference.kind,
            "metadata": {"name": reference.name, "uid": reference.uid},
        }

    async def chain(
        self, namespace: str, reference: OwnerRef, *, fresh_seconds: float = FRESH_SECONDS
    ) -> list[Object]:
        """Return the owners from `reference` upwards, as far as they can be read.

        The objects have only metadata, apiVersion and kind. At most MAX_DEPTH owners are read.
        Raise ClusterError if a read fails and may succeed later.
        """
        chain: list[Object] = []
        above: OwnerRef | None = reference
        while above is not None and len(chain) < MAX_DEPTH:
            read = await self._owner(namespace, above, fresh_seconds)
            if read is None:
                break
            chain.append(read)
            above = controller_of(read)

        return chain

    async def _owner(
        self, namespace: str, reference: OwnerRef, fresh_seconds: float
    ) -> Object | None:
        key = namespace, reference
        cached = self._read.get(key)
        if cached is not None and self.clock() - cached.at < fresh_seconds:
            return cached.owner
        if not _is_possible(reference):
            return None
        owner = await self._fetch(namespace, reference)
        self._remember(key, _Read(self.clock(), owner, len(to_json(owner))))
        return owner

    def _remember(self, key: tuple[str, OwnerRef], read: _Read) -> None:
        """Cache `read` as the newest owner, and remove the oldest ones beyond the limits."""
        previous = self._read.pop(key, None)
        self._bytes += read.size - (previous.size if previous else 0)
        self._read[key] = read
        while len(self._read) > REMEMBERED or self._bytes > REMEMBERED_BYTES:
            _, oldest = self._read.popitem(last=False)
            self._bytes -= oldest.size

    async def _fetch(self, namespace: str, reference: OwnerRef) -> Object | None:
        """Read the owner from the API server.

        Return None if no owner with the uid in `reference` exists, or if it can't be read. Raise
        ClusterError if a later read may succeed.
        """
        resource = await self.find_kind(reference.api_version, reference.kind)
        if resource is None:
            return None

        scope = namespace if resource.namespaced else None
        version = resource.versions[0]
        try:
            read = await self.client.get(
                ObjectRef(resource, reference.name, scope), version=version, metadata_only=True
            )
        except (NotFound, Rejected) as error:
            _check_is_final(error)
            return None

        if read["metadata"].get("uid") != reference.uid:
            return None

        metadata = only(read["metadata"], _READ)
        return {
            "apiVersion": reference.api_version,
            "kind": reference.kind,
            "metadata": metadata,
        }


def _is_possible(reference: OwnerRef) -> bool:
    """Return whether it is safe and useful to read the owner in `reference`.

    API servers check neither the group, the version nor the kind of a reference, and these become
    the path of a request: `v1%2Fpods` would be the list of all Pods. A reference may be megabytes
    long, or have the name ".", whose path is the list of all objects. Objects of the kinds in
    COPIES do not own Pods.
    """
    if not is_kind(reference.api_version, reference.kind) or reference.kind in COPIES:
        return False
    return all(map(is_subdomain, (reference.name, reference.uid)))


def is_kind(api_version: str, kind: str) -> bool:
    """Return whether `api_version` and `kind` have the form of a real apiVersion and kind.

    If so, they are safe in the path of a request: no character has a special meaning there.
    """
    group, slash, version = api_version.rpartition("/")
    is_group = is_subdomain(group) if slash else not group
    return is_group and is_label(version) and len(kind) <= MAX_LABEL and is_label(kind.lower())


def _check_is_final(error: NotFound | Rejected) -> None:
    """Raise `error` if a later call may succeed, for example after an expired token is replaced."""
    if isinstance(error, Rejected) and error.is_temporary:
        raise error


class Kinds(Struct):
    """A finder of resources by apiVersion and kind.

    The resource list of an apiVersion is read from the API server once, and again for a kind that
    the list does not have.
    """

    read: Callable[[str], Awaitable[Object]]
    """A function that returns the JSON at a path of the API server."""
    _lists: dict[str, dict[str, Resource]] = {}
    """The resources by kind, for each apiVersion."""

    async def find(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of an apiVersion and kind, or None if it is not served.

        Return None also without permission to read which resources are served. If the version of
        `api_version` does not have the kind, the result is in a served version that has it. Raise
        ClusterError if a read fails and may succeed later.
        """
        if not is_kind(api_version, kind):
            return None
        found = await self._find(api_version, kind)
        group = api_version.rpartition("/")[0]
        if found is None and group:
            for served in await self._versions(group):
                found = found or await self._find(served, kind)
        return found

    async def _find(self, api_version: str, kind: str) -> Resource | None:
        if kind not in self._lists.get(api_version, {}):
            await self._read_list(api_version)
        return self._lists.get(api_version, {}).get(kind)

    async def _versions(self, group: str) -> list[str]:
        """Return the apiVersions of a group in the API server's order, or [] if they can't be read.

        Raise ClusterError if a later read may succeed.
        """
        try:
            answer = await self.read(f"/apis/{group}")
        except (NotFound, Rejected) as error:
            _check_is_final(error)
            return []
        named = (text_at(item, "groupVersion") for item in maps_at(answer, "versions"))
        return [api_version for api_version in named if api_version]

    async def _read_list(self, api_version: str) -> None:
        group, _, version = api_version.rpartition("/")
        try:
            answer = await self.read(f"/apis/{api_version}" if group else f"/api/{api_version}")
        except (NotFound, Rejected) as error:
            _check_is_final(error)
            return

        self._lists[api_version] = {
            item["kind"]: Resource(
                group=group,
                plural=item["name"],
                kind=item["kind"],
                namespaced=bool(item.get("namespaced")),
                versions=(version,),
            )
            for item in answer.get("resources") or []
            if "/" not in item["name"]
        }
