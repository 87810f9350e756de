"""The reconciler of PodGangs.

It keeps their topology constraints in step with their PodCliqueSet and the ClusterTopology, and, in
the dialect `design`, makes PodGangs the owners of their MNNVL resources.

The webhook writes the same constraints by the same rule whenever a PodGang is written. The
reconciler handles changes of the levels and of PodCliqueSets, PodGangs that the webhook could not
complete, and ownership, which needs the uid of a stored PodGang.
"""

import contextlib
from collections.abc import Callable

from app.cluster.owners import MnnvlOwners
from app.cluster.rows import BY_BASE, StoredClique
from app.cluster.view import ClusterView
from app.facts.grove.gang import StoredGang
from app.facts.kinds import POD_GANG
from app.facts.labels import MNNVL_ADOPTED
from app.facts.nvidia.mnnvl import MnnvlResource
from app.facts.table import BY_SET, CLAIMS, DOMAINS, GANGS, SETS, TOPOLOGIES
from app.kube.api import Key, NotFound, ObjectRef, Unavailable
from app.kube.events import Notices, Regarding
from app.kube.loop import Loop
from app.kube.rewrites import same
from app.kube.store import WatchStore
from app.objects.edits import ABSENT, Edit, operations, value_at
from app.objects.jsonpatch import Operation
from app.reconcilers.writing import Writing, named
from app.rules.mnnvl.demand import ClaimedClique
from app.stores.stores import Stores

UNTIL_GIVEN_BACK_SECONDS = 1.0
"""The time until the next look at a PodGang whose annotation is removed later."""

_ADOPTED = ("metadata", "annotations", MNNVL_ADOPTED)

CONTESTED_SECONDS = 1.0
"""The time until the next step if another writer has changed what was written."""


class PodGangReconciler:
    """A reconciler of one PodGang at a time.

    It changes first the owners of its resources, then all other differences in one patch. While
    `gives_back` says that resources of PodGangs are still given back, it removes no annotation:
    that takes calls, and Grove may delete the PodGangs at any moment.

    Unknown facts remove nothing: if the ClusterTopology is not known, constraints stay, and if the
    PodCliqueSet is not known, only preferred constraints are written.
    """

    name = "podgang"

    def __init__(
        self,
        writing: Writing,
        gangs: WatchStore[StoredGang],
        facts: ClusterView,
        owners: MnnvlOwners,
        *,
        gives_back: Callable[[], bool] = lambda: False,
    ) -> None:
        self.rewrites = writing.rewrites
        self._gives_back = gives_back
        self._client = writing.client
        self._gangs = gangs
        self._facts = facts
        self._owners = owners
        self._events = writing.events
        self._notices = Notices(writing.events)

    def all_keys(self) -> list[Key]:
        return self._gangs.known_keys()

    async def reconcile(self, key: Key) -> float | None:
        gang = self._gangs.get(*key)
        if gang is None or gang.deleting:
            self._notices.forget(key)
            return None
        await self._adopt(gang)
        if self._may_own_nothing(gang):
            if self._gives_back():
                return UNTIL_GIVEN_BACK_SECONDS
            await self._give_back(gang)
        gang = self._gangs.get(*key)
        if gang is None or gang.deleting:
            return None
        patch = operations(gang.view(), await self._changes(gang))
        return await self._write(gang, patch) if patch else None

    # Ownership.

    async def _adopt(self, gang: StoredGang) -> None:
        self._report_foreign(gang, self._owners.in_state(gang, "foreign"))
        adopted = await self._owners.adopt(gang, dry_run=False)
        if adopted:
            note = f"now owns {named(adopted)}"
            self._events.record(_regarding(gang), "Normal", "MnnvlResourcesAdopted", note)

    def _may_own_nothing(self, gang: StoredGang) -> bool:
        """Return whether the caches show that `gang` has given back all, but for its annotation."""
        is_marked = value_at(gang.view(), _ADOPTED) is not ABSENT
        return is_marked and self._owners.gives_back and not self._owners.states_of(gang)

    async def _give_back(self, gang: StoredGang) -> None:
        """Give back what `gang` owns before its annotation is removed.

        The caches may be late. Without the annotation, our webhook would not be called before the
        deletion of `gang`.
        """
        changed = await self._owners.give_back_all_of(gang)
        if changed:
            note = f"no longer owns {named(changed)}, which its PodCliqueSet now owns"
            self._events.record(_regarding(gang), "Normal", "MnnvlResourcesGivenBack", note)

    def _report_foreign(self, gang: StoredGang, foreign: list[MnnvlResource]) -> None:
        key = (gang.namespace, gang.name)
        names = ", ".join(f"{stored.kind} {stored.name}" for stored in foreign)
        if not names:
            self._notices.forget(key)
            return
        note = f"{names} made for this PodGang, but controlled by another object: not adopted"
        self._notices.say(key, [_regarding(gang)], "MnnvlResourcesForeign", note)

    # Constraints.

    async def _changes(self, gang: StoredGang) -> list[Edit]:
        view = gang.view()
        changes: list[Edit] = []
        pcs = await self._facts.read_set(gang.namespace, gang.place.pcs)
        # once the managed topology is known, every PodGang is reconciled
        with contextlib.suppress(Unavailable):
            changes += self._facts.dialect().podgang_changes(view, pcs, self._facts)
        adopted = self._owners.annotation_of(gang) or ABSENT
        if value_at(view, _ADOPTED) != adopted:
            changes.append(Edit(_ADOPTED, adopted))
        return changes

    async def _write(self, gang: StoredGang, patch: list[Operation]) -> float | None:
        """Write `patch` to the PodGang.

        Conflict if it has changed since it was cached. If the answer differs from what was
        written, another writer has changed it, and the PodGang is reconciled again soon.
        """
        counted = same(gang.uid, patch)
        pause = self.rewrites.pause(counted)
        if pause is not None:
            note = (
                "something keeps changing what grove-admission writes here: left alone for a while"
            )
            self._events.record(_regarding(gang), "Warning", "PodGangContested", note)
            return pause

        unchanged = {
            "op": "replace",
            "path": "/metadata/resourceVersion",
            "value": gang.resource_version,
        }
        try:
            stored = await self._client.patch(
                ObjectRef(POD_GANG, gang.name, gang.namespace), [unchanged, *patch], kind="json"
            )
        except NotFound:
            return None

        self.rewrites.count(counted)
        self._gangs.note(stored)

        remaining = operations(stored, await self._changes(gang))
        return CONTESTED_SECONDS if remaining else None


def subscribe(loop: Loop, stores: Stores, topology_name: str) -> None:
    """Reconcile a PodGang after a change of itself, its PodCliqueSet or the managed topology."""

    managed = ("", topology_name)

    def set_changed(key: Key, before: object, after: object) -> None:
        for gang in stores[GANGS].by_index(BY_SET, key):
            loop.add((gang.namespace, gang.name))

    stores[GANGS].subscribe(loop.changed)
    stores[SETS].subscribe(set_changed)
    stores[TOPOLOGIES].subscribe(
        lambda key, before, after: loop.add_all() if key == managed else None
    )


def subscribe_to_resources(loop: Loop, stores: Stores, cliques: WatchStore[StoredClique]) -> None:
    """Reconcile a PodGang after a change of its resources, or of a PodClique that asks for them."""

    def resource_changed(
        key: Key, before: MnnvlResource | None, after: MnnvlResource | None
    ) -> None:
        for resource in (before, after):
            if resource is not None:
                for name in _gangs_near(resource, cliques):
                    loop.add((key[0], name))

    def clique_changed(key: Key, before: object, after: StoredClique | None) -> None:
        if isinstance(after, ClaimedClique):
            loop.add((key[0], after.place.podgang))

    stores[DOMAINS].subscribe(resource_changed)
    stores[CLAIMS].subscribe(resource_changed)
    cliques.subscribe(clique_changed)


def _gangs_near(resource: MnnvlResource, cliques: WatchStore[StoredClique]) -> set[str]:
    """Return the names of the PodGangs that may own `resource` or have to own it.

    For what a whole replica shares, that is its base PodGang, and for the rest the PodGangs of the
    PodCliques that ask for it.
    """
    place = resource.place
    names = {owner.name for owner in resource.owning_gangs}
    if place.podgang:
        names.add(place.podgang)
    base = f"{place.pcs}-{place.replica}"
    if resource.base_name == base:
        return names | {base}
    near = cliques.by_index(BY_BASE, (resource.namespace, resource.base_name))
    return names | {clique.place.podgang for clique in near}


def _regarding(gang: StoredGang) -> Regarding:
    return Regarding.to(POD_GANG, gang.name, gang.namespace, gang.uid)
