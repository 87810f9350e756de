"""Server-sent events: which revision there is, so that open tabs fetch what they show. At most eight streams."""

import asyncio
from collections.abc import AsyncGenerator

from app.console.live import Live

MOST_STREAMS = 8
PAUSE = 0.5
"""Seconds between two messages at least."""
TICK = 25.0
"""Seconds until a message is sent though nothing has changed, so that ages go on and dead connections are noticed."""


class Streams:
    """The open streams. `pause` grows with the time that pages take, so that a large cluster is not rendered without
    end."""

    def __init__(self, live: Live, *, pause: float = PAUSE, tick: float = TICK) -> None:
        self._live, self._tick = live, tick
        self.open, self.pause, self._last = 0, pause, 0.0
        self._closed = asyncio.Event()

    def slow_down(self, seconds: float) -> None:
        """A page took `seconds` of CPU: at most a fifth of the time is spent on pages for one tab. A single page that
        took longer than the one before does not count: it may have been the first of its kind."""
        self.pause = max(PAUSE, min(10.0, 5 * min(seconds, self._last)))
        self._last = seconds

    @property
    def full(self) -> bool:
        return self.open >= MOST_STREAMS

    def close(self) -> None:
        """Ends all streams."""
        self._closed.set()
        self._live.touch()

    async def messages(self, page: str) -> AsyncGenerator[bytes, None]:
        """`data: workloads 812` at the start, on every change and after every tick."""
        self.open += 1
        try:
            seen = self._live.revision
            while not self._closed.is_set():
                yield f"data: {page} {seen}\n\n".encode()
                await asyncio.sleep(self.pause)
                try:
                    async with asyncio.timeout(self._tick):
                        seen = await self._live.changes(seen)
                except TimeoutError:
                    continue
        finally:
            self.open -= 1
