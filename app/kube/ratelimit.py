"""A token bucket, which limits the rate of calls."""

import asyncio
import math


class TokenBucket:
    """Limits calls to `qps` per second on average, and to `burst` at once after a pause.

    Callers wait in the order in which they came. A caller that is cancelled while it waits does not use up a call.
    """

    def __init__(self, qps: float, burst: int) -> None:
        self._interval, self._burst = 1.0 / qps, burst
        self._free_at = -math.inf

    async def take(self) -> None:
        """Waits until a call is allowed."""
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now - self._burst * self._interval) + self._interval
        wait = self._free_at - now
        if wait > 0:
            try:
                await asyncio.sleep(wait)
            except asyncio.CancelledError:
                self._free_at -= self._interval
                raise
