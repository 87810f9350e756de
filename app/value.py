"""The base of values: objects that never change after they are made."""

from typing import dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True):
    """A value, which is compared and hashed by its fields."""
