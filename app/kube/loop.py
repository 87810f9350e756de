"""Run a reconciler: a queue of keys, workers, backoff and resync.

A reconciler is level-driven: it gets a key, reads the caches, and writes the desired state where
the stored state differs. It does not learn what has changed. A pending key is in the queue only
once, and a key that is added while it is being reconciled is reconciled again. Namespaces take
turns, so that no tenant waits for all keys of another tenant.
"""

import asyncio
import logging
import random as system_random
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Never, Protocol

from app.base.turns import Turns
from app.kube.api import ClusterError, Conflict, Key
from app.kube.backoff import Backoff

logger = logging.getLogger(__name__)

RESYNC_SECONDS = 600.0
"""The minimum time between two resyncs, in seconds."""

CONFLICT_SECONDS = 0.1
"""The longest pause after the first conflict of a key, in seconds.

In this time, the watch usually delivers the write that caused the conflict.
"""

MOST_CONFLICT_SECONDS = 5.0
"""The longest pause after further conflicts, in seconds."""

WARNINGS = 10
"""The maximum number of failed steps that are logged one by one within `PROGRESS_SECONDS`."""

PROGRESS_SECONDS = 5.0
"""The seconds between two log messages about progress."""

PROGRESS_DEPTH = 500
"""The number of pending keys above which progress is logged."""

Observe = Callable[[str, str, float], None]
"""A function that is called after each step of a reconciler.

It gets the name of the reconciler, the result (done, again, conflict, error or failure) and the
duration in seconds.
"""


class Reconciler(Protocol):
    """A reconciler of keys. A step reconciles one key, and may be cancelled and started again."""

    @property
    def name(self) -> str:
        """The reconciler's name in logs and metrics."""
        ...

    def all_keys(self) -> Iterable[Key]:
        """Return the keys that a resync adds to the queue."""
        ...

    async def reconcile(self, key: Key) -> float | None:
        """Write the desired state of `key` where the stored state differs.

        Return the seconds after which to reconcile the key again, or None if that isn't necessary.
        After an exception, the key is reconciled again: soon and without a warning after a
        Conflict, otherwise with backoff.
        """
        ...


class Loop:
    """A loop that runs a reconciler.

    A run starts with all keys. Keys that are added while the loop is not running are ignored.
    `workers` is the number of keys that are reconciled concurrently, and each key has one worker at
    a time. The keys of one namespace get at most half of the workers (rounded up), because a step
    may take long. `begin` is called at the start of every run, and `observe` after every step.
    `random` returns numbers in [0, 1). Loops with the same `turns` begin at most one step in each
    turn of the event loop.
    """

    def __init__(
        self,
        reconciler: Reconciler,
        *,
        workers: int = 1,
        begin: Callable[[], None] = lambda: None,
        observe: Observe = lambda name, result, seconds: None,
        random: Callable[[], float] = system_random.random,
        turns: Turns | None = None,
    ) -> None:
        self.reconciler = reconciler
        self._workers = workers
        self._begin = begin
        self._observe = observe
        self._random = random
        self._turns = Turns() if turns is None else turns
        self._queue: OrderedDict[str, OrderedDict[Key, None]] = OrderedDict()
        """The pending keys by namespace. The first namespace has the next turn."""
        self._added = asyncio.Event()
        self._working: set[Key] = set()
        self._again: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._backoffs: dict[Key, Backoff] = {}
        self._conflicts: dict[Key, Backoff] = {}
        self._warned = 0
        self._running = False
        self.steps = 0
        """The number of finished steps since the loop was started."""

    @property
    def depth(self) -> int:
        """The number of keys that are pending or being reconciled."""
        return self._waiting + len(self._working)

    @property
    def _waiting(self) -> int:
        return sum(map(len, self._queue.values()))

    @property
    def failing(self) -> int:
        """The number of keys whose last step failed. A conflict is not a failure."""
        return len(self._backoffs)

    def add(self, key: Key, *_: object) -> None:
        """Add `key` to the queue. Ignore the other arguments that stores pass to subscribers."""
        if not self._running:
            return
        self._cancel_timer(key)
        if key in self._working:
            self._again.add(key)
        else:
            self._queue.setdefault(key[0], OrderedDict())[key] = None
            self._added.set()

    def add_all(self, *_: object) -> None:
        """Add all keys to the queue. Ignore the arguments that stores pass to their subscribers."""
        for key in self.reconciler.all_keys():
            self.add(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Add `key` to the queue in `seconds`, unless it is added earlier."""
        if not self._running:
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= loop.time() + seconds:
            return
        self._cancel_timer(key)
        self._timers[key] = loop.call_later(seconds, self.add, key)

    async def run(self) -> Never:
        """Run until cancelled. Exceptions of `reconcile` do not end the loop."""
        self._running = True
        self.steps = 0
        self._warned = 0
        self._begin()
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(self._workers):
                    tasks.create_task(self._work(), name=f"{self.reconciler.name} {number}")
                tasks.create_task(self._log_progress(), name=f"{self.reconciler.name} progress")
                while True:
                    self.add_all()
                    await asyncio.sleep(RESYNC_SECONDS * (1 + self._random() / 5))
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

    async def _work(self) -> Never:
        while True:
            while self._next_namespace() is None:
                self._added.clear()
                await self._added.wait()
            # Let verdicts run. There may be thousands of steps that never wait for a call, and a
            # step may take 30 ms: 16 of them in one turn would take half a second.
            await self._turns.next()
            key = self._next()
            if key is None:
                continue
            self._working.add(key)
            await self._step(key)
            self._working.discard(key)
            # Wake the workers: another key of this namespace may have waited for a free one.
            self._added.set()
            self.steps += 1
            if key in self._again:
                self._again.discard(key)
                self.add(key)

    def _next_namespace(self) -> str | None:
        """Return the next namespace with a pending key that may use another worker, or None."""
        busy = Counter(namespace for namespace, _ in self._working)
        return next((name for name in self._queue if busy[name] * 2 < self._workers), None)

    def _next(self) -> Key | None:
        """Remove and return the oldest key of the next namespace that may use another worker.

        Move this namespace to the end of the queue. Return None if there is no such namespace.
        """
        namespace = self._next_namespace()
        if namespace is None:
            return None
        keys = self._queue[namespace]
        key, _ = keys.popitem(last=False)
        self._queue.move_to_end(namespace)
        if not keys:
            del self._queue[namespace]
        return key

    async def _step(self, key: Key) -> None:
        clock = asyncio.get_running_loop().time
        begin = clock()
        result = await self._attempt(key)
        self._observe(self.reconciler.name, result, clock() - begin)
        if result not in ("error", "failure"):
            self._backoffs.pop(key, None)
        if result != "conflict":
            self._conflicts.pop(key, None)

    async def _attempt(self, key: Key) -> str:
        """Reconcile `key`, plan another attempt if necessary, and return the result for Observe."""
        step = f"{self.reconciler.name} {'/'.join(filter(None, key))}"
        try:
            after = await self.reconciler.reconcile(key)
        except Conflict as conflict:
            logger.debug("%s: %s", step, conflict.message)
            backoff = self._conflicts.setdefault(
                key, Backoff(self._random, first=CONFLICT_SECONDS, most=MOST_CONFLICT_SECONDS)
            )
            self.add_after(key, backoff.next())
            return "conflict"
        except ClusterError as error:
            wait = self._back_off(key, error.retry_after)
            self._warned += 1
            # Thousands of keys may fail for one reason. Further failures are only counted.
            if self._warned <= WARNINGS:
                logger.warning("%s: %s; next attempt in %.1f s", step, error.message, wait)
            return "error"
        except Exception:
            wait = self._back_off(key, None)
            logger.exception("%s failed; next attempt in %.1f s", step, wait)
            return "failure"

        if after is None:
            return "done"

        self.add_after(key, after)

        return "again"

    def _back_off(self, key: Key, at_least: float | None) -> float:
        """Plan another attempt for `key`, and return the seconds until then."""
        backoff = self._backoffs.setdefault(key, Backoff(self._random))
        wait = backoff.next(at_least)
        self.add_after(key, wait)
        return wait

    def _cancel_timer(self, key: Key) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    async def _log_progress(self) -> Never:
        """Log the progress of a long queue, for example after a change of topology levels.

        Also log the number of failed steps that were not logged one by one.
        """
        busy = False
        before = 0
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            name = self.reconciler.name
            done = self.steps - before
            failed = self._warned
            before = self.steps
            self._warned = 0
            if failed > WARNINGS:
                logger.warning(
                    "%s: %d more reconciliations failed in %g s",
                    name,
                    failed - WARNINGS,
                    PROGRESS_SECONDS,
                )
            was_busy = busy
            busy = self._waiting > PROGRESS_DEPTH
            if busy or was_busy:
                logger.info(
                    "%s: %d reconciliations in the last %g s, %d keys are pending",
                    name,
                    done,
                    PROGRESS_SECONDS,
                    self.depth,
                )
