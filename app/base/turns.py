"""Limit the time that a kind of work takes in each turn of the event loop.

Unknown clients can cause any amount of work. The limit leaves time in every turn for everything
else that the event loop serves.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class TurnQueue(Generic[Item]):
    """A queue whose items are handled in turns of the event loop.

    `handle` is called with at least one item in each turn, and with no further item after
    `seconds`. After a turn, the queue pauses for `rest` times the time that the turn took. `pick`
    chooses the next item. By default, it is the oldest one. `end_turn` is called after the last
    item of a turn.
    """

    def __init__(
        self,
        handle: Callable[[Item], None],
        seconds: float,
        *,
        rest: float = 0.0,
        pick: Callable[[Iterable[Item]], Item] | None = None,
        end_turn: Callable[[], None] = lambda: None,
    ) -> None:
        self.is_planned = False
        """Whether a turn is planned, because there are items or the queue pauses."""
        self._items: dict[Item, None] = {}
        self._handle = handle
        self._seconds = seconds
        self._rest = rest
        self._pick = pick
        self._end_turn = end_turn

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: Item) -> None:
        """Append `item`, unless it is already waiting."""
        self._items[item] = None
        self.plan()

    def plan(self) -> None:
        """Plan a turn of the queue unless one is planned."""
        if not self.is_planned:
            self.is_planned = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        """Handle items until `seconds` have passed, and plan the next turn."""
        if not self._items:
            self.is_planned = False
            return

        items, pick, handle = self._items, self._pick, self._handle
        begin = time.perf_counter()
        spent = 0.0
        try:
            while items and spent <= self._seconds:
                item = pick(items) if pick else next(iter(items))
                del items[item]
                handle(item)
                spent = time.perf_counter() - begin
        finally:
            self._plan_next(spent)
        self._end_turn()

    def _plan_next(self, spent: float) -> None:
        loop = asyncio.get_running_loop()
        if self._rest:
            loop.call_later(spent * self._rest, self._take_turn)
        elif self._items:
            loop.call_soon(self._take_turn)
        else:
            self.is_planned = False
