"""Facts whose fields say where in an object they are read from: `queue: str = read("spec",
"queue")`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

from app.objects.shape import int_of, maps_of, text_of

T = TypeVar("T")


def read(*path: str, of: Callable[[Any], Any] = text_of) -> Any:
    """A field of a dataclass: its path in the object, and what makes the value of what stands
    there; without a path, of the object. What `of` gives for None is the default.
    """
    return dataclasses.field(default_factory=lambda: of(None), metadata={"path": path, "of": of})


def reader(kind: type[T]) -> Callable[[Any], T]:
    """A function that makes a fact of an object."""
    fields = [(field.metadata["path"], field.metadata["of"]) for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    above = dict.fromkeys(path[:depth] for path, _ in fields for depth in range(len(path)))
    holders = list(above)  # () is the first: the object
    steps = [(holders.index(path[:-1]), path[-1]) for path in holders[1:]]
    places = [(holders.index(path[:-1]), path[-1] if path else None, of) for path, of in fields]

    def fact(obj: Any) -> T:
        maps = [obj]
        for holder, key in steps:
            value = maps[holder].get(key)
            maps.append(value if isinstance(value, dict) else {})
        return kind(*[of(maps[holder].get(key) if key else obj) for holder, key, of in places])

    return fact


def each(kind: type[T]) -> Callable[[Any], tuple[T, ...]]:
    """For `of`: a fact of each map in a list."""
    fact = reader(kind)
    return lambda value: tuple(map(fact, maps_of(value)))


def texts_at(key: str) -> Callable[[Any], tuple[str, ...]]:
    """For `of`: the text at this key of each map in a list."""
    return lambda value: tuple(text_of(item.get(key)) for item in maps_of(value))


def number(default: int = 0) -> Callable[[Any], int]:
    """For `of`: an integer."""
    return lambda value: int_of(value, default)
