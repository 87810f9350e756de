"""The managed ClusterTopology, as the configuration wants it: made, corrected, or deleted where topology is disabled.

Source: `rules/README.md`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from app.kube.api import Client, ClusterError, Conflict, Key, NotFound, Object, Store
from app.kube.backoff import Backoff
from app.kube.events import Recorder, Regarding
from app.kube.rewrites import Rewrites
from app.rules.kinds import CLUSTER_TOPOLOGY
from app.rules.topology.dialect import Dialect
from app.rules.topology.levels import Level, desired_levels

logger = logging.getLogger(__name__)


class CreationFailed(Exception):
    """The managed ClusterTopology could not be put in place within the time that the configuration gives."""


class ClusterTopologyReconciler:
    """`levels` None: topology support is disabled, and there is to be no managed ClusterTopology. What is written is
    noted in `topologies`, so that the reconcilers that start next don't judge by what was there before. Does nothing in
    a dialect in which the managed ClusterTopology is not this program's."""

    name = "clustertopology"

    def __init__(
        self,
        client: Client,
        topology_name: str,
        levels: Sequence[Level] | None,
        topologies: Store[object],
        events: Recorder,
        rewrites: Rewrites | None = None,
        *,
        dialect: Callable[[], Dialect],
    ) -> None:
        self.rewrites, self._dialect = rewrites or Rewrites(), dialect
        self._client, self._name, self._topologies, self._events = client, topology_name, topologies, events
        self._levels = None if levels is None else desired_levels(levels)

    def all_keys(self) -> list[Key]:
        return [("", self._name)]

    async def settle(self, patience: float, random: Callable[[], float]) -> None:
        """At start: once, and for `patience` seconds again if that fails, since our own webhook has to be reachable
        first. Raises CreationFailed. Grove's CRDs may be missing, and a deletion may fail: that is retried later."""
        backoff = Backoff(random, most=5)
        clock = asyncio.get_running_loop().time
        end = clock() + patience
        while True:
            try:
                await self.reconcile(("", self._name))
                return
            except ClusterError as error:
                if self._levels is None:
                    logger.warning("ClusterTopology %s not deleted, tried again later: %s", self._name, error.message)
                    return
                if clock() >= end:
                    raise CreationFailed(
                        f'ClusterTopology "{self._name}" could not be made: {error.message}'
                    ) from error
                logger.warning("ClusterTopology %s not made yet: %s", self._name, error.message)
                await asyncio.sleep(min(backoff.next(error.retry_after), max(0.0, end - clock())))

    async def reconcile(self, key: Key) -> float | None:
        if key != ("", self._name) or not self._dialect().owns_topology:
            return None
        try:
            found = await self._client.get(CLUSTER_TOPOLOGY, self._name)
        except NotFound as missing:
            if self._levels is not None and not missing.no_resource:
                await self._create()
            return None
        if self._levels is None:
            await self._delete(found)
        elif found["metadata"].get("deletionTimestamp"):
            raise Conflict(f"ClusterTopology {self._name} is being deleted", code=409, reason="Conflict")
        elif found.get("spec", {}).get("levels") != self._levels:
            return await self._update(found)
        return None

    async def _create(self) -> None:
        logger.info("creating ClusterTopology %s", self._name)
        wanted = {"metadata": {"name": self._name}, "spec": {"levels": self._levels}}
        self._topologies.note(await self._client.create(CLUSTER_TOPOLOGY, wanted))

    async def _update(self, found: Object) -> float | None:
        """Another operator may be allowed to write it too, and want other levels."""
        pause = self.rewrites.pause(("", self._name))
        if pause is not None:
            text = f"something keeps changing its levels; left alone for {pause:.0f} s"
            self._events.record(Regarding.of(found), "Warning", "ClusterTopologyContested", text)
            return pause
        logger.info("updating ClusterTopology %s", self._name)
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        wanted = {"metadata": version, "spec": {"levels": self._levels}}
        self._topologies.note(await self._client.patch(CLUSTER_TOPOLOGY, self._name, wanted))
        self.rewrites.count(("", self._name))
        return None

    async def _delete(self, found: Object) -> None:
        if found["metadata"].get("deletionTimestamp"):
            return
        logger.info("topology support is disabled: deleting ClusterTopology %s", self._name)
        with contextlib.suppress(NotFound):  # somebody was quicker
            await self._client.delete(CLUSTER_TOPOLOGY, self._name, uid=found["metadata"]["uid"])
