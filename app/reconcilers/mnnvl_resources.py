"""Reconcile MNNVL resources, which are ComputeDomains and ResourceClaims.

The reconciler creates missing resources that stored PodCliques or Pods need, and deletes resources
that no PodClique or Pod needs any more. If PodCliqueSets should own the resources (`mnnvl.owner`),
it makes them the owners of resources that PodGangs own or that have no owner.

`MNNVL.md` in this folder lists all writers, the races and the preconditions.
"""

import time
from collections.abc import Iterable
from itertools import chain

from msgspec import Struct

from app.cluster.leader_rows import BY_BASE, StoredClique
from app.cluster.owners import MnnvlOwners
from app.cluster.pods import ClaimUsers
from app.cluster.resources import MnnvlResources, NotOurs
from app.cluster.units import CONTROLLERS, UnitOwners
from app.cluster.view import ClusterView
from app.facts.kinds import COMPUTE_DOMAIN, POD_CLIQUE_SET, POD_GANG, RESOURCE_CLAIM
from app.facts.nvidia.computedomain import (
    CLAIM_SUFFIX,
    DOMAIN_SUFFIX,
    MnnvlResource,
    base_of,
    claim_names,
    is_made_by_us,
    is_reserved,
)
from app.facts.rows import BY_SET, CLAIMS, DOMAINS, GANGS, OF_GANG, SETS
from app.kube.api import Key, Object, ObjectRef, Rejected, find
from app.kube.discovery import Discovery
from app.kube.events import Regarding
from app.kube.loop import Loop
from app.kube.store import WatchStore
from app.objects.owners import controller_of
from app.objects.resource import Resource
from app.objects.time import Clock
from app.reconcilers.writing import Writing, names_of, regarding_set, soonest
from app.rules.mnnvl.claim_holders import ClaimedMember, demands_in, plan_for
from app.rules.mnnvl.plan import DEFAULT_DEVICE_CLASS, Plan
from app.stores.stores import Stores

SETTLE_SECONDS = 0.25
"""The delay in seconds between a change and its step.

A ComputeDomain, a claim and a PodClique are written together, and arrive through several watches.
"""

NOT_OURS_SECONDS = 60.0
"""The time in seconds until the next attempt if a resource can't be created (NotOurs).

Objects of other writers with the name of a resource are not watched.
"""

IN_USE_SECONDS = 30.0
"""The maximum time in seconds until the next check of a resource that a pod still uses."""


class MnnvlResourcesReconciler(Struct):
    """A reconciler of one ComputeDomain and its claim at a time.

    A key is (namespace, base name): the names of both begin with the base name.
    """

    name = "mnnvl-resources"

    writing: Writing
    """Deletes resources and records events on their owners."""
    cliques: WatchStore[StoredClique]
    """The cached PodCliques, with our claim or without it."""
    facts: ClusterView
    """The cached PodCliqueSets."""
    stores: Stores
    """The cached ComputeDomains and claims."""
    resources: MnnvlResources
    """Creates missing resources."""
    owners: MnnvlOwners
    """Finds and sets the owners of resources."""
    pods: WatchStore[ClaimedMember]
    """The cached Pods that have our claim and are in no PodClique."""
    units: UnitOwners
    """Finds the owners of Pods outside of PodCliques."""
    users: ClaimUsers
    """Finds the claims that Pods use."""
    collect_after: float
    """The seconds after which resources that nothing needs are deleted. 0 means never."""
    clock: Clock = time.monotonic
    """Returns the monotonic time in seconds."""
    _unneeded_since: dict[Key, tuple[float, set[Resource]]] = {}
    """The time since which the resources of each key are unneeded, and their kinds.

    It is empty at the start of each term as the leader.
    """

    def begin(self) -> None:
        """Forget the state of an earlier term as the leader.

        PodCliques may have needed the resources between the terms.
        """
        self._unneeded_since.clear()
        self.users.forget()

    def all_keys(self) -> set[Key]:
        demands = demands_in(chain(self.cliques.values(), self.pods.values()))
        needed = {(demand.namespace, demand.base_name) for demand in demands}
        stored = (
            resource
            for store in (self.stores[DOMAINS], self.stores[CLAIMS])
            for resource in store.values()
        )

        return needed | {
            (resource.namespace, base)
            for resource in stored
            if (base := base_of(resource.kind, resource.name))
        }

    async def reconcile(self, key: Key) -> float | None:
        """Correct the owners of the resources, create missing ones, and delete unneeded ones.

        Return the seconds until the next step, or None if none is needed.
        """
        # this comes first, because Grove may delete an owning PodGang at any moment
        await self._give_back(key)
        for resource in self._stored(key):
            await self.owners.name_as_served(resource)
        if not (self.cliques.synced and self.pods.synced):
            return SETTLE_SECONDS

        demands = self._demands(key)
        if not demands:
            self.writing.notices.forget(key)

        pause = await self._restore(key, demands) if demands else None
        # Without a list of PodCliques, resources of PodCliques are kept: the API of PodCliques may
        # just have been installed again.
        if not (self.cliques.served or any(stored.place.unit for stored in self._stored(key))):
            return pause

        remaining = await self._collect(key)

        return soonest(pause, remaining)

    def _stored(self, key: Key) -> list[MnnvlResource]:
        """Return the cached ComputeDomain and claim of `key`."""
        namespace, base = key
        domain = self.stores[DOMAINS].get(namespace, f"{base}{DOMAIN_SUFFIX}")
        claim = self.stores[CLAIMS].get(namespace, f"{base}{CLAIM_SUFFIX}")
        return [resource for resource in (domain, claim) if resource is not None]

    def _demands(self, key: Key) -> list[ClaimedMember]:
        """Return the PodCliques and Pods that need the resources of `key`."""
        cliques = self.cliques.by_index(BY_BASE, key)
        return demands_in(chain(cliques, self.pods.by_index(BY_BASE, key)))

    # Give back.

    async def _give_back(self, key: Key) -> None:
        """Give the resources of `key` to their PodCliqueSet, if the rule in force requires it."""
        for resource in self._stored(key):
            pcs = self.owners.set_of(resource)
            if pcs is None:
                continue
            changed = await self.owners.give_back(resource, pcs)
            if changed is not None:
                previous = ", ".join(f"PodGang {gang.name}" for gang in resource.owning_gangs)
                note = (
                    f"this PodCliqueSet now owns {names_of([changed])} (previous owner:"
                    f" {previous or 'none'})"
                )
                self.writing.events.record(
                    regarding_set(pcs), "Normal", "MnnvlResourcesGivenBack", note
                )

    # Restore.

    async def _restore(self, key: Key, demands: list[ClaimedMember]) -> float | None:
        """Create the resources of `key` that `demands` need and that the caches lack.

        Existing resources are not changed. If a resource is being deleted, the key is added again
        once it is gone. Return the seconds until the next attempt, or None if none is needed. Raise
        ClusterError if a request fails.
        """
        plan = self._planned(key, demands) or await self._planned_unit(key, demands)
        if plan is None:
            return None

        regarding = Regarding.to(plan.owner, plan.owner_name, key[0], plan.owner_uid)
        pause = self.writing.rewrites.pause(key)
        if pause is not None:
            note = (
                f"another writer keeps deleting ComputeDomain {key[1]}{DOMAIN_SUFFIX} or"
                f" ResourceClaim {key[1]}{CLAIM_SUFFIX}; backing off. Find that writer in the audit"
                " log of the API server, and stop it"
            )
            self.writing.notices.say(key, [regarding], "MnnvlResourcesContested", note)
            return pause

        try:
            created = await self.resources.restore(plan)
        except NotOurs as problem:
            self.writing.notices.say(key, [regarding], "MnnvlResourcesMissing", str(problem))
            return NOT_OURS_SECONDS
        except Rejected as rejection:
            if not rejection.is_temporary:
                self.writing.notices.say(
                    key, [regarding], "MnnvlResourcesMissing", rejection.message
                )
            raise

        self.writing.notices.forget(key)
        if created:
            self.writing.rewrites.count(key)
            users = "Pods" if plan.is_of_pods else "PodCliques"
            note = f"created missing resources that {users} use: {names_of(created)}"
            self.writing.events.record(regarding, "Normal", "MnnvlResourcesRestored", note)

        return None

    def _planned(self, key: Key, demands: list[ClaimedMember]) -> Plan | None:
        """Return the plan of the resources that PodCliques among `demands` need, or None.

        Two PodCliqueSets may need the same base name: a replica of the set "a-0-b", and a replica
        of the scaling group "b" of the set "a". The set for which a resource was created comes
        first.
        """
        having = {resource.place.pcs for resource in self._stored(key)}
        names = {demand.place.pcs for demand in demands}
        for name in sorted(names, key=lambda name: (name not in having, name)):
            pcs = self.facts.cached_set(key[0], name)
            plan = None if pcs is None else plan_for(demands, pcs)
            if plan is not None:
                return plan
        return None

    async def _planned_unit(self, key: Key, demands: list[ClaimedMember]) -> Plan | None:
        """Return the plan of a missing ComputeDomain that Pods among `demands` need, or None.

        A Pod counts only if the owner that it names is really its owner.
        """
        if self._stored(key):
            return None
        # thousands of Pods may name the same owner, which is read from the API server
        different = {(demand.named, demand.controller): demand for demand in demands}
        for demand in different.values():
            if demand.named is not None:
                wanted = Plan(demand, demand.scope, DEFAULT_DEVICE_CLASS, demand.mode)
                plan, _ = await self.units.owned(wanted)
                if plan is not None:
                    return plan
        return None

    # Collect.

    async def _collect(self, key: Key) -> float | None:
        """Delete the resources that no PodClique or Pod has needed for `collect_after` seconds.

        Return the seconds until the next check, or None if none is needed.
        """
        unneeded = self._unneeded(key)
        if not unneeded or not self.collect_after:
            self._unneeded_since.pop(key, None)
            return None

        kinds = {resource for resource, _ in unneeded}
        remaining = self._remaining(key, kinds)
        if remaining > 0:
            return remaining
        names = claim_names(kinds, key[1])
        if await self.users.use_any(key[0], names, self._claims_in):
            return self._later()

        return await self._delete_all(key, unneeded)

    async def _delete_all(self, key: Key, unneeded: list[tuple[Resource, str]]) -> float | None:
        """Delete the resources `unneeded`, unless they turn out to be needed after all.

        Return the seconds until the next check, or None if none is needed.
        """
        deleted: list[Object] = []
        try:
            for resource, name in unneeded:
                current = await self._read(resource, key[0], name)
                # A PodClique may have arrived while the Pods of a large namespace were listed.
                if current is None or (resource, name) not in self._unneeded(key):
                    continue
                if is_reserved(current):
                    return self._later()
                if await self.units.has_unit(current):
                    return self.collect_after
                metadata = current["metadata"]
                # If a pod reserves the claim at this moment, its resourceVersion changes, and the
                # Conflict leads to another step.
                await self.writing.client.delete(
                    ObjectRef(resource, name, key[0]),
                    uid=metadata["uid"],
                    resource_version=metadata["resourceVersion"],
                )
                deleted.append(current)
        finally:
            # also if the second resource must stay, or can't be deleted
            if deleted:
                self._report_collected(deleted)

        return None

    def _remaining(self, key: Key, kinds: set[Resource]) -> float:
        """Return the seconds for which the unneeded resources of `kinds` must still be kept.

        If the result is not positive, delete them. The time starts again if another kind becomes
        unneeded.
        """
        since, known = self._unneeded_since.get(key, (self.clock(), kinds))
        if not kinds <= known:
            since = self.clock()
            known = kinds

        self._unneeded_since[key] = since, known
        return since + self.collect_after - self.clock()

    def _later(self) -> float:
        """Return the seconds until the next check of a resource that a pod uses."""
        return min(IN_USE_SECONDS, self.collect_after)

    def _unneeded(self, key: Key) -> list[tuple[Resource, str]]:
        """Return the kind and name of each cached resource of `key` that is not needed.

        Resources that are being deleted are omitted. The claim comes first: if a pod has reserved
        it, the ComputeDomain is kept too.
        """
        namespace, base = key
        modes = {demand.mode for demand in self._demands(key)}
        claim = (
            None
            if "shared" in modes
            else self.stores[CLAIMS].get(namespace, f"{base}{CLAIM_SUFFIX}")
        )
        domain = None if modes else self.stores[DOMAINS].get(namespace, f"{base}{DOMAIN_SUFFIX}")
        candidates = ((RESOURCE_CLAIM, claim), (COMPUTE_DOMAIN, domain))
        return [
            (kind, stored.name)
            for kind, stored in candidates
            if stored is not None and not stored.deleting
        ]

    def _claims_in(self, namespace: str) -> set[str]:
        """Return the names that our claims and claim templates in `namespace` may have."""
        stored = chain(self.stores[DOMAINS].values(), self.stores[CLAIMS].values())
        bases = {
            resource.base_name
            for resource in stored
            if resource.namespace == namespace and resource.base_name
        }
        return {name for base in bases for name in claim_names([COMPUTE_DOMAIN], base)}

    async def _read(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Read the object from the API server.

        Return None if it is gone, is being deleted, or was not created by us.
        """
        current = await find(self.writing.client, ObjectRef(resource, name, namespace))
        if (
            current is None
            or current["metadata"].get("deletionTimestamp")
            or not is_made_by_us(current)
        ):
            return None
        return current

    def _report_collected(self, deleted: list[Object]) -> None:
        """Record an event on the controller of the first deleted object, if it has one."""
        owner = controller_of(deleted[0])
        if owner is not None:
            note = f"deleted resources that no PodClique or Pod needs: {names_of(deleted)}"
            namespace = deleted[0]["metadata"]["namespace"]
            regarding = Regarding(
                api_version=owner.api_version,
                kind=owner.kind,
                namespace=namespace,
                name=owner.name,
                uid=owner.uid,
            )
            self.writing.events.record(regarding, "Normal", "MnnvlResourcesCollected", note)


def subscribe(
    loop: Loop,
    cliques: WatchStore[StoredClique],
    pods: WatchStore[ClaimedMember],
    stores: Stores,
    owners: MnnvlOwners,
) -> None:
    """Reconcile a base name soon after a change of an object that it depends on.

    These are PodCliques, Pods, PodGangs, the PodCliqueSet and the resources. If a PodCliqueSet must
    become the owner of a resource, the base name is reconciled at once.
    """

    def add_needed(changed: Iterable[object]) -> None:
        for demand in demands_in(changed):
            loop.add_after((demand.namespace, demand.base_name), SETTLE_SECONDS)

    def member_changed(key: Key, before: object, after: object) -> None:
        add_needed((before, after))

    def set_changed(key: Key, before: object, after: object) -> None:
        add_needed(cliques.by_index(BY_SET, key))

    cliques.subscribe(member_changed)
    pods.subscribe(member_changed)
    stores[SETS].subscribe(set_changed)
    _subscribe_to_resources(loop, stores, owners)


def _subscribe_to_resources(loop: Loop, stores: Stores, owners: MnnvlOwners) -> None:
    def resource_changed(
        key: Key, before: MnnvlResource | None, after: MnnvlResource | None
    ) -> None:
        resource = after or before
        if resource is not None and resource.base_name:
            loop.add_after((key[0], resource.base_name), SETTLE_SECONDS)
        # ask the rule instead of the caches, which may not have the PodCliqueSet yet
        if after is not None and owners.rule.is_given_back(after):
            loop.add((key[0], after.base_name))

    def gang_changed(key: Key, before: object, after: object) -> None:
        # once the PodGang no longer belongs to a deleted PodCliqueSet, its resources may be given
        # back
        domains = stores[DOMAINS].by_index(OF_GANG, key)
        for owned in (*domains, *stores[CLAIMS].by_index(OF_GANG, key)):
            resource_changed(owned.key, None, owned)

    stores[GANGS].subscribe(gang_changed)
    stores[DOMAINS].subscribe(resource_changed)
    stores[CLAIMS].subscribe(resource_changed)


def subscribe_to_apis(loop: Loop, discovery: Discovery) -> None:
    """Reconcile all base names soon after an API of the resources or of their owners has changed.

    An API changes when it is installed, removed or served in another version.
    """
    apis = {COMPUTE_DOMAIN, RESOURCE_CLAIM, POD_CLIQUE_SET, POD_GANG, *CONTROLLERS}

    def api_changed(resource: Resource, version: str | None) -> None:
        if resource in apis:
            for key in loop.reconciler.all_keys():
                loop.add_after(key, SETTLE_SECONDS)

    discovery.subscribe(api_changed)
