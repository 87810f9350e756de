"""What documents cost once each alias is replaced by what it refers to.

YAML is measured by its events, before anything is made of it: a text of 1 KiB can stand for more
values than there is memory for.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml

from app.dry_run.budget import Budget, UnusableInput

_EVENTS_BETWEEN_LOOKS_AT_THE_CLOCK = 1024


@dataclass(slots=True)
class _Cost:
    """What a value comes to with all that is in it. `depth` is 0 for what holds nothing."""

    values: int = 1
    size: int = 0
    depth: int = 0

    def hold(self, inner: "_Cost") -> None:
        self.values += inner.values
        self.size += inner.size
        self.depth = max(self.depth, inner.depth + 1)


class _Expansion:
    """The anchors of a document, and the maps and lists that are open at one point of the text."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._anchors: dict[str, _Cost] = {}
        self._open: list[tuple[str | None, _Cost]] = []

    def take(self, event: yaml.Event) -> None:
        """Spend what an event adds to its document. Raise UnusableInput if that is too much."""
        if isinstance(event, yaml.ScalarEvent):
            cost = _Cost(size=size_of(event.value))
            self._budget.spend(1, cost.size)
            self._hold(cost, event.anchor)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._budget.spend(1, 0)
            self._open.append((event.anchor, _Cost()))
            self._budget.check_depth(len(self._open))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, cost = self._open.pop()
            self._hold(cost, anchor)
        elif isinstance(event, yaml.AliasEvent):
            self._take_alias(event.anchor or "")
        elif isinstance(event, yaml.DocumentStartEvent):
            self._anchors.clear()
            self._budget.spend_documents(1)

    def _take_alias(self, anchor: str) -> None:
        if any(anchor == of_open for of_open, _ in self._open):
            raise UnusableInput(f'the alias "{anchor}" refers to what it is in')
        cost = self._anchors.get(anchor)
        if not cost:
            return  # there is no such anchor, as the loader will say
        self._budget.spend(cost.values, cost.size)
        self._budget.check_depth(len(self._open) + cost.depth)
        self._hold(cost, None)

    def _hold(self, cost: _Cost, anchor: str | None) -> None:
        if self._open:
            self._open[-1][1].hold(cost)
        if anchor is not None:
            self._anchors[anchor] = cost


def spend_yaml(events: Iterable[yaml.Event], budget: Budget) -> None:
    """Spend what the documents of a text come to. Raise UnusableInput if that is too much."""
    expansion = _Expansion(budget)
    for number, event in enumerate(events):
        if number % _EVENTS_BETWEEN_LOOKS_AT_THE_CLOCK == 0:
            budget.check_time()
        expansion.take(event)


def spend_json(document: Any, budget: Budget) -> None:
    """Spend what a value comes to that was read from JSON, which has no aliases.

    Raise UnusableInput if that is too much.
    """
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
    """Return the bytes of a text."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
