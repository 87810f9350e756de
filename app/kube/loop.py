"""The loop that every reconciler runs in: a queue of keys, workers, backoff, resync.

A reconciler is level-driven: it is given a key, looks at the caches, and writes the difference. It never learns what
has changed, so a key that waits already need not be added twice, and one that changes while it is worked on is worked
on again.
"""

import asyncio
import logging
import random as system_random
from collections.abc import Callable, Iterable
from typing import Never, Protocol

from app.kube.api import ClusterError, Conflict, Key
from app.kube.backoff import Backoff

logger = logging.getLogger(__name__)

RESYNC_SECONDS = 600.0
CONFLICT_SECONDS, MOST_CONFLICT_SECONDS = 0.1, 5.0
"""The first wait after a conflict, and the longest: the watch that tells what has changed may be behind, or dead."""

WARNINGS = 10
"""Failures told one by one in each `PROGRESS_SECONDS`."""

PROGRESS_SECONDS = 5.0
PROGRESS_DEPTH = 500

Observe = Callable[[str, str, float], None]
"""Called after each step with the reconciler's name, the result (done, again, conflict, error, failure) and seconds."""


class Reconciler(Protocol):
    """One kind of work. Every step may be cut off anywhere and begun again."""

    @property
    def name(self) -> str:
        """For logs and metrics."""
        ...

    def all_keys(self) -> Iterable[Key]:
        """All keys there are: what a resync looks at."""
        ...

    async def reconcile(self, key: Key) -> float | None:
        """Brings `key` in step. None: done; a number: look again after so many seconds. What it raises is retried:
        a Conflict soon and quietly, anything else with backoff."""
        ...


class Loop:
    """Runs one reconciler over its keys, each key by one worker at a time.

    Keys that are added while the loop isn't running are forgotten: a run begins with all keys. `workers` is how many
    keys are worked on at once. `observe` hears of every step. `random` gives numbers in [0, 1).
    """

    def __init__(
        self,
        reconciler: Reconciler,
        *,
        workers: int = 1,
        resync: float = RESYNC_SECONDS,
        observe: Observe = lambda name, result, seconds: None,
        random: Callable[[], float] = system_random.random,
    ) -> None:
        self.reconciler = reconciler
        self._workers, self._resync, self._observe, self._random = workers, resync, observe, random
        self._queue: dict[Key, None] = {}
        self._added = asyncio.Event()
        self._working: set[Key] = set()
        self._again: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._backoffs: dict[Key, Backoff] = {}
        self._conflicts: dict[Key, Backoff] = {}
        self._warned = 0
        self._running = False
        self._done = 0
        self.steps = 0
        """How many steps have ended since the loop began to run."""

    @property
    def depth(self) -> int:
        """Keys that wait or are worked on."""
        return len(self._queue) + len(self._working)

    @property
    def failing(self) -> int:
        """Keys whose last step failed."""
        return len(self._backoffs)

    def add(self, key: Key) -> None:
        """`key` is looked at soon."""
        if not self._running:
            return
        self._cancel_timer(key)
        if key in self._working:
            self._again.add(key)
        else:
            self._queue[key] = None
            self._added.set()

    def add_all(self) -> None:
        """Every key that the reconciler knows of is looked at soon."""
        for key in self.reconciler.all_keys():
            self.add(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """`key` is looked at in `seconds`, unless it is looked at before."""
        if not self._running:
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= loop.time() + seconds:
            return
        self._cancel_timer(key)
        self._timers[key] = loop.call_later(seconds, self.add, key)

    async def run(self) -> Never:
        """Works until cancelled. Nothing that a reconciler raises ends it."""
        self._running, self.steps = True, 0
        self._done = self._warned = 0
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(self._workers):
                    tasks.create_task(self._work(), name=f"{self.reconciler.name} {number}")
                tasks.create_task(self._say_progress(), name=f"{self.reconciler.name} progress")
                await self._resync_for_ever()
        finally:
            self._stop()
        raise AssertionError("the workers never return")

    def _stop(self) -> None:
        self._running = False
        for key in list(self._timers):
            self._cancel_timer(key)
        self._queue.clear()
        self._working.clear()
        self._again.clear()
        self._backoffs.clear()
        self._conflicts.clear()

    async def _resync_for_ever(self) -> Never:
        while True:
            self.add_all()
            await asyncio.sleep(self._resync * (1 + self._random() / 5))

    async def _work(self) -> Never:
        while True:
            while not self._queue:
                self._added.clear()
                await self._added.wait()
            key = next(iter(self._queue))
            del self._queue[key]
            self._working.add(key)
            await self._step(key)
            self._working.discard(key)
            self._done += 1
            self.steps += 1
            if key in self._again:
                self._again.discard(key)
                self.add(key)

    async def _step(self, key: Key) -> None:
        clock = asyncio.get_running_loop().time
        begin = clock()
        result = await self._tried(key)
        self._observe(self.reconciler.name, result, clock() - begin)
        if result not in ("error", "failure"):
            self._backoffs.pop(key, None)
        if result != "conflict":
            self._conflicts.pop(key, None)

    async def _tried(self, key: Key) -> str:
        try:
            after = await self.reconciler.reconcile(key)
        except Conflict as conflict:
            logger.debug("%s %s: %s", self.reconciler.name, _name(key), conflict.message)
            backoff = self._conflicts.setdefault(
                key, Backoff(self._random, first=CONFLICT_SECONDS, most=MOST_CONFLICT_SECONDS)
            )
            self.add_after(key, backoff.next())
            return "conflict"
        except ClusterError as error:
            wait = self._back_off(key, error.retry_after)
            self._warn("%s %s: %s; again in %.1f s", self.reconciler.name, _name(key), error.message, wait)
            return "error"
        except Exception:
            wait = self._back_off(key, None)
            logger.exception("%s %s failed; again in %.1f s", self.reconciler.name, _name(key), wait)
            return "failure"
        if after is None:
            return "done"
        self.add_after(key, after)
        return "again"

    def _warn(self, text: str, *values: object) -> None:
        """Thousands of keys may fail for one reason: the first few are told of, the others counted."""
        self._warned += 1
        if self._warned <= WARNINGS:
            logger.warning(text, *values)

    def _back_off(self, key: Key, at_least: float | None) -> float:
        backoff = self._backoffs.setdefault(key, Backoff(self._random))
        wait = backoff.next(at_least)
        self.add_after(key, wait)
        return wait

    def _cancel_timer(self, key: Key) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    async def _say_progress(self) -> Never:
        """A long queue (after a change of levels, say) is reported while it is worked off."""
        busy = False
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            name, done, failed = self.reconciler.name, self._done, self._warned
            self._done = self._warned = 0
            if failed > WARNINGS:
                logger.warning("%s: %d more steps failed in %g s", name, failed - WARNINGS, PROGRESS_SECONDS)
            was_busy, busy = busy, len(self._queue) > PROGRESS_DEPTH
            if busy or was_busy:
                logger.info("%s: %d in the last %g s, %d to go", name, done, PROGRESS_SECONDS, self.depth)


def _name(key: Key) -> str:
    return f"{key[0]}/{key[1]}" if key[0] else key[1]
