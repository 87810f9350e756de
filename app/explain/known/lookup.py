"""Facts by key: lookups that are made at first use, and then changed in place.

Only what a change touches is made anew. A group that did not change stays the same object.
"""

import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any, Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
V = TypeVar("V")
M = TypeVar("M")

_FEW = 1000
"""If more places of a list differ, the facts have probably moved, not changed."""


class Change(NamedTuple):
    """The facts of an earlier list that a later one has no more, and those that it has besides.

    One that has only moved may be in both.
    """

    gone: Sequence[Any]
    come: Sequence[Any]


def change(before: Sequence[Any], after: Sequence[Any]) -> Change:
    """Return how one list differs from an earlier one.

    Facts are compared by identity: one that did not change is the same.
    """
    if len(before) == len(after):
        places = list(compress(range(len(after)), map(operator.is_not, before, after)))
        if len(places) <= _FEW:
            return Change([before[place] for place in places], [after[place] for place in places])

    earlier = set(map(id, before))
    later = set(map(id, after))
    return Change(_among(before, earlier - later), _among(after, later - earlier))


def _among(facts: Sequence[Any], ids: set[int]) -> list[Any]:
    return [fact for fact in facts if id(fact) in ids] if ids else []


class _ByKey(Generic[M]):
    """A lookup of facts, declared in the class of an index.

    `field` of a snapshot has the facts. As an attribute of an index, it is the mapping M.
    """

    field: str
    _name: str

    def __set_name__(self, of: object, name: str) -> None:
        self._name = name

    def __get__(self, index: Any, of: object) -> M:
        # found there from now on, and changed in place
        by_key: M = index.lookup(self).by_key
        vars(index)[self._name] = by_key
        return by_key


class Join(_ByKey[Mapping[K, Sequence[T]]]):
    """How facts are grouped: each has some `keys`, and a place in its groups by `order`."""

    def __init__(
        self, field: str, keys: Callable[[T], Iterable[K]], order: Callable[[T], Any]
    ) -> None:
        self.field = field
        self.keys = keys
        self.order = order

    def over(self, facts: Iterable[T]) -> "Groups[K, T]":
        """Return the facts by key."""
        groups = Groups(self)
        groups.add(facts)
        return groups


class Groups(Generic[K, T]):
    """The facts of a join by key. A key without facts has no group."""

    def __init__(self, join: Join[K, T]) -> None:
        self._join = join
        self.by_key: dict[K, Sequence[T]] = {}
        self._made: dict[Callable[[Sequence[T]], Any], dict[K, Any]] = {}

    def each(self, make: Callable[[Sequence[T]], V]) -> Mapping[K, V]:
        """Return what `make` gives for each group."""
        if make not in self._made:
            self._made[make] = {key: make(group) for key, group in self.by_key.items()}
        return self._made[make]

    def follow(self, change: Change) -> None:
        """Change the groups that a change touches."""
        touched = self._remove(change.gone) | self.add(change.come)
        for make, values in self._made.items():
            for key in touched:
                if key in self.by_key:
                    values[key] = make(self.by_key[key])
                else:
                    values.pop(key, None)

    def add(self, facts: Iterable[T]) -> set[K]:
        """Take in more facts, and return their keys."""
        added: dict[K, list[T]] = {}
        for fact in facts:
            for key in self._join.keys(fact):
                added.setdefault(key, []).append(fact)

        for key, group in added.items():
            self.by_key[key] = sorted((*self.by_key.get(key, ()), *group), key=self._join.order)
        return set(added)

    def _remove(self, facts: Sequence[T]) -> set[K]:
        gone = set(map(id, facts))
        touched = {key for fact in facts for key in self._join.keys(fact)}
        for key in touched:
            rest = [fact for fact in self.by_key[key] if id(fact) not in gone]
            if rest:
                self.by_key[key] = rest
            else:
                del self.by_key[key]
        return touched


class Naming(_ByKey[Mapping[K, T]]):
    """How facts are named: no two have the same `key`, or else the last one counts.

    It is called after the field of the snapshot.
    """

    def __init__(self, key: Callable[[T], K]) -> None:
        self.key = key

    def __set_name__(self, of: object, name: str) -> None:
        super().__set_name__(of, name)
        self.field = name

    def over(self, facts: Iterable[T]) -> "Names[K, T]":
        """Return the facts by key."""
        return Names(self, facts)


class Names(Generic[K, T]):
    """The facts of a naming by key."""

    def __init__(self, naming: Naming[K, T], facts: Iterable[T]) -> None:
        self._key = naming.key
        self.by_key = {naming.key(fact): fact for fact in facts}

    def follow(self, change: Change) -> None:
        """Change the facts that a change touches."""
        for fact in change.gone:
            self.by_key.pop(self._key(fact), None)
        for fact in change.come:
            self.by_key[self._key(fact)] = fact
