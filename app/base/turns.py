"""Limit the time that a kind of work takes in each turn of the event loop.

Unknown clients can cause any amount of work. The limit leaves time in every turn for everything
else that the event loop serves.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from app.base.fair_queue import TimedQueue

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


class Turns:
    """Turns of the event loop for work that many tasks could do in the same one.

    The tasks take their turns in the order in which they have asked for them.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def next(self) -> None:
        """Wait for the next turn."""
        async with self._lock:
            await asyncio.sleep(0)


class FairTurns:
    """Turns of the event loop, as `Turns` has, that owners share.

    Of the waiting owners, such as namespaces, the one whose work has taken the least time is next.
    """

    def __init__(self) -> None:
        self._waiting: TimedQueue[asyncio.Future[None]] = TimedQueue()
        self._is_taken = False

    @asynccontextmanager
    async def take(self, owner: str) -> AsyncGenerator[None, None]:
        """Run the block, which must not wait, in the next turn of `owner`."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.put(owner, turn)
        if not self._is_taken:
            self._give()
        try:
            await turn
            await asyncio.sleep(0)  # the turn may have been free, also for others in this one
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._end(owner, 0.0)
            raise  # otherwise, `_give` skips the cancelled turn
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._end(owner, time.perf_counter() - begin)

    def _end(self, owner: str, seconds: float) -> None:
        self._waiting.spend(owner, seconds)
        self._give()

    def _give(self) -> None:
        """Give the next turn to the next owner, if any is waiting."""
        self._is_taken = False
        while self._waiting and not self._is_taken:
            owner, turn = self._waiting.take()
            if turn.cancelled():
                self._waiting.spend(owner, 0.0)
                continue
            self._is_taken = True
            turn.set_result(None)
