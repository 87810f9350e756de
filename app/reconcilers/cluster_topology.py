"""Reconcile the managed topology, which is a ClusterTopology or a ClusterTopologyBinding.

The reconciler creates the topology and corrects its levels. If topology support is disabled, it
deletes a ClusterTopology, but leaves a ClusterTopologyBinding to administrators.
`app/rules/README.md` describes the rules for levels.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from app.cluster.leader_rows import TopologyStatus
from app.cluster.view import ClusterView
from app.facts.grove.topology import Level, levels_for_kai
from app.facts.kinds import CLUSTER_TOPOLOGY
from app.kube.api import ClusterError, Conflict, Key, NotFound, Object, ObjectRef
from app.kube.backoff import Backoff
from app.kube.competing_writers import remedy_for_writers
from app.kube.events import Regarding
from app.kube.store import WatchStore
from app.objects.resource import CRD
from app.reconcilers.writing import Writing
from app.rules.dialects.dialect import Dialect
from app.rules.topology.levels import desired_levels

REJECTED_SECONDS = 30.0
"""The time in seconds until the next attempt to write levels that the rules reject.

A change in the cluster, such as the deletion of a KAI Topology, may make them valid.
"""

logger = logging.getLogger(__name__)


class CreationFailed(Exception):
    """The managed ClusterTopology could not be created or updated within the configured time."""


class BeingDeleted(Conflict):
    """The managed topology can't be written while it is being deleted."""


class ClusterTopologyReconciler(Struct):
    """A reconciler with one key, the managed topology.

    It never writes levels that the rules of the webhooks reject.
    """

    name = "clustertopology"

    writing: Writing
    """Writes the topology and records events on it."""
    topology_name: str
    """The name of the managed topology."""
    configured: Sequence[Level] | None
    """The configured levels, broadest first, or None if topology support is disabled."""
    topologies: WatchStore[Any]
    """The cached ClusterTopologies.

    A topology is added as soon as it is written, so that the reconcilers that start next see it.
    """
    statuses: WatchStore[TopologyStatus]
    """The cached statuses of all ClusterTopologies."""
    topology: ClusterView
    """Returns the dialect in force, and the facts that its rules need."""
    _last: Dialect | None = None
    """The dialect of the last step, or None before the first step."""
    _left_over: frozenset[str] = frozenset()
    """The uids of the ClusterTopologies that `_report_left_over` has reported."""

    def all_keys(self) -> list[Key]:
        return [("", self.topology_name)]

    async def settle(self, patience: float, random: Callable[[], float]) -> None:
        """Reconcile the topology before the other reconcilers start.

        If it can't be written, for example because our own webhook is not reachable yet, try again
        for `patience` seconds, and then raise CreationFailed.

        Three failures are only logged, and the loop retries later: deleting the topology, writing a
        ClusterTopologyBinding, and writing a ClusterTopology that is being deleted. Finalizers may
        delay its deletion for any time.
        """
        backoff = Backoff(random, most=5)
        clock = asyncio.get_running_loop().time
        end = clock() + patience
        while True:
            try:
                await self.reconcile(("", self.topology_name))
                return
            except ClusterError as error:
                dialect = self.topology.dialect()
                if (
                    self.configured is None
                    or not dialect.owns_topology
                    or isinstance(error, BeingDeleted)
                ):
                    tried = "deleted" if self.configured is None else "written"
                    kind = dialect.resource.kind
                    logger.warning(
                        "%s %s could not be %s, will retry: %s",
                        kind,
                        self.topology_name,
                        tried,
                        error.message,
                    )
                    return
                if clock() >= end:
                    raise CreationFailed(
                        f'could not create or update ClusterTopology "{self.topology_name}"'
                        f" within {patience:g} seconds: {error.message}"
                    ) from error
                logger.warning(
                    "ClusterTopology %s could not be written yet, retrying: %s",
                    self.topology_name,
                    error.message,
                )
                await asyncio.sleep(min(backoff.next(error.retry_after), max(0.0, end - clock())))

    async def reconcile(self, key: Key) -> float | None:
        """Create, correct or delete the topology.

        Also record events about a change of the dialect, and about topologies that are no longer
        managed. Return the seconds until the next attempt if the rules reject the levels or another
        writer keeps changing them, otherwise None. Raise BeingDeleted if the topology should exist
        but is being deleted, and ClusterError if a request fails.
        """
        dialect = self.topology.dialect()
        self._report_dialect(dialect)
        self._report_left_over()
        try:
            stored = await self.writing.client.get(ObjectRef(dialect.resource, self.topology_name))
        except NotFound as missing:
            create = self.configured is not None and not missing.no_resource
            return await self._create(dialect) if create else None

        if self.configured is None:
            if dialect.owns_topology:
                await self._delete(stored)
        elif stored["metadata"].get("deletionTimestamp"):
            raise BeingDeleted(f"{dialect.resource.kind} {self.topology_name} is being deleted")
        elif stored.get("spec", {}).get("levels") != self._levels(dialect):
            return await self._update(dialect, stored)

        return None

    def _levels(self, dialect: Dialect) -> list[dict[str, str]]:
        """Return the levels to write.

        A ClusterTopologyBinding gets only levels that KAI allows, because Grove creates a KAI
        Topology from it.
        """
        levels = self.configured or ()
        return desired_levels(levels if dialect.owns_topology else levels_for_kai(levels))

    def _report_dialect(self, dialect: Dialect) -> None:
        """Record an event on the CRD of the topology if the dialect has changed."""
        previous = self._last
        self._last = dialect
        if previous is None or previous is dialect:
            return
        note = (
            f'the dialect of Grove\'s topology API changed from "{previous.name}" to'
            f' "{dialect.name}", because a CRD was installed or removed'
        )
        logger.info("%s", note)
        regarding = Regarding.to(CRD, str(dialect.resource))
        self.writing.events.record(regarding, "Normal", "DialectChanged", note)

    def _report_left_over(self) -> None:
        """Record an event on each ClusterTopology that was managed under another configured name.

        They are not deleted, because only their status shows that they were managed: anyone with
        permission to write a status could get any ClusterTopology deleted.
        """
        left = {
            status.uid: status
            for status in self.statuses.values()
            if status.is_managed and status.name != self.topology_name
        }
        for uid in left.keys() - self._left_over:
            name = left[uid].name
            regarding = Regarding.to(CLUSTER_TOPOLOGY, name, uid=uid)
            note = (
                "this ClusterTopology was managed before clusterTopology.name was changed to"
                f" {self.topology_name}, and is no longer protected. If no workload uses it, delete"
                f" it together with its KAI Topology: kubectl delete {CLUSTER_TOPOLOGY} {name}"
            )
            self.writing.events.record(regarding, "Warning", "TopologyLeftOver", note)
        self._left_over = frozenset(left)

    async def _create(self, dialect: Dialect) -> float | None:
        """Create the topology.

        If the rules reject it, create nothing, and return the seconds until the next attempt,
        otherwise None.
        """
        desired: Object = {
            "metadata": {"name": self.topology_name},
            "spec": {"levels": self._levels(dialect)},
        }
        regarding = Regarding.to(dialect.resource, self.topology_name)
        if self._is_rejected(dialect, desired, None, regarding):
            return REJECTED_SECONDS
        logger.info("creating %s %s", dialect.resource.kind, self.topology_name)
        self._note(dialect, await self.writing.client.create(dialect.resource, desired))
        return None

    def _is_rejected(
        self, dialect: Dialect, desired: Object, old: Object | None, regarding: Regarding
    ) -> bool:
        """Return whether the rules reject `desired`. If so, record an event with the reasons."""
        operation = "CREATE" if old is None else "UPDATE"
        verdict = dialect.validate_levels(desired, old, operation, self.topology, managed=True)
        if verdict.findings:
            problems = "; ".join(map(str, verdict.findings))
            note = f"the levels in clusterTopology.levels are rejected and not written: {problems}"
            self.writing.events.record(regarding, "Warning", "TopologyNotWritten", note)
        return bool(verdict.findings)

    def _note(self, dialect: Dialect, stored: Object) -> None:
        """Add a written ClusterTopology to the cache. The cache has no ClusterTopologyBindings."""
        if dialect.owns_topology:
            self.topologies.note(stored)

    async def _update(self, dialect: Dialect, stored: Object) -> float | None:
        """Write the levels, and return None.

        If another writer keeps changing them, or the rules reject them, write nothing, and return
        the seconds until the next attempt.
        """
        pause = self.writing.rewrites.pause(("", self.topology_name))
        if pause is not None:
            remedy = remedy_for_writers(ObjectRef(dialect.resource, self.topology_name))
            text = (
                "another writer, perhaps Grove's operator, keeps changing the levels; backing off."
                f" {remedy}"
            )
            self.writing.events.record(
                Regarding.of(stored), "Warning", "ClusterTopologyContested", text
            )
            return pause

        levels = self._levels(dialect)
        desired = {**stored, "spec": {**stored.get("spec", {}), "levels": levels}}
        if self._is_rejected(dialect, desired, stored, Regarding.of(stored)):
            return REJECTED_SECONDS

        logger.info("updating %s %s", dialect.resource.kind, self.topology_name)
        version = {"resourceVersion": stored["metadata"]["resourceVersion"]}
        patch = {"metadata": version, "spec": {"levels": levels}}
        ref = ObjectRef(dialect.resource, self.topology_name)
        self._note(dialect, await self.writing.client.patch(ref, patch))
        self.writing.rewrites.count(("", self.topology_name))

        return None

    async def _delete(self, stored: Object) -> None:
        """Delete the managed ClusterTopology, unless it is already being deleted."""
        if stored["metadata"].get("deletionTimestamp"):
            return
        logger.info("topology support is disabled: deleting ClusterTopology %s", self.topology_name)
        with contextlib.suppress(NotFound):
            ref = ObjectRef(CLUSTER_TOPOLOGY, self.topology_name)
            await self.writing.client.delete(ref, uid=stored["metadata"]["uid"])
