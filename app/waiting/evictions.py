"""Report gangs that have too few pods because KAI evicted some: write events, and count by cause.

KAI writes its event before it deletes the pod. Therefore, a gang that still has enough pods is
checked again until APART seconds after the event. Pods that end later do not count.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime

from app.base.fair_queue import FairQueue
from app.explain.gangs.assembly import unit_of_pod_group
from app.explain.reasons.evictions import BACKGROUND, LOST
from app.explain.reasons.messages import is_of_kai
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.identity import Ref
from app.facts.kai.podgroup import KaiPodGroup
from app.kube.api import Client, ClusterError, Conflict, NotFound, ObjectRef
from app.kube.events import Recorder, Regarding
from app.objects.resource import EVENT
from app.objects.time import precise_timestamp
from app.waiting.overdue import workload_of
from app.waiting.reporter import RESOURCES

PLACEMENT_LOST = "PlacementLost"
"""The `reason` of the events that we write about evictions."""

CAUSES: Mapping[str, str] = {
    "preempt": "was preempted by higher priority workload",
    "reclaim": "was preempted by workload",
    "consolidation": "due to bin packing",
    "stalegangeviction": "doesn't meet the minimum required number of pods",
    "other": "",
}
"""The words that identify a KAI action in its messages about evictions, by action.

Source: `pkg/scheduler/api/unschedule_info.go` of KAI at d5bc503a. KAI's releases since 0.4 use the
same words. Annotations of the event name the action too, except where KAI combines several events.
"""

RECENT = 120.0
"""The age, in seconds, up to which an eviction is reported."""
APART = 10.0
"""The maximum time between two evictions of a gang that are reported as one, in seconds.

KAI evicts the pods of a gang one after the other.
"""

MOST_AT_ONCE = 50
"""The maximum number of events that one call of `tell` sends. Namespaces take turns.

Anybody can write events that look like KAI's about pods in their own namespace.
"""


class Evictions:
    """A reporter that reports each eviction only once.

    `counts` has the number of evictions that this process has reported, by cause.
    """

    def __init__(self, client: Client, events: Recorder) -> None:
        self.counts = Counter(dict.fromkeys(CAUSES, 0))
        self._client = client
        self._events = events
        self._writes = 0
        """The number of events that were sent, including failed attempts."""
        self._settled: dict[str, float] = {}
        """The time of the last eviction that needs no further report, by gang (namespace/name).

        Either it has been reported, or the gang still had enough pods APART seconds later.
        """

    async def tell(self, index: Index) -> bool:
        """Write an event for each recent, unreported eviction that left a gang with too few pods.

        Return False if a write must be tried again, or if writes are left for the next call.
        Evictions of background pods are not reported, because these pods are meant to be evicted.
        """
        self._note_reported(index.facts)
        queue = FairQueue[tuple[KaiPodGroup, float, str]]()
        for group in index.facts.pod_groups:
            for event in [*filter(is_of_kai, index.events_about(group.namespace, group.uid))][:1]:
                time = event.time or 0.0
                is_recent = index.facts.now - time <= RECENT and BACKGROUND not in event.message
                if is_recent and group.key in index.pods_of_group:
                    queue.put(group.namespace, (group, time, event.message))

        everything_told = True
        most = self._writes + MOST_AT_ONCE
        while queue:
            if self._writes >= most:
                return False
            everything_told &= await self._settle(index, *queue.take())
        return everything_told

    async def _settle(self, index: Index, group: KaiPodGroup, time: float, said: str) -> bool:
        """Report the eviction at `time`, unless the gang still has enough pods.

        `said` is KAI's message. Return False if the write must be tried again.
        """
        pods = index.pods_of_group[group.key]
        name = f"{group.namespace}/{pods[0].place.podgang or group.name}"
        if time - self._settled.get(name, 0.0) <= APART:
            return True

        kept = tuple(pod for pod in pods if pod.is_alive and (pod.created or 0.0) < time)
        if not unit_of_pod_group(index, group, kept).is_satisfied:
            ref = workload_of(index, pods[0], group.ref)
            if not await self._write(ref, f"{name} {LOST}{said}", time):
                return False
        elif index.facts.now - time <= APART:
            return True
        self._settled[name] = time
        return True

    def _note_reported(self, facts: Snapshot) -> None:
        """Record the evictions that events of any leader report, and forget old evictions."""
        recent = facts.now - RECENT - APART
        self._settled = {name: at for name, at in self._settled.items() if at > recent}
        for event in facts.events:
            if event.reason == PLACEMENT_LOST:
                name = event.message.partition(" ")[0]
                # anybody can write an event of their own namespace, with any message and time
                is_of_namespace = name.startswith(f"{event.about.namespace}/")
                if is_of_namespace and (event.time or 0.0) <= facts.now + APART:
                    self._settled[name] = max(event.time or 0.0, self._settled.get(name, 0.0))

    async def _write(self, ref: Ref, note: str, time: float) -> bool:
        """Write an event about `ref` at `time`, and count it.

        Do nothing if the event already exists or the object does not. Return False if the write
        must be tried again.
        """
        self._writes += 1
        try:
            obj = await self._client.get(ObjectRef(RESOURCES[ref.kind], ref.name, ref.namespace))
            event = self._events.event(Regarding.of(obj), "Warning", PLACEMENT_LOST, note)
            event["metadata"]["name"] += f".{time:.0f}"
            event["eventTime"] = precise_timestamp(datetime.fromtimestamp(time, UTC))
            await self._client.create(EVENT, event, ref.namespace)
            self.counts[next(cause for cause in CAUSES if CAUSES[cause] in note)] += 1
        except ClusterError as error:
            return isinstance(error, Conflict | NotFound)
        return True
