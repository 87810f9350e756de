"""Manage this process: signals, draining, memory, and the limit on open files."""

import asyncio
import gc
import logging
import resource
import signal
from collections.abc import Callable

FREED_CONNECTIONS = 256
"""The number of closed connections after which free memory is returned to the system."""

RETURN_SECONDS = 10.0
"""The minimum time between two returns of memory, in seconds."""

_OTHER_FILES = 256
"""The number of files that may be open in addition to the accepted connections."""

logger = logging.getLogger(__name__)


def settle_garbage_collector() -> None:
    """Exclude the existing objects from garbage collection, and make collections rarer.

    Few collections are needed, because requests leave no reference cycles.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


async def signalled() -> None:
    """Wait for SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()


async def drain(seconds: float) -> None:
    """Wait for `seconds`, while this Pod is removed from the Service's endpoints.

    Return earlier if another signal arrives.
    """
    try:
        async with asyncio.timeout(seconds):
            await signalled()
    except TimeoutError:
        return


def allow_files(connections: int) -> None:
    """Raise the process's limit on open files if it is too low for `connections`.

    Warn if the hard limit is too low as well. Without a free file descriptor, a server accepts no
    connection, not even from an API server.
    """
    needed = connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= needed or soft == resource.RLIM_INFINITY:
        return

    possible = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (possible, hard))
    if possible < needed:
        logger.warning(
            "the limit of open files is %d, but server.maxConnections needs %d: raise the hard"
            " limit (ulimit -Hn) in the container runtime, or lower server.maxConnections",
            possible,
            needed,
        )


class MemoryReturn:
    """A counter of closed connections that returns memory to the system after many of them.

    `give_back` returns the memory. `clock` is monotonic, in seconds.
    """

    def __init__(self, clock: Callable[[], float], give_back: Callable[[], None]) -> None:
        self._clock = clock
        self._give_back = give_back
        self._freed = 0
        """The number of connections that were closed since the last return."""
        self._next = 0.0
        """The earliest time, by the clock, of the next return of memory."""
        self._timer: asyncio.TimerHandle | None = None

    def freed_some(self) -> None:
        """Count a closed connection. After FREED_CONNECTIONS, plan a return of memory."""
        self._freed += 1
        if self._freed < FREED_CONNECTIONS or self._timer is not None:
            return
        wait = max(1.0, self._next - self._clock())
        self._timer = asyncio.get_running_loop().call_later(wait, self._return)

    def _return(self) -> None:
        begin = self._clock()
        self._timer = None
        self._freed = 0
        self._next = begin + RETURN_SECONDS
        self._give_back()
        logger.debug("memory returned in %.1f ms", (self._clock() - begin) * 1000)
