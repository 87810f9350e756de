"""A token bucket: so many calls a second, and so many at once."""

import asyncio
from collections.abc import Callable


class TokenBucket:
    """`take` waits until a call may be made: `qps` a second on average, `burst` at once after a pause.

    Those who wait go in the order in which they came; one that gives up while it waits gives its turn back. `clock` is
    monotonic, in seconds.
    """

    def __init__(self, qps: float, burst: int, *, clock: Callable[[], float]) -> None:
        self._interval, self._burst, self._clock = 1.0 / qps, burst, clock
        self._free_at = clock() - burst * self._interval

    async def take(self) -> None:
        now = self._clock()
        self._free_at = max(self._free_at, now - self._burst * self._interval) + self._interval
        wait = self._free_at - now
        if wait > 0:
            try:
                await asyncio.sleep(wait)
            except asyncio.CancelledError:
                self._free_at -= self._interval
                raise
