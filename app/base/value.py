"""Define the base classes of values, which never change after their creation."""

from functools import lru_cache
from typing import TypeVar, dataclass_transform

import msgspec
from msgspec.structs import astuple

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True):
    """An immutable value, which is compared and hashed by its fields.

    A value is hashable only if all of its fields are, so not with a dict as a field.
    """


class Versioned(Value):
    """A value whose last field is the resourceVersion of its object.

    `==` ignores this field. Such values can't be hashed.
    """

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and astuple(self)[:-1] == astuple(other)[:-1]


MOST_SHARED = 2048
"""The maximum length of the `repr` of a value that `shared` caches, in characters.

Tenants choose the size of values that are read from their objects, and a cache of large values
would need more memory than it saves.
"""


def shared(value: T) -> T:
    """Return a cached object that equals `value`, to save memory. Return large values unchanged.

    The cache has the 4,096 values that were requested last. `value` must be hashable.
    """
    return _shared(value) if len(repr(value)) <= MOST_SHARED else value


@lru_cache(maxsize=4096)
def _shared(value: T) -> T:
    return value
