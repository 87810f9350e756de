"""Create ComputeDomains and ResourceClaims, for webhooks and reconcilers.

An object with the name of a resource may exist already: a webhook or the leader was faster, the
object isn't ours, it is being deleted, or its owner is gone. `app/reconcilers/MNNVL.md` lists all
writers of MNNVL resources and their preconditions.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from app.base.value import Value
from app.cluster.view import ClusterView
from app.facts.grove.podcliqueset import MOST_PARTS, PodCliqueSet
from app.facts.grove.podgang import StoredGang
from app.facts.kinds import COMPUTE_DOMAIN, POD_CLIQUE_SET, POD_GANG, RESOURCE_CLAIM
from app.facts.labels import MNNVL_ENABLED
from app.facts.nvidia.computedomain import MnnvlResource, read_mnnvl_resource
from app.facts.rows import CLAIMS, DOMAINS, GANGS
from app.kube.api import Conflict, Object, ObjectRef, Objects, Unavailable, find, find_living
from app.kube.store import WatchStore
from app.objects.owners import OwnerRef, controller_uid
from app.objects.resource import Resource
from app.rules.mnnvl.plan import Plan, asks_for, desired_resource
from app.stores.stores import Stores

_INSTALL = {
    COMPUTE_DOMAIN: "install NVIDIA's DRA driver",
    RESOURCE_CLAIM: "enable dynamic resource allocation",
}
"""The remedy of the platform team if the cluster does not serve a resource."""

_OWNERS = {POD_CLIQUE_SET.kind: POD_CLIQUE_SET, POD_GANG.kind: POD_GANG}


class _Needed(Value):
    """An object that a plan needs, and the cache in which to look for it."""

    resource: Resource
    store: WatchStore[MnnvlResource]
    name: str

    def __str__(self) -> str:
        return f'{self.resource.kind} "{self.name}"'

    def ref(self, plan: Plan) -> ObjectRef:
        return ObjectRef(self.resource, self.name, plan.namespace)


class NotOurs(Exception):
    """The resources can't be created, for the reason in the message.

    For example, an object of the same name was not created by us, or the API isn't installed.
    """


class MnnvlResources:
    """A writer of the ComputeDomains and ResourceClaims of PodCliques and of units of Pods.

    `client` writes them, and `facts` finds the PodCliqueSets that own new ones.
    """

    def __init__(self, client: Objects, facts: ClusterView, stores: Stores) -> None:
        self._client = client
        self._facts = facts
        self._gangs = stores[GANGS]
        self._domains = stores[DOMAINS]
        self._claims = stores[CLAIMS]
        self._in_flight: dict[tuple[str, str], asyncio.Lock] = {}

    def is_ensured(self, plan: Plan) -> bool:
        """Return whether the caches have every resource that `plan` needs.

        A resource counts only if we created it, if it is not being deleted and, if it has owners,
        if one of them exists. Raise Unavailable while a cache isn't ready.
        """
        known_owners: tuple[OwnerRef, ...] | None = None
        for needed in self._needed(plan):
            stored = needed.store.ready(needed.resource).get(plan.namespace, needed.name)
            if stored is None or stored.deleting or not _is_ours(stored, plan):
                return False
            # a claim usually has the same owners as its ComputeDomain
            if stored.owners != known_owners and not self._owner_is_known(stored, plan):
                return False
            known_owners = stored.owners
        return True

    def _owner_is_known(self, stored: MnnvlResource, plan: Plan) -> bool:
        """Return whether the caches have an owner of `stored`.

        Return True also if it has no owners, because nothing collects it then.
        """
        for owner in stored.owners:
            if self._is_cached(owner, plan):
                return True
        return not stored.owners

    def _is_cached(self, owner: OwnerRef, plan: Plan) -> bool:
        """Return whether the caches have `owner`, and it is not about to be deleted.

        For a unit of Pods, return whether `owner` is the owner in the plan.
        """
        if plan.is_of_pods:
            return owner.uid == plan.owner_uid
        cached: PodCliqueSet | StoredGang | None = None
        if owner.kind == POD_CLIQUE_SET.kind:
            cached = self._facts.cached_set(plan.namespace, owner.name)
        elif owner.kind == POD_GANG.kind:
            cached = self._gangs.ready("PodGangs").get(plan.namespace, owner.name)
        if cached is None or cached.uid != owner.uid or cached.deleting:
            return False
        return not isinstance(cached, StoredGang) or not self._is_doomed(cached.set_uid, plan)

    def _is_doomed(self, set_uid: str, plan: Plan) -> bool:
        """Return whether a PodGang will be garbage-collected with its PodCliqueSet.

        That is so if the set with the uid `set_uid` was deleted and a set with its name was
        created. Return False if `set_uid` is "".
        """
        if not set_uid:
            return False
        cached = self._facts.cached_set(plan.namespace, plan.owner_name)
        current = plan.owner_uid or (cached.uid if cached else "")
        return current not in ("", set_uid)

    def _needed(self, plan: Plan) -> list[_Needed]:
        domain = _Needed(COMPUTE_DOMAIN, self._domains, plan.compute_domain)
        if plan.mode == "template":
            return [domain]
        return [domain, _Needed(RESOURCE_CLAIM, self._claims, plan.claim)]

    async def ensure(self, plan: Plan, *, dry_run: bool, doubt: str | None = None) -> list[Object]:
        """Create the missing resources of `plan`, which a review needs.

        Return the created objects or, on a dry run, the objects that would be created. Raise
        NotOurs if they can't be created, and a ClusterError if the leader must create them later.
        `doubt` is a reason why this review must not create resources, or None. With a doubt, raise
        Unavailable if a resource is missing. A dry run ignores the doubt.
        """
        self._check_served(plan)
        if plan.is_of_pods:
            # the cached controllers may be older than the current owner
            await self._check_owner(plan, NotOurs)
        # reviews that create nothing take no lock, so that they can't delay others
        if dry_run:
            return await self._missing(plan)
        if doubt is not None:
            return await self._leave_to_leader(plan, doubt)

        async with self._alone(plan):
            if plan.is_of_pods:
                return await self._create_missing(plan)
            return [] if self.is_ensured(plan) else await self._create_if_requested(plan)

    @contextlib.asynccontextmanager
    async def _alone(self, plan: Plan) -> AsyncIterator[None]:
        """Run the block while no other review creates resources of the same unit."""
        key = (plan.namespace, plan.base_name)
        lock = self._in_flight.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._in_flight.pop(key, None)

    def _check_served(self, plan: Plan) -> None:
        """Raise NotOurs if the cluster does not serve a resource that `plan` needs."""
        for needed in self._needed(plan):
            if self._client.served_version(needed.resource) is None:
                kind = needed.resource.kind
                raise NotOurs(
                    f"{kind} is not an API of this cluster ({needed.resource}). Remove the"
                    f" annotation {MNNVL_ENABLED} from the workload, or ask the platform team to"
                    f" {_INSTALL[needed.resource]}"
                )

    async def _create_if_requested(self, plan: Plan) -> list[Object]:
        """Create and return the missing resources, if the stored PodCliqueSet requests them.

        Otherwise, leave them to the leader, as `_leave_to_leader` does.
        """
        # the cache may still have a deleted set of this name
        name = plan.owner_name
        pcs = await self._facts.current_set(plan.namespace, name)
        if pcs is None:
            return await self._leave_to_leader(
                plan, f'PodCliqueSet "{name}", which would own them, does not exist'
            )

        if pcs.deleting:
            doubt = f'PodCliqueSet "{name}", which would own them, is being deleted'
        elif plan.owner_uid not in ("", pcs.uid):
            doubt = _set_was_recreated(name)
        elif pcs.is_cut:
            doubt = (
                f'PodCliqueSet "{name}" has more than {MOST_PARTS} cliques and scaling groups, or'
                f" more than {MOST_PARTS} cliqueNames, so its template is not read"
            )
        elif not asks_for(pcs, plan):
            doubt = f'the template of PodCliqueSet "{name}" does not request them'
        else:
            return await self._create_missing(plan.owned_by(pcs.uid))
        return await self._leave_to_leader(plan, doubt)

    async def _leave_to_leader(self, plan: Plan, doubt: str) -> list[Object]:
        """Return [] if no resource is missing. Otherwise, raise Unavailable with `doubt`."""
        if await self._missing(plan):
            raise Unavailable(doubt)
        return []

    async def _missing(self, plan: Plan) -> list[Object]:
        """Return the missing resources, as they would be created.

        Raise NotOurs or Unavailable if an existing resource can't be used, and Unavailable if the
        owner of a missing one can't be used.
        """
        missing: list[Object] = []
        for needed in self._needed(plan):
            stored = needed.store.get(plan.namespace, needed.name)
            if stored is None:
                stored = await read_current(self._client, needed.ref(plan), needed.store)
            if stored is None:
                plan = plan.owned_by(await self._find_owner(plan))
                missing.append(self._desired(needed, plan))
                continue
            await self._check_usable(needed, stored, plan)
        return missing

    async def _create_missing(self, plan: Plan) -> list[Object]:
        """Create the missing resources of `plan`, whose owner was just read, and return them.

        Raise NotOurs or Unavailable if an existing resource can't be used.
        """
        created: list[Object] = []
        for needed in self._needed(plan):
            stored = needed.store.get(plan.namespace, needed.name)
            if stored is None:
                made = await self._create_or_read(needed, plan)
                if isinstance(made, dict):
                    created.append(made)
                    continue
                stored = made
            await self._check_usable(needed, stored, plan)
        return created

    async def _check_usable(self, needed: _Needed, stored: MnnvlResource, plan: Plan) -> None:
        """Raise NotOurs or Unavailable if `stored`, the object of `needed`, can't be used."""
        _check_is_ours(needed, stored, plan)
        if stored.deleting:
            raise _deletion_error(plan, f"{needed} is being deleted")
        if not await self._owner_lives(stored, plan):
            problem = "belongs to an owner that is gone, and will be garbage-collected"
            raise _deletion_error(plan, f"{needed} {problem}")

    async def restore(self, plan: Plan) -> list[Object]:
        """Create the missing resources of `plan`, whose owner must exist, and return them.

        Existing resources are not changed, even if one is being deleted or its owner is gone: a
        call after its deletion restores it. Raise NotOurs if another object has the name or an API
        is not served, and Unavailable if a later call may succeed, for example because only the
        cache still has the owner.
        """
        self._check_served(plan)
        created: list[Object] = []
        for needed in self._needed(plan):
            stored = needed.store.get(plan.namespace, needed.name)
            if stored is None:
                if not created:
                    await self._check_owner(plan)
                made = await self._create_or_read(needed, plan)
                if isinstance(made, dict):
                    created.append(made)
                    continue
                stored = made
            _check_is_ours(needed, stored, plan)
        return created

    async def _check_owner(self, plan: Plan, error: type[Exception] = Unavailable) -> None:
        """Raise `error` if the API server no longer has the owner, or is deleting it."""
        ref = ObjectRef(plan.owner, plan.owner_name, plan.namespace)
        version = plan.owner.versions[0] if plan.is_of_pods else None
        if await find_living(self._client, ref, plan.owner_uid, version=version) is None:
            owner = f'{plan.owner.kind} "{plan.owner_name}"'
            raise error(f"{owner}, which would own the MNNVL resources, is gone")

    async def _find_owner(self, plan: Plan) -> str:
        """Return the uid of the object that will own the resources of `plan`.

        For a unit of Pods, it is the uid in `plan`. For a PodClique, it is the uid of the
        PodCliqueSet, which is not read if the cache lacks the set and `plan` has its uid. Raise
        Unavailable if the set does not exist, is being deleted, or was created again.
        """
        if plan.is_of_pods:
            return plan.owner_uid
        cached = self._facts.cached_set(plan.namespace, plan.owner_name)
        if cached is None and plan.owner_uid:
            return plan.owner_uid
        pcs = await self._facts.read_set(plan.namespace, plan.owner_name, plan.owner_uid)
        if pcs is None or pcs.deleting:
            state = "is being deleted" if pcs else "does not exist"
            raise Unavailable(f'PodCliqueSet "{plan.owner_name}", which would own them, {state}')
        if plan.owner_uid and plan.owner_uid != pcs.uid:
            raise Unavailable(_set_was_recreated(pcs.name))
        return pcs.uid

    def _desired(self, needed: _Needed, plan: Plan) -> Object:
        """Return the object to create, in the versions that the cluster serves."""
        version = self._client.served_version(needed.resource) or needed.resource.versions[0]
        if not plan.is_of_pods:
            # the garbage collector doesn't find an owner in a version that is not served
            served = plan.owner.in_version(self._client.served_version(plan.owner))
            plan = plan.owned_by(plan.owner_uid, served)
        return desired_resource(plan, needed.resource, version)

    async def _create_or_read(self, needed: _Needed, plan: Plan) -> Object | MnnvlResource:
        """Create an object and return it, or return the existing resource with its name.

        Raise Unavailable if the existing resource was deleted before it could be read.
        """
        desired = self._desired(needed, plan)
        try:
            created = await self._client.create(needed.resource, desired, plan.namespace)
        except Conflict:
            stored = await read_current(self._client, needed.ref(plan), needed.store)
            if stored is None:
                raise Unavailable(f"{needed} existed and has just been deleted") from None
            return stored
        needed.store.note(created)
        return created

    async def _owner_lives(self, stored: MnnvlResource, plan: Plan) -> bool:
        """Return whether an owner of `stored` exists, by the caches or else by the API server."""
        if self._owner_is_known(stored, plan):
            return True
        is_cached = self._facts.cached_set(plan.namespace, plan.owner_name) is not None
        if not is_cached and plan.owner_uid in {owner.uid for owner in stored.owners} - {""}:
            # `_find_owner` took the uid from the PodClique's owner reference
            return True
        if plan.is_of_pods:
            return False
        return any([await self._exists(owner, plan) for owner in stored.owners])

    async def _exists(self, owner: OwnerRef, plan: Plan) -> bool:
        """Return whether the API server has `owner`, and will keep it.

        Owners of unknown kinds are assumed to exist.
        """
        resource = _OWNERS.get(owner.kind)
        if resource is None:
            return True

        ref = ObjectRef(resource, owner.name, plan.namespace)
        obj = await find_living(self._client, ref, owner.uid)
        if obj is None:
            return False

        set_uid = controller_uid(obj, POD_CLIQUE_SET.kind)
        return owner.kind != POD_GANG.kind or not self._is_doomed(set_uid, plan)


async def read_current(
    client: Objects, ref: ObjectRef, store: WatchStore[MnnvlResource]
) -> MnnvlResource | None:
    """Read the resource from the API server and return it, or None if it is gone.

    Also add it to `store` if it has our label.
    """
    obj = await find(client, ref)
    if obj is None:
        return None
    stored = read_mnnvl_resource(obj)
    # the watch selects only managed resources, so it would never remove another one
    if stored.managed:
        store.note(obj)
    return stored


def _check_is_ours(needed: _Needed, stored: MnnvlResource, plan: Plan) -> None:
    """Raise NotOurs if we didn't create `stored`, the object of `needed`, for `plan`."""
    if not _is_ours(stored, plan):
        of = f"unit of {plan.owner.kind}" if plan.is_of_pods else "PodCliqueSet replica"
        raise NotOurs(
            f"{needed} exists in namespace {plan.namespace}, but was not created for this {of}. If"
            f" nothing else needs it, run: kubectl -n {plan.namespace} delete"
            f" {needed.resource.kind.lower()} {needed.name}"
        )


def _is_ours(stored: MnnvlResource, plan: Plan) -> bool:
    """Return whether we created `stored` for the unit of `plan`.

    For PodCliques, that is the same replica of the same PodCliqueSet and scaling group.
    """
    return stored.managed and plan.is_at(stored.place, stored.owners)


def _deletion_error(plan: Plan, problem: str) -> Exception:
    """Return the error about an existing resource that will be deleted.

    The claims of a Pod never change, so a Pod must not be created while the template of the old
    ComputeDomain exists. A PodClique may be, because its Pods are created later.
    """
    if plan.is_of_pods:
        return NotOurs(f"{problem}: create the Pod again (controllers do that by themselves)")
    return Unavailable(problem)


def _set_was_recreated(name: str) -> str:
    return f'the PodClique belongs to a deleted PodCliqueSet "{name}", which was created again'
