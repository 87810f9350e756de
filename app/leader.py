"""What only one replica does: the managed ClusterTopology is put in place, then the reconcilers run.

Everything here begins anew whenever this process becomes the leader, and has ended before another one can.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from uuid import uuid4

from app.cluster.api import Client
from app.cluster.lease import Elector, LeaseTiming
from app.config import LeaderElection
from app.reconcilers.events import Recorder
from app.reconcilers.loop import Loop

Watch = Callable[[], Awaitable[object]]
"""Keeps something in step until cancelled: caches that only the leader needs."""

Gauge = tuple[str, str, dict[str, str], float]


class Leader:
    """The leader's work, and whether it is ours.

    `prepare` is done first, each time; `watches` and `loops` run until the lead is lost. Without `elector` this process
    leads from the start.
    """

    def __init__(
        self,
        elector: Elector | None,
        recorder: Recorder,
        prepare: Callable[[], Awaitable[None]],
        watches: Sequence[Watch],
        loops: Sequence[Loop],
    ) -> None:
        self.recorder = recorder
        self.loops = tuple(loops)
        self._elector, self._prepare, self._watches = elector, prepare, tuple(watches)
        self._working = False

    @property
    def leading(self) -> bool:
        return self._working if self._elector is None else self._elector.leading

    async def run(self) -> None:
        """Leads whenever it can, until cancelled. What ends the work otherwise is raised."""
        if self._elector is None:
            await self._work()
        else:
            await self._elector.lead(self._work)

    async def _work(self) -> None:
        self._working = True
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.recorder.run(), name="events")
                for number, watch in enumerate(self._watches):
                    tasks.create_task(_until_cancelled(watch), name=f"leader's watch {number}")
                await self._prepare()
                for loop in self.loops:
                    tasks.create_task(loop.run(), name=loop.reconciler.name)
        finally:
            self._working = False

    def gauges(self) -> Iterator[Gauge]:
        """For metrics: who leads, what waits, and what was lost."""
        yield "leader", "1 while this process does the reconcilers' work.", {}, float(self.leading)
        yield "events_lost_total", "Events that could not be written.", {}, self.recorder.lost
        for loop in self.loops:
            labels = {"reconciler": loop.reconciler.name}
            yield "reconcile_queue_depth", "Keys that wait or are worked on.", labels, loop.depth
        for loop in self.loops:
            labels = {"reconciler": loop.reconciler.name}
            yield "reconcile_failing", "Keys whose last step failed.", labels, loop.failing


async def _until_cancelled(watch: Watch) -> None:
    await watch()


def elector(client: Client, settings: LeaderElection, identity: str) -> Elector | None:
    """The candidate that `settings` ask for; None for a process that leads without asking."""
    if not settings.enabled:
        return None
    timing = LeaseTiming(lease=settings.lease_seconds, renew=settings.renew_seconds, retry=settings.retry_seconds)
    return Elector(client, settings.namespace, settings.name, identity, timing=timing)


def new_identity() -> str:
    """Unique among all processes ever started; begins with the name of the Pod."""
    return f"{socket.gethostname()}_{uuid4()}"
