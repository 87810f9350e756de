"""The time of a schedule, which goes on only as fast as its players do."""

import asyncio
from typing import NoReturn

TICK = 0.02


class Clock:
    """Counts the turns that this task gets, `TICK` seconds apart, while it runs.

    On a machine that is busy with other work, every player gets fewer turns than on a quiet one,
    and so does this clock. So a limit in its time breaks on neither.
    """

    def __init__(self) -> None:
        self.now = 0.0

    async def run(self) -> NoReturn:
        while True:
            await asyncio.sleep(TICK)
            self.now += TICK
