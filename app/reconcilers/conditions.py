"""Write the conditions TopologyConstraintSatisfied and LevelsCovered.

TopologyConstraintSatisfied of a PodCliqueSet says whether its constraints use existing levels.
LevelsCovered of a topology says whether the nodes have labels for all levels, and whether these
labels form a tree.
"""

import contextlib

from app.base.value import Value
from app.cluster.view import ClusterView
from app.facts.grove.podcliqueset import CONSTRAINTS_SATISFIED, PodCliqueSet, read_bounded_set
from app.facts.grove.topology import ClusterTopology
from app.facts.kinds import POD_CLIQUE_SET
from app.facts.rows import BINDINGS, NODES, SETS, TOPOLOGIES
from app.kube.api import Client, Key, NotFound, Object, ObjectRef, Rejected, Unavailable
from app.kube.competing_writers import Rewrites, write_key
from app.kube.events import Recorder, Regarding
from app.kube.loop import Loop
from app.kube.store import WatchStore
from app.objects.conditions import Condition, condition_patch, status_patch, with_condition
from app.objects.time import Now, timestamp, utc_now
from app.rules.topology.coverage import LevelProblem, coverage_condition, coverage_problems
from app.stores.stores import Stores

SETTLE_SECONDS = 10.0
"""The delay in seconds between a change of a node or a status and the next step.

Many nodes change at once.
"""


class ConstraintStatusReconciler(Value):
    """A reconciler of the condition TopologyConstraintSatisfied of PodCliqueSets.

    Other writers' conditions are kept. The condition of a PodCliqueSet that is too large to be
    cached in full is not changed.
    """

    name = "podcliqueset-status"

    client: Client
    """Reads PodCliqueSets and writes their status."""
    sets: WatchStore[PodCliqueSet]
    """The cached PodCliqueSets."""
    topology: ClusterView
    """The managed topology and the dialect in force."""
    now: Now = utc_now
    """Returns the current time in UTC."""

    def all_keys(self) -> list[Key]:
        return self.sets.known_keys()

    async def reconcile(self, key: Key) -> float | None:
        """Write the condition of a PodCliqueSet if the cached one differs.

        A PodCliqueSet that is being deleted, or is too large for the cache, is left alone.
        """
        pcs = self.sets.get(*key)
        if pcs is None or pcs.deleting or pcs.is_cut or pcs.condition == self._desired(pcs):
            return None
        with contextlib.suppress(NotFound):  # it was deleted meanwhile
            ref = ObjectRef(POD_CLIQUE_SET, pcs.name, pcs.namespace)
            await self._write(await self.client.get(ref))
        return None

    def _desired(self, pcs: PodCliqueSet) -> Condition | None:
        """Return the condition that `pcs` should have, or None if it should have none."""
        known: ClusterTopology | None = None
        with contextlib.suppress(Unavailable):
            known = self.topology.topology()
        return self.topology.dialect().condition(pcs, known)

    async def _write(self, stored: Object) -> None:
        """Write the condition if that of `stored` differs. `stored` may be newer than the cache.

        Raise Conflict if the object has changed since it was read, because the patch replaces the
        whole list of conditions.
        """
        pcs = read_bounded_set(stored)
        desired = self._desired(pcs)
        if pcs.deleting or pcs.is_cut or pcs.condition == desired:
            return

        patch = condition_patch(stored, CONSTRAINTS_SATISFIED, desired, timestamp(self.now()))
        changed = await self.client.patch(
            ObjectRef(POD_CLIQUE_SET, pcs.name, pcs.namespace), patch, subresource="status"
        )
        self.sets.note(changed)


def subscribe_status(loop: Loop, stores: Stores, topology_name: str) -> None:
    """Reconcile a PodCliqueSet after it changes, and all after the managed topology changes."""
    managed = ("", topology_name)
    stores[SETS].subscribe(loop.add)
    stores[TOPOLOGIES].subscribe(
        lambda key, before, after: loop.add_all() if key == managed else None
    )


class LevelCoverageReconciler(Value):
    """A reconciler of the condition LevelsCovered of topologies.

    Depending on the dialect, the topologies are the managed ClusterTopology or all
    ClusterTopologyBindings. Other writers' conditions are kept. If another writer keeps changing
    this condition, the reconciler backs off.
    """

    name = "level-coverage"

    client: Client
    """Reads topologies and writes their status."""
    topology: ClusterView
    """The cached nodes and topologies, and the dialect in force."""
    events: Recorder
    """Records the event LevelsNotCovered."""
    rewrites: Rewrites
    """Counts the writes of the condition of each topology."""
    now: Now = utc_now
    """Returns the current time in UTC."""

    def all_keys(self) -> list[Key]:
        try:
            return [("", name) for name in self.topology.dialect().in_use(self.topology)]
        except Unavailable:
            return []

    async def reconcile(self, key: Key) -> float | None:
        """Write the condition of a topology if it differs. Do nothing while no nodes are known.

        Return the seconds until the next attempt, or None if none is needed.
        """
        if not self.topology.nodes() or key not in self.all_keys():
            return None
        dialect = self.topology.dialect()
        ref = ObjectRef(dialect.resource, key[1])
        with contextlib.suppress(NotFound):  # it was deleted meanwhile, or its CRD has no status
            stored = await self.client.get(ref)
            levels = dialect.read_levels(stored)
            problems = coverage_problems(levels, self.topology.nodes_with)
            return await self._write(ref, stored, problems)
        return None

    async def _write(
        self, ref: ObjectRef, stored: Object, problems: list[LevelProblem]
    ) -> float | None:
        """Write the condition if it differs, with an event if it is False.

        If another writer keeps changing it, write nothing, and return the seconds until the next
        attempt. Otherwise, return None.
        """
        metadata = stored["metadata"]
        status = stored.get("status") or {}
        condition = coverage_condition(problems, metadata.get("generation", 0))
        conditions = with_condition(status.get("conditions"), condition, timestamp(self.now()))
        if metadata.get("deletionTimestamp") or conditions == status.get("conditions"):
            return None

        counted = write_key(ref.name, {condition.status: condition.message})
        pause = self.rewrites.pause(counted)
        if pause is not None:
            return pause
        self.rewrites.count(counted)

        if condition.status == "False":
            self.events.record(
                Regarding.of(stored),
                "Warning",
                "LevelsNotCovered",
                condition.message,
            )

        patch = status_patch(stored, {"conditions": conditions})
        with contextlib.suppress(Rejected):  # the event above reports a problem anyway
            await self.client.patch(ref, patch, subresource="status")
        return None


def subscribe_coverage(loop: Loop, stores: Stores) -> None:
    """Reconcile a topology after it changes, and all topologies soon after nodes change."""

    def nodes_changed(key: Key, before: object, after: object) -> None:
        for topology in loop.reconciler.all_keys():
            loop.add_after(topology, SETTLE_SECONDS)

    stores[NODES].subscribe(nodes_changed)
    stores[TOPOLOGIES].subscribe(loop.add)
    stores[BINDINGS].subscribe(loop.add)
