"""The KAI Topology of the managed ClusterTopology: there, the same, and ours; and the Ready condition that says so."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from app.kube.api import Client, ClusterError, Conflict, Forbidden, Key, NotFound, Object
from app.kube.events import Recorder, Regarding
from app.kube.rewrites import Rewrites
from app.objects.conditions import Condition, has_condition, with_condition
from app.rules.kinds import CLUSTER_TOPOLOGY, KAI_TOPOLOGY
from app.rules.topology.design import DESIGN
from app.rules.topology.dialect import Dialect
from app.rules.topology.kai import (
    desired_kai_topology,
    is_orphan,
    is_owned,
    last_errors,
    level_labels,
    mapping_problem,
    ready_condition,
)

AGAIN_SECONDS = 2.0
"""For what resolves by itself: something is being deleted."""

_NO_STATUS = (
    f"the CRD {CLUSTER_TOPOLOGY} has no status subresource: apply manifests/crds, whose CRD has one. Until then, "
    "topologies are synced, and their state is only in events"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`problem` None: in step. `pending` ones resolve by themselves; `again` is when to look."""

    problem: str | None = None
    pending: bool = False
    again: float | None = None


class KaiTopologyReconciler:
    """One key, the managed ClusterTopology; reads both objects, since they are two. Does nothing in a dialect in which
    the KAI Topology is not made from it. `now` is the wall clock, in UTC."""

    name = "kai-topology"

    def __init__(
        self,
        client: Client,
        topology_name: str,
        events: Recorder,
        rewrites: Rewrites | None = None,
        *,
        dialect: Callable[[], Dialect],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.rewrites = rewrites or Rewrites()
        self.statuses_lost = 0
        """Writes of a status that the CRD of this cluster doesn't have."""
        self._client, self._name, self._events, self._now = client, topology_name, events, now
        self._dialect = dialect
        self._reported: tuple[str, Condition, str] | None = None
        """The uid, condition and reason of the last StatusNotWritten event, None after a status was written."""

    def all_keys(self) -> list[Key]:
        return [("", self._name)]

    async def reconcile(self, key: Key) -> float | None:
        if key != ("", self._name) or not self._dialect().owns_topology:
            return None
        try:
            topology = await self._client.get(CLUSTER_TOPOLOGY, self._name)
        except NotFound:
            return None
        if topology["metadata"].get("deletionTimestamp"):
            return None
        failure: ClusterError | None = None
        try:
            outcome = await self._sync(topology)
        except Conflict:
            raise
        except ClusterError as error:
            outcome, failure = Outcome(f"KAI Topology could not be written: {error.message}"), error
        try:
            await self._say(topology, outcome)
        except NotFound:
            return None  # deleted since it was read
        if failure is not None:
            raise failure
        return outcome.again

    # The KAI Topology.

    async def _sync(self, topology: Object) -> Outcome:
        levels = DESIGN.read_levels(topology)
        problem = mapping_problem(levels)
        if problem is not None:
            return Outcome(problem)
        desired = desired_kai_topology(topology, levels)
        try:
            found = await self._client.get(KAI_TOPOLOGY, self._name)
        except NotFound as missing:
            if missing.no_resource:
                return Outcome("the KAI Scheduler's Topology API is not installed in this cluster", pending=True)
            return await self._create(desired)
        return await self._compare(topology, found, desired)

    async def _compare(self, topology: Object, found: Object, desired: Object) -> Outcome:
        name, uid = self._name, topology["metadata"]["uid"]
        if not is_owned(found, uid):
            if is_orphan(found, name, uid):
                text = f'KAI Topology "{name}" belongs to a former ClusterTopology and will be collected'
                return Outcome(text, pending=True, again=AGAIN_SECONDS)
            return Outcome(f'KAI Topology "{name}" exists, but is not controlled by this ClusterTopology: left alone')
        if found["metadata"].get("deletionTimestamp"):
            return Outcome(f'KAI Topology "{name}" is being deleted', pending=True, again=AGAIN_SECONDS)
        if level_labels(found) == level_labels(desired):
            return Outcome()
        return await self._replace(topology, found, desired)

    async def _replace(self, topology: Object, found: Object, desired: Object) -> Outcome:
        """Delete and create: levels are immutable. What comes between the two is created by the next look."""
        pause = self.rewrites.pause(("", self._name))
        if pause is not None:
            text = f'something keeps changing KAI Topology "{self._name}"; left alone for {pause:.0f} s'
            self._events.record(Regarding.of(topology), "Warning", "KAITopologyContested", text)
            return Outcome(text, again=pause)
        with contextlib.suppress(NotFound):  # somebody was quicker
            await self._client.delete(KAI_TOPOLOGY, self._name, uid=found["metadata"]["uid"])
        self.rewrites.count(("", self._name))
        self._events.record(Regarding.of(topology), "Normal", "KAITopologyReset", "its levels differed: made anew")
        try:
            return await self._create(desired)
        except Conflict:
            return Outcome(f'KAI Topology "{self._name}" is being deleted', pending=True, again=AGAIN_SECONDS)

    async def _create(self, desired: Object) -> Outcome:
        await self._client.create(KAI_TOPOLOGY, desired)
        return Outcome()

    # The status.

    async def _say(self, topology: Object, outcome: Outcome) -> None:
        generation = topology["metadata"].get("generation", 0)
        condition = ready_condition(outcome.problem, generation, pending=outcome.pending)
        status = topology.get("status") or {}
        if has_condition(status.get("conditions"), condition) and status.get("observedGeneration") == generation:
            return
        problem = await self._write_status(topology, condition)
        if problem is None:
            self._reported = None
        else:
            self.statuses_lost += 1
            report = (str(topology["metadata"].get("uid")), condition, problem)
            if report == self._reported:
                return
            self._reported = report
            text = f"{problem}. The status would be: {condition.message}"
            self._events.record(Regarding.of(topology), "Warning", "StatusNotWritten", text)
        if condition.status == "False":
            self._events.record(Regarding.of(topology), "Warning", condition.reason, condition.message)

    async def _write_status(self, topology: Object, condition: Condition) -> str | None:
        """The reason if the status can't be written, else None. NotFound if the ClusterTopology no longer exists: the
        API server gives the same answer if the CRD has no status."""
        try:
            status = self._status(topology, condition)
            await self._client.patch(CLUSTER_TOPOLOGY, self._name, status, subresource="status")
        except NotFound:
            await self._client.get(CLUSTER_TOPOLOGY, self._name, metadata_only=True)
            return _NO_STATUS
        except Forbidden as error:
            return f"the API server does not accept the status: {error.message}"
        return None

    def _status(self, topology: Object, condition: Condition) -> Object:
        status = topology.get("status") or {}
        now = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "metadata": {"resourceVersion": topology["metadata"]["resourceVersion"]},
            "status": {
                "observedGeneration": condition.generation,
                "conditions": with_condition(status.get("conditions"), condition, now),
                "lastErrors": last_errors(condition, status.get("lastErrors"), now) or None,
            },
        }
