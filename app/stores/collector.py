"""The garbage collector, and freed memory, while lists are read.

It would examine each page, and everything that was read before, again and again, although none of
that is garbage: decoded JSON and what is kept of it have no cycles.
"""

import asyncio
import contextlib
import gc
from collections.abc import Awaitable, Iterator

from app.base.memory import give_back

_MANY = 10_000
"""So many new objects are examined in about two milliseconds."""


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Pause the collector while the block runs.

    If much was read, it is never examined, and memory that lists took while they were read is given
    back to the system.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] > _MANY:
            gc.freeze()
            give_back()
        if was_enabled:
            gc.enable()


async def pause_until(lists_are_in: Awaitable[object], most_seconds: float = 120.0) -> None:
    """Pause the collector until the lists are in, which may be never: for at most so long.

    Then memory that the lists took while they were read is given back to the system.
    """
    with paused(), contextlib.suppress(TimeoutError):
        async with asyncio.timeout(most_seconds):
            await lists_are_in
    give_back()
