"""Find facts by key: lookup tables of an index, created at first use and then updated in place.

Rebuilding the tables after each change of a pod would slow down each page of the console
(`./scripts/bench console` compares an index that follows with a new one). What-if also moves its
index back and forth between two states.

An update relies on identity: stores and `replace` keep the object of every fact that did not
change. Values that are computed from a group are kept until the group changes.
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
"""The maximum number of differing positions of a list that count as replaced facts.

If more positions differ, facts have probably moved.
"""


class Change(NamedTuple):
    """The difference between an earlier and a later list of facts.

    A fact that has only moved may be in both fields.
    """

    removed: Sequence[Any]
    """The facts of the earlier list that are not in the later one."""
    added: Sequence[Any]
    """The facts of the later list that are not in the earlier one."""


def change(before: Sequence[Any], after: Sequence[Any]) -> Change:
    """Return how a list of facts differs from an earlier one. Facts are compared by identity."""
    # Usually, a watch event has replaced a few facts where they stood.
    if len(before) == len(after):
        places = list(compress(range(len(after)), map(operator.is_not, before, after)))
        if len(places) <= _FEW:
            return Change([before[place] for place in places], [after[place] for place in places])

    earlier = set(map(id, before))
    later = set(map(id, after))
    return Change(
        removed=[fact for fact in before if id(fact) not in later],
        added=[fact for fact in after if id(fact) not in earlier],
    )


class _Declared(Generic[M]):
    """A lookup table that a class of indexes declares as an attribute.

    On an index, the attribute is the mapping M. On the class, it cannot be read, so a declaration
    that callers need is a constant too.
    """

    field: str
    """The field of the snapshot that has the facts."""
    _name: str
    """The name of the attribute."""

    def __set_name__(self, of: object, name: str) -> None:
        self._name = name

    def __get__(self, index: Any, of: object) -> M:
        # From now on, Python finds the mapping in the index before it finds this method. That is
        # safe because the mapping is updated in place and never replaced.
        by_key: M = index.lookup(self).by_key
        vars(index)[self._name] = by_key
        return by_key


class GroupedBy(_Declared[Mapping[K, Sequence[T]]]):
    """A declared lookup table of groups. Each fact is in the groups of all its `keys`.

    A group is sorted by `order`. A key without facts has no group.
    """

    def __init__(
        self, field: str, keys: Callable[[T], Iterable[K]], order: Callable[[T], Any]
    ) -> None:
        self.field = field
        self.keys = keys
        self.order = order

    def over(self, facts: Iterable[T]) -> "Groups[K, T]":
        """Return a new table of `facts`, as this declaration describes it."""
        groups = Groups(self)
        groups.add(facts)
        return groups


class Groups(Generic[K, T]):
    """A lookup table of groups of facts by key, as a `GroupedBy` declares it."""

    def __init__(self, declared: GroupedBy[K, T]) -> None:
        self._keys = declared.keys
        self._order = declared.order
        self.by_key: dict[K, Sequence[T]] = {}
        self._computed: dict[Callable[[Sequence[T]], Any], dict[K, Any]] = {}
        """Values computed from each group, by the function that computes them."""

    def each(self, compute: Callable[[Sequence[T]], V]) -> Mapping[K, V]:
        """Return `compute(group)` by key. Each value is kept until its group changes."""
        if compute not in self._computed:
            self._computed[compute] = {key: compute(group) for key, group in self.by_key.items()}
        return self._computed[compute]

    def follow(self, change: Change) -> None:
        """Update the groups of the facts that were removed or added."""
        touched = self._remove(change.removed) | self.add(change.added)
        for compute, values in self._computed.items():
            for key in touched:
                if key in self.by_key:
                    values[key] = compute(self.by_key[key])
                else:
                    values.pop(key, None)

    def add(self, facts: Iterable[T]) -> set[K]:
        """Add facts to their groups, and return the keys of these groups."""
        added: dict[K, list[T]] = {}
        for fact in facts:
            for key in self._keys(fact):
                added.setdefault(key, []).append(fact)

        for key, group in added.items():
            self.by_key[key] = sorted((*self.by_key.get(key, ()), *group), key=self._order)
        return set(added)

    def _remove(self, facts: Sequence[T]) -> set[K]:
        """Remove facts from their groups, and return the keys of these groups."""
        removed = set(map(id, facts))
        touched = {key for fact in facts for key in self._keys(fact)}
        for key in touched:
            rest = [fact for fact in self.by_key[key] if id(fact) not in removed]
            if rest:
                self.by_key[key] = rest
            else:
                del self.by_key[key]
        return touched


class NamedBy(_Declared[Mapping[K, T]]):
    """A declared lookup table with one fact per `key`, the last one if several share a key.

    The attribute has the name of the snapshot's field with the facts.
    """

    def __init__(self, key: Callable[[T], K]) -> None:
        self.key = key

    def __set_name__(self, of: object, name: str) -> None:
        super().__set_name__(of, name)
        self.field = name

    def over(self, facts: Iterable[T]) -> "Names[K, T]":
        """Return a new table of `facts`, as this declaration describes it."""
        return Names(self, facts)


class Names(Generic[K, T]):
    """A lookup table with one fact per key, as a `NamedBy` declares it."""

    def __init__(self, declared: NamedBy[K, T], facts: Iterable[T]) -> None:
        self._key = declared.key
        self.by_key = {declared.key(fact): fact for fact in facts}

    def follow(self, change: Change) -> None:
        """Update the table with the facts that were removed or added."""
        for fact in change.removed:
            self.by_key.pop(self._key(fact), None)
        for fact in change.added:
            self.by_key[self._key(fact)] = fact
