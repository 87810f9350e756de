"""Values that facts of several kinds have.

Amounts of resources are integers in thousandths of the resource's unit (a GPU is 1000, a byte
1000). Times are seconds since 1970, None if an object has none.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from app.explain.facts.fields import read
from app.explain.facts.values import seconds_since_1970
from app.facts.place import Place, read_place
from app.objects.shape import map_of, text_of

Object = Mapping[str, Any]
Amounts = Mapping[str, int]
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """An object. `namespace` is "" for cluster-scoped kinds."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Named:
    """A fact about one object of its kind."""

    __slots__ = ()
    kind: ClassVar[str]
    name: str

    @property
    def ref(self) -> Ref:
        return Ref(self.kind, getattr(self, "namespace", ""), self.name)


def interned(value: Any) -> str:
    return sys.intern(text_of(value))


@dataclass(frozen=True, slots=True)
class Namespaced(Named):
    namespace: str = read("metadata", "namespace", of=interned)
    name: str = read("metadata", "name")


@dataclass(frozen=True, slots=True)
class Condition:
    type: str = read("type")
    status: str = read("status")
    reason: str = read("reason")
    message: str = read("message")


@dataclass(frozen=True, slots=True)
class LastError:
    """An entry of Grove's `status.lastErrors`. Grove keeps it after the error is over."""

    text: str = read("description")
    time: float | None = read("observedAt", of=seconds_since_1970)


@dataclass(frozen=True, slots=True)
class Told:
    """A constraint as a scheduler reads it: node label keys."""

    required: str = ""
    preferred: str = ""

    def __bool__(self) -> bool:
        return bool(self.required or self.preferred)


UNBOUND = Told()


def place(object_labels: Any) -> Place:
    """Return the place that labels tell, which may have any shape."""
    return read_place(map_of(object_labels))
