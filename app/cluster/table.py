"""The facts that are cached of a cluster, a row each: the only place that describes a cached resource."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from app.cluster.podgangs import StoredGang, read_stored_gang
from app.kube.api import Key, Object
from app.kube.store import IndexFunction
from app.objects.metadata import labels_of
from app.objects.resource import NODE, Resource
from app.rules.kinds import (
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    COMPUTE_DOMAIN,
    DEVICE_CLASS,
    KAI_TOPOLOGY,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    RESOURCE_CLAIM,
)
from app.rules.labels import MNNVL_MANAGED, Place
from app.rules.mnnvl.demand import Demand, read_demand
from app.rules.mnnvl.ownership import Gang, MnnvlResource, read_resource
from app.rules.podcliqueset import PodCliqueSet, read_pod_clique_set
from app.rules.topology.binding_levels import KaiTopology, read_kai_topology
from app.rules.topology.bindings import BINDINGS as TODAY
from app.rules.topology.design import DESIGN
from app.rules.topology.levels import Level

T = TypeVar("T")

Levels = tuple[Level, ...]
NodeLabels = Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Fact(Generic[T]):
    """One cached resource: which of its objects are read, what is kept of each, and how they are found again.

    `project` returns what is kept of an object, or None to keep nothing. `labels` is a label selector. If
    `metadata_only` is true, only the metadata of the objects is read.
    """

    resource: Resource
    project: Callable[[Object], T | None]
    indexes: Mapping[str, IndexFunction[T]] = field(default_factory=dict)
    labels: str = ""
    metadata_only: bool = False


def read_topology_levels(obj: Object) -> Levels:
    """The levels of a ClusterTopology, broadest first."""
    return DESIGN.read_levels(obj)


OF_NAMESPACE = "namespace"
"""Index of PodCliqueSets."""

OF_BINDING = "binding"
"""Index of PodCliqueSets: the ClusterTopologyBinding that their constraints refer to."""


def namespace_keys(pcs: PodCliqueSet) -> Iterator[Key]:
    """The namespace of a PodCliqueSet with MNNVL groups, which must not share ComputeDomains with another one."""
    if pcs.mnnvl_groups:
        yield pcs.namespace, ""


def binding_keys(pcs: PodCliqueSet) -> Iterator[Key]:
    if pcs.topology_name:
        yield "", pcs.topology_name


OF_GANG = "gang"
"""Index of ComputeDomains and claims: the key by which a PodGang finds its own."""

BY_SET = "set"
"""Index of PodGangs and of PodCliques: namespace and PodCliqueSet."""


def gang_keys(resource: MnnvlResource) -> Iterator[Key]:
    """The PodGang that a resource names, or, if it names none, its PodCliqueSet and replica."""
    place = resource.place
    yield (resource.namespace, place.podgang) if place.podgang else replica_key(resource.namespace, place)


def replica_key(namespace: str, place: Place) -> Key:
    """The key of a replica of a PodCliqueSet. It never equals the key of a PodGang, because a namespace has no slash in
    its name."""
    return f"{namespace}/{place.pcs}", place.replica


def set_keys(gang: Gang) -> Iterator[Key]:
    yield gang.namespace, gang.place.pcs


BY_BASE = "base"
"""Index of PodCliques: namespace and the base name of the MNNVL resources that they ask for."""


def demand_sets(demand: Demand) -> Iterator[Key]:
    yield demand.member.namespace, demand.member.place.pcs


def demand_bases(demand: Demand) -> Iterator[Key]:
    yield demand.member.namespace, demand.base_name


def read_name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


_MANAGED = f"{MNNVL_MANAGED}=true"

DOMAINS: Fact[MnnvlResource] = Fact(COMPUTE_DOMAIN, read_resource, {OF_GANG: gang_keys}, labels=_MANAGED)
CLAIMS: Fact[MnnvlResource] = Fact(RESOURCE_CLAIM, read_resource, {OF_GANG: gang_keys}, labels=_MANAGED)
TOPOLOGIES: Fact[Levels] = Fact(CLUSTER_TOPOLOGY, read_topology_levels)
BINDINGS: Fact[Levels] = Fact(CLUSTER_TOPOLOGY_BINDING, TODAY.read_levels)
KAI_TOPOLOGIES: Fact[KaiTopology] = Fact(KAI_TOPOLOGY, read_kai_topology)
GANGS: Fact[StoredGang] = Fact(POD_GANG, read_stored_gang, {BY_SET: set_keys})
SETS: Fact[PodCliqueSet] = Fact(
    POD_CLIQUE_SET, read_pod_clique_set, {OF_NAMESPACE: namespace_keys, OF_BINDING: binding_keys}
)
NODES: Fact[NodeLabels] = Fact(NODE, labels_of, metadata_only=True)
DEVICE_CLASSES: Fact[str] = Fact(DEVICE_CLASS, read_name, metadata_only=True)
CLIQUES: Fact[Demand] = Fact(POD_CLIQUE, read_demand, {BY_SET: demand_sets, BY_BASE: demand_bases})

FOR_VERDICTS: tuple[Fact[Any], ...] = (
    DOMAINS,
    CLAIMS,
    TOPOLOGIES,
    BINDINGS,
    KAI_TOPOLOGIES,
    GANGS,
    SETS,
    DEVICE_CLASSES,
    NODES,
)
"""What verdicts need, in the order in which `listed` reads it: resources before the PodGangs and sets that should own
them, so that an owner that is missing at the end was already missing when its resource was read."""

FOR_MNNVL: tuple[Fact[Any], ...] = (CLIQUES,)
"""What only the leader needs, to restore and to collect MNNVL resources."""
