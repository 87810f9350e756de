"""The base of values: objects that never change after they are made."""

from typing import dataclass_transform

import msgspec
from msgspec.structs import astuple


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True):
    """A value, which is compared and hashed by its fields."""


class Versioned(Value):
    """A value whose last field is the resource version of its object, which `==` leaves out."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and astuple(self)[:-1] == astuple(other)[:-1]
