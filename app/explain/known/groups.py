"""Facts of one kind by key.

They are kept in step with lists that change little: only groups that changed are made anew.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, overload

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
V = TypeVar("V")


_FEW = 1000
"""If more places of a list differ, the facts have probably moved, not changed."""


@dataclass(frozen=True)
class Join(Generic[K, T]):
    """How facts are grouped.

    It has the field of `Snapshot` that has them, the keys of each fact, and the order in a group.
    As an attribute of an index, it is the groups by key.
    """

    field: str
    keys: Callable[[T], Iterable[K]]
    order: Callable[[T], Any]

    @overload
    def __get__(self, index: None, of: object) -> "Join[K, T]": ...

    @overload
    def __get__(self, index: Any, of: object) -> Mapping[K, Sequence[T]]: ...

    def __get__(self, index: Any, of: object) -> "Join[K, T] | Mapping[K, Sequence[T]]":
        return self if index is None else index.groups(self).by_key


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
        pairs = [pair for pair in zip(before, after, strict=True) if pair[0] is not pair[1]]
        if len(pairs) <= _FEW:
            return Change([old for old, _ in pairs], [new for _, new in pairs])
    earlier = set(map(id, before))
    later = set(map(id, after))
    return Change(
        [fact for fact in before if id(fact) not in later] if earlier - later else [],
        [fact for fact in after if id(fact) not in earlier] if later - earlier else [],
    )


class Groups(Generic[K, T]):
    """The facts of a join by key. A key without facts has no group."""

    def __init__(self, join: Join[K, T], facts: Iterable[T] = ()) -> None:
        self.join = join
        self.by_key: dict[K, Sequence[T]] = {}
        self._made: dict[Callable[[Sequence[T]], Any], dict[K, Any]] = {}
        self._add(facts)

    def each(self, make: Callable[[Sequence[T]], V]) -> Mapping[K, V]:
        """Return what `make` gives for each group."""
        if make not in self._made:
            self._made[make] = {key: make(group) for key, group in self.by_key.items()}
        return self._made[make]

    def after(self, change: Change) -> "Groups[K, T]":
        """Return the groups of the later list."""
        later = Groups(self.join)
        later.by_key = dict(self.by_key)
        gone = set(map(id, change.gone))
        touched = {key for fact in change.gone for key in self.join.keys(fact)}
        for key in touched:
            rest = [fact for fact in self.by_key[key] if id(fact) not in gone]
            if rest:
                later.by_key[key] = rest
            else:
                del later.by_key[key]

        touched |= later._add(change.come)
        for make, values in self._made.items():
            later._made[make] = _remade(make, values, later.by_key, touched)

        return later

    def _add(self, facts: Iterable[T]) -> set[K]:
        """Take in more facts, and return their keys."""
        added: dict[K, list[T]] = {}
        for fact in facts:
            for key in self.join.keys(fact):
                added.setdefault(key, []).append(fact)
        for key, group in added.items():
            self.by_key[key] = sorted((*self.by_key.get(key, ()), *group), key=self.join.order)
        return set(added)


def _remade(
    make: Callable[[Sequence[T]], V],
    values: Mapping[K, V],
    groups: Mapping[K, Sequence[T]],
    touched: Iterable[K],
) -> dict[K, V]:
    later = dict(values)
    for key in touched:
        if key in groups:
            later[key] = make(groups[key])
        else:
            later.pop(key, None)
    return later
