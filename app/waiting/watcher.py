"""Watch the cluster on the leader, and report why gangs are pending.

The cluster is read as in the console, and checked again after changes. A check runs in a thread, so
that the server keeps answering reviews. The time between the starts of two checks is at least ten
times the CPU time of the first one, so checks use at most about a tenth of a core.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NoReturn

from msgspec.structs import replace

from app.base.sample import Sample, counter, gauge
from app.cluster.connect import limits
from app.config.schema import Configuration
from app.explain.live import Live
from app.explain.state.index import Index
from app.explain.state.snapshot import BY_RESOURCE, Snapshot
from app.facts.explain_rows import EVENTS
from app.facts.grove.status import StatusCondition
from app.facts.identity import Ref
from app.kube.backoff import Backoff
from app.kube.client import HttpClient
from app.kube.events import Recorder
from app.kube.read_only import ReadOnlyClient
from app.kube.watch import Pace
from app.objects.time import Clock
from app.stores.permitted import PermittedStores
from app.waiting.evictions import PLACEMENT_LOST, Evictions
from app.waiting.overdue import Overdue, overdue
from app.waiting.reporter import PACING, PLACEMENT_BLOCKED, Pacing, Reporter

RESOURCES = tuple(BY_RESOURCE)
"""The kinds of objects that the duty reads."""

MOST_OF_EVENT = 4 * 2**10
"""The maximum size of the facts about an event, in bytes of JSON.

KAI's messages contain only a few names. But tenants can write thousands of events with any reason
and text.
"""

_EVENTS = [
    replace(EVENTS, fields=f"reason={reason}", most=MOST_OF_EVENT)
    for reason in ("Evict", PLACEMENT_LOST)
]
"""The rows of the events that are read: only events about evictions.

KAI's other messages are also in the status of PodGroups.
"""

ROWS = [*(row for row in BY_RESOURCE.values() if row is not EVENTS), *_EVENTS]
"""The rows of all kinds, with `_EVENTS` instead of all events."""

MOST_SERIES = 200
"""The maximum number of (reason, queue) pairs that are counted separately.

Further pairs count as queue "other".
"""

logger = logging.getLogger(__name__)


class WaitingDuty:
    """The duty of the leader to watch the cluster and report why workloads are pending.

    `clock` is the wall clock, in seconds since 1970.
    """

    def __init__(
        self,
        client: HttpClient,
        events: Recorder,
        configuration: Configuration,
        *,
        clock: Clock = time.time,
        pacing: Pacing = PACING,
    ) -> None:
        self._client = client
        self._settings = configuration.waiting
        self._limits = limits(configuration)
        self._clock = clock
        self._pacing = pacing
        most = self._settings.max_writes_per_minute
        self._reporter = Reporter(client, events, replace(pacing, most=most))
        self._evictions = Evictions(client, events)
        self._found = Overdue()
        """The result of the last check."""
        self._unseen: Mapping[str, str] = {}
        """The kinds that could not be read for the last check, each with the cause."""
        self._seconds = 0.0
        """The CPU time of the last check."""

    async def run(self) -> NoReturn:
        """Check and report until cancelled. Afterwards, forget the last results and reports."""
        try:
            async with self._client.sibling(self._limits) as own, asyncio.TaskGroup() as tasks:
                reader = ReadOnlyClient(own)
                stores = PermittedStores(
                    reader, ROWS, own.discovery, pace=Pace(), least=0, bounds_namespaces=True
                )
                live = Live(stores)
                tasks.create_task(live.run(), name="waiting: facts")
                await live.until_ready()
                await self._look_again(live)
        finally:
            self._found = Overdue()
            self._unseen = {}
            self._reporter.forget_reports()
        raise AssertionError("these tasks never end")

    async def _look_again(self, live: Live) -> NoReturn:
        """Check again and again, with a pause after a failure.

        A failure must not end the leader, because reconcilers and verdicts do not depend on
        explanations.
        """
        backoff = Backoff(random.random, first=self._pacing.look)
        looked = Looker()
        while True:
            try:
                await self._look(live, looked)
                backoff.reset()
            except Exception:
                looked = Looker()
                self._found = Overdue()
                wait = backoff.next()
                logger.exception("could not report why gangs are pending; retrying in %.1f s", wait)
                await asyncio.sleep(wait)

    async def _look(self, live: Live, looked: "Looker") -> None:
        """Check once, report the result, and wait until the next check is due."""
        seen = live.revision
        facts = replace(live.facts(self._clock()), skipped=frozenset({EVENTS.name}))
        started = time.monotonic()
        self._found = await asyncio.to_thread(looked.at, facts, self._settings.after_seconds)
        self._note_unseen(facts)
        everything_told = await self._tell(looked.index, is_current=live.trouble is None)

        self._seconds = looked.seconds
        pause = max(self._pacing.look, self._pacing.share * looked.seconds)
        await asyncio.sleep(max(0.0, pause - (time.monotonic() - started)))
        await self._until_due(live, seen, everything_told)

    async def _tell(self, index: Index, *, is_current: bool) -> bool:
        """Report changes as events and conditions. Return False if the next check should come soon.

        Report nothing while kinds can't be read or facts are outdated, because reports could be
        wrong.
        """
        if self._unseen or not is_current:
            return is_current
        all_evictions = await self._evictions.tell(index)
        conditions = conditions_of(index.facts)
        return await self._reporter.tell(self._found.workloads, conditions) and all_evictions

    async def _until_due(self, live: Live, seen: int, everything_told: bool) -> None:
        """Wait until a fact is newer than `seen`, or the next gang has been pending for too long.

        If some reports are not written yet, wait for at most `_pacing.look` seconds.
        """
        next_at = self._found.next_at
        timeout = None if next_at is None else max(0.0, next_at - self._clock())
        if not everything_told:
            timeout = 0.0 if timeout is None else min(timeout, self._pacing.look)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(live.changes(seen), timeout)

    def _note_unseen(self, facts: Snapshot) -> None:
        """Record which kinds can't be read and why. If that has changed, log the kinds, if any."""
        if dict(facts.unseen) != dict(self._unseen):
            self._unseen = dict(facts.unseen)
            if self._unseen:
                kinds = "; ".join(f"{kind} ({why})" for kind, why in sorted(self._unseen.items()))
                logger.warning("not reporting why gangs are pending: could not read %s", kinds)

    def samples(self) -> Iterator[Sample]:
        """Yield samples about the pending gangs, the reports, the evictions and the checks."""
        yield from self._counted_gangs()

        text = (
            "Longest pending time, in seconds, of a gang that has been pending for at least"
            " waiting.afterSeconds, by who can act."
        )
        now = self._clock()
        for who in ("you", "platform", "wait", ""):
            since = [blocked.since for blocked in self._found.gangs if blocked.who == who]
            oldest = max(0.0, now - min(since, default=now))
            yield gauge("waiting_oldest_seconds", text, oldest, who=who or "unknown")

        text = "Attempts to report that workloads are pending, or are no longer pending."
        yield counter("waiting_writes_total", text, self._reporter.writes)
        text = "Gangs that lost their place because KAI evicted pods, by KAI's action."
        for cause, count in self._evictions.counts.items():
            yield counter("waiting_placements_lost_total", text, count, cause=cause)
        text = (
            "How often a report was delayed by the limit of writes per minute, or by the pause"
            " after a previous or failed write to the same workload."
        )
        yield counter("waiting_writes_held_total", text, self._reporter.held_back)
        text = "CPU time of the last check for pending gangs, in seconds."
        yield gauge("waiting_look_seconds", text, self._seconds)

    def _counted_gangs(self) -> Iterator[Sample]:
        """Yield the numbers of gangs by reason and queue.

        The queues of pairs beyond MOST_SERIES are counted as "other".
        """
        pairs = [(blocked.reason, blocked.queue) for blocked in self._found.gangs]
        shown = dict(Counter(pairs).most_common(MOST_SERIES))
        counts = Counter(pair if pair in shown else (pair[0], "other") for pair in pairs)
        text = "Gangs pending for at least waiting.afterSeconds, as seen by the leader."
        for (reason, queue), count in counts.items():
            yield gauge("waiting_gangs", text, count, reason=reason, queue=queue)


class Looker:
    """The checks of the cluster, with the state that is kept between two checks."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """The CPU time of the last check."""
        self.index = Index(Snapshot())
        self._first_seen: Mapping[Ref, float] = {}

    def at(self, facts: Snapshot, after: float) -> Overdue:
        """Return the gangs that have been pending for at least `after` seconds.

        Only one thread at a time may call this.
        """
        started = time.thread_time()
        self.index.follow(facts)
        waited = overdue(self.index, after, self._first_seen, conditions_of(facts).keys())
        self._first_seen = waited.first_seen
        self.seconds = time.thread_time() - started
        return waited


def conditions_of(facts: Snapshot) -> Mapping[Ref, StatusCondition]:
    """Return the cached conditions PlacementBlocked, by PodCliqueSet."""
    return {
        pcs.ref: condition
        for pcs in facts.sets
        for condition in pcs.conditions
        if condition.type == PLACEMENT_BLOCKED
    }
