"""Makes ComputeDomains and ResourceClaims, and hands them to their PodGang. Shared by webhooks and reconcilers.

The races are settled here: somebody else made it first, it isn't ours, it is being deleted, its owner is gone.
`app/reconcilers/README.md` states the order of all writes of MNNVL resources.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from app.cluster.facts import ready
from app.cluster.readers import NotOurs, PodCliqueSetReader
from app.cluster.stores import Stores
from app.cluster.table import CLAIMS, DOMAINS, GANGS, OF_GANG, replica_key
from app.kube.api import Conflict, NotFound, Object, Objects, Store, Unavailable
from app.objects.resource import Resource
from app.rules.kinds import COMPUTE_DOMAIN, POD_CLIQUE_SET, POD_GANG, RESOURCE_CLAIM
from app.rules.labels import PCS_NAME, PCS_REPLICA, PCSG_NAME, PCSG_REPLICA
from app.rules.mnnvl.claims import desired_claim, desired_compute_domain
from app.rules.mnnvl.ownership import Gang, MnnvlResource, OwnerRef, belongs_to, ownership, read_gang, read_resource
from app.rules.mnnvl.plan import ClaimMode, Owner, Plan
from app.rules.podcliqueset import PodCliqueSet

_OWNERS = {POD_CLIQUE_SET.kind: POD_CLIQUE_SET, POD_GANG.kind: POD_GANG}


class _Needed(NamedTuple):
    resource: Resource
    store: Store[MnnvlResource]
    name: str


class ClusterMnnvl:
    """MnnvlResources over a client and the caches."""

    def __init__(self, client: Objects, sets: PodCliqueSetReader, stores: Stores) -> None:
        self._client = client
        self._sets = sets
        self._gangs = stores[GANGS]
        self._stores = {COMPUTE_DOMAIN: stores[DOMAINS], RESOURCE_CLAIM: stores[CLAIMS]}
        self._in_flight: dict[tuple[str, str], asyncio.Lock] = {}

    def is_ensured(self, plan: Plan, mode: ClaimMode) -> bool:
        for needed in self._needed(plan, mode):
            ready(needed.store, needed.resource)
            stored = needed.store.get(plan.namespace, needed.name)
            if stored is None or not self._is_sound(stored, plan):
                return False
        return True

    def _is_sound(self, stored: MnnvlResource, plan: Plan) -> bool:
        return _is_ours(stored, plan) and not stored.deleting and self._owner_is_known(stored, plan)

    def _owner_is_known(self, stored: MnnvlResource, plan: Plan) -> bool:
        """Whether the caches say that an owner of `stored` lives, so that it will not be collected."""
        if not stored.owners:
            return True
        return any(self._is_cached(one, plan) for one in stored.owners)

    def _is_cached(self, owner: OwnerRef, plan: Plan) -> bool:
        ready(self._gangs, "PodGangs")
        held: PodCliqueSet | Gang | None = None
        if owner.kind == POD_CLIQUE_SET.kind:
            held = self._sets.cached_set(plan.namespace, owner.name)
        elif owner.kind == POD_GANG.kind:
            held = self._gangs.get(plan.namespace, owner.name)
        return held is not None and held.uid == owner.uid and not held.deleting and not self._is_doomed(held, plan)

    def _is_doomed(self, owner: PodCliqueSet | Gang, plan: Plan) -> bool:
        """Whether a PodGang belongs to a former PodCliqueSet of that name, and will be collected with all it owns."""
        if not isinstance(owner, Gang) or not owner.set_uid:
            return False
        cached = self._sets.cached_set(plan.namespace, plan.owner.name)
        current = plan.owner.uid or (cached.uid if cached else "")
        return current not in ("", owner.set_uid)

    def _needed(self, plan: Plan, mode: ClaimMode) -> list[_Needed]:
        domain = _Needed(COMPUTE_DOMAIN, self._stores[COMPUTE_DOMAIN], plan.compute_domain)
        if mode == "template":
            return [domain]
        return [domain, _Needed(RESOURCE_CLAIM, self._stores[RESOURCE_CLAIM], plan.claim)]

    async def ensure(self, plan: Plan, mode: ClaimMode, *, dry_run: bool) -> list[Object]:
        self._check_served(plan, mode)
        key = (plan.namespace, plan.base_name)
        lock = self._in_flight.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                return await self._ensure_all(plan, mode, dry_run)
        finally:
            if not lock.locked():
                self._in_flight.pop(key, None)

    def _check_served(self, plan: Plan, mode: ClaimMode) -> None:
        for needed in self._needed(plan, mode):
            if self._client.served_version(needed.resource) is None:
                kind = needed.resource.kind
                raise NotOurs(f"{kind} is not an API of this cluster ({needed.resource}): MNNVL can't be set up here")

    async def _ensure_all(self, plan: Plan, mode: ClaimMode, dry_run: bool) -> list[Object]:
        created: list[Object] = []
        for needed in self._needed(plan, mode):
            stored = needed.store.get(plan.namespace, needed.name)
            if stored is None:
                stored = await self._read(needed, plan) if dry_run else None
            if stored is None:
                plan = replace(plan, owner=await self._find_owner(plan))
                made = await self._create(needed, plan, dry_run)
                if made is not None:
                    created.append(made)
                    continue
                stored = await self._read(needed, plan)
            await self._check(needed, stored, plan)
        return created

    async def restore(self, plan: Plan, mode: ClaimMode) -> list[Object]:
        """Makes what is missing of `plan`, whose owner lives; gives what was created. What exists stays as it is: if
        it is being deleted, or its owner is gone, it is restored once it has gone. NotOurs if something else has its
        name, Unavailable if a later try may succeed."""
        self._check_served(plan, mode)
        created: list[Object] = []
        for needed in self._needed(plan, mode):
            stored = needed.store.get(plan.namespace, needed.name)
            if stored is None:
                made = await self._create(needed, plan, dry_run=False)
                if made is not None:
                    created.append(made)
                    continue
                stored = await self._read(needed, plan)
            _check_is_ours(needed, stored, plan)
        return created

    async def _find_owner(self, plan: Plan) -> Owner:
        """The set that will own what is made; the PodClique's word counts if the cache lacks the set."""
        cached = self._sets.cached_set(plan.namespace, plan.owner.name)
        if cached is None and plan.owner.uid:
            return plan.owner
        found = await self._sets.read_set(plan.namespace, plan.owner.name)
        if found is None or found.deleting:
            state = "is being deleted" if found else "does not exist"
            raise Unavailable(f'PodCliqueSet "{plan.owner.name}", which would own them, {state}')
        if plan.owner.uid and plan.owner.uid != found.uid:
            raise Unavailable(f'the PodClique belongs to a former PodCliqueSet "{plan.owner.name}", made anew since')
        return Owner(found.name, found.uid)

    async def _create(self, needed: _Needed, plan: Plan, dry_run: bool) -> Object | None:
        """The created object; None where one of that name exists."""
        version = self._client.served_version(needed.resource) or needed.resource.versions[0]
        build = desired_compute_domain if needed.resource is COMPUTE_DOMAIN else desired_claim
        obj = build(plan, version)
        if dry_run:
            return obj
        try:
            made = await self._client.create(needed.resource, obj, plan.namespace)
        except Conflict:
            return None
        needed.store.note(made)
        return made

    async def _read(self, needed: _Needed, plan: Plan) -> MnnvlResource | None:
        try:
            found = await self._client.get(needed.resource, needed.name, plan.namespace)
        except NotFound:
            return None
        one = read_resource(found)
        if one.managed:  # the watch sees no other, so that it would never tell that it has gone
            needed.store.note(found)
        return one

    async def _check(self, needed: _Needed, stored: MnnvlResource | None, plan: Plan) -> None:
        """Raises if a resource that exists can't be relied on."""
        stored = _check_is_ours(needed, stored, plan)
        what = f'{needed.resource.kind} "{needed.name}"'
        if stored.deleting:
            raise Unavailable(f"{what} is being deleted")
        if not await self._owner_lives(stored, plan):
            raise Unavailable(f"{what} belongs to an owner that is gone, and will be collected with it")

    async def _owner_lives(self, stored: MnnvlResource, plan: Plan) -> bool:
        if self._owner_is_known(stored, plan) or self._owner_is_named(stored, plan):
            return True
        return any([await self._is_alive(one, plan) for one in stored.owners])

    def _owner_is_named(self, stored: MnnvlResource, plan: Plan) -> bool:
        """Whether the PodClique names the PodCliqueSet that owns `stored`, and the cache lacks this set: the resource
        was created on the word of such a PodClique (`_find_owner`), so the same word counts for the next one."""
        if self._sets.cached_set(plan.namespace, plan.owner.name) is not None:
            return False
        return any(one.uid == plan.owner.uid for one in stored.owners if plan.owner.uid)

    async def _is_alive(self, owner: OwnerRef, plan: Plan) -> bool:
        resource = _OWNERS.get(owner.kind)
        if resource is None:
            return True
        try:
            found = await self._client.get(resource, owner.name, plan.namespace, metadata_only=True)
        except NotFound:
            return False
        metadata = found["metadata"]
        if metadata.get("uid") != owner.uid or metadata.get("deletionTimestamp") is not None:
            return False
        return owner.kind != POD_GANG.kind or not self._is_doomed(read_gang(found, plan.namespace), plan)

    def resources_of(self, gang: Gang) -> list[MnnvlResource]:
        keys = (gang.namespace, gang.name), replica_key(gang.namespace, gang.place)
        found: list[MnnvlResource] = []
        for resource, store in self._stores.items():
            ready(store, resource)
            found += [one for key in keys for one in store.by_index(OF_GANG, key) if belongs_to(one, gang)]
        return sorted(found, key=lambda one: (one.kind, one.name))

    async def adopt(self, gang: Gang, *, dry_run: bool, seen: Sequence[MnnvlResource] | None = None) -> list[Object]:
        found = self.resources_of(gang) if seen is None else seen
        wanted = [one for one in found if ownership(one, gang) == "adoptable"]
        if dry_run:
            return [_owned(one, gang) for one in wanted]
        done = await asyncio.gather(*(self._hand_over(one, gang) for one in wanted), return_exceptions=True)
        for result in done:
            if isinstance(result, BaseException):
                raise result
        return [result for result in done if isinstance(result, dict)]

    async def _hand_over(self, one: MnnvlResource, gang: Gang) -> Object:
        resource = COMPUTE_DOMAIN if one.kind == COMPUTE_DOMAIN.kind else RESOURCE_CLAIM
        patch = {"metadata": _owned(one, gang)["metadata"]}
        del patch["metadata"]["name"], patch["metadata"]["namespace"]
        changed = await self._client.patch(resource, one.name, patch, one.namespace)
        self._stores[resource].note(changed)
        return changed


def _owned(one: MnnvlResource, gang: Gang) -> Object:
    """What is written when `gang` becomes the owner: of this very object, as it was seen."""
    metadata = {"resourceVersion": one.resource_version, "uid": one.uid, "ownerReferences": [gang.reference()]}
    return {"kind": one.kind, "metadata": {"name": one.name, "namespace": one.namespace, **metadata}}


def _check_is_ours(needed: _Needed, stored: MnnvlResource | None, plan: Plan) -> MnnvlResource:
    what = f'{needed.resource.kind} "{needed.name}"'
    if stored is None:
        raise Unavailable(f"{what} was there and is gone again")
    if not _is_ours(stored, plan):
        raise NotOurs(
            f"{what} exists in namespace {plan.namespace}, but was not made for this PodCliqueSet replica; delete or "
            f"rename it"
        )
    return stored


def _is_ours(stored: MnnvlResource, plan: Plan) -> bool:
    """Made by us, for the same replica of the same PodCliqueSet, and of the same scaling group if it is for one."""
    place, labels = stored.place, plan.labels
    return (
        stored.managed
        and place.pcs == labels[PCS_NAME]
        and place.replica == labels[PCS_REPLICA]
        and place.group == labels.get(PCSG_NAME, "")
        and place.group_replica == labels.get(PCSG_REPLICA, "")
    )
