"""The base of values: objects that never change after they are made."""

from functools import lru_cache
from typing import TypeVar, dataclass_transform

import msgspec
from msgspec.structs import astuple

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True):
    """A value, which is compared and hashed by its fields."""


class Versioned(Value):
    """A value whose last field is the resource version of its object, which `==` leaves out."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and astuple(self)[:-1] == astuple(other)[:-1]


@lru_cache(maxsize=8192)
def shared(value: T) -> T:
    """Return one object for all values that are equal to this one, so that memory holds one."""
    return value
