"""Send events with the current revision to open tabs, so that they fetch their page again."""

import asyncio
from collections.abc import AsyncGenerator

from app.explain.live import Live

MOST_STREAMS = 8
"""The maximum number of open streams. Requests for more streams get 503."""
PAUSE = 0.5
"""The minimum time between two messages of a stream, in seconds."""
TICK = 25.0
"""The time after which a message is sent even if nothing has changed, in seconds.

The page then shows current ages, and a broken connection is detected.
"""


class Streams:
    """The streams of server-sent events to open tabs."""

    def __init__(self, live: Live, *, pause: float = PAUSE, tick: float = TICK) -> None:
        self._live = live
        self._tick = tick
        self.open = 0
        """The number of open streams."""
        self.pause = pause
        """The minimum time between two messages, in seconds. Slow pages make it longer."""
        self._last = 0.0
        """The CPU seconds that the previous page took."""
        self._closed = asyncio.Event()

    def slow_down(self, seconds: float) -> None:
        """Set the pause after a page that took `seconds` of CPU.

        The pause is five times as long as the faster of the last two pages took, but at least PAUSE
        and at most 10 seconds. The slower one is ignored, because a page takes longer at first.
        """
        self.pause = max(PAUSE, min(10.0, 5 * min(seconds, self._last)))
        self._last = seconds

    @property
    def full(self) -> bool:
        """Is the maximum number of streams open?"""
        return self.open >= MOST_STREAMS

    def close(self) -> None:
        """End all streams."""
        self._closed.set()
        self._live.touch()

    async def messages(self) -> AsyncGenerator[bytes, None]:
        """Yield the revision, as `data: 812`, at the start, after each change and after each tick.

        Wait for `pause` between two messages. End when `close` is called.
        """
        self.open += 1
        try:
            seen = self._live.revision
            while not self._closed.is_set():
                yield f"data: {seen}\n\n".encode()
                await asyncio.sleep(self.pause)
                try:
                    async with asyncio.timeout(self._tick):
                        seen = await self._live.changes(seen)
                except TimeoutError:
                    continue
        finally:
            self.open -= 1
