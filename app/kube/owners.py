"""The top owner of an object, found by metadata-only reads of its controllers."""

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
"""Returns the resource of an apiVersion and kind, or None if the cluster does not serve it."""

MAX_DEPTH = 10
REMEMBERED = 10_000
REMEMBERED_BYTES = 8 * 2**20
FRESH_SECONDS = 30.0
"""The age up to which a cached owner is used, unless the caller asks for a younger one."""


_READ = ("name", "uid", "labels", "annotations", "ownerReferences")
"""The metadata that callers use."""


class _Read(Value):
    """An owner as it was read."""

    at: float
    """The time of the read."""
    owner: Object | None
    """Its metadata, or None if it can't be read."""
    size: int
    """Its size as JSON, in bytes."""


class Owners(Struct):
    """A reader of owners along references with `controller: true`.

    Up to `REMEMBERED` owners are cached, because the Pods of a group have the same owners, and at
    most `REMEMBERED_BYTES` of them, because tenants decide on the size of their annotations.
    Callers say how old a cached owner may be, in seconds. Anybody can write a reference with the
    uid of another owner, so such a reference is read separately. `clock` is monotonic, in seconds.
    """

    client: Objects
    find_kind: FindKind
    clock: Clock = time.monotonic
    _read: OrderedDict[tuple[str, OwnerRef], _Read] = field(default_factory=OrderedDict)
    _bytes: int = 0
    """The size of all cached owners as JSON."""

    async def top_owner(
        self, namespace: str, reference: OwnerRef, *, fresh_seconds: float = FRESH_SECONDS
    ) -> Object:
        """Return the last owner, from `reference` upwards, that can be read.

        It is metadata with apiVersion and kind. The search ends at an owner that does not exist or
        that RBAC does not allow to read. If that is the first owner, the result is made from the
        reference. Raise ClusterError if the API server is unavailable.
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

        They are metadata with apiVersion and kind. Raise ClusterError if the API server is
        unavailable.
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
        if not _is_possible(reference):
            return None
        key = namespace, reference
        cached = self._read.get(key)
        if cached is not None and self.clock() - cached.at < fresh_seconds:
            return cached.owner
        owner = await self._fetch(namespace, reference)
        self._remember(key, _Read(self.clock(), owner, len(to_json(owner))))
        return owner

    def _remember(self, key: tuple[str, OwnerRef], read: _Read) -> None:
        """Keep `read` as the newest owner, and remove the oldest ones beyond the limits."""
        former = self._read.pop(key, None)
        self._bytes += read.size - (former.size if former else 0)
        self._read[key] = read
        while len(self._read) > REMEMBERED or self._bytes > REMEMBERED_BYTES:
            _, oldest = self._read.popitem(last=False)
            self._bytes -= oldest.size

    async def _fetch(self, namespace: str, reference: OwnerRef) -> Object | None:
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
    """Return whether a stored object can have this reference, and an owner may be behind it.

    API servers check neither the group, the version nor the kind of a reference, which become a
    path of the API: `v1%2Fpods` would be the list of all Pods. A reference in a review may have
    megabytes, or the name ".", whose path is the list of all objects. Owners of the kinds COPIES do
    not own Pods.
    """
    if not is_kind(reference.api_version, reference.kind) or reference.kind in COPIES:
        return False
    return all(map(is_subdomain, (reference.name, reference.uid)))


def is_kind(api_version: str, kind: str) -> bool:
    """Return whether these can be the apiVersion and the kind of an API.

    Their characters need no quotes in a path, and nothing in them changes its meaning.
    """
    group, slash, version = api_version.rpartition("/")
    is_group = is_subdomain(group) if slash else not group
    return is_group and is_label(version) and len(kind) <= MAX_LABEL and is_label(kind.lower())


def _check_is_final(error: NotFound | Rejected) -> None:
    """Raise `error` if a later call may succeed, for example after an expired token is replaced."""
    if isinstance(error, Rejected) and error.passes:
        raise error


class Kinds(Struct):
    """Resources by apiVersion and kind, each read from the API server once.

    `read` returns the JSON at a path.
    """

    read: Callable[[str], Awaitable[Object]]
    _lists: dict[str, dict[str, Resource]] = {}

    async def find(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of an apiVersion and kind, or None if it is not served.

        An owner reference may name a version that was served when it was written. The resource then
        has a version that is served now.
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
        """Return the apiVersions of a group, the preferred one first."""
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
