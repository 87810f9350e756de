"""The decorator of values: classes whose instances never change after they are made."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Return a class as a dataclass that is frozen and has slots."""
    return dataclass(frozen=True, slots=True)(cls)
