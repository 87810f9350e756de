"""Writes the condition LevelsCovered of topologies: whether the nodes have labels
for all levels, and these form a tree."""

import contextlib
from collections.abc import Callable
from datetime import datetime

from app.cluster.facts import Facts
from app.cluster.table import BINDINGS, NODES, TOPOLOGIES, Stores
from app.kube.api import Client, Forbidden, Key, NotFound, Object, Unavailable
from app.kube.events import Recorder, Regarding
from app.kube.loop import Loop
from app.objects.conditions import has_condition, with_condition
from app.reconcilers.status import status_patch, timestamp, utc_now
from app.rules.topology.coverage import LevelProblem, coverage_condition, coverage_problems

SETTLE_SECONDS = 10.0
"""The time between a change of nodes and the next step, because many nodes change at once."""


class LevelCoverageReconciler:
    """Reconciles one topology at a time: a ClusterTopologyBinding, or the managed ClusterTopology. Writes the condition
    if it differs. Conditions of other writers stay. `now` is the wall clock in UTC."""

    name = "level-coverage"

    def __init__(
        self, client: Client, topology: Facts, events: Recorder, *, now: Callable[[], datetime] = utc_now
    ) -> None:
        self._client, self._topology, self._events, self._now = client, topology, events, now

    def all_keys(self) -> list[Key]:
        try:
            return [("", name) for name in self._topology.dialect().in_use(self._topology)]
        except Unavailable:
            return []

    async def reconcile(self, key: Key) -> float | None:
        if not self._topology.nodes() or key not in self.all_keys():
            return None
        dialect = self._topology.dialect()
        with contextlib.suppress(NotFound):  # deleted meanwhile, or its CRD has no status
            stored = await self._client.get(dialect.resource, key[1])
            await self._write(stored, coverage_problems(dialect.read_levels(stored), self._topology.nodes_with))
        return None

    async def _write(self, stored: Object, problems: list[LevelProblem]) -> None:
        metadata, status = stored["metadata"], stored.get("status") or {}
        condition = coverage_condition(problems, metadata.get("generation", 0))
        if metadata.get("deletionTimestamp") or has_condition(status.get("conditions"), condition):
            return
        if condition.status == "False":
            self._events.record(Regarding.of(stored), "Warning", "LevelsNotCovered", condition.message)
        conditions = with_condition(status.get("conditions"), condition, timestamp(self._now()))
        patch, resource = status_patch(stored, {"conditions": conditions}), self._topology.dialect().resource
        with contextlib.suppress(Forbidden):  # the event reports the problem
            await self._client.patch(resource, metadata["name"], patch, subresource="status")


def subscribe(loop: Loop, stores: Stores) -> None:
    """Reconciles a topology if it changes, and all topologies some seconds after nodes have changed."""

    def nodes_changed(key: Key, before: object, after: object) -> None:
        for topology in loop.reconciler.all_keys():
            loop.add_after(topology, SETTLE_SECONDS)

    stores[NODES].subscribe(nodes_changed)
    stores[TOPOLOGIES].subscribe(lambda key, before, after: loop.add(key))
    stores[BINDINGS].subscribe(lambda key, before, after: loop.add(key))
