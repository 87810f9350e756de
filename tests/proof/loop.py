"""The event loop of schedules, whose time goes on only while it gets turns."""

import asyncio
import selectors
import time

MOST_SECONDS = 0.1
"""The most that may pass between two turns. Some player has something to do more often."""


class _ShortSelector(selectors.DefaultSelector):
    """Waits no longer than `MOST_SECONDS`, so that a turn that comes late can be told."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        shorter = MOST_SECONDS if timeout is None else min(timeout, MOST_SECONDS)
        return super().select(shorter)


class PatientLoop(asyncio.SelectorEventLoop):
    """An event loop in which no timer fires because the whole process got no turn.

    Servers, the API server and the players are in one process. On a machine that is busy with other
    work, it may stand still for seconds. By the clock on the wall, the API server would then no
    longer wait for a webhook, although the webhook had no turn to answer either.
    """

    def __init__(self) -> None:
        self._passed = 0.0
        self._looked_at = time.monotonic()
        super().__init__(_ShortSelector())

    def time(self) -> float:
        now = time.monotonic()
        self._passed += min(now - self._looked_at, MOST_SECONDS)
        self._looked_at = now
        return self._passed
