"""Write why workloads are pending: the condition PlacementBlocked of PodCliqueSets, and events.

We keep the conditions of other writers, as Grove's operators do: a write replaces the list that was
read, and the API server rejects it if the object has changed since. Workloads have no status, so
they get only events. So do PodGroups that belong to no other workload. Pods that belong to no
workload and no PodGroup get neither.
"""

import logging
import random
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct, field

from app.base.fair_queue import FairQueue
from app.base.value import Value
from app.facts.grove.status import StatusCondition
from app.facts.identity import Ref
from app.facts.kinds import POD_CLIQUE_SET, POD_GROUP, WORKLOAD
from app.kube.api import Client, ClusterError, Conflict, NotFound, Object, ObjectRef
from app.kube.backoff import Backoff
from app.kube.events import Recorder, Regarding
from app.objects.conditions import Condition, condition_of, condition_patch
from app.objects.resource import Resource
from app.objects.shape import text_at
from app.objects.time import Clock, Now, timestamp, utc_now
from app.waiting.overdue import NOT_KNOWN, Blocked

PLACEMENT_BLOCKED = "PlacementBlocked"
"""The type of the condition of a pending PodCliqueSet."""
BLOCKED = "PlacementBlocked"
"""The `reason` of the event about a pending workload."""
UNBLOCKED = "PlacementUnblocked"
"""The `reason` of the event about a workload that is no longer overdue."""

MINUTE = 60.0

logger = logging.getLogger(__name__)


class Pacing(Value):
    """The limits on how often the leader checks and writes."""

    look: float = 5.0
    """The minimum time from the start of one check to the start of the next, in seconds."""
    pause: float = 15.0
    """The minimum time between two writes to one object, in seconds."""
    refresh: float = 300.0
    """The minimum time between two reports that differ only in their message, in seconds."""
    share: float = 10.0
    """The minimum time from one check to the next, as a multiple of the CPU time of the first."""
    most: int = 30
    """The maximum number of reports per minute."""


PACING = Pacing()

RESOURCES: Mapping[str, Resource] = {
    resource.kind: resource for resource in (POD_CLIQUE_SET, WORKLOAD, POD_GROUP)
}
"""The resources of the workloads that get events, by kind. PodCliqueSets get a condition too."""


class _Told(Value):
    """The last report about a workload."""

    reason: str
    message: str
    time: float
    """The time of the report, in monotonic seconds."""


_Change = tuple[Ref, Blocked | None]
"""A workload with the reason to report, or None if it is no longer overdue."""


class Reporter(Struct):
    """A writer of reports about why workloads are pending.

    A report is written after each change. Reports above a limit of `pacing` are written later.
    """

    client: Client
    """The client that reads workloads and writes their conditions."""
    events: Recorder
    """The recorder of events."""
    pacing: Pacing
    """The limits of the reports."""
    clock: Clock = time.monotonic
    """A monotonic clock, in seconds."""
    now: Now = utc_now
    """The wall clock in UTC."""
    writes: int = 0
    """The number of reports that were sent, including failed attempts."""
    held_back: int = 0
    """How often a report was delayed: by the limit per minute, or by a pause for its workload."""
    _times: deque[float] = field(default_factory=deque)
    """The times of the writes in the last minute, in monotonic seconds."""
    _written: dict[str, float] = {}
    """The time of the last write in each namespace, in monotonic seconds.

    Times older than `pacing.refresh` are forgotten.
    """
    _told: dict[Ref, _Told] = {}
    """The last report about each workload that was reported as pending."""
    _next: dict[Ref, float] = {}
    """The time from which each workload may be written to again, in monotonic seconds."""
    _backoffs: dict[Ref, Backoff] = {}
    """The backoff of each workload to which the last write failed."""

    def forget_reports(self) -> None:
        """Forget the last reports, because another leader may have replaced them."""
        self._told.clear()

    async def tell(
        self, workloads: Sequence[Blocked], stored: Mapping[Ref, StatusCondition]
    ) -> bool:
        """Write what has changed since the last reports. Return False if a part is left for later.

        `workloads` are the overdue workloads, in the order in which to report them. In each
        namespace, workloads that are no longer overdue come first. `stored` are the cached
        conditions that were written earlier.
        """
        blocked = {of.ref: of for of in workloads if of.ref.kind in RESOURCES}
        told = dict.fromkeys((*stored, *self._told))
        self._forget_others({*blocked, *told})
        changes: list[_Change] = [(ref, None) for ref in told if ref not in blocked]
        reworded: list[_Change] = []
        for ref, of in blocked.items():
            if of.reason != NOT_KNOWN and self._differs(of, stored.get(ref)):
                (reworded if self._is_only_reworded(of) else changes).append((ref, of))

        everything_told = True
        for some in (changes, reworded):
            for ref, change in self._in_turn(some):
                everything_told &= await self._change(ref, change)
        return everything_told

    def _in_turn(self, changes: Sequence[_Change]) -> Iterator[_Change]:
        """Yield `changes` in the order in which to write them: namespaces take turns.

        The namespace whose last write is the oldest comes first.
        """
        queue = FairQueue[_Change]()
        for change in sorted(changes, key=lambda each: self._written.get(each[0].namespace, 0.0)):
            queue.put(change[0].namespace, change)
        while queue:
            yield queue.take()

    def _is_only_reworded(self, blocked: Blocked) -> bool:
        """Return whether the last report about the workload had the same reason."""
        told = self._told.get(blocked.ref)
        return told is not None and told.reason == blocked.reason

    def _forget_others(self, refs: Collection[Ref]) -> None:
        """Forget the pause and backoff of each workload whose pause is over, except of `refs`."""
        now = self.clock()
        for ref in [ref for ref, at in self._next.items() if at <= now and ref not in refs]:
            del self._next[ref]
            self._backoffs.pop(ref, None)

    def _differs(self, blocked: Blocked, stored: StatusCondition | None) -> bool:
        """Return whether `blocked` must be written, because `stored` or the last report differs.

        If this leader has not reported the workload yet, each difference from `stored` must be
        written. After a report, a changed reason must be written at once. A changed message waits
        for `pacing.refresh`. So does a condition that is missing or has another reason, because the
        cache may not have our last write yet.
        """
        told = self._told.get(blocked.ref)
        desired = (blocked.reason, blocked.message)
        if not told:
            return stored is None or (stored.reason, stored.message) != desired
        if told.reason != blocked.reason:
            return True

        is_lost = stored is None or stored.reason != blocked.reason
        has_condition = blocked.ref.kind == POD_CLIQUE_SET.kind
        differs = told.message != blocked.message or (has_condition and is_lost)
        return differs and self.clock() - told.time >= self.pacing.refresh

    async def _change(self, ref: Ref, blocked: Blocked | None) -> bool:
        """Write one change: the reason in `blocked`, or None if the workload is no longer overdue.

        Return False if it must be written later.
        """
        if not self._may_write(ref):
            self.held_back += 1
            return False
        try:
            await self._write(ref, blocked)
        except NotFound:
            self._told.pop(ref, None)
        except ClusterError as error:
            self._put_off(ref, error)
            return False
        self._backoffs.pop(ref, None)
        return True

    def _put_off(self, ref: Ref, error: ClusterError) -> None:
        """Plan another attempt after a failed write. Log the error if no other write is failing.

        Try again even after a rejected write, because permissions may be granted at any time. A
        conflict is not logged.
        """
        if not self._backoffs and not isinstance(error, Conflict):
            logger.warning("could not report on %s, will retry: %s", ref, error.message)
        backoff = self._backoffs.setdefault(ref, Backoff(random.random))
        again = self.clock() + backoff.next(error.retry_after)
        self._next[ref] = max(again, self._next.get(ref, again))

    def _may_write(self, ref: Ref) -> bool:
        """Return whether the limit per minute and the pauses for `ref` allow a write now."""
        now = self.clock()
        while self._times and now - self._times[0] >= MINUTE:
            self._times.popleft()
        return len(self._times) < self.pacing.most and now >= self._next.get(ref, now)

    async def _write(self, ref: Ref, blocked: Blocked | None) -> None:
        """Write the condition of `ref` if it differs, and an event if the reason has changed.

        Write nothing if the object is being deleted. Raise ClusterError if a request fails.
        """
        target = ObjectRef(RESOURCES[ref.kind], ref.name, ref.namespace)
        obj = await self.client.get(target)
        after = (blocked.reason, blocked.message) if blocked else ("", "")
        before = self._before(ref, obj)
        is_other = before[0] != after[0]
        has_condition = ref.kind == POD_CLIQUE_SET.kind
        is_due = is_other or (has_condition and before != after)

        if is_due and not obj["metadata"].get("deletionTimestamp"):
            self._count(ref)
            if has_condition:
                await self._write_condition(target, obj, blocked)
            if is_other:
                self._record(obj, blocked)

        self._told.pop(ref, None)
        if blocked:
            self._told[ref] = _Told(*after, self.clock())

    def _before(self, ref: Ref, obj: Object) -> tuple[str, str]:
        """Return the reason and the message of the last report, or two empty strings.

        For a PodCliqueSet, they come from its condition, which an earlier leader may have written.
        """
        if ref.kind == POD_CLIQUE_SET.kind:
            stored = condition_of(obj, PLACEMENT_BLOCKED)
            return text_at(stored, "reason"), text_at(stored, "message")
        told = self._told.get(ref)
        return (told.reason, told.message) if told else ("", "")

    async def _write_condition(
        self, target: ObjectRef, obj: Object, blocked: Blocked | None
    ) -> None:
        """Write the condition of `obj`, or remove it if `blocked` is None."""
        condition = None
        if blocked:
            generation = obj["metadata"].get("generation", 0)
            condition = Condition(
                PLACEMENT_BLOCKED, "True", blocked.reason, blocked.message, generation
            )
        patch = condition_patch(obj, PLACEMENT_BLOCKED, condition, timestamp(self.now()))
        await self.client.patch(target, patch, subresource="status")

    def _record(self, obj: Object, blocked: Blocked | None) -> None:
        regarding = Regarding.of(obj)
        if blocked:
            note = f"{blocked.reason}: {blocked.message}"
            self.events.record(regarding, "Warning", BLOCKED, note)
        else:
            note = "This workload is no longer pending, or its pending pods are new"
            self.events.record(regarding, "Normal", UNBLOCKED, note)

    def _count(self, ref: Ref) -> None:
        """Count a write to `ref` now, for the limits."""
        now = self.clock()
        self.writes += 1
        self._times.append(now)
        since = now - self.pacing.refresh
        recent = {name: at for name, at in self._written.items() if at > since}
        self._written = {**recent, ref.namespace: now}
        self._next[ref] = now + self.pacing.pause
