"""Values that facts of several kinds have.

Amounts of resources are integers in thousandths of the resource's unit (a GPU is 1000, a byte 1000). Times are seconds
since 1970, None if an object has none.
"""

from collections.abc import Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Condition:
    type: str
    status: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a selector: `operator` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


Term = tuple[Requirement, ...]
"""Requirements that must all hold. Of several terms, one must hold."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an object is in its PodCliqueSet, from its labels; "" for each label that is missing.

    `group` is the full name of the scaling group (`<set>-<replica>-<group>`) if Grove wrote the label.
    """

    pcs: str = ""
    replica: str = ""
    clique: str = ""
    group: str = ""
    group_replica: str = ""
    gang: str = ""
    base_gang: str = ""


NOWHERE = Place()


@dataclass(frozen=True, slots=True)
class Told:
    """A constraint as a scheduler reads it: node label keys."""

    required: str = ""
    preferred: str = ""

    def __bool__(self) -> bool:
        return bool(self.required or self.preferred)


UNBOUND = Told()
