"""Signals, draining and the garbage collector of this process."""

import asyncio
import gc
import signal


def settle_garbage_collector() -> None:
    """Excludes the existing objects from garbage collection, and makes the collector run less
    often, because requests leave no reference cycles.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


async def signalled() -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()


async def drain(seconds: float) -> None:
    """Waits until the endpoints of the Service have been removed. A second signal ends the wait."""
    try:
        async with asyncio.timeout(seconds):
            await signalled()
    except TimeoutError:
        return
