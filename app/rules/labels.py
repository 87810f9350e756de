"""Labels and annotations, in both vocabularies: the design's and the one Grove's operator writes. We read both and
write the design's. Source: `rules/README.md`; Grove's `api/common/labels.go`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PCS_NAME = "grove.io/pcs-name"
PCS_REPLICA = "grove.io/pcs-replica-index"
PCSG_NAME = "grove.io/pcsg-name"
PCSG_REPLICA = "grove.io/pcsg-replica-index"
CLIQUE_NAME = "grove.io/clique-name"
PODGANG = "grove.io/podgang"
BASE_PODGANG = "grove.io/base-podgang"

GROVE_PCS_NAME = "app.kubernetes.io/part-of"
GROVE_PCS_REPLICA = "grove.io/podcliqueset-replica-index"
GROVE_PCSG_NAME = "grove.io/podcliquescalinggroup"
GROVE_PCSG_REPLICA = "grove.io/podcliquescalinggroup-replica-index"

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
    """Where an object stands in its PodCliqueSet. "" if a label is missing; indexes are the labels' text.

    `group` is the scaling group's short name (`inference-pool`), `podgang` the PodGang an object is scheduled with.
    """

    pcs: str = ""
    replica: str = ""
    group: str = ""
    group_replica: str = ""
    podgang: str = ""


def read_place(labels: Mapping[str, Any]) -> Place:
    """Reads both vocabularies, the design's first. Grove's scaling group label holds `<pcs>-<replica>-<group>`."""
    pcs = _text(labels, PCS_NAME) or _text(labels, GROVE_PCS_NAME)
    replica = _text(labels, PCS_REPLICA) or _text(labels, GROVE_PCS_REPLICA)
    group = _text(labels, PCSG_NAME)
    if not group:
        full = _text(labels, GROVE_PCSG_NAME)
        prefix = f"{pcs}-{replica}-"
        group = full[len(prefix) :] if pcs and replica and full.startswith(prefix) else ""
    group_replica = _text(labels, PCSG_REPLICA) or _text(labels, GROVE_PCSG_REPLICA)
    return Place(pcs, replica, group, group_replica, _text(labels, PODGANG))


def _text(labels: Mapping[str, Any], key: str) -> str:
    value = labels.get(key)
    return value if isinstance(value, str) else ""
