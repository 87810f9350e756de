"""A queue in which owners take turns, so that no owner waits for all items of another."""

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
