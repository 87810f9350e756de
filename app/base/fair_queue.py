"""Queues in which owners take turns, so that no owner waits for all items of another."""

from collections import OrderedDict, deque
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

    An owner that joins counts like the owner that is next. Of an owner, the oldest item is next.
    After `take` and `remove`, call `spend` once the item has been handled.
    """

    def __init__(self) -> None:
        self._items: dict[str, deque[Item]] = {}
        self._spent: dict[str, float] = {}
        """The seconds that the items of each owner in the queue have taken."""

    def __bool__(self) -> bool:
        return any(self._items.values())

    def put(self, owner: str, item: Item) -> None:
        """Append `item`."""
        if owner not in self._items:
            self._items[owner] = deque()
            self._spent[owner] = min(self._spent.values(), default=0.0)
        self._items[owner].append(item)

    def take(self) -> tuple[str, Item]:
        """Remove the next item, and return its owner and the item.

        Raise LookupError if the queue is empty.
        """
        waiting = [owner for owner, items in self._items.items() if items]
        if not waiting:
            raise LookupError("the queue is empty")
        owner = min(waiting, key=self._spent.__getitem__)
        return owner, self._items[owner].popleft()

    def remove(self, item: Item) -> str:
        """Remove `item`, and return its owner. Raise StopIteration if it is not in the queue."""
        owner, items = next(each for each in self._items.items() if item in each[1])
        items.remove(item)
        return owner

    def spend(self, owner: str, seconds: float) -> None:
        """Note that an item of `owner` took so long."""
        self._spent[owner] += seconds
        if not self._items[owner]:
            del self._items[owner], self._spent[owner]
