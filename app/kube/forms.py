"""Lists of which only some fields of each object are decoded.

Most bytes of a Node or a Pod are fields that nobody here reads, such as images or environments. To
pass over them takes a tenth of the time of making values of them.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Generic, TypedDict, TypeVar

import msgspec

from app.objects.shape import Object

Form = Any
"""A TypedDict with the fields that are read, or None for all fields."""

Fields = TypeVar("Fields")


class _List(TypedDict, Generic[Fields], total=False):
    apiVersion: Any
    kind: Any
    metadata: Any
    items: list[Fields] | None


@cache
def decoder_of_lists(form: Form) -> Callable[[bytes], Object]:
    """Return what decodes a list, and raises msgspec.DecodeError if an object has another form."""
    return msgspec.json.Decoder(_List[form]).decode  # type: ignore[return-value]
