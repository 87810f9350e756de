"""Writes the condition TopologyConstraintSatisfied of PodCliqueSets with topology constraints."""

import contextlib
from collections.abc import Callable
from datetime import datetime

from app.cluster.facts import Facts
from app.cluster.table import SETS, TOPOLOGIES, Stores
from app.kube.api import Client, Key, NotFound, Object, Unavailable
from app.kube.loop import Loop
from app.kube.store import WatchStore
from app.objects.conditions import Condition, with_condition, without_condition
from app.reconcilers.status import status_patch, timestamp, utc_now
from app.rules.kinds import POD_CLIQUE_SET
from app.rules.podcliqueset import CONDITION, PodCliqueSet, read_pod_clique_set
from app.rules.topology.levels import Topology


class ConstraintStatusReconciler:
    """Writes the condition of a set if it differs. Conditions of other writers stay. `now` is the wall clock in UTC."""

    name = "podcliqueset-status"

    def __init__(
        self,
        client: Client,
        sets: WatchStore[PodCliqueSet],
        topology: Facts,
        *,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._client, self._sets, self._topology, self._now = client, sets, topology, now

    def all_keys(self) -> list[Key]:
        return self._sets.known_keys()

    async def reconcile(self, key: Key) -> float | None:
        pcs = self._sets.get(*key)
        if pcs is None or pcs.deleting or self._is_current(pcs):
            return None
        with contextlib.suppress(NotFound):  # deleted meanwhile
            await self._write(await self._client.get(POD_CLIQUE_SET, pcs.name, pcs.namespace))
        return None

    def _desired(self, pcs: PodCliqueSet) -> Condition | None:
        return self._topology.dialect().condition(pcs, self._known_topology())

    def _known_topology(self) -> Topology | None:
        try:
            return self._topology.topology()
        except Unavailable:
            return None

    def _is_current(self, pcs: PodCliqueSet) -> bool:
        desired = self._desired(pcs)
        values = None if desired is None else (desired.status, desired.reason, desired.message, desired.generation)
        return pcs.condition == values

    async def _write(self, stored: Object) -> None:
        """Writes the condition of `stored`, which may be newer than the cache. Conflict
        if it has changed since: a merge patch replaces the whole list of conditions."""
        pcs = read_pod_clique_set(stored)
        if pcs.deleting or self._is_current(pcs):
            return
        current, desired = (stored.get("status") or {}).get("conditions"), self._desired(pcs)
        if desired is None:
            conditions = without_condition(current, CONDITION)
        else:
            conditions = with_condition(current, desired, timestamp(self._now()))
        patch = status_patch(stored, {"conditions": conditions or None})
        changed = await self._client.patch(POD_CLIQUE_SET, pcs.name, patch, pcs.namespace, subresource="status")
        self._sets.note(changed)


def subscribe(loop: Loop, stores: Stores, topology_name: str) -> None:
    """Reconciles a set if it changes, and all sets if the managed ClusterTopology changes."""

    managed = ("", topology_name)
    stores[SETS].subscribe(lambda key, before, after: loop.add(key))
    stores[TOPOLOGIES].subscribe(lambda key, before, after: loop.add_all() if key == managed else None)
