"""A token bucket, which limits the rate of calls."""

import asyncio
from collections.abc import Callable


class TokenBucket:
    """Limits calls to `qps` per second on average, and to `burst` at once after a pause.

    Callers wait in the order in which they came. A caller that is cancelled while it waits does not use up a call.
    `clock` is monotonic, in seconds.
    """

    def __init__(self, qps: float, burst: int, *, clock: Callable[[], float]) -> None:
        self._interval, self._burst, self._clock = 1.0 / qps, burst, clock
        self._free_at = clock() - burst * self._interval

    async def take(self) -> None:
        """Waits until a call is allowed."""
        now = self._clock()
        self._free_at = max(self._free_at, now - self._burst * self._interval) + self._interval
        wait = self._free_at - now
        if wait > 0:
            try:
                await asyncio.sleep(wait)
            except asyncio.CancelledError:
                self._free_at -= self._interval
                raise
