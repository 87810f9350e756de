"""The facts of a watched cluster: what pages say while they are not up to date.

Tests `app/explain/live.py`.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from app.explain.live import Live
from app.kube.api import ClusterError
from tests.kube import virtual


class Watched:
    """Stores with the problems that a test gives them."""

    def __init__(self) -> None:
        self.current: list[tuple[str, ClusterError | None]] = []

    def subscribe(self, note: Callable[[str], None]) -> None:
        pass

    def problems(self) -> list[tuple[str, ClusterError | None]]:
        return self.current

    async def run(self) -> None:
        await asyncio.Event().wait()


def test_the_first_problem_is_said_with_the_time_since_when_there_is_any() -> None:
    async def main() -> list[tuple[str, float] | None]:
        watched = Watched()
        live = Live(cast(Any, watched), clock=lambda: float(round(virtual.now(), -1)))
        running = asyncio.create_task(live.run())
        said: list[tuple[str, float] | None] = []
        for names in ([], ["pods", "nodes"], ["pods"], [], ["queues"]):
            watched.current = [(name, None) for name in names]
            before = live.revision
            await asyncio.sleep(100)
            trouble = live.trouble
            said.append(None if trouble is None else (trouble.message, trouble.since))
            assert live.revision - before <= 1
        running.cancel()
        return said

    assert virtual.run(main()) == [
        None,
        ("nodes", 100.0),
        ("pods", 100.0),
        None,
        ("queues", 400.0),
    ]
