"""Set the owner references of MNNVL resources, for webhooks and reconcilers.

`app/reconcilers/MNNVL.md` lists all writers of MNNVL resources and their preconditions.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping

from app.base.groups import by_key
from app.cluster.resources import read_current
from app.cluster.view import LATER, ClusterView
from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.grove.podgang import GangIdentity, SlimPodGang, StoredGang, read_gang
from app.facts.kinds import ALL, COMPUTE_DOMAIN, POD_CLIQUE_SET, POD_GANG, RESOURCE_CLAIM
from app.facts.labels import MNNVL_ADOPTED, MNNVL_MANAGED, PCS_NAME, PCS_REPLICA
from app.facts.nvidia.computedomain import (
    CLAIM_SUFFIX,
    DOMAIN_SUFFIX,
    MnnvlResource,
    read_mnnvl_resource,
)
from app.facts.rows import CLAIMS, DOMAINS, GANGS, OF_GANG
from app.kube.api import (
    ClusterError,
    Conflict,
    NotFound,
    Object,
    ObjectRef,
    Objects,
    Selection,
    find,
    find_living,
    pages,
)
from app.kube.discovery import Discovery
from app.objects.owners import OwnerRef
from app.objects.resource import Resource
from app.objects.shape import JsonMap, annotations_of, text_at
from app.rules.dialects.design import DESIGN
from app.rules.dialects.dialect import OwnerRule, State
from app.stores.stores import Stores

_OWNERS = {(resource.group, resource.kind): resource for resource in ALL}
"""Resources by group and kind, including every kind that can own an MNNVL resource."""

AT_ONCE = 8
"""The maximum number of resources of a PodGang that are written at once."""

IN_A_STEP = 64
"""The maximum number of resources that a PodGang adopts in one step.

Tenants decide on the number of resources.
"""

MOST_OF_GANG = 1_000
"""The maximum number of ComputeDomains, and of claims, that are found for a PodGang by its name.

Tenants decide on their number, and 10,000 of them took 64 ms for each review of the PodGang.
"""

TRIES = 3
"""The maximum number of attempts to write a resource that another writer keeps changing."""


class MnnvlOwners:
    """A writer of the owner references of MNNVL resources, which it finds in `stores`.

    `configured` is the owner rule from the configuration, or None for the rule of the dialect.
    Without `discovery`, the API server is never asked for a later dialect.
    """

    def __init__(
        self,
        client: Objects,
        facts: ClusterView,
        stores: Stores,
        configured: OwnerRule | None = None,
        discovery: Discovery | None = None,
    ) -> None:
        self._client = client
        self._facts = facts
        self._all_stores = stores
        self._gangs = stores[GANGS]
        self._stores = {COMPUTE_DOMAIN: stores[DOMAINS], RESOURCE_CLAIM: stores[CLAIMS]}
        self._configured = configured
        self._discovery = discovery

    def written_by(self, client: Objects) -> "MnnvlOwners":
        """Return a writer like this one that writes with `client`."""
        return MnnvlOwners(
            client=client,
            facts=self._facts,
            stores=self._all_stores,
            configured=self._configured,
            discovery=self._discovery,
        )

    @property
    def rule(self) -> OwnerRule:
        """The rule in force, which says whether PodGangs or PodCliqueSets own the resources."""
        return self._configured or self._facts.dialect().owner

    @property
    def gives_back(self) -> bool:
        """Whether resources that PodGangs own must be given to their PodCliqueSets."""
        return self.rule.kind == POD_CLIQUE_SET.kind

    @property
    def may_be_late(self) -> bool:
        """Whether an upgrade of Grove that discovery doesn't know yet would change the rule."""
        return (
            self._discovery is not None and self._configured is None and self.rule is DESIGN.owner
        )

    async def later_dialect(self) -> str:
        """Ask the API server for a later dialect than `design`. Return its name, or "" for none.

        Return "" also without `discovery`. Raise ClusterError if a request fails.
        """
        if self._discovery is None:
            return ""
        served = await self._discovery.served_now([dialect.sign for dialect in LATER])
        return next((dialect.name for dialect in LATER if dialect.sign in served), "")

    def states_of(self, gang: SlimPodGang) -> Mapping[State, list[MnnvlResource]]:
        """Return the cached resources of `gang` by their states, such as "adoptable" or "foreign".

        The rule in force decides on the states. At most MOST_OF_GANG resources of each kind are
        found by the name of `gang`. Raise Unavailable while a cache isn't ready.
        """
        rule = self.rule
        names = rule.base_names(gang)
        resources: dict[tuple[str, str], MnnvlResource] = {}
        for resource, suffix in ((COMPUTE_DOMAIN, DOMAIN_SUFFIX), (RESOURCE_CLAIM, CLAIM_SUFFIX)):
            store = self._stores[resource].ready(resource)
            named = (store.get(gang.namespace, f"{name}{suffix}") for name in names)
            of_gang = store.by_index(OF_GANG, (gang.namespace, gang.name))
            candidates = [*named, *of_gang[:MOST_OF_GANG]]
            resources |= {(stored.kind, stored.name): stored for stored in candidates if stored}

        states = ((rule.state(resources[key], gang), resources[key]) for key in sorted(resources))
        return by_key((state, stored) for state, stored in states if state is not None)

    # If PodGangs should own the resources.

    def cached_gang(self, namespace: str, name: str, uid: str) -> StoredGang | None:
        """Return the cached PodGang with this uid, or None if it is gone or being deleted."""
        cached = self._gangs.ready("PodGangs").get(namespace, name)
        if cached is None or cached.uid != uid or cached.deleting:
            return None
        return cached

    async def _read_gang(self, gang: GangIdentity) -> Object | None:
        """Read a cached PodGang from the API server.

        Return None if the PodGang is gone or being deleted, although the cache may still have it.
        With such an owner, resources would be garbage-collected while a new PodGang needs them.
        """
        obj = await find(self._client, ObjectRef(POD_GANG, gang.name, gang.namespace))
        if obj is None:
            return None

        self._gangs.note(obj)
        is_current = self.cached_gang(gang.namespace, gang.name, gang.uid) is not None
        return obj if is_current else None

    async def adopt(self, gang: SlimPodGang, *, dry_run: bool) -> list[Object]:
        """Make the cached PodGang `gang` the owner of adoptable resources, and return these.

        Only the first IN_A_STEP resources are adopted. On a dry run, write nothing, and return all
        adoptable resources as they would be. Adopt nothing in these cases:

        - The PodGang is gone or being deleted, or its PodCliqueSet is gone or was created again.
        - The PodGang lacks our annotation, and this is not a dry run. The webhook for deletions is
          called only for PodGangs with the annotation, so the annotation must be written first.
        - The API server already serves the API of a later Grove. Another replica that knows this
          gives adopted resources back, and Grove then deletes the PodGang.

        Raise ClusterError if a request fails, such as Conflict if a resource has changed since it
        was cached.
        """
        adoptable = self.states_of(gang).get("adoptable")
        # If another PodGang adopts a resource during these reads, the write gets a Conflict.
        if not adoptable or not await self._may_adopt(gang, dry_run=dry_run):
            return []

        reference = self._served(POD_GANG).owner_reference(gang.name, gang.uid)
        if dry_run:
            return [_owned(stored, reference) for stored in adoptable]
        adopted = (self._write(stored, reference) for stored in adoptable[:IN_A_STEP])
        return await _all(adopted)

    async def _may_adopt(self, gang: GangIdentity, *, dry_run: bool) -> bool:
        """Return whether `gang` may adopt resources, by the conditions in `adopt`."""
        obj = await self._read_gang(gang)
        if obj is None or not (dry_run or MNNVL_ADOPTED in annotations_of(obj)):
            return False
        if await self._has_lost_set(gang):
            return False
        # Discovery may have found a later Grove during the reads.
        return not self.gives_back and not (self.may_be_late and await self.later_dialect())

    async def _has_lost_set(self, gang: GangIdentity) -> bool:
        """Return whether the PodCliqueSet of `gang` is gone, or was deleted and created again.

        If so, the garbage collector will delete `gang` with everything that it owns.
        """
        if not gang.set_uid:
            return False
        pcs = await self._facts.read_set(gang.namespace, gang.place.pcs, gang.set_uid)
        return pcs is None or pcs.uid != gang.set_uid

    # If PodCliqueSets should own the resources.

    def set_of(self, stored: MnnvlResource) -> PodCliqueSet | None:
        """Return the cached PodCliqueSet to which `stored` must be given, or None.

        Return None if no change is needed, if the PodCliqueSet is being deleted or not known, or if
        an owning PodGang belongs to a deleted set of the same name: the resource is
        garbage-collected with that PodGang.
        """
        if not self.rule.is_given_back(stored):
            return None
        pcs = self._facts.cached_set(stored.namespace, stored.place.pcs)
        if pcs is None or pcs.deleting:
            return None
        return pcs if self._belong_to(stored, pcs) else None

    def _belong_to(self, stored: MnnvlResource, pcs: PodCliqueSet) -> bool:
        """Return whether no cached PodGang that owns `stored` belongs to another set than `pcs`."""
        for owner in stored.owning_gangs:
            gang = self._gangs.get(stored.namespace, owner.name)
            if gang is not None and gang.uid == owner.uid and gang.set_uid not in ("", pcs.uid):
                return False
        return True

    async def give_back(self, stored: MnnvlResource, pcs: PodCliqueSet) -> Object | None:
        """Make the PodCliqueSet `pcs` the only owner of `stored`.

        Return the changed object, or None if it is gone or must no longer be changed. If `stored`
        is outdated, read it again. Raise ClusterError if a request fails, or Conflict if the object
        keeps changing.
        """
        reference = self._served(POD_CLIQUE_SET).owner_reference(pcs.name, pcs.uid)
        of_set = ObjectRef(POD_CLIQUE_SET, pcs.name, pcs.namespace)
        current = stored
        for _ in range(TRIES):
            # a resource without owner may be left from a deleted set that the cache still has
            if not current.owners and not await find_living(self._client, of_set, pcs.uid):
                return None
            try:
                return await self._write(current, reference)
            except NotFound as error:
                if error.no_resource:
                    raise
                return None
            except Conflict:
                resource = _resource_of(stored)
                ref = ObjectRef(resource, stored.name, stored.namespace)
                read = await read_current(self._client, ref, self._stores[resource])
            if read is None or read.uid != stored.uid or not self.rule.is_given_back(read):
                return None
            current = read

        raise Conflict(f"{stored.kind} {stored.name} keeps changing", code=409)

    async def name_as_served(self, stored: MnnvlResource) -> Object | None:
        """Write the owner references of `stored` in the versions that the cluster serves.

        The garbage collector finds no owner in another version, so it would never delete `stored`,
        which a later set of the same name can't use. Return the changed object, or None if `stored`
        is gone or not ours, or if no change was needed. Raise ClusterError if a request fails.
        """
        if not stored.is_ours or not any(map(self._is_outdated, stored.owners)):
            return None
        ref = ObjectRef(_resource_of(stored), stored.name, stored.namespace)
        obj = await find(self._client, ref)
        if obj is None or obj["metadata"].get("uid") != stored.uid:
            return None

        metadata = obj["metadata"]
        references = []
        for reference in metadata.get("ownerReferences") or []:
            group = text_at(reference, "apiVersion").rpartition("/")[0]
            owner = _OWNERS.get((group, text_at(reference, "kind")))
            served = {} if owner is None else {"apiVersion": self._served(owner).api_version()}
            references.append({**reference, **served})

        version = {"uid": stored.uid, "resourceVersion": metadata["resourceVersion"]}
        changed = await self._client.patch(
            ref, {"metadata": {**version, "ownerReferences": references}}
        )
        self._stores[ref.resource].note(changed)
        return changed

    def _is_outdated(self, owner: OwnerRef) -> bool:
        """Return whether `owner` names a version other than the one that the cluster serves."""
        group, _, version = owner.api_version.rpartition("/")
        resource = _OWNERS.get((group, owner.kind))
        served = resource and self._client.served_version(resource)
        return served not in (None, version)

    def _served(self, resource: Resource) -> Resource:
        """Return `resource` in its served version, in which the garbage collector finds owners."""
        return resource.in_version(self._client.served_version(resource))

    async def give_back_all_of(self, gang: SlimPodGang) -> list[Object]:
        """Give all resources of the stored PodGang `gang` to its PodCliqueSet, and return them.

        They are read from the API server, because another replica may just have given one to
        `gang`. Do nothing if `living_set_of` returns None. Raise ClusterError if a resource could
        not be given back.
        """
        pcs = await self.living_set_of(gang)
        if pcs is None:
            return []

        owned = await self._read_owned(gang, pcs)
        return await _all(self.give_back(resource, pcs) for resource in owned)

    async def _read_owned(self, gang: SlimPodGang, pcs: PodCliqueSet) -> list[MnnvlResource]:
        """Read the resources of `pcs` that `gang` owns and that must be given to `pcs`.

        A 404 is an error, because a proxy may return it while an API server restarts, and discovery
        may be out of date after an upgrade of Kubernetes.
        """
        labels = {MNNVL_MANAGED: "true", PCS_NAME: pcs.name, **_replica_of(gang, pcs)}
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        rule = self.rule

        owned: list[MnnvlResource] = []
        for resource in filter(self._client.served_version, self._stores):
            selection = Selection(resource, gang.namespace, labels=selector)
            async for page in pages(self._client, selection):
                found = map(read_mnnvl_resource, page.items)
                owned += (
                    stored
                    for stored in found
                    if rule.state(stored, gang) is not None and rule.is_given_back(stored)
                )
        return owned

    async def living_set_of(self, gang: GangIdentity) -> PodCliqueSet | None:
        """Return the PodCliqueSet of the stored PodGang `gang`, or None.

        Return None if the PodGang is gone or has another uid, or if the set is gone, is being
        deleted or was created again. Raise ClusterError if a request fails.
        """
        stored = await self._stored(gang)
        if stored is None:
            return None

        pcs = await self._facts.read_set(gang.namespace, stored.place.pcs, stored.set_uid)
        if pcs is None or pcs.deleting or stored.set_uid not in ("", pcs.uid):
            return None
        return pcs

    async def _stored(self, gang: GangIdentity) -> GangIdentity | None:
        """Return the PodGang that is stored with the name and the uid of `gang`, or None."""
        cached = self._gangs.get(gang.namespace, gang.name)
        if cached is not None and cached.uid == gang.uid:
            return cached
        obj = await find(self._client, ObjectRef(POD_GANG, gang.name, gang.namespace))
        read = None if obj is None else read_gang(obj, gang.namespace)
        return read if read is not None and read.uid == gang.uid else None

    async def _write(self, stored: MnnvlResource, reference: JsonMap) -> Object:
        """Make `reference` the only owner of `stored`, and return the changed object.

        Raise Conflict if the object has changed since it was read.
        """
        resource = _resource_of(stored)
        patch = {"metadata": _owned(stored, reference)["metadata"]}
        del patch["metadata"]["name"], patch["metadata"]["namespace"]
        changed = await self._client.patch(
            ObjectRef(resource, stored.name, stored.namespace), patch
        )
        self._stores[resource].note(changed)
        return changed


def _replica_of(gang: GangIdentity, pcs: PodCliqueSet) -> dict[str, str]:
    """Return the label that selects the resources of `gang`'s replica, or {} if it is not known.

    In earlier releases of Grove, only the name has the replica: `<pcs>-<replica>[-...]`. Later
    releases replace the end of a long name with a hash, which may replace the replica too.
    """
    replica = gang.place.replica or gang.name.removeprefix(f"{pcs.name}-").partition("-")[0]
    return {PCS_REPLICA: replica} if replica.isdecimal() else {}


def _resource_of(stored: MnnvlResource) -> Resource:
    return COMPUTE_DOMAIN if stored.kind == COMPUTE_DOMAIN.kind else RESOURCE_CLAIM


def _owned(stored: MnnvlResource, reference: JsonMap) -> Object:
    """Return `stored` with the owner `reference`, and its uid and version as preconditions."""
    version = {
        "resourceVersion": stored.resource_version,
        "uid": stored.uid,
        "ownerReferences": [reference],
    }
    return {
        "kind": stored.kind,
        "metadata": {"name": stored.name, "namespace": stored.namespace, **version},
    }


async def _all(calls: Iterable[Awaitable[Object | None]]) -> list[Object]:
    """Await all `calls`, AT_ONCE of them at a time, and return their results that are not None.

    If any raised a ClusterError, raise the first one after all have ended.
    """
    waiting = enumerate(calls)
    results: dict[int, Object | None] = {}
    errors: list[ClusterError] = []

    async def work() -> None:
        for number, call in waiting:
            try:
                results[number] = await call
            except ClusterError as error:
                errors.append(error)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(work())
    if errors:
        raise errors[0]
    return [result for _, result in sorted(results.items()) if result is not None]
