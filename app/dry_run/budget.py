"""Limit the cost of reading documents, so that no text can exhaust the memory or take too long.

The cost of YAML is counted from parser events, before any value is created: with aliases, a text of
1 KiB can stand for more values than fit into memory.
"""

import time
from collections.abc import Iterable
from typing import Any

import yaml
from msgspec import Struct

from app.base.unusable import UnusableInput
from app.base.value import Value
from app.objects.time import Clock

MIB = 2**20


class ReadingLimits(Value):
    """The limits for reading documents.

    Each use of an alias counts with everything that the alias refers to, because later steps visit
    these values each time.
    """

    documents: int
    """The maximum number of documents."""
    values: int
    """The maximum number of maps, lists, keys and scalars."""
    size: int
    """The maximum size of all keys and scalars, in bytes of UTF-8."""
    seconds: float
    """The maximum CPU time of reading, in seconds. Elapsed time would depend on other processes."""
    depth: int = 200
    """The maximum nesting of maps and lists, because most code that reads them is recursive."""


OF_REQUEST = ReadingLimits(documents=1000, values=250_000, size=4 * MIB, seconds=5.0)
"""The limits for all documents of one request, whose body is limited too."""

OF_FILE = ReadingLimits(documents=1000, values=2_000_000, size=64 * MIB, seconds=300.0)
"""The limits for one file that is named on a command line, or for one YAML document of a dump."""


class Budget:
    """The part of ReadingLimits that is still available.

    Several texts can share a budget. Time counts only inside its `with` block, which must run in
    one thread: `clock` returns the CPU seconds of the calling thread.
    """

    def __init__(self, limits: ReadingLimits, clock: Clock = time.thread_time) -> None:
        self.limits = limits
        self._documents = limits.documents
        self._values = limits.values
        self._size = limits.size
        self._seconds = limits.seconds
        self._clock = clock
        self._since = 0.0

    def __enter__(self) -> "Budget":
        self._since = self._clock()
        return self

    def __exit__(self, *_: object) -> None:
        self._seconds -= self._clock() - self._since

    def spend(self, values: int, size: int) -> None:
        """Subtract values and the bytes of their text.

        Raise UnusableInput if a limit is exceeded.
        """
        self._values -= values
        self._size -= size
        if self._values < 0:
            limit = f"{self.limits.values:,} values"
        elif self._size < 0:
            limit = f"{self.limits.size // MIB} MiB of text"
        else:
            return
        raise UnusableInput(f"the text has more than {limit}, counting each use of an alias")

    def spend_documents(self, count: int) -> None:
        """Subtract `count` documents. Raise UnusableInput if the limit is exceeded."""
        self._documents -= count
        if self._documents < 0:
            raise UnusableInput(
                f"the text has more than {self.limits.documents} documents: split the text"
            )

    def check_time(self) -> None:
        """Raise UnusableInput if the time limit is exceeded."""
        if self._clock() - self._since > self._seconds:
            raise UnusableInput(f"the text takes more than {self.limits.seconds:g} s to read")

    def check_depth(self, depth: int) -> None:
        """Raise UnusableInput if `depth`, the nesting of a value, exceeds the limit."""
        if depth > self.limits.depth:
            raise UnusableInput(
                f"the text is nested too deeply: more than {self.limits.depth} levels"
            )


# YAML, in which each alias costs as much as the value that it refers to.


_EVENTS_PER_TIME_CHECK = 1024


class _Cost(Struct):
    """The cost of a value with everything inside it."""

    values: int = 1
    """The number of values, including the value itself."""
    size: int = 0
    """The size of all keys and scalars, in bytes of UTF-8."""
    depth: int = 0
    """The number of levels of values inside the value, such as 0 for a scalar."""

    def hold(self, inner: "_Cost") -> None:
        """Add the cost of a value inside this one."""
        self.values += inner.values
        self.size += inner.size
        self.depth = max(self.depth, inner.depth + 1)


class _Expansion(Struct):
    """The cost of YAML documents, counted event by event, with the values that aliases refer to."""

    budget: Budget
    _anchors: dict[str, _Cost] = {}
    """The cost of each value with an anchor in the current document."""
    _open: list[tuple[str | None, _Cost]] = []
    """The maps and lists that are open at the current event: (anchor or None, cost so far)."""

    def take(self, event: yaml.Event) -> None:
        """Spend the cost of an event. Raise UnusableInput if a limit is exceeded."""
        if isinstance(event, yaml.ScalarEvent):
            cost = _Cost(size=size_of(event.value))
            self.budget.spend(1, cost.size)
            self._hold(cost, event.anchor)
        elif isinstance(event, yaml.CollectionStartEvent):
            self.budget.spend(1, 0)
            self._open.append((event.anchor, _Cost()))
            self.budget.check_depth(len(self._open))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, cost = self._open.pop()
            self._hold(cost, anchor)
        elif isinstance(event, yaml.AliasEvent):
            self._take_alias(event.anchor or "")
        elif isinstance(event, yaml.DocumentStartEvent):
            self._anchors.clear()
            self.budget.spend_documents(1)

    def _take_alias(self, anchor: str) -> None:
        """Spend the cost of the value that an alias refers to.

        Raise UnusableInput if the value contains the alias, or if a limit is exceeded.
        """
        if any(anchor == of_open for of_open, _ in self._open):
            raise UnusableInput(f'the alias "{anchor}" refers to a value that contains it')
        cost = self._anchors.get(anchor)
        if not cost:
            return  # there is no such anchor: the loader reports it later
        self.budget.spend(cost.values, cost.size)
        self.budget.check_depth(len(self._open) + cost.depth)
        self._hold(cost, None)

    def _hold(self, cost: _Cost, anchor: str | None) -> None:
        """Add the cost of a complete value to the map or list that contains it, if there is one.

        If the value has an anchor, also remember its cost for aliases.
        """
        if self._open:
            self._open[-1][1].hold(cost)
        if anchor is not None:
            self._anchors[anchor] = cost


def spend_yaml(events: Iterable[yaml.Event], budget: Budget) -> None:
    """Spend the cost of YAML documents, given as parser events.

    Raise UnusableInput if a limit is exceeded.
    """
    expansion = _Expansion(budget)
    for number, event in enumerate(events):
        if number % _EVENTS_PER_TIME_CHECK == 0:
            budget.check_time()
        expansion.take(event)


def spend_json(document: Any, budget: Budget) -> None:
    """Spend the cost of a JSON value. Raise UnusableInput if a limit is exceeded."""
    waiting = [(document, 0)]
    while waiting:
        value, depth = waiting.pop()
        budget.spend(1, size_of(value) if isinstance(value, str) else 0)
        inner: Iterable[Any] = ()
        if isinstance(value, dict):
            budget.spend(len(value), sum(map(size_of, value)))
            inner = value.values()
        elif isinstance(value, list):
            inner = value
        else:
            continue
        budget.check_depth(depth + 1)
        waiting += [(item, depth + 1) for item in inner]


def size_of(text: str) -> int:
    """Return the number of bytes of `text` in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
