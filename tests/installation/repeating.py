"""Controllers of a test: steps that are repeated while a block runs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable


@contextlib.asynccontextmanager
async def repeating(step: Callable[[], Awaitable[object]], pause: float) -> AsyncIterator[None]:
    """Call `step` again and again, with `pause` seconds in between, and let the last call end.

    A request that is cancelled while it connects would leave its socket open. An exception of a
    step is raised after the block.
    """
    ended = asyncio.Event()

    async def repeat() -> None:
        while not ended.is_set():
            await step()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), pause)

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        ended.set()
        await asyncio.wait({task})
    task.result()
