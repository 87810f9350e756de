"""Where in a PodCliqueSet an object belongs, from its labels of both vocabularies."""

from collections.abc import Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any

from app.facts.labels import (
    GROVE_PCS_NAME,
    GROVE_PCS_REPLICA,
    GROVE_PCSG_NAME,
    GROVE_PCSG_REPLICA,
    PCS_NAME,
    PCS_REPLICA,
    PCSG_NAME,
    PCSG_REPLICA,
    PODGANG,
)
from app.objects.shape import text_of


@dataclass(frozen=True, slots=True)
class Place:
    """The part of a PodCliqueSet that an object belongs to, from its labels.

    A value is "" if its label is missing.

    `replica` and `group_replica` are indexes as text. `group` is the short name of the scaling
    group (`inference-pool`), and `podgang` the PodGang that the object is scheduled with.
    """

    pcs: str = ""
    replica: str = ""
    group: str = ""
    group_replica: str = ""
    podgang: str = ""

    @property
    def of_replica(self) -> tuple[str, str, str, str]:
        """All values except the PodGang: those of a replica of the set or of a scaling group."""
        return self.pcs, self.replica, self.group, self.group_replica

    def interned(self) -> "Place":
        """Return an equal Place that shares its texts with others, because there may be very
        many.
        """
        return Place(*map(intern, (*self.of_replica, self.podgang)))


def read_place(labels: Mapping[str, Any]) -> Place:
    """Read both vocabularies.

    The designs' labels count first. The value of Grove's scaling group label is
    `<pcs>-<replica>-<group>`.
    """
    pcs = text_of(labels.get(PCS_NAME)) or text_of(labels.get(GROVE_PCS_NAME))
    replica = text_of(labels.get(PCS_REPLICA)) or text_of(labels.get(GROVE_PCS_REPLICA))
    group = text_of(labels.get(PCSG_NAME))
    if not group:
        full = text_of(labels.get(GROVE_PCSG_NAME))
        prefix = f"{pcs}-{replica}-"
        group = full[len(prefix) :] if pcs and replica and full.startswith(prefix) else ""
    group_replica = text_of(labels.get(PCSG_REPLICA)) or text_of(labels.get(GROVE_PCSG_REPLICA))
    return Place(pcs, replica, group, group_replica, text_of(labels.get(PODGANG)))
