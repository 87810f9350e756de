"""List the objects that a server keeps for verdicts and warnings: a row for each kind.

`cluster/leader_rows` has the objects that only the leader keeps, and `facts/explain_rows` has the
objects that explanations need.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from msgspec import field

from app.base.value import Value
from app.facts import kinds
from app.facts.grove.podcliqueset import PodCliqueSet, read_bounded_set
from app.facts.grove.podgang import StoredGang, read_stored_gang
from app.facts.grove.topology import read_cluster_topology, read_cluster_topology_binding
from app.facts.identity import Key, read_name
from app.facts.kai.topology import read_kai_topology
from app.facts.kubernetes.claim import (
    NVIDIA_GPUS,
    read_slice_gpus,
)
from app.facts.kubernetes.node import NodeForm, read_node_labels
from app.facts.labels import MNNVL_MANAGED
from app.facts.nvidia.computedomain import (
    MnnvlResource,
    read_mnnvl_resource,
)
from app.objects.resource import NODE, Resource

T = TypeVar("T")

MOST_KEPT = 32 * 2**10
"""The maximum JSON size of the facts about an object, in bytes, unless its row sets another limit.

The facts about most objects take less than 1 KiB.
"""

MOST_OF_NAMESPACE = 4 * 2**20
"""The maximum JSON size of the facts about all objects of one kind in a namespace, in bytes.

The first KiB of each object does not count. In memory, the facts may take five times as much.
"""

MOST_IN_NAMESPACE = 20_000
"""The maximum number of objects of one kind in a namespace whose facts are kept.

`./scripts/bench memory` has 20,000 PodCliques of 10,000 PodGangs and 2,000 PodCliqueSets in one
namespace. In memory, the facts about a small object take 1 to 5 KB.
"""

MOST_OF_POD = 512 * 2**10
"""The maximum JSON size of the decoded fields of a Pod, in bytes.

Annotations may take 256 KiB of it. Reading 2.6 MB of containers, selectors or requests blocks the
event loop for up to 180 ms.
"""

TOO_LARGE = "TooLargeToRead"
"""The reason of the event on an object that exceeds a limit of its row."""


class Row(Value, Generic[T], dict=True, eq=False):
    """The way to read the objects of a kind into facts, and the limits on their sizes.

    mypy infers the type of a row from `read`. A row with lambdas states its type instead.
    """

    resource: Resource
    """The resource of the objects."""
    read: Callable[[Any], T | None]
    """Returns the facts about an object, or None to keep nothing."""
    lookups: Mapping[str, Callable[[T], Iterable[Key]]] = field(default_factory=dict)
    """The indexes by name. Each function returns the keys under which a fact is found."""
    labels: str = ""
    """A label selector: only objects that it selects are read. It is "" for all objects."""
    fields: str = ""
    """A field selector: only objects that it selects are read. It is "" for all objects."""
    metadata_only: bool = False
    """Whether only the metadata of objects is read."""
    name: str = ""
    """The name of the kind in the facts of explain, or "". Two kinds may share a name."""
    title: str = ""
    """The readable name of the kind, or "" if explain does not read it."""
    form: Any = None
    """A TypedDict with all fields that `read` needs, or None for a whole object."""
    most: int = MOST_KEPT
    """The maximum JSON size of the facts about an object, in bytes. Larger facts are not kept."""
    most_of_namespace: int = MOST_OF_NAMESPACE
    """The maximum JSON size of the facts about all objects of a namespace, in bytes.

    The first KiB of each object does not count. Facts beyond the limit are not kept.
    """
    most_objects: int = MOST_IN_NAMESPACE
    """The maximum number of objects of a namespace whose facts are kept."""
    most_decoded: int | None = None
    """The maximum JSON size of the decoded fields in bytes, or None for no maximum.

    `read` is not called for larger objects.
    """
    is_cut: Callable[[T], bool] = lambda value: False
    """Returns whether `read` has dropped parts of an object because of its size."""
    rest: Callable[[Any], T | None] = lambda obj: None
    """Returns the facts that are kept about an object beyond a limit, or None to keep nothing."""


def in_namespace(namespace: str, *names: str) -> list[Key]:
    """Return the keys of objects with these `names` in a namespace. Empty names are left out."""
    return [(namespace, name) for name in names if name]


OF_NAMESPACE = "namespace"
"""Index of PodCliqueSets with MNNVL groups by namespace, to find equal names of ComputeDomains."""

OF_BINDING = "binding"
"""Index of PodCliqueSets by the ClusterTopologyBinding that their constraints refer to."""

OF_GANG = "gang"
"""Index of ComputeDomains and ResourceClaims by PodGang.

The keys are the PodGangs that own them, and the PodGang that an earlier version wrote into a label.
"""

ROOM = "room"
"""The name of a fact: the pods of all namespaces, from which free room is computed."""

CHANNELS = "channels"
"""The name of a fact: the claims of all namespaces, which show who holds a node's channel."""

BY_SET = "set"
"""Index of PodGangs and PodCliques by namespace and PodCliqueSet."""


def gang_keys(resource: MnnvlResource) -> Iterable[Key]:
    """Return the keys of an MNNVL resource in the index OF_GANG."""
    names = {owner.name for owner in resource.owning_gangs}
    return in_namespace(resource.namespace, *names | {resource.place.podgang})


_MANAGED = f"{MNNVL_MANAGED}=true"

DOMAINS = Row(
    kinds.COMPUTE_DOMAIN,
    read_mnnvl_resource,
    {OF_GANG: gang_keys},
    labels=_MANAGED,
    most_objects=MOST_IN_NAMESPACE // 2,
)
CLAIMS = Row(
    kinds.RESOURCE_CLAIM,
    read_mnnvl_resource,
    {OF_GANG: gang_keys},
    labels=_MANAGED,
    most_objects=MOST_IN_NAMESPACE // 2,
)
TOPOLOGIES = Row(
    kinds.CLUSTER_TOPOLOGY, read_cluster_topology, name="topologies", title="the cluster topology"
)
BINDINGS = Row(
    kinds.CLUSTER_TOPOLOGY_BINDING,
    read_cluster_topology_binding,
    name="topologies",
    title="the cluster topology",
)
KAI_TOPOLOGIES = Row(
    kinds.KAI_TOPOLOGY, read_kai_topology, name="kai_topologies", title="KAI's Topologies"
)
GANGS: Row[StoredGang] = Row(
    kinds.POD_GANG,
    read_stored_gang,
    {BY_SET: lambda gang: in_namespace(gang.namespace, gang.place.pcs)},
    most=128 * 2**10,
    most_of_namespace=16 * 2**20,  # kept as JSON
)
SETS: Row[PodCliqueSet] = Row(
    kinds.POD_CLIQUE_SET,
    read_bounded_set,
    {
        OF_NAMESPACE: lambda pcs: [(pcs.namespace, "")] if pcs.mnnvl_groups else [],
        OF_BINDING: lambda pcs: in_namespace("", pcs.topology_name),
    },
    most=64 * 2**10,
    most_of_namespace=6 * 2**20,
    most_objects=MOST_IN_NAMESPACE // 4,
    is_cut=lambda pcs: pcs.is_cut,
)
NODES = Row(NODE, read_node_labels, form=NodeForm)
DEVICE_CLASSES = Row(kinds.DEVICE_CLASS, read_name, metadata_only=True)

FOR_VERDICTS: tuple[Row[Any], ...] = (
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
"""The rows that verdicts need, in the order in which `stores/list_reader` reads them.

MNNVL resources come before the PodGangs and sets that should own them. So if an owner is created
together with its resource during the reading, the resource does not look like one without an owner.
"""

QUEUE_NAMES = Row(kinds.QUEUE, read_name, metadata_only=True)

OF_NODE = "node"
"""Index of the GPUs in ResourceSlices by the node that has them."""

SLICE_GPUS = Row(
    kinds.RESOURCE_SLICE,
    read_slice_gpus,
    {OF_NODE: lambda part: in_namespace("", part.node)},
    fields=f"spec.driver={NVIDIA_GPUS}",
)

FOR_WARNINGS: tuple[Row[Any], ...] = (QUEUE_NAMES, SLICE_GPUS)
"""The rows that only warnings need.

A server is ready without them, and may lack permission to read them.
"""
