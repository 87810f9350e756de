"""The condition TopologyConstraintSatisfied of PodCliqueSets that have topology constraints."""

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime

from app.cluster.readers import TopologyReader
from app.kube.api import Client, Key, NotFound, Object, Store, Unavailable
from app.kube.loop import Loop
from app.kube.store import WatchStore
from app.objects.conditions import Condition, with_condition, without_condition
from app.rules.kinds import POD_CLIQUE_SET
from app.rules.podcliqueset import CONDITION, PodCliqueSet, read_pod_clique_set
from app.rules.topology.levels import Topology


class ConstraintStatusReconciler:
    """Only a condition that differs is written; others' conditions stay. `now` is the wall clock, in UTC."""

    name = "podcliqueset-status"

    def __init__(
        self,
        client: Client,
        sets: WatchStore[PodCliqueSet],
        topology: TopologyReader,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client, self._sets, self._topology, self._now = client, sets, topology, now

    def all_keys(self) -> list[Key]:
        return self._sets.known_keys()

    async def reconcile(self, key: Key) -> float | None:
        pcs = self._sets.get(*key)
        if pcs is None or pcs.deleting:
            return None
        if self._is_said(pcs):
            return None
        with contextlib.suppress(NotFound):  # deleted meanwhile
            await self._write(await self._client.get(POD_CLIQUE_SET, pcs.name, pcs.namespace))
        return None

    def _desired(self, pcs: PodCliqueSet) -> Condition | None:
        return self._topology.dialect().condition(pcs, self._seen_topology())

    def _seen_topology(self) -> Topology | None:
        try:
            return self._topology.topology()
        except Unavailable:
            return None

    def _is_said(self, pcs: PodCliqueSet) -> bool:
        wanted = self._desired(pcs)
        said = None if wanted is None else (wanted.status, wanted.reason, wanted.message, wanted.generation)
        return pcs.condition == said

    async def _write(self, stored: Object) -> None:
        """Judges `stored`, which may be newer than the cache. A merge patch replaces the whole list, so it is written
        over just what was read (Conflict otherwise)."""
        pcs = read_pod_clique_set(stored)
        if pcs.deleting or self._is_said(pcs):
            return
        held = (stored.get("status") or {}).get("conditions")
        wanted = self._desired(pcs)
        now = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        kept = without_condition(held, CONDITION) if wanted is None else with_condition(held, wanted, now)
        patch = {
            "metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]},
            "status": {"conditions": kept or None},
        }
        changed = await self._client.patch(POD_CLIQUE_SET, pcs.name, patch, pcs.namespace, subresource="status")
        self._sets.note(changed)


def subscribe(loop: Loop, sets: Store[PodCliqueSet], topologies: Store[object], topology_name: str) -> None:
    """A changed set is looked at; all of them when the managed ClusterTopology changes."""

    def topology_changed(key: Key, before: object, after: object) -> None:
        if key == ("", topology_name):
            for one in sets.values():
                loop.add((one.namespace, one.name))

    sets.subscribe(lambda key, before, after: loop.add(key))
    topologies.subscribe(topology_changed)
