"""Where in a PodCliqueSet an object belongs, from its labels of both vocabularies."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import Any

from app.facts import labels
from app.objects.shape import text_of


@dataclass(frozen=True, slots=True)
class Place:
    """The part of a PodCliqueSet that an object belongs to, from its labels.

    A value is "" if its label is missing.

    `replica` and `group_replica` are indexes as text. `group` is the short name of the scaling
    group (`inference-pool`), and `podgang` the PodGang that the object is scheduled with. `clique`
    is the full name of its PodClique, and `base_podgang` the PodGang that its own one waits for.
    """

    pcs: str = ""
    replica: str = ""
    group: str = ""
    group_replica: str = ""
    podgang: str = ""
    clique: str = ""
    base_podgang: str = ""

    @property
    def of_replica(self) -> tuple[str, str, str, str]:
        """The values that say which replica of the set or of a scaling group it is."""
        return self.pcs, self.replica, self.group, self.group_replica

    @property
    def group_name(self) -> str:
        """The name of the PodCliqueScalingGroup, or "" if it belongs to none."""
        return f"{self.pcs}-{self.replica}-{self.group}" if self.group else ""


NOWHERE = Place()


def read_place(of: Mapping[str, Any]) -> Place:
    """Return the place that the labels `of` an object tell.

    The designs' labels count first. The value of Grove's scaling group label is
    `<pcs>-<replica>-<group>`. Objects that are read one after the other share equal results,
    because there may be very many.
    """
    pcs = text_of(of.get(labels.PCS_NAME)) or text_of(of.get(labels.GROVE_PCS_NAME))
    replica = text_of(of.get(labels.PCS_REPLICA)) or text_of(of.get(labels.GROVE_PCS_REPLICA))
    group = text_of(of.get(labels.PCSG_NAME))
    if not group:
        full = text_of(of.get(labels.GROVE_PCSG_NAME))
        prefix = f"{pcs}-{replica}-"
        group = full[len(prefix) :] if pcs and replica and full.startswith(prefix) else ""

    return _shared(
        pcs,
        replica,
        group,
        text_of(of.get(labels.PCSG_REPLICA)) or text_of(of.get(labels.GROVE_PCSG_REPLICA)),
        text_of(of.get(labels.PODGANG)),
        text_of(of.get(labels.GROVE_CLIQUE_NAME)) or text_of(of.get(labels.CLIQUE_NAME)),
        text_of(of.get(labels.BASE_PODGANG)),
    )


@lru_cache(maxsize=256)
def _shared(*values: str) -> Place:
    return Place(*map(intern, values))
