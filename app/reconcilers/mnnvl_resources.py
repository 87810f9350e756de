"""MNNVL resources: what stored PodCliques ask for and is missing is made, what nobody asks for any more is deleted.

`README.md` in this folder states the order of writes, the races and the preconditions.
"""

import time
from collections.abc import Callable

from app.cluster.mnnvl import ClusterMnnvl
from app.cluster.readers import NotOurs, PodCliqueSetReader
from app.cluster.table import BY_BASE, BY_SET
from app.kube.api import Client, Key, NotFound, Object
from app.kube.events import Recorder, Regarding
from app.kube.loop import Loop
from app.kube.notices import Notices
from app.kube.rewrites import Rewrites
from app.kube.store import WatchStore
from app.objects.metadata import labels_of
from app.objects.resource import POD, Resource
from app.rules.kinds import COMPUTE_DOMAIN, POD_CLIQUE_SET, RESOURCE_CLAIM
from app.rules.labels import read_place
from app.rules.mnnvl.demand import Demand, base_of, is_made_by_us, is_reserved, plan_for, pressing, uses
from app.rules.mnnvl.ownership import MnnvlResource
from app.rules.mnnvl.plan import claim_name, domain_name
from app.rules.podcliqueset import PodCliqueSet

SETTLE_SECONDS = 0.25
"""From a change to the look at it: what is written together (a ComputeDomain, a claim, the PodClique) comes through
several watches."""

NOT_OURS_SECONDS = 60.0
"""Until the next look at an object of somebody else in the way, which no watch of ours shows."""

IN_USE_SECONDS = 30.0
"""The longest time between two looks at what a pod still uses."""


class MnnvlResourcesReconciler:
    """One base name at a time: the ComputeDomain and the claim whose names begin with it.

    `cliques` hold the PodCliques that have a claim of ours; `collect_after` is in seconds, 0 for never. `clock` is
    monotonic, in seconds.
    """

    name = "mnnvl-resources"

    def __init__(
        self,
        client: Client,
        cliques: WatchStore[Demand],
        sets: PodCliqueSetReader,
        stores: tuple[WatchStore[MnnvlResource], WatchStore[MnnvlResource]],
        resources: ClusterMnnvl,
        events: Recorder,
        rewrites: Rewrites,
        *,
        collect_after: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._cliques, self._sets, self._resources = client, cliques, sets, resources
        self._domains, self._claims = stores
        self._events, self._notices, self._rewrites = events, Notices(events), rewrites
        self._collect_after, self._clock = collect_after, clock
        self._unasked: dict[Key, float] = {}
        """Since when nobody asks for the resources of a key. A leader begins with none."""

    def all_keys(self) -> set[Key]:
        asked = {(demand.member.namespace, demand.base_name) for demand in self._cliques.values()}
        made = (resource for store in (self._domains, self._claims) for resource in store.values())
        return asked | {(one.namespace, base) for one in made if (base := base_of(one.kind, one.name))}

    async def reconcile(self, key: Key) -> float | None:
        if not self._cliques.synced:
            return SETTLE_SECONDS
        if not self._cliques.served:
            return None
        demands = self._cliques.by_index(BY_BASE, key)
        if demands:
            self._unasked.pop(key, None)
            return await self._restore(key, demands)
        self._notices.forget(key)
        return await self._collect(key)

    # Restore.

    async def _restore(self, key: Key, demands: list[Demand]) -> float | None:
        """What the caches lack is made. What they show stays: if it is on its way out, its end leads here again."""
        pcs = self._sets.cached_set(key[0], demands[0].member.place.pcs)
        asking = pressing(demands, pcs)
        if pcs is None or not asking:
            return None
        shared = any(demand.mode == "shared" for demand in asking)
        pause = self._rewrites.pause(key)
        if pause is not None:
            note = f'the MNNVL resources of "{key[1]}" are deleted again and again: not restored for a while'
            self._notices.say(key, [_regarding(pcs)], "MnnvlResourcesContested", note)
            return pause
        try:
            created = await self._resources.restore(plan_for(asking, pcs), "shared" if shared else "template")
        except NotOurs as problem:
            self._notices.say(key, [_regarding(pcs)], "MnnvlResourcesMissing", str(problem))
            return NOT_OURS_SECONDS
        self._notices.forget(key)
        if created:
            self._rewrites.count(key)
            note = f"created {_listed(created)}, which stored PodCliques use and which did not exist"
            self._events.record(_regarding(pcs), "Normal", "MnnvlResourcesRestored", note)
        return None

    # Collect.

    async def _collect(self, key: Key) -> float | None:
        stored = self._stored(key)
        if not stored or not self._collect_after:
            self._unasked.pop(key, None)
            return None
        since = self._unasked.setdefault(key, self._clock())
        left = since + self._collect_after - self._clock()
        if left > 0:
            return left
        if await self._is_used(key):
            return self._later()
        deleted: list[Object] = []
        for resource, name in stored:
            current = await self._read(resource, key[0], name)
            if current is None:
                continue
            if is_reserved(current):
                return self._later()
            await self._delete(resource, current)
            deleted.append(current)
        if deleted:
            self._say_collected(deleted)
        return None

    def _later(self) -> float:
        return min(IN_USE_SECONDS, self._collect_after)

    def _stored(self, key: Key) -> list[tuple[Resource, str]]:
        """What the caches have of `key` and is not on its way out: the claim first, because pods reserve it."""
        namespace, base = key
        both = (
            (RESOURCE_CLAIM, self._claims.get(namespace, claim_name(base))),
            (COMPUTE_DOMAIN, self._domains.get(namespace, domain_name(base))),
        )
        return [(resource, one.name) for resource, one in both if one is not None and not one.deleting]

    async def _is_used(self, key: Key) -> bool:
        """Asked of the API server: whether a pod of the namespace names what would be deleted."""
        token = ""
        while True:
            page = await self._client.list(POD, key[0], continue_token=token)
            if any(uses(pod, key[1]) for pod in page.items):
                return True
            token = page.continue_token
            if not token:
                return False

    async def _read(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """The stored object, if there is one that we made."""
        try:
            current = await self._client.get(resource, name, namespace)
        except NotFound:
            return None
        return current if is_made_by_us(current) and not current["metadata"].get("deletionTimestamp") else None

    async def _delete(self, resource: Resource, current: Object) -> None:
        """Deletes the object as it was read: a pod that reserves it in this moment changes its resourceVersion, and
        the Conflict leads to another look."""
        metadata = current["metadata"]
        await self._client.delete(
            resource,
            metadata["name"],
            metadata["namespace"],
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
        )

    def _say_collected(self, deleted: list[Object]) -> None:
        pcs = self._sets.cached_set(deleted[0]["metadata"]["namespace"], read_place(labels_of(deleted[0])).pcs)
        if pcs is not None:
            note = f"deleted {_listed(deleted)}: no PodClique asks for them any more, and no pod uses them"
            self._events.record(_regarding(pcs), "Normal", "MnnvlResourcesCollected", note)


def subscribe(
    loop: Loop,
    cliques: WatchStore[Demand],
    sets: WatchStore[PodCliqueSet],
    resources: tuple[WatchStore[MnnvlResource], ...],
) -> None:
    """Whatever the resources depend on leads to a look at them, a moment later."""

    def look(namespace: str, base: str) -> None:
        if base:
            loop.add_after((namespace, base), SETTLE_SECONDS)

    def clique_changed(key: Key, before: Demand | None, after: Demand | None) -> None:
        for base in {demand.base_name for demand in (before, after) if demand is not None}:
            look(key[0], base)

    def resource_changed(key: Key, before: MnnvlResource | None, after: MnnvlResource | None) -> None:
        resource = after or before
        if resource is not None:
            look(key[0], base_of(resource.kind, key[1]))

    def set_changed(key: Key, before: object, after: object) -> None:
        for demand in cliques.by_index(BY_SET, key):
            look(key[0], demand.base_name)

    cliques.subscribe(clique_changed)
    sets.subscribe(set_changed)
    for store in resources:
        store.subscribe(resource_changed)


def _listed(objects: list[Object]) -> str:
    return ", ".join(f"{obj['kind']} {obj['metadata']['name']}" for obj in objects)


def _regarding(pcs: PodCliqueSet) -> Regarding:
    return Regarding(POD_CLIQUE_SET.api_version(), POD_CLIQUE_SET.kind, pcs.namespace, pcs.name, pcs.uid)
