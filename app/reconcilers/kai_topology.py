"""Reconcile the KAI Topology of the managed ClusterTopology.

The reconciler keeps the levels of the KAI Topology equal to those of the ClusterTopology, and
writes the condition Ready of the ClusterTopology.
"""

import contextlib
from collections.abc import Callable

from msgspec import Struct

from app.base.value import Value
from app.facts.kai.topology import level_labels
from app.facts.kinds import CLUSTER_TOPOLOGY, KAI_TOPOLOGY
from app.kube.api import ClusterError, Conflict, Key, NotFound, Object, ObjectRef, Rejected, find
from app.kube.competing_writers import remedy_for_writers, write_key
from app.kube.events import Regarding
from app.objects.conditions import Condition, status_patch, with_condition
from app.objects.time import Now, timestamp, utc_now
from app.reconcilers.writing import Writing, soonest
from app.rules.dialects.design import DESIGN
from app.rules.dialects.dialect import Dialect
from app.rules.topology import kai
from app.rules.topology.levels import levels_below_host

AGAIN_SECONDS = 2.0
"""The time in seconds until the next attempt if the KAI Topology is being deleted."""

_NO_STATUS = (
    f"the CRD {CLUSTER_TOPOLOGY} has no status subresource. Install the CRD of grove-admission:"
    " kubectl apply -k manifests/crds. Until then, KAI Topologies are still synced, but only events"
    " show the result"
)


class Outcome(Value):
    """The result of syncing the KAI Topology with the ClusterTopology."""

    problem: str | None = None
    """The reason why the KAI Topology differs from the ClusterTopology, or None if it matches."""
    pending: bool = False
    """Whether the problem makes the condition Ready Unknown instead of False."""
    again: float | None = None
    """The seconds until the next step, or None if none is needed."""


class KaiTopologyReconciler(Struct):
    """A reconciler with one key, the managed ClusterTopology.

    It works only in the dialect `design`, because later releases of Grove create the KAI Topology.
    """

    name = "kai-topology"

    writing: Writing
    """Writes the KAI Topology and the status, and records events on the ClusterTopology."""
    topology_name: str
    """The name of the managed ClusterTopology, and of its KAI Topology."""
    dialect: Callable[[], Dialect]
    """Returns the dialect in force."""
    now: Now = utc_now
    """Returns the current time in UTC."""
    statuses_lost: int = 0
    """The number of statuses that could not be written."""
    _reported: tuple[str, Condition, str] | None = None
    """The uid, condition and problem of the last event StatusNotWritten, if no status followed."""

    def all_keys(self) -> list[Key]:
        return [("", self.topology_name)]

    async def reconcile(self, key: Key) -> float | None:
        """Sync the KAI Topology, and write the result into the status of the ClusterTopology.

        Return the seconds until the next step, or None if none is needed. If the KAI Topology can't
        be read or written, raise the ClusterError after the status is written. Raise a Conflict at
        once.
        """
        if not self.dialect().owns_topology:
            return None

        topology = await find(self.writing.client, ObjectRef(CLUSTER_TOPOLOGY, self.topology_name))
        if topology is None or topology["metadata"].get("deletionTimestamp"):
            return None

        failure: ClusterError | None = None
        try:
            outcome = await self._sync(topology)
        except Conflict:
            raise
        except ClusterError as error:
            outcome = Outcome(f"KAI Topology could not be read or written: {error.message}")
            failure = error

        try:
            pause = await self._report(topology, outcome)
        except NotFound:
            return None  # deleted since it was read

        if failure is not None:
            raise failure

        return soonest(outcome.again, pause)

    # The KAI Topology.

    async def _sync(self, topology: Object) -> Outcome:
        """Create the KAI Topology of the ClusterTopology `topology`, or correct the levels."""
        levels = DESIGN.read_levels(topology)
        if not levels:
            return Outcome("the ClusterTopology has no levels that KAI can use")

        desired = kai.desired_kai_topology(topology, levels)
        try:
            stored = await self.writing.client.get(ObjectRef(KAI_TOPOLOGY, self.topology_name))
        except NotFound as missing:
            if missing.no_resource:
                return Outcome(
                    "this cluster does not serve KAI Topologies. The leader creates the KAI"
                    " Topology once it does",
                    pending=True,
                )
            return await self._create(desired)

        return await self._compare(topology, stored, desired)

    async def _compare(self, topology: Object, stored: Object, desired: Object) -> Outcome:
        """Replace the KAI Topology `stored` if its levels differ and `topology` controls it."""
        name = self.topology_name
        uid = topology["metadata"]["uid"]
        if not kai.is_owned(stored, uid):
            if kai.is_orphan(stored, name, uid):
                text = (
                    f'KAI Topology "{name}" belongs to a deleted ClusterTopology and is about to'
                    " be garbage-collected"
                )
                return Outcome(text, pending=True, again=AGAIN_SECONDS)
            return Outcome(
                f'KAI Topology "{name}" exists and is not controlled by this ClusterTopology, so it'
                f" is left unchanged. {kai.foreign_remedy(name)}"
            )

        if stored["metadata"].get("deletionTimestamp"):
            return self._being_deleted()

        if level_labels(stored) == level_labels(desired):
            return Outcome()

        return await self._replace(topology, stored, desired)

    async def _replace(self, topology: Object, stored: Object, desired: Object) -> Outcome:
        """Delete the KAI Topology and create it again, because its levels are immutable.

        After an interruption, the next step creates it. If another writer keeps changing it, only
        record an event.
        """
        pause = self.writing.rewrites.pause(("", self.topology_name))
        if pause is not None:
            remedy = remedy_for_writers(ObjectRef(KAI_TOPOLOGY, self.topology_name))
            text = (
                f'another writer keeps changing KAI Topology "{self.topology_name}"; backing off.'
                f" {remedy}"
            )
            self.writing.events.record(
                Regarding.of(topology), "Warning", "KAITopologyContested", text
            )
            return Outcome(text, again=pause)

        read = stored["metadata"]
        with contextlib.suppress(NotFound):
            await self.writing.client.delete(
                ObjectRef(KAI_TOPOLOGY, self.topology_name),
                uid=read["uid"],
                resource_version=read["resourceVersion"],
            )

        self.writing.rewrites.count(("", self.topology_name))
        self.writing.events.record(
            Regarding.of(topology),
            "Normal",
            "KAITopologyReset",
            "deleted the KAI Topology to recreate it with the levels of this ClusterTopology",
        )
        try:
            return await self._create(desired)
        except Conflict:
            return self._being_deleted()

    def _being_deleted(self) -> Outcome:
        text = f'KAI Topology "{self.topology_name}" is being deleted'
        return Outcome(text, pending=True, again=AGAIN_SECONDS)

    async def _create(self, desired: Object) -> Outcome:
        await self.writing.client.create(KAI_TOPOLOGY, desired)
        return Outcome()

    # The status.

    async def _report(self, topology: Object, outcome: Outcome) -> float | None:
        """Write the status of `topology` for `outcome` if it differs, and record events.

        If another writer keeps changing it, write nothing, and return the seconds until the next
        attempt. Otherwise, return None. Raise NotFound if `topology` no longer exists.
        """
        generation = topology["metadata"].get("generation", 0)
        condition = kai.ready_condition(
            outcome.problem,
            generation,
            pending=outcome.pending,
            remark=levels_below_host(DESIGN.read_levels(topology)),
        )
        stored = topology.get("status") or {}
        desired = self._status(topology, condition)
        if desired == {key: stored.get(key) for key in desired}:
            return None

        counted = write_key(
            f"status of {self.topology_name}", {condition.status: condition.message}
        )
        pause = self.writing.rewrites.pause(counted)
        if pause is not None:
            remedy = remedy_for_writers(ObjectRef(CLUSTER_TOPOLOGY, self.topology_name))
            text = (
                "another writer, perhaps Grove's operator, keeps changing the status; backing off."
                f" {remedy}"
            )
            self.writing.events.record(
                Regarding.of(topology), "Warning", "ClusterTopologyContested", text
            )
            return pause

        self.writing.rewrites.count(counted)
        problem = await self._write_status(topology, desired)
        if problem is None:
            self._reported = None
        else:
            self.statuses_lost += 1
            report = (str(topology["metadata"].get("uid")), condition, problem)
            if report == self._reported:
                return None
            self._reported = report
            text = f"{problem}. The unwritten condition Ready says: {condition.message}"
            self.writing.events.record(Regarding.of(topology), "Warning", "StatusNotWritten", text)

        if condition.status == "False":
            self.writing.events.record(
                Regarding.of(topology),
                "Warning",
                condition.reason,
                condition.message,
            )

        return None

    async def _write_status(self, topology: Object, status: Object) -> str | None:
        """Write `status` and return None, or return the reason why the API server rejects it.

        Raise NotFound if the ClusterTopology no longer exists.
        """
        try:
            patch = status_patch(topology, status)
            await self.writing.client.patch(
                ObjectRef(CLUSTER_TOPOLOGY, self.topology_name), patch, subresource="status"
            )
        except NotFound:  # there is no object, or its CRD has no status: both are a 404
            await self.writing.client.get(
                ObjectRef(CLUSTER_TOPOLOGY, self.topology_name), metadata_only=True
            )
            return _NO_STATUS
        except Rejected as error:
            return f"the API server rejected the status: {error.message}"
        return None

    def _status(self, topology: Object, condition: Condition) -> Object:
        """Return the status that `topology` should have, with `condition`."""
        stored = topology.get("status") or {}
        now = timestamp(self.now())
        return {
            "observedGeneration": condition.generation,
            "conditions": with_condition(stored.get("conditions"), condition, now),
            "lastErrors": kai.last_errors(condition, stored.get("lastErrors"), now) or None,
        }
