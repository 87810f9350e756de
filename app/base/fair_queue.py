"""Queues in which owners take turns, so that no owner waits for all items of another."""

from collections import OrderedDict, deque
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """A queue in which the owners of items take turns.

    Each owner may have at most `most` items in the queue, or any number if `most` is None.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._items: OrderedDict[str, deque[Item]] = OrderedDict()
        """The waiting items by owner. The first owner has the next turn."""

    def __len__(self) -> int:
        return sum(map(len, self._items.values()))

    def __bool__(self) -> bool:
        return bool(self._items)

    def put(self, owner: str, item: Item) -> bool:
        """Append `item` and return True, or return False if `owner` already has `most` items."""
        items = self._items.setdefault(owner, deque())
        if self._most is not None and len(items) >= self._most:
            return False
        items.append(item)
        return True

    def take(self) -> Item:
        """Remove and return the oldest item of the owner whose turn it is.

        The other owners take their turns before this owner's next one. Raise LookupError if the
        queue is empty.
        """
        owner, items = next(iter(self._items.items()), ("", deque()))
        if not items:
            raise LookupError("the queue is empty")
        item = items.popleft()
        self._items.move_to_end(owner)
        if not items:
            del self._items[owner]
        return item


class TimedQueue(Generic[Item]):
    """A queue in which the owner is next whose items have taken the least time.

    An owner that joins counts like the owner that was next last. Of an owner, the oldest item is
    next. After `take` and `remove`, call `spend` once the item has been handled. Anybody may name
    any number of owners, so all methods except `remove` take little time with thousands of them.
    """

    def __init__(self) -> None:
        self._items: dict[str, deque[Item]] = {}
        self._spent: dict[str, float] = {}
        """The seconds that the items of each owner in the queue have taken."""
        self._order: list[tuple[float, int, str]] = []
        """A heap of owners: their seconds, the number of their entry, and their name."""
        self._entries: dict[str, int] = {}
        """The number of the valid entry of each owner that waits."""
        self._numbers = count()
        self._least = 0.0
        """The seconds of the owner that was next last."""

    def __bool__(self) -> bool:
        return bool(self._entries)

    @property
    def is_in_use(self) -> bool:
        """Whether an item waits, or a taken item has not been handled."""
        return bool(self._items)

    def put(self, owner: str, item: Item) -> None:
        """Append `item`."""
        if owner not in self._items:
            self._items[owner] = deque()
            self._spent[owner] = self._least
            self._plan(owner)
        self._items[owner].append(item)

    def take(self) -> tuple[str, Item]:
        """Remove the next item, and return its owner and the item.

        Raise IndexError if the queue is empty.
        """
        while True:
            seconds, number, owner = heappop(self._order)
            if self._entries.get(owner) == number:
                break
        del self._entries[owner]
        self._least = seconds
        return owner, self._items[owner].popleft()

    def remove(self, item: Item) -> str:
        """Remove `item`, and return its owner. Raise StopIteration if it is not in the queue."""
        owner, items = next(each for each in self._items.items() if item in each[1])
        items.remove(item)
        return owner

    def spend(self, owner: str, seconds: float) -> None:
        """Note that an item of `owner` took so long."""
        self._spent[owner] += seconds
        if self._items[owner]:
            self._plan(owner)
        else:
            del self._items[owner], self._spent[owner]
            self._entries.pop(owner, None)

    def _plan(self, owner: str) -> None:
        """Let `owner` wait with its present time. Its earlier entry is no longer valid."""
        self._entries[owner] = number = next(self._numbers)
        heappush(self._order, (self._spent[owner], number, owner))
