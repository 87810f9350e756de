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

    Each turn calls `handle` for one item, and for further ones until the turn has taken `seconds`.
    After a turn, the queue pauses for `rest` times the time that the turn took. `pick` chooses the
    next item, by default the oldest one. `end_turn` is called after each turn, unless `handle`
    raised an error.
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
        """Whether the next turn is planned: the queue has items, or pauses after a turn."""
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
        """Plan the next turn of the queue, unless it is already planned."""
        if not self.is_planned:
            self.is_planned = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        """Handle items until the turn has taken `seconds` or none is left.

        If the queue has no items, the next turn is not planned.
        """
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
