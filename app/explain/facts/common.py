"""Values that facts of several kinds have.

Amounts of resources are integers in thousandths of the resource's unit (a GPU is 1000, a byte
1000). Times are seconds since 1970, None if an object has none.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from app.explain.facts.fields import read
from app.explain.facts.values import seconds_since_1970, text
from app.facts import labels
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


@dataclass(frozen=True, slots=True)
class Place:
    """Where an object is in its PodCliqueSet, from its labels; "" for each label that is missing.

    `group` is the full name of the scaling group (`<set>-<replica>-<group>`) if Grove wrote the
    label.
    """

    pcs: str = ""
    replica: str = ""
    clique: str = ""
    group: str = ""
    gang: str = ""
    base_gang: str = ""


NOWHERE = Place()
_place = lru_cache(maxsize=65536)(Place)


def place(object_labels: Any) -> Place:
    """From the labels of both vocabularies: the design's and those that Grove's operator writes."""
    of = map_of(object_labels)
    return _place(
        text(of, labels.PCS_NAME) or text(of, labels.GROVE_PCS_NAME),
        text(of, labels.PCS_REPLICA) or text(of, labels.GROVE_PCS_REPLICA),
        text(of, "grove.io/podclique") or text(of, labels.CLIQUE_NAME),
        text(of, labels.GROVE_PCSG_NAME) or text(of, labels.PCSG_NAME),
        text(of, labels.PODGANG),
        text(of, labels.BASE_PODGANG),
    )
