"""All facts together."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.explain.facts.devices import ClaimTemplate, ComputeDomain, DeviceClass, DomainClique, Event, ResourceClaim
from app.explain.facts.grove import ClusterTopology, PodClique, PodCliqueSet, PodGang
from app.explain.facts.kai import KaiPodGroup, KaiTopology, Queue, Workload, WorkloadGroup
from app.explain.facts.nodes import Node, Pod

ROOM = "room"
"""The pods of all namespaces, without which free room is not known."""

CHANNELS = "channels"
"""The ResourceClaims of all namespaces, without which it is not known who has the channel of a node."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that was read, a tuple for each kind, in any order.

    `unseen` are the kinds (names of the fields here, such as `pods`) that could not be read in full, with the cause;
    what is known of such a kind is kept. `skipped` are kinds that were not asked for, `absent` kinds that the cluster
    does not serve. They may also have `ROOM` and `CHANNELS`.
    """

    topologies: tuple[ClusterTopology, ...] = ()
    kai_topologies: tuple[KaiTopology, ...] = ()
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    sets: tuple[PodCliqueSet, ...] = ()
    cliques: tuple[PodClique, ...] = ()
    gangs: tuple[PodGang, ...] = ()
    pod_groups: tuple[KaiPodGroup, ...] = ()
    queues: tuple[Queue, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    claim_templates: tuple[ClaimTemplate, ...] = ()
    device_classes: tuple[DeviceClass, ...] = ()
    compute_domains: tuple[ComputeDomain, ...] = ()
    domain_cliques: tuple[DomainClique, ...] = ()
    workloads: tuple[Workload, ...] = ()
    workload_groups: tuple[WorkloadGroup, ...] = ()
    events: tuple[Event, ...] = ()
    unseen: Mapping[str, str] = field(default_factory=dict)
    skipped: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    now: float = 0.0
