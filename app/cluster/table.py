"""The table of facts: one row for each resource that is cached, with what is kept of its objects.

A row has a store.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from app.cluster import projections
from app.facts import kinds
from app.facts.grove.gang import StoredGang, read_stored_gang
from app.facts.grove.podcliqueset import PodCliqueSet, read_pod_clique_set
from app.facts.grove.topology import (
    ClusterTopology,
    read_cluster_topology,
    read_cluster_topology_binding,
)
from app.facts.kai.topology import KaiTopology, read_kai_topology
from app.facts.kubernetes.node import NodeLabels, read_node_labels
from app.facts.labels import MANAGED_BY, MANAGER, MNNVL_MANAGED
from app.facts.nvidia.mnnvl import MnnvlResource, read_mnnvl_resource
from app.kube.api import Key, Object, Selection
from app.kube.store import IndexFunction, WatchStore
from app.objects.resource import NODE, POD, Resource
from app.rules.mnnvl.demand import Demand
from app.rules.mnnvl.missing import Unclaimed, read_clique

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Fact(Generic[T]):
    """A cached resource.

    `project` returns what is kept of an object, or None to keep nothing. An index function returns
    the keys under which a projection is found. `labels` is a label selector and `fields` a field
    selector. If `metadata_only` is true, only the metadata of the objects is read.
    """

    resource: Resource
    project: Callable[[Object], T | None]
    indexes: Mapping[str, IndexFunction[T]] = field(default_factory=dict)
    labels: str = ""
    fields: str = ""
    metadata_only: bool = False

    def selection(self, namespace: str | None = None) -> Selection:
        return Selection(self.resource, namespace, self.labels, self.fields, self.metadata_only)


def in_namespace(namespace: str, *names: str) -> list[Key]:
    """Return the keys of `names`, without empty ones."""
    return [(namespace, name) for name in names if name]


OF_NAMESPACE = "namespace"
"""Index of PodCliqueSets with MNNVL groups: the namespace.

No two of them may share a ComputeDomain.
"""

OF_BINDING = "binding"
"""Index of PodCliqueSets: the ClusterTopologyBinding that their constraints refer to."""

OF_GANG = "gang"
"""Index of ComputeDomains and claims: the PodGangs that own them, and the one that an earlier
version wrote into a label.
"""

BY_SET = "set"
"""Index of PodGangs and of PodCliques: namespace and PodCliqueSet."""


def gang_keys(resource: MnnvlResource) -> Iterable[Key]:
    names = {owner.name for owner in resource.owning_gangs}
    return in_namespace(resource.namespace, *names | {resource.place.podgang})


BY_BASE = "base"
"""Index of PodCliques with a claim of ours: namespace and the base name of its resources."""


def read_name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


BY_GROUP = "group"
"""Index of Pods: namespace and the key of the group that they name.

Index of KAI's PodGroups: namespace and the keys that the group they were made for can have.
"""

BY_SHARED = "shared group"
"""Index of Pods and of Kubernetes' PodGroups: namespace and the key that their group has if its
policy is basic.
"""

BY_WORKLOAD = "workload"
"""Index of Pods and of Kubernetes' PodGroups: namespace and Workload."""

BY_POD_GROUP = "pod group"
"""Index of Pods: namespace and the KAI PodGroup in their annotation."""

_MANAGED = f"{MNNVL_MANAGED}=true"

DOMAINS: Fact[MnnvlResource] = Fact(
    kinds.COMPUTE_DOMAIN, read_mnnvl_resource, {OF_GANG: gang_keys}, labels=_MANAGED
)
CLAIMS: Fact[MnnvlResource] = Fact(
    kinds.RESOURCE_CLAIM, read_mnnvl_resource, {OF_GANG: gang_keys}, labels=_MANAGED
)
TOPOLOGIES: Fact[ClusterTopology] = Fact(kinds.CLUSTER_TOPOLOGY, read_cluster_topology)
BINDINGS: Fact[ClusterTopology] = Fact(
    kinds.CLUSTER_TOPOLOGY_BINDING, read_cluster_topology_binding
)
KAI_TOPOLOGIES: Fact[KaiTopology] = Fact(kinds.KAI_TOPOLOGY, read_kai_topology)
GANGS: Fact[StoredGang] = Fact(
    kinds.POD_GANG,
    read_stored_gang,
    {BY_SET: lambda gang: in_namespace(gang.namespace, gang.place.pcs)},
)
SETS: Fact[PodCliqueSet] = Fact(
    kinds.POD_CLIQUE_SET,
    read_pod_clique_set,
    {
        OF_NAMESPACE: lambda pcs: [(pcs.namespace, "")] if pcs.mnnvl_groups else [],
        OF_BINDING: lambda pcs: in_namespace("", pcs.topology_name),
    },
)
NODES: Fact[NodeLabels] = Fact(NODE, read_node_labels, metadata_only=True)
DEVICE_CLASSES: Fact[str] = Fact(kinds.DEVICE_CLASS, read_name, metadata_only=True)
StoredClique = Demand | Unclaimed

CLIQUES: Fact[StoredClique] = Fact(
    kinds.POD_CLIQUE,
    read_clique,
    {
        BY_SET: lambda clique: in_namespace(clique.member.namespace, clique.member.place.pcs),
        BY_BASE: lambda clique: (
            in_namespace(clique.member.namespace, clique.base_name)
            if isinstance(clique, Demand)
            else []
        ),
    },
)
"""Only the leader needs them, to put claims back, and to restore and to collect MNNVL resources."""

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
"""The facts that verdicts need, in the order in which `listed` reads them: resources before the
PodGangs and sets that should own them. An owner that is missing at the end was then already
missing when its resource was read.
"""

WORKLOADS: Fact[projections.StoredWorkload] = Fact(kinds.WORKLOAD, projections.read_workload)
INSTANCES: Fact[projections.StoredInstance] = Fact(
    kinds.K8S_POD_GROUP,
    projections.read_instance,
    {
        BY_SHARED: lambda instance: in_namespace(instance.namespace, instance.shared_key),
        BY_WORKLOAD: lambda instance: in_namespace(instance.namespace, instance.workload),
    },
)
POD_GROUPS: Fact[projections.StoredPodGroup] = Fact(
    kinds.POD_GROUP,
    projections.read_pod_group,
    {BY_GROUP: lambda pod_group: in_namespace(pod_group.namespace, *pod_group.group_keys)},
    labels=f"{MANAGED_BY}={MANAGER}",
)
PRIORITY_CLASSES: Fact[str] = Fact(kinds.PRIORITY_CLASS, read_name, metadata_only=True)


def pods_of_scheduler(scheduler_name: str) -> Fact[projections.StoredPod]:
    """Return the row of the Pods of `scheduler_name` that name a group.

    It and the rows above are the facts that only the leader needs, for Workloads.
    """
    indexes: dict[str, IndexFunction[projections.StoredPod]] = {
        BY_GROUP: lambda pod: in_namespace(pod.namespace, pod.ref.key),
        BY_SHARED: lambda pod: in_namespace(pod.namespace, pod.ref.shared_key),
        BY_WORKLOAD: lambda pod: in_namespace(pod.namespace, pod.ref.workload),
        BY_POD_GROUP: lambda pod: in_namespace(pod.namespace, pod.pod_group),
    }
    return Fact(POD, projections.read_pod, indexes, fields=f"spec.schedulerName={scheduler_name}")


class Stores:
    """A store for each of `facts`, with the type of its row."""

    def __init__(self, facts: Iterable[Fact[Any]]) -> None:
        self._stores: dict[Fact[Any], WatchStore[Any]] = {
            fact: WatchStore(fact.project, fact.indexes) for fact in facts
        }

    def __getitem__(self, fact: Fact[T]) -> WatchStore[T]:
        return self._stores[fact]

    def __iter__(self) -> Iterator[tuple[Fact[Any], WatchStore[Any]]]:
        return iter(self._stores.items())

    def by_name(self) -> dict[str, WatchStore[Any]]:
        """Return the stores by the plural of their resource."""
        return {fact.resource.plural: store for fact, store in self._stores.items()}

    async def until_synced(self) -> None:
        """Return once every store has its first list."""
        for store in self._stores.values():
            await store.until_synced()


def fill(store: WatchStore[Any], objects: Iterable[Object]) -> None:
    """Replaces the content of `store` with `objects`."""
    store.begin_list()
    store.take_listed(objects)
    store.end_list("0")
