"""The managed ClusterTopology, or ClusterTopologyBinding, as the configuration asks for it: made and corrected. If
topology is disabled, a ClusterTopology is deleted, and a binding is left to administrators.

Source: `rules/README.md`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from app.cluster.readers import TopologyReader
from app.kube.api import Client, ClusterError, Conflict, Key, NotFound, Object, Store
from app.kube.backoff import Backoff
from app.kube.events import Recorder, Regarding
from app.kube.rewrites import Rewrites
from app.objects.resource import CRD
from app.rules.kinds import CLUSTER_TOPOLOGY
from app.rules.topology.dialect import Dialect
from app.rules.topology.levels import Level, desired_levels

REJECTED_SECONDS = 30.0
"""What the rules reject is looked at again: the cluster may have changed."""

logger = logging.getLogger(__name__)


class CreationFailed(Exception):
    """The managed ClusterTopology could not be put in place within the time that the configuration gives."""


class ClusterTopologyReconciler:
    """`levels` None: topology support is disabled, and there is to be no managed ClusterTopology. What is written is
    noted in `topologies`, so that the reconcilers that start next don't judge by what was there before. `topology`
    says which dialect is in force, and what its rules look up: what they reject is never written."""

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
        topology: TopologyReader,
    ) -> None:
        self.rewrites, self._topology = rewrites or Rewrites(), topology
        self._last: Dialect | None = None
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
                dialect = self._topology.dialect()
                if self._levels is None or not dialect.owns_topology:
                    tried = "deleted" if self._levels is None else "written"
                    kind = dialect.resource.kind
                    logger.warning("%s %s not %s, tried again later: %s", kind, self._name, tried, error.message)
                    return
                if clock() >= end:
                    raise CreationFailed(
                        f'ClusterTopology "{self._name}" could not be made: {error.message}'
                    ) from error
                logger.warning("ClusterTopology %s not made yet: %s", self._name, error.message)
                await asyncio.sleep(min(backoff.next(error.retry_after), max(0.0, end - clock())))

    async def reconcile(self, key: Key) -> float | None:
        if key != ("", self._name):
            return None
        dialect = self._topology.dialect()
        self._report(dialect)
        try:
            found = await self._client.get(dialect.resource, self._name)
        except NotFound as missing:
            create = self._levels is not None and not missing.no_resource
            return await self._create(dialect) if create else None
        if self._levels is None:
            if dialect.owns_topology:
                await self._delete(found)
        elif found["metadata"].get("deletionTimestamp"):
            raise Conflict(f"{dialect.resource.kind} {self._name} is being deleted", code=409, reason="Conflict")
        elif found.get("spec", {}).get("levels") != self._levels:
            return await self._update(dialect, found)
        return None

    def _report(self, dialect: Dialect) -> None:
        """A change of the dialect, by an event on the CRD of its resource. The first dialect is no change."""
        before, self._last = self._last, dialect
        if before is None or before is dialect:
            return
        note = f'Grove\'s topology API is now read in the dialect "{dialect.name}", before it was "{before.name}"'
        logger.info("%s", note)
        regarding = Regarding(CRD.api_version(), CRD.kind, "", str(dialect.resource), "")
        self._events.record(regarding, "Normal", "DialectChanged", note)

    async def _create(self, dialect: Dialect) -> float | None:
        kind = dialect.resource.kind
        desired: Object = {"metadata": {"name": self._name}, "spec": {"levels": self._levels}}
        regarding = Regarding(dialect.resource.api_version(), kind, "", self._name, "")
        if self._is_rejected(dialect, desired, None, regarding):
            return REJECTED_SECONDS
        logger.info("creating %s %s", kind, self._name)
        self._note(dialect, await self._client.create(dialect.resource, desired))
        return None

    def _is_rejected(self, dialect: Dialect, desired: Object, old: Object | None, regarding: Regarding) -> bool:
        """Whether the rules reject what is to be written; then an event says why."""
        operation = "CREATE" if old is None else "UPDATE"
        verdict = dialect.validate_levels(desired, old, operation, self._topology, managed=True)
        problems = [verdict.refusal] if verdict.refusal is not None else [str(finding) for finding in verdict.findings]
        if problems:
            note = f"the levels of the configuration are not written: {'; '.join(problems)}"
            self._events.record(regarding, "Warning", "TopologyNotWritten", note)
        return bool(problems)

    def _note(self, dialect: Dialect, stored: Object) -> None:
        if dialect.owns_topology:
            self._topologies.note(stored)

    async def _update(self, dialect: Dialect, found: Object) -> float | None:
        """Another operator may be allowed to write it too, and want other levels."""
        pause = self.rewrites.pause(("", self._name))
        if pause is not None:
            text = f"something keeps changing its levels; left alone for {pause:.0f} s"
            self._events.record(Regarding.of(found), "Warning", "ClusterTopologyContested", text)
            return pause
        desired = {**found, "spec": {**found.get("spec", {}), "levels": self._levels}}
        if self._is_rejected(dialect, desired, found, Regarding.of(found)):
            return REJECTED_SECONDS
        logger.info("updating %s %s", dialect.resource.kind, self._name)
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        patch = {"metadata": version, "spec": {"levels": self._levels}}
        self._note(dialect, await self._client.patch(dialect.resource, self._name, patch))
        self.rewrites.count(("", self._name))
        return None

    async def _delete(self, found: Object) -> None:
        if found["metadata"].get("deletionTimestamp"):
            return
        logger.info("topology support is disabled: deleting ClusterTopology %s", self._name)
        with contextlib.suppress(NotFound):  # somebody was quicker
            await self._client.delete(CLUSTER_TOPOLOGY, self._name, uid=found["metadata"]["uid"])
