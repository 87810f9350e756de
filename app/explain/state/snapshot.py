"""Represent the facts that explain workloads: a snapshot, and lookup tables over it.

Facts are small values, independent of how they were read. Labels and owner references say which
object belongs to which.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeVar

from msgspec import field

from app.base.groups import by_key
from app.base.value import Value
from app.explain.state.lookup import Change, GroupedBy, Groups, NamedBy
from app.facts import explain_rows, kinds, rows
from app.facts.grove.podclique import PodClique, PodCliqueForm, read_pod_clique
from app.facts.grove.podcliqueset import SetWithStatus
from app.facts.grove.podgang import PodGang, PodGangMap
from app.facts.grove.topology import ClusterTopology
from app.facts.identity import Key, Ref
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kai.queue import Queue
from app.facts.kai.shard import Shard
from app.facts.kai.topology import KaiTopology
from app.facts.kubernetes.claim import ClaimTemplate, DeviceClass, ResourceClaim, ResourceSlice
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.kueue import ClusterQueue, KueueQueue, KueueWorkload
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.volume import StorageClass, Volume, VolumeClaim
from app.facts.kubernetes.workload import PriorityClass, Workload, WorkloadGroup
from app.facts.kubernetes.workload_status import WorkloadStatus, read_workload_status
from app.facts.nvidia.computedomain import ComputeDomain, DomainClique
from app.facts.rows import CHANNELS, ROOM, Row
from app.facts.workload_of_pod import WORKLOAD_KINDS
from app.objects.resource import EVENT, Resource
from app.objects.shape import JsonMap, map_at, text_at

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
key_of = attrgetter("key")
name_of = attrgetter("name")


class Snapshot(Value):
    """Everything that was read: one tuple of facts per kind, in any order.

    `unseen`, `skipped` and `absent` name kinds by their fields here, such as `pods`. They may also
    name `ROOM` (the pods of all namespaces) and `CHANNELS` (the ResourceClaims of all namespaces).
    """

    topologies: tuple[ClusterTopology, ...] = ()
    kai_topologies: tuple[KaiTopology, ...] = ()
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    sets: tuple[SetWithStatus, ...] = ()
    cliques: tuple[PodClique, ...] = ()
    gangs: tuple[PodGang, ...] = ()
    gang_maps: tuple[PodGangMap, ...] = ()
    pod_groups: tuple[KaiPodGroup, ...] = ()
    queues: tuple[Queue, ...] = ()
    shards: tuple[Shard, ...] = ()
    priorities: tuple[PriorityClass, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    claim_templates: tuple[ClaimTemplate, ...] = ()
    device_classes: tuple[DeviceClass, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    compute_domains: tuple[ComputeDomain, ...] = ()
    domain_cliques: tuple[DomainClique, ...] = ()
    workloads: tuple[Workload, ...] = ()
    workload_groups: tuple[WorkloadGroup, ...] = ()
    kueue_workloads: tuple[KueueWorkload, ...] = ()
    kueue_queues: tuple[KueueQueue, ...] = ()
    cluster_queues: tuple[ClusterQueue, ...] = ()
    volume_claims: tuple[VolumeClaim, ...] = ()
    volumes: tuple[Volume, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    workload_statuses: tuple[WorkloadStatus, ...] = ()
    """The status of the workload that was asked about, or of each workload in files."""
    events: tuple[Event, ...] = ()
    unseen: Mapping[str, str] = field(default_factory=dict)
    """The kinds that could not be read in full, with the cause. Their known objects are kept."""
    skipped: frozenset[str] = frozenset()
    """The kinds that were not requested, or that the files do not contain."""
    absent: frozenset[str] = frozenset()
    """The kinds that the cluster does not serve."""
    now: float = 0.0
    """The time of the facts, in seconds since 1970, or 0 if it is not known."""

    @property
    def unread(self) -> Set[str]:
        """The kinds of which not all objects are known: `unseen` and `skipped` together."""
        return self.unseen.keys() | self.skipped

    # asyncio.run computes the repr of its result, which would be as large as the cluster.
    __repr__ = object.__repr__


def _key(namespace: str, name: str) -> Sequence[Key]:
    return [(namespace, name)] if name else ()


def _class_of_free(volume: Volume) -> set[str]:
    return {volume.storage_class} if volume.phase == "Available" else set()


def _set_of(obj: PodGang | PodClique | Pod) -> Sequence[Key]:
    return _key(obj.namespace, obj.place.pcs)


def _made_for(workload: KueueWorkload) -> Sequence[Key]:
    """Return the key of the object that a Workload of Kueue was created for.

    The object's name is taken from the Workload's own, which is KIND-NAME-HASH.
    """
    return _key(workload.namespace, workload.name.partition("-")[2].rpartition("-")[0])


def _node_of(pod: Pod) -> Sequence[str]:
    return [pod.node] if pod.node and not pod.finished else ()


PODS_ON = GroupedBy[str, Pod]("pods", _node_of, key_of)
PODS_OF_GROUP = GroupedBy[Key, Pod]("pods", lambda pod: _key(pod.namespace, pod.group), key_of)


class Belongings:
    """Lookup tables over a `Snapshot`, each created on first use."""

    def __init__(self, facts: Snapshot) -> None:
        self.facts = facts
        self._lookups: dict[Any, Any] = {}

    def lookup(self, by: GroupedBy[K, T]) -> Groups[K, T]:
        """Return the table that `by` declares. `update_lookups` keeps the table up to date."""
        if by not in self._lookups:
            self._lookups[by] = by.over(getattr(self.facts, by.field))
        lookup: Groups[K, T] = self._lookups[by]
        return lookup

    def update_lookups(self, changes: Mapping[str, Change]) -> None:
        """Update the tables of the changed fields of the snapshot."""
        for by, lookup in self._lookups.items():
            if by.field in changes:
                lookup.follow(changes[by.field])

    # Objects by name.

    sets = NamedBy[Key, SetWithStatus](key_of)
    cliques = NamedBy[Key, PodClique](key_of)
    gangs = NamedBy[Key, PodGang](key_of)
    gang_maps = NamedBy[Key, PodGangMap](key_of)
    pod_groups = NamedBy[Key, KaiPodGroup](key_of)
    pods = NamedBy[Key, Pod](key_of)
    claims = NamedBy[Key, ResourceClaim](key_of)
    claim_templates = NamedBy[Key, ClaimTemplate](key_of)
    compute_domains = NamedBy[Key, ComputeDomain](key_of)
    volume_claims = NamedBy[Key, VolumeClaim](key_of)
    workloads = NamedBy[Key, Workload](key_of)
    kueue_workloads = NamedBy[Key, KueueWorkload](key_of)
    kueue_queues = NamedBy[Key, KueueQueue](key_of)
    workload_groups = NamedBy[Key, WorkloadGroup](key_of)

    workload_statuses = NamedBy[Ref, WorkloadStatus](attrgetter("ref"))

    device_classes = NamedBy[str, DeviceClass](name_of)
    volumes = NamedBy[str, Volume](name_of)
    storage_classes = NamedBy[str, StorageClass](name_of)
    queues = NamedBy[str, Queue](name_of)
    cluster_queues = NamedBy[str, ClusterQueue](name_of)
    priorities = NamedBy[str, PriorityClass](name_of)

    # Objects by the object that they belong to.

    free_volumes = GroupedBy[str, Volume]("volumes", _class_of_free, name_of)
    """The available PersistentVolumes by their StorageClass."""
    gangs_of_set = GroupedBy[Key, PodGang]("gangs", _set_of, key_of)
    gangs_of_part = GroupedBy[Key, PodGang](
        "gangs", lambda gang: {(gang.namespace, part.name) for part in gang.parts}, key_of
    )
    """The PodGangs by the PodCliques that their podgroups name."""
    cliques_of_set = GroupedBy[Key, PodClique]("cliques", _set_of, key_of)
    pods_of_set = GroupedBy[Key, Pod]("pods", _set_of, key_of)
    _pods_of_clique = GroupedBy[Key, Pod](
        "pods", lambda pod: _key(pod.namespace, pod.place.clique), key_of
    )
    _pods_of_owner = GroupedBy[Key, Pod](
        "pods",
        lambda pod: _key(pod.namespace, "" if pod.place.clique else pod.owner),
        key_of,
    )
    pods_of_group = PODS_OF_GROUP
    """The pods by the annotation that names their KAI PodGroup."""
    pods_made_for = GroupedBy[Ref, Pod]("pods", lambda pod: pod.made_for, key_of)
    """The pods by the workloads that they were created for."""
    pods_of_claim = GroupedBy[Key, Pod](
        "pods",
        lambda pod: [(pod.namespace, claim.claim) for claim in pod.claims if claim.claim],
        key_of,
    )
    domains_of_uid = GroupedBy[Key, ComputeDomain](
        "compute_domains", lambda domain: _key(domain.namespace, domain.uid), key_of
    )
    domains_of_template = GroupedBy[Key, ComputeDomain](
        "compute_domains", lambda domain: _key(domain.namespace, domain.template), key_of
    )
    """The ComputeDomains by the ResourceClaimTemplate that their pods name."""
    cliques_of_domain = GroupedBy[str, DomainClique](
        "domain_cliques", lambda clique: [clique.name.partition(".")[0]], key_of
    )
    """The ComputeDomainCliques by the uid of their ComputeDomain, with which their names begin."""
    daemons_of_domain = GroupedBy[str, Pod](
        "pods", lambda pod: [pod.daemon_of] if pod.daemon_of else (), key_of
    )
    """The daemon pods by the uid of their ComputeDomain."""
    kueue_of_owner = GroupedBy[Key, KueueWorkload](
        "kueue_workloads",
        lambda workload: [(workload.namespace, uid) for uid in workload.owners if uid],
        key_of,
    )
    """Kueue's Workloads by the namespace and uid of their owner."""
    kueue_of_controller = GroupedBy[Ref, KueueWorkload](
        "kueue_workloads",
        lambda workload: [workload.controller] if workload.controller else (),
        key_of,
    )
    """Kueue's Workloads by the workload that they were created for."""
    kueue_of_name = GroupedBy[Key, KueueWorkload]("kueue_workloads", _made_for, key_of)
    """Kueue's Workloads by the key of the object that they were created for, by their own names."""
    events = GroupedBy[Key, Event](
        "events",
        lambda event: _key(event.namespace or event.about.namespace, event.uid),
        lambda event: (-(event.time or 0.0), event.reason, event.message),
    )
    """The events by their namespace and the uid of their object, newest first.

    An event without a namespace has the namespace of its object.
    """
    pods_on = PODS_ON
    """The pods by node name, without finished pods."""
    _terminating_on = GroupedBy[str, Pod](
        "pods", lambda pod: _node_of(pod) if pod.deleting is not None else (), key_of
    )

    _sharing_on = GroupedBy[str, Pod](
        "pods",
        lambda pod: _node_of(pod) if pod.gpu_groups and pod.shape.part else (),
        key_of,
    )

    def events_about(self, namespace: str, uid: str) -> Sequence[Event]:
        """Return the events about an object, newest first.

        Events of other namespaces are left out, even if they have its uid. Events about
        cluster-scoped objects are in the namespace default. In files, neither such an event nor its
        object may have a namespace. These events count only if there are no others.
        """
        return self.events.get((namespace or "default", uid)) or self.events.get(("", uid), ())

    def pods_of_clique(self, namespace: str, name: str) -> Sequence[Pod]:
        """Return the pods whose label names the PodClique, and unlabelled pods that it owns."""
        labelled = self._pods_of_clique.get((namespace, name), ())
        clique = self.cliques.get((namespace, name))
        owned = self._pods_of_owner.get((namespace, clique.uid), ()) if clique else ()
        return sorted((*labelled, *owned), key=key_of) if owned else labelled

    def map_of(self, gang: PodGang) -> PodGangMap | None:
        """Return the PodGangMap of a PodGang's replica, or None if there is none."""
        place = gang.place
        return self.gang_maps.get((gang.namespace, f"{place.pcs}-{place.replica}"))

    def workload_of(self, pod: Pod) -> Key:
        """Return the key of the Workload that a pod or its Kubernetes PodGroup names.

        If neither names one, the name in the key is "".
        """
        group = self.workload_groups.get((pod.namespace, pod.workload_group))
        return pod.namespace, pod.workload or (group.workload if group else "")

    @cached_property
    def _group_of_owner(self) -> Mapping[Key, KaiPodGroup]:
        """The KAI PodGroups by the namespace and uid of their owners."""
        return {
            (group.namespace, uid): group
            for group in sorted(self.facts.pod_groups, key=key_of)
            for uid in group.owners
            if uid
        }

    def pod_group_of(self, gang: PodGang, pods: Iterable[Pod]) -> KaiPodGroup | None:
        """Return the KAI PodGroup that a PodGang owns, or else one that `pods` name, or None."""
        owned = self._group_of_owner.get((gang.namespace, gang.uid))
        named = (
            self.pod_groups.get((gang.namespace, name))
            for name in sorted({pod.group for pod in pods})
        )
        return owned or next(filter(None, named), None)


CLIQUES: Row[PodClique] = Row(
    kinds.POD_CLIQUE, read_pod_clique, name="cliques", title="PodCliques", form=PodCliqueForm
)

_ROWS: tuple[Row[Any], ...] = (
    rows.TOPOLOGIES,
    rows.BINDINGS,
    rows.KAI_TOPOLOGIES,
    explain_rows.WIDE_NODES,
    explain_rows.PODS,
    explain_rows.WIDE_SETS,
    CLIQUES,
    explain_rows.WIDE_GANGS,
    explain_rows.GANG_MAPS,
    explain_rows.KAI_POD_GROUPS,
    explain_rows.QUEUES,
    explain_rows.SHARDS,
    explain_rows.PRIORITIES,
    explain_rows.WIDE_CLAIMS,
    explain_rows.CLAIM_TEMPLATES,
    explain_rows.SLICES,
    explain_rows.WIDE_DEVICE_CLASSES,
    explain_rows.WIDE_DOMAINS,
    explain_rows.DOMAIN_CLIQUES,
    explain_rows.WORKLOAD_NAMES,
    explain_rows.WORKLOAD_GROUPS,
    explain_rows.KUEUE_WORKLOADS,
    explain_rows.KUEUE_QUEUES,
    explain_rows.CLUSTER_QUEUES,
    explain_rows.VOLUME_CLAIMS,
    explain_rows.VOLUMES,
    explain_rows.STORAGE_CLASSES,
    explain_rows.EVENTS,
)

_STATUS_ROWS: Mapping[Resource, Row[Any]] = {
    resource: Row(
        resource, read_workload_status, name="workload_statuses", title="the status of the workload"
    )
    for resource in WORKLOAD_KINDS
}

BY_RESOURCE: Mapping[Resource, Row[Any]] = {row.resource: row for row in _ROWS}
"""The rows of the resources that are read to explain a workload."""

ON_REQUEST: Mapping[Resource, Row[Any]] = {**BY_RESOURCE, **_STATUS_ROWS}
"""`BY_RESOURCE`, and workloads such as Jobs, of which only the object asked about is read."""

TITLES: Mapping[str, str] = {
    **{row.name: row.title for row in (*_ROWS, *_STATUS_ROWS.values())},
    ROOM: "pods of all namespaces",
    CHANNELS: "ResourceClaims of all namespaces",
}
"""The name of each kind in messages, by its field in `Snapshot`."""

RESOURCES: tuple[Resource, ...] = (*BY_RESOURCE, kinds.POD_CLIQUE_SCALING_GROUP)
"""The resources of `BY_RESOURCE`, and scaling groups, which are found by labels of PodCliques."""

OF_KIND: Mapping[str, Resource] = {
    resource.kind: resource for resource in reversed((*RESOURCES, *WORKLOAD_KINDS))
}
"""The resources that explanations know, by kind.

PodGroup means KAI's, not Kubernetes' own. Workload means Kubernetes' own, not Kueue's.
"""

_BY_KIND = {(resource.group, resource.kind): row for resource, row in ON_REQUEST.items()}
_BY_KIND["", EVENT.kind] = BY_RESOURCE[EVENT]


def projected(objects: Iterable[JsonMap]) -> dict[str, list[Any]]:
    """Return the facts of objects, by their field in `Snapshot`.

    Objects of other kinds are skipped. A namespaced object without a namespace, such as a manifest
    that is not applied yet, is in `default`, except for an event. If an object occurs more than
    once, for example in two dumps, the last one counts.
    """
    latest: dict[Hashable, tuple[str, Any]] = {}
    for position, obj in enumerate(objects):
        group = str(obj.get("apiVersion", "")).rpartition("/")[0]
        kind = str(obj.get("kind", ""))
        row = _BY_KIND.get((group, kind))
        if row:
            metadata = map_at(obj, "metadata")
            namespace = text_at(metadata, "namespace")
            # `Index.events_about` finds events without a namespace.
            if row.resource.namespaced and not namespace and kind != EVENT.kind:
                namespace = "default"
                obj = {**obj, "metadata": {**metadata, "namespace": namespace}}
            name = text_at(metadata, "name") or position
            # Kinds may share a row: a RayJob and the Job that submits it even share a name.
            key = (row.name, kind, namespace, name)
            latest[key] = (row.name, row.read(obj))

    return by_key(latest.values())
