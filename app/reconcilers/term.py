"""The work of the leader: when it runs, and what it reports."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any

from app.kube.events import Recorder
from app.kube.gauge import Gauge
from app.kube.lease import Elector
from app.kube.loop import Loop
from app.kube.rewrites import Rewrites

Watch = Callable[[], Coroutine[Any, Any, object]]
"""Keeps caches that only the leader needs in step until cancelled."""


class Leader:
    """Runs the reconcilers while this process leads. If `elector` is None, it leads from the start.

    Each time that this process becomes the leader, `watches` are started, `prepare`
    is awaited, and then `loops` are run. All of them end before another process can
    lead. `statuses_lost` returns how many statuses could not be written.
    """

    def __init__(
        self,
        elector: Elector | None,
        recorder: Recorder,
        prepare: Callable[[], Awaitable[None]],
        watches: Sequence[Watch],
        loops: Sequence[Loop],
        rewrites: Mapping[str, Rewrites],
        statuses_lost: Callable[[], int],
    ) -> None:
        self.recorder = recorder
        self.loops = tuple(loops)
        self._rewrites, self._statuses_lost = rewrites, statuses_lost
        self._elector, self._prepare, self._watches = elector, prepare, tuple(watches)
        self._working = False

    @property
    def leading(self) -> bool:
        return self._working if self._elector is None else self._elector.leading

    @property
    def holder(self) -> str:
        """The identity of the leader when the Lease was last read, or "" if nobody leads."""
        return "" if self._elector is None else self._elector.holder

    async def run(self) -> None:
        """Leads whenever it can, until cancelled. An error that ends the work is raised."""
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
                    tasks.create_task(watch(), name=f"leader's watch {number}")
                await self._prepare()
                for loop in self.loops:
                    tasks.create_task(loop.run(), name=loop.reconciler.name)
        finally:
            self._working = False

    def checks(self) -> dict[str, str | None]:
        """Returns no checks, because a replica that doesn't lead is ready for verdicts too."""
        return {}

    def notes(self) -> dict[str, str]:
        """Returns who leads."""
        return {"leader": "this process" if self.leading else self.holder or "nobody"}

    def gauges(self) -> Iterator[Gauge]:
        """Yields the metrics of the leader and of its loops."""
        yield "leader", "1 while this process does the reconcilers' work.", {}, float(self.leading)
        yield "events_lost_total", "Events that could not be written.", {}, self.recorder.lost
        text = "Statuses that the ClusterTopology's CRD didn't take."
        yield "statuses_lost_total", text, {}, self._statuses_lost()
        for loop in self.loops:
            labels = {"reconciler": loop.reconciler.name}
            yield "reconcile_queue_depth", "Keys that wait or are worked on.", labels, loop.depth
        for name, rewrites in self._rewrites.items():
            text = "Writes held back because something writes back."
            yield "rewrites_total", text, {"reconciler": name}, rewrites.fights
        for loop in self.loops:
            labels = {"reconciler": loop.reconciler.name}
            yield "reconcile_failing", "Keys whose last step failed.", labels, loop.failing
