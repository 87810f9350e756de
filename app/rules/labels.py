"""The labels and annotations of Grove and of this product.

There are two vocabularies: that of Grove's designs, and `GROVE_*`, which Grove's
operator writes. Both are read, and the first is written. Sources: `rules/README.md`,
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/api/common/labels.go
"""

from collections.abc import Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any

from app.objects.shape import text_of

PCS_NAME = "grove.io/pcs-name"
PCS_REPLICA = "grove.io/pcs-replica-index"
PCSG_NAME = "grove.io/pcsg-name"
PCSG_REPLICA = "grove.io/pcsg-replica-index"
CLIQUE_NAME = "grove.io/clique-name"
PODGANG = "grove.io/podgang"
BASE_PODGANG = "grove.io/base-podgang"
POD_GANG_ROLE = "grove.io/podgang-role"
"""The label of a PodGang of a release of Grove that names PodGangs after epochs."""

ANCHOR = "Anchor"
"""The role of the base PodGang of a replica in these releases."""

GROVE_PCS_NAME = "app.kubernetes.io/part-of"
GROVE_PCS_REPLICA = "grove.io/podcliqueset-replica-index"
GROVE_PCSG_NAME = "grove.io/podcliquescalinggroup"
GROVE_PCSG_REPLICA = "grove.io/podcliquescalinggroup-replica-index"

SET_SELECTORS = (f"{GROVE_PCS_NAME}={{}}", f"{PCS_NAME}={{}}")
"""How the objects of a PodCliqueSet are labelled: by Grove's operator, and in the designs."""

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "grove-admission"
MNNVL_MANAGED = "grove.io/mnnvl-managed"

MNNVL_ENABLED = "grove.io/mnnvl-enabled"
MNNVL_SCOPE = "grove.io/mnnvl-scope"
MNNVL_DEVICE_CLASS = "grove.io/mnnvl-device-class"
MNNVL_GROUP = "grove.io/mnnvl-group"
MNNVL_ADOPTED = "grove.io/mnnvl-resources-adopted"
TOPOLOGY_NAME = "grove.io/topology-name"


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
