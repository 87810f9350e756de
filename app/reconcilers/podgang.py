"""Reconcile PodGangs.

The reconciler keeps their topology constraints consistent with their PodCliqueSet and the
ClusterTopology. If PodGangs should own MNNVL resources (`mnnvl.owner`), it also makes them the
owners.

The webhook writes the same constraints by the same rule whenever a PodGang is written. The
reconciler acts on changes of the levels and of PodCliqueSets, completes PodGangs that the webhook
could not complete, and sets owners, which needs the uid of a stored PodGang.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from app.base.value import Value
from app.cluster.leader_rows import BY_BASE, StoredClique
from app.cluster.owners import MnnvlOwners
from app.cluster.view import ClusterView
from app.facts.grove.podgang import OpenGang, SlimPodGang, StoredGang
from app.facts.kinds import POD_GANG
from app.facts.labels import MNNVL_ADOPTED
from app.facts.nvidia.computedomain import MnnvlResource
from app.facts.rows import BY_SET, CLAIMS, DOMAINS, GANGS, SETS, TOPOLOGIES
from app.kube.api import Key, NotFound, ObjectRef, Unavailable
from app.kube.competing_writers import remedy_for_writers, write_key
from app.kube.events import Regarding
from app.kube.loop import Loop
from app.kube.store import WatchStore
from app.objects.edits import ABSENT, Edit, operations, value_at
from app.reconcilers.writing import Writing, names_of, soonest
from app.rules.dialects.dialect import State, edit_of
from app.rules.mnnvl.claim_holders import ClaimedMember
from app.stores.stores import Stores

UNTIL_GIVEN_BACK_SECONDS = 1.0
"""The time in seconds until the next step for a PodGang whose annotation can't be removed yet."""

_ADOPTED = ("metadata", "annotations", MNNVL_ADOPTED)
"""The path of the annotation that makes API servers call our webhook before a deletion."""

CONTESTED_SECONDS = 1.0
"""The time in seconds until the next step if another webhook has changed the patched object."""


class CurrentGang(Value):
    """A PodGang with its resources, as the caches show them at one moment."""

    gang: OpenGang
    """The PodGang."""
    states: Mapping[State, list[MnnvlResource]]
    """The MNNVL resources of the PodGang, by the state of their ownership."""
    adopted: Any
    """The value that the annotation MNNVL_ADOPTED should have, or ABSENT."""

    @property
    def has_needless_annotation(self) -> bool:
        """Whether the PodGang has the annotation MNNVL_ADOPTED although it should not.

        A PodGang should not have the annotation if it has no resources, or if it owns none and
        PodCliqueSets should own them.
        """
        return self.adopted is ABSENT and value_at(self.gang.view, _ADOPTED) is not ABSENT


class PodGangReconciler(Struct):
    """A reconciler of one PodGang at a time.

    It first sets the owners of the PodGang's resources, and then writes all other differences in
    one patch.

    Unknown facts never remove a constraint. If the ClusterTopology is not known, or the
    PodCliqueSet is too large to be read, constraints are not changed. If the PodCliqueSet is not
    known, only preferred constraints are written.
    """

    name = "podgang"

    writing: Writing
    """Writes PodGangs and records their events."""
    gangs: WatchStore[StoredGang]
    """The cached PodGangs."""
    facts: ClusterView
    """The PodCliqueSets, the managed topology and the dialect in force."""
    owners: MnnvlOwners
    """Finds and sets the owners of MNNVL resources."""
    gives_back: Callable[[], bool] = lambda: False
    """Returns whether resources of other PodGangs may still have to be given to PodCliqueSets.

    While it returns True, no annotation is removed, because these requests would delay others:
    Grove may delete the PodGangs, with the resources that they own, at any moment.
    """

    def all_keys(self) -> list[Key]:
        return self.gangs.known_keys()

    async def reconcile(self, key: Key) -> float | None:
        """Set the owners of the PodGang's resources, and write its constraints and annotation.

        Return the seconds until the next step, or None if none is needed.
        """
        current = self._current(key)
        if current is None:
            self.writing.notices.forget(key)
            return None

        self._report_foreign(current.gang, current.states.get("foreign", []))
        adopted = False
        if "adoptable" in current.states:
            adopted = await self._adopt(current.gang)
            current = self._current(key)
        if current is not None and current.has_needless_annotation and self.owners.gives_back:
            if self.gives_back():
                return UNTIL_GIVEN_BACK_SECONDS
            await self._give_back(current.gang)
            current = self._current(key)

        if current is None:
            return None
        # a step adopts at most IN_A_STEP resources, so that other PodGangs get their turn
        pause = 0.0 if "adoptable" in current.states and adopted else None
        return soonest(pause, await self._write(current))

    def _current(self, key: Key) -> CurrentGang | None:
        """Return the PodGang as the caches show it now, or None if it is gone or being deleted."""
        stored = self.gangs.get(*key)
        if stored is None or stored.deleting:
            return None

        gang = stored.opened()
        states = self.owners.states_of(gang)
        return CurrentGang(gang, states, self.owners.rule.adopted(states) or ABSENT)

    # Ownership.

    async def _adopt(self, gang: SlimPodGang) -> bool:
        """Make `gang` the owner of adoptable resources. Return whether it has adopted any."""
        adopted = await self.owners.adopt(gang, dry_run=False)
        if adopted:
            note = f"this PodGang now owns {names_of(adopted)}"
            self.writing.events.record(_regarding(gang), "Normal", "MnnvlResourcesAdopted", note)
        return bool(adopted)

    async def _give_back(self, gang: SlimPodGang) -> None:
        """Give the resources of `gang` to its PodCliqueSet, before the annotation is removed.

        They are read from the API server, because the caches may lag, and without the annotation
        our webhook would not be called before the deletion of `gang`.
        """
        changed = await self.owners.give_back_all_of(gang)
        if changed:
            note = f"the PodCliqueSet now owns resources of this PodGang: {names_of(changed)}"
            self.writing.events.record(_regarding(gang), "Normal", "MnnvlResourcesGivenBack", note)

    def _report_foreign(self, gang: SlimPodGang, foreign: list[MnnvlResource]) -> None:
        """Record an event about the resources `foreign` of `gang`, which another object owns."""
        key = (gang.namespace, gang.name)
        names = ", ".join(f"{stored.kind} {stored.name}" for stored in foreign)
        if not names:
            self.writing.notices.forget(key)
            return
        commands = "; ".join(map(edit_of, foreign))
        note = (
            f"another object owns {names}, although this PodGang should. Remove the ownerReferences"
            f" that name neither this PodGang nor its PodCliqueSet: {commands}"
        )
        self.writing.notices.say(key, [_regarding(gang)], "MnnvlResourcesForeign", note)

    # Constraints.

    async def _constraints(self, gang: OpenGang) -> list[Edit]:
        """Return the edits to the constraints of `gang`, or [] if needed facts are not known."""
        pcs = await self.facts.read_set(gang.namespace, gang.place.pcs, gang.set_uid)
        if pcs is not None and pcs.is_cut:
            return []
        try:
            return self.facts.dialect().podgang_changes(gang.view, pcs, self.facts)
        except Unavailable:
            return []  # every PodGang is reconciled again once the managed topology is known

    async def _write(self, current: CurrentGang) -> float | None:
        """Write the constraints and the annotation if they differ.

        If another writer keeps changing them back, write nothing, and return the seconds until the
        next attempt. If the stored result differs from the patch, return CONTESTED_SECONDS.
        Otherwise, return None. Raise Conflict if the PodGang has changed since it was cached.
        """
        gang = current.gang
        changes = await self._constraints(gang)
        if value_at(gang.view, _ADOPTED) != current.adopted:
            changes.append(Edit(_ADOPTED, current.adopted))
        if not changes:
            return None

        patch = operations(gang.view, changes)
        counted = write_key(gang.uid, patch)
        pause = self.writing.rewrites.pause(counted)
        if pause is not None:
            remedy = remedy_for_writers(ObjectRef(POD_GANG, gang.name, gang.namespace))
            note = (
                "another writer keeps changing the constraints or annotations that grove-admission"
                f" writes; backing off. {remedy}"
            )
            self.writing.events.record(_regarding(gang), "Warning", "PodGangContested", note)
            return pause

        unchanged = {
            "op": "replace",
            "path": "/metadata/resourceVersion",
            "value": gang.resource_version,
        }
        try:
            stored = await self.writing.client.patch(
                ObjectRef(POD_GANG, gang.name, gang.namespace), [unchanged, *patch]
            )
        except NotFound:
            return None

        self.writing.rewrites.count(counted)
        self.gangs.note(stored)

        return CONTESTED_SECONDS if operations(stored, changes) else None


def subscribe(loop: Loop, stores: Stores, topology_name: str) -> None:
    """Reconcile a PodGang after it, its PodCliqueSet or the managed topology changes."""
    managed = ("", topology_name)

    def set_changed(key: Key, before: object, after: object) -> None:
        for gang in stores[GANGS].by_index(BY_SET, key):
            loop.add((gang.namespace, gang.name))

    stores[GANGS].subscribe(loop.add)
    stores[SETS].subscribe(set_changed)
    stores[TOPOLOGIES].subscribe(
        lambda key, before, after: loop.add_all() if key == managed else None
    )


def subscribe_to_resources(loop: Loop, stores: Stores, cliques: WatchStore[StoredClique]) -> None:
    """Reconcile a PodGang after a change of its resources or of a PodClique that requests them."""

    def resource_changed(
        key: Key, before: MnnvlResource | None, after: MnnvlResource | None
    ) -> None:
        for resource in (before, after):
            if resource is not None:
                for name in _gangs_of(resource, cliques):
                    loop.add((key[0], name))

    def clique_changed(key: Key, before: object, after: StoredClique | None) -> None:
        if isinstance(after, ClaimedMember):
            loop.add((key[0], after.place.podgang))

    stores[DOMAINS].subscribe(resource_changed)
    stores[CLAIMS].subscribe(resource_changed)
    cliques.subscribe(clique_changed)


def _gangs_of(resource: MnnvlResource, cliques: WatchStore[StoredClique]) -> set[str]:
    """Return the names of the PodGangs that own `resource` or should own it.

    A resource of a whole replica belongs to the base PodGang of the replica. Any other resource
    belongs to the PodGangs of the PodCliques that request it.
    """
    place = resource.place
    names = {owner.name for owner in resource.owning_gangs}
    if place.podgang:
        names.add(place.podgang)
    base = f"{place.pcs}-{place.replica}"
    if resource.base_name == base:
        return names | {base}
    requesting = cliques.by_index(BY_BASE, (resource.namespace, resource.base_name))
    return names | {clique.place.podgang for clique in requesting}


def _regarding(gang: SlimPodGang) -> Regarding:
    return Regarding.to(POD_GANG, gang.name, gang.namespace, gang.uid)
