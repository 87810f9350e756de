"""Creates and corrects the managed ClusterTopology or ClusterTopologyBinding.

If topology support is disabled, deletes a ClusterTopology, and leaves a binding to administrators.

Source: `rules/README.md`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from app.cluster.rows import TopologyStatus
from app.cluster.view import ClusterView
from app.facts.grove.topology import Level, levels_for_kai
from app.facts.kinds import CLUSTER_TOPOLOGY
from app.kube.api import ClusterError, Conflict, Key, NotFound, Object, ObjectRef
from app.kube.backoff import Backoff
from app.kube.events import Regarding
from app.kube.store import WatchStore
from app.objects.resource import CRD
from app.reconcilers.writing import Writing
from app.rules.dialects.dialect import Dialect
from app.rules.topology.levels import desired_levels

REJECTED_SECONDS = 30.0
"""The time until levels that the rules reject are tried again.

The cluster may have changed by then.
"""

logger = logging.getLogger(__name__)


class CreationFailed(Exception):
    """The managed ClusterTopology could not be created within the configured time."""


class BeingDeleted(Conflict):
    """The managed topology is being deleted, and finalizers keep it."""


class ClusterTopologyReconciler(Struct):
    """A reconciler of the managed topology `topology_name` with the `configured` levels.

    They are listed broadest first. If they are None, topology support is disabled.

    `statuses` has the statuses of all ClusterTopologies.

    `topologies` is the store of ClusterTopologies: written objects are noted in it, so that the
    reconcilers that start next use them. `topology` gives the dialect in force and the facts for
    its rules. Objects that these rules reject are never written.
    """

    name = "clustertopology"

    writing: Writing
    topology_name: str
    configured: Sequence[Level] | None
    topologies: WatchStore[Any]
    statuses: WatchStore[TopologyStatus]
    topology: ClusterView
    _last: Dialect | None = None
    _left_over: frozenset[str] = frozenset()
    """The uids of the ClusterTopologies of former names that were reported."""

    def all_keys(self) -> list[Key]:
        return [("", self.topology_name)]

    async def settle(self, patience: float, random: Callable[[], float]) -> None:
        """Reconciles before the other reconcilers start.

        If that fails, for example because our own webhook is not reachable yet, tries again for
        `patience` seconds, and raises CreationFailed if a ClusterTopology still can't be written.
        Any other failure is logged, and the reconciler retries it later. A ClusterTopology that is
        being deleted is such a failure: it ends only when somebody removes its finalizers.
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
                        "%s %s not %s, tried again later: %s",
                        kind,
                        self.topology_name,
                        tried,
                        error.message,
                    )
                    return
                if clock() >= end:
                    raise CreationFailed(
                        f'ClusterTopology "{self.topology_name}" could not be made: {error.message}'
                    ) from error
                logger.warning(
                    "ClusterTopology %s not made yet: %s", self.topology_name, error.message
                )
                await asyncio.sleep(min(backoff.next(error.retry_after), max(0.0, end - clock())))

    async def reconcile(self, key: Key) -> float | None:
        """Write the difference. There is only one key."""
        dialect = self.topology.dialect()
        self._report(dialect)
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

        Grove makes a KAI Topology of a binding, which must have only levels that KAI allows.
        """
        levels = self.configured or ()
        return desired_levels(levels if dialect.owns_topology else levels_for_kai(levels))

    def _report(self, dialect: Dialect) -> None:
        """Report a change of the dialect with an event on the CRD of its resource."""
        former = self._last
        self._last = dialect
        if former is None or former is dialect:
            return
        note = (
            f'Grove\'s topology API is now read in the dialect "{dialect.name}", before it was'
            f' "{former.name}"'
        )
        logger.info("%s", note)
        regarding = Regarding.to(CRD, str(dialect.resource))
        self.writing.events.record(regarding, "Normal", "DialectChanged", note)

    def _report_left_over(self) -> None:
        """Report ClusterTopologies that were managed before `clusterTopology.name` changed.

        They are not deleted: whoever may write a status could else have any one deleted.
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
                f"this ClusterTopology was managed before clusterTopology.name became"
                f" {self.topology_name}. It is not guarded any more, and its KAI Topology stays"
                f" with it. Delete both: kubectl delete {CLUSTER_TOPOLOGY} {name}"
            )
            self.writing.events.record(regarding, "Warning", "TopologyLeftOver", note)
        self._left_over = frozenset(left)

    async def _create(self, dialect: Dialect) -> float | None:
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
        """Return whether the rules reject `desired`. If so, an event states the reasons."""
        operation = "CREATE" if old is None else "UPDATE"
        verdict = dialect.validate_levels(desired, old, operation, self.topology, managed=True)
        if verdict.findings:
            problems = "; ".join(map(str, verdict.findings))
            note = f"the levels of the configuration are not written: {problems}"
            self.writing.events.record(regarding, "Warning", "TopologyNotWritten", note)
        return bool(verdict.findings)

    def _note(self, dialect: Dialect, stored: Object) -> None:
        if dialect.owns_topology:
            self.topologies.note(stored)

    async def _update(self, dialect: Dialect, stored: Object) -> float | None:
        """Write the levels, unless another writer keeps changing them."""
        pause = self.writing.rewrites.pause(("", self.topology_name))
        if pause is not None:
            text = f"something keeps changing its levels; left alone for {pause:.0f} s"
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
        if stored["metadata"].get("deletionTimestamp"):
            return
        logger.info("topology support is disabled: deleting ClusterTopology %s", self.topology_name)
        with contextlib.suppress(NotFound):
            ref = ObjectRef(CLUSTER_TOPOLOGY, self.topology_name)
            await self.writing.client.delete(ref, uid=stored["metadata"]["uid"])
