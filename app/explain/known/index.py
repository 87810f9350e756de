"""Lookups over facts, each made once.

They tell who belongs to whom, what is used on a node, and which topology is meant.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property, partial
from typing import Any, TypeVar, cast

from app.explain.known import amounts
from app.explain.known.amounts import current, gpus_of, taken_gpus, with_gpus
from app.explain.known.domains import Domains
from app.explain.known.groups import Change, Groups, Join, change
from app.explain.known.levels import Topology, topology_called
from app.explain.known.podclique import PodClique
from app.explain.known.snapshot import Snapshot
from app.facts.grove.podgang import PodGang
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kubernetes.claim import ResourceClaim, ResourceSlice
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod
from app.facts.labels import NODE_POOL
from app.facts.named import Named, Namespaced
from app.facts.quantity import Amounts
from app.facts.table import CHANNELS, ROOM

Key = tuple[str, str]
"""(namespace, name)"""


def key_of(obj: Namespaced) -> Key:
    return obj.namespace, obj.name


def _key(namespace: str, name: str) -> Sequence[Key]:
    return [(namespace, name)] if name else ()


def _set_of(obj: PodGang | PodClique | Pod) -> Sequence[Key]:
    return _key(obj.namespace, obj.place.pcs)


def _node_of(pod: Pod) -> Sequence[str]:
    return [pod.node] if pod.node and not pod.finished else ()


N = TypeVar("N", bound=Namespaced)
M = TypeVar("M", bound=Named)
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def _by_key(of: Callable[[Snapshot], Iterable[N]]) -> cached_property[Mapping[Key, N]]:
    """Return a property of Index: facts of one kind by (namespace, name)."""
    return cached_property(lambda index: {key_of(obj): obj for obj in of(index.facts)})


def _by_name(of: Callable[[Snapshot], Iterable[M]]) -> cached_property[Mapping[str, M]]:
    """Likewise, by name."""
    return cached_property(lambda index: {obj.name: obj for obj in of(index.facts)})


class Index:
    """Lookups over one `Snapshot`, each made when it is first needed.

    With the index of `earlier` facts of the same cluster, lookups are taken over from it if what
    they are made of is the same, and groups are put right where facts have changed.
    """

    def __init__(self, facts: Snapshot, earlier: "Index | None" = None) -> None:
        self.facts = facts
        self._domains: dict[tuple[str, ...], Domains] = {}
        self._earlier_domains: dict[tuple[str, ...], Domains] = {}
        self._memory: dict[object, tuple[object, frozenset[str]]] = {}
        self._free: dict[
            tuple[object, ...], tuple[Mapping[str, Amounts], list[tuple[int, ...]]]
        ] = {}
        self._groups: dict[Join[Any, Any], Groups[Any, Any]] = {}
        if earlier is not None:
            self._take_over(earlier)

    def remembered(self, key: object, make: Callable[[], T], of: Iterable[str] = ()) -> T:
        """Return what `make` gave for this key the first time.

        Equal gangs share what is computed for them. If it depends on nothing but some fields of the
        facts, `of` names them; then it is valid until one of them changes.
        """
        memory = self._memory
        if key not in memory:
            memory[key] = make(), frozenset(of)
        return cast(T, memory[key][0])

    def groups(self, join: Join[K, T]) -> Groups[K, T]:
        if join not in self._groups:
            self._groups[join] = Groups(join, getattr(self.facts, join.field))
        return self._groups[join]

    def _take_over(self, earlier: "Index") -> None:
        """Everything that does not depend on a changed field, and all groups."""
        same = {
            f.name
            for f in fields(Snapshot)
            if getattr(self.facts, f.name) is getattr(earlier.facts, f.name)
        }
        if {"nodes", "slices"} <= same or amounts.have_the_same(self.nodes, earlier.nodes):
            same.add(_CAPACITY)

        changes: dict[str, Change] = {}
        for join, groups in list(earlier._groups.items()):
            if join.field not in same and join.field not in changes:
                changes[join.field] = change(
                    getattr(earlier.facts, join.field), getattr(self.facts, join.field)
                )
            self._groups[join] = groups if join.field in same else groups.after(changes[join.field])

        if all(
            getattr(self.facts, name) == getattr(earlier.facts, name)
            for name in ("unseen", "skipped", "absent")
        ):
            remembered = list(earlier._memory.items())
            self._memory = {
                key: (value, of) for key, (value, of) in remembered if of and of <= same
            }

        earlier._memory = {}  # has references to `earlier`, which would be freed much later
        self._earlier_domains = {**earlier._earlier_domains, **earlier._domains}
        if {"nodes", "slices"} <= same:
            self._domains = earlier._domains
        if _CAPACITY in same:
            self._free = dict(earlier._free)

        for name, value in list(earlier.__dict__.items()):
            if _MADE_OF.get(name, {name}) <= same:
                self.__dict__[name] = value

    @property
    def room_is_known(self) -> bool:
        """Whether all nodes and the pods of all namespaces were read.

        All that DRA has allocated must have been read too.
        """
        unread = self.facts.unseen.keys() | self.facts.skipped
        devices = {CHANNELS} if any(part.gpus for part in self.slices) else set()
        return not ({"nodes", ROOM} | devices) & unread and "slices" not in self.facts.unseen

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """By name, with the GPUs that DRA allocates.

        Positions in it are used by `domains` and `room`.
        """
        return tuple(sorted(with_gpus(self.facts.nodes, self.slices), key=lambda node: node.name))

    @cached_property
    def slices(self) -> Sequence[ResourceSlice]:
        return current(self.facts.slices)

    @cached_property
    def open_nodes(self) -> list[bool]:
        """Which nodes take pods that select nothing and tolerate nothing."""
        return [node.ready and not node.unschedulable and not node.taints for node in self.nodes]

    @cached_property
    def gpus(self) -> list[int]:
        """GPUs of each node, in thousandths."""
        return self._of_each_node(gpus_of)

    def allocatable(self, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        """Return what each node has of these resources, without any pod."""
        vectors = partial(self._of_each_node, lambda has: tuple(has.get(name, 0) for name in names))
        return self.remembered(("allocatable", names), vectors, [_CAPACITY])

    def _of_each_node(self, make: Callable[[Amounts], T]) -> list[T]:
        """Return what `make` gives for what each node has. Nodes of one kind share a map."""
        kinds = {id(node.allocatable): node.allocatable for node in self.nodes}
        made = {kind: make(allocatable) for kind, allocatable in kinds.items()}
        return [made[id(node.allocatable)] for node in self.nodes]

    def free(self, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        """Return what each node has left of these resources."""
        return self._without("all", self.used, names)

    def soon_free(self, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        """Return what each node has left once the pods that are terminating are gone.

        KAI counts that as room.
        """
        return self._without("lasting", self.used_by_lasting, names)

    def _without(
        self, whose: str, used: Mapping[str, Amounts], names: tuple[str, ...]
    ) -> list[tuple[int, ...]]:
        """Only nodes on which pods have changed are computed anew."""
        key = (whose, names)
        before, free = self._free.get(key, ({}, self.allocatable(names)))
        if before is not used:
            free = [
                (
                    kept
                    if before.get(node.name) is used.get(node.name)
                    else amounts.left(has, used.get(node.name, {}), names)
                )
                for node, has, kept in zip(self.nodes, self.allocatable(names), free, strict=True)
            ]
            self._free[key] = used, free

        return free

    @cached_property
    def free_gpus(self) -> list[int]:
        """The GPUs that pods may still get on each node, in thousandths.

        There are none on nodes that take no pods.
        """
        used = self.used_gpus
        places = zip(self.nodes, self.gpus, self.open_nodes, strict=True)
        return [
            max(0, has - used.get(node.name, 0)) if opened else 0 for node, has, opened in places
        ]

    @cached_property
    def soon_free_gpus(self) -> list[int]:
        """GPUs that terminating pods have on each node with GPUs, in thousandths."""
        claimed = taken_gpus(self._claims_of_terminating, self.slices)
        leaving = amounts.added_gpus(self.groups(Index._terminating_on).each(amounts.gpus), claimed)
        return [
            leaving.get(node.name, 0) if has else 0
            for node, has in zip(self.nodes, self.gpus, strict=True)
        ]

    # By name.

    sets = _by_key(lambda facts: facts.sets)
    cliques = _by_key(lambda facts: facts.cliques)
    gangs = _by_key(lambda facts: facts.gangs)
    gang_maps = _by_key(lambda facts: facts.gang_maps)
    pod_groups = _by_key(lambda facts: facts.pod_groups)
    pods = _by_key(lambda facts: facts.pods)
    claims = _by_key(lambda facts: facts.claims)
    claim_templates = _by_key(lambda facts: facts.claim_templates)
    compute_domains = _by_key(lambda facts: facts.compute_domains)
    volume_claims = _by_key(lambda facts: facts.volume_claims)
    workloads = _by_key(lambda facts: facts.workloads)
    workload_groups = _by_key(lambda facts: facts.workload_groups)

    device_classes = _by_name(lambda facts: facts.device_classes)
    storage_classes = _by_name(lambda facts: facts.storage_classes)
    volumes = _by_name(lambda facts: facts.volumes)
    queues = _by_name(lambda facts: facts.queues)
    priorities = _by_name(lambda facts: facts.priorities)

    # Who belongs to whom: by labels and owner references.

    gangs_of_set: Join[Key, PodGang] = Join("gangs", _set_of, key_of)
    cliques_of_set: Join[Key, PodClique] = Join("cliques", _set_of, key_of)
    pods_of_set: Join[Key, Pod] = Join("pods", _set_of, key_of)
    _pods_of_clique: Join[Key, Pod] = Join(
        "pods", lambda pod: _key(pod.namespace, pod.place.clique), key_of
    )
    _pods_of_owner: Join[str, Pod] = Join(
        "pods", lambda pod: [pod.owner] if pod.owner and not pod.place.clique else (), key_of
    )
    pods_of_group: Join[Key, Pod] = Join("pods", lambda pod: _key(pod.namespace, pod.group), key_of)
    """By the annotation that names the KAI PodGroup."""
    pods_of_claim: Join[Key, Pod] = Join(
        "pods",
        lambda pod: [(pod.namespace, claim.claim) for claim in pod.claims if claim.claim],
        key_of,
    )
    events: Join[str, Event] = Join(
        "events",
        lambda event: [event.uid] if event.uid else (),
        lambda event: (-(event.time or 0.0), event.reason, event.message),
    )
    """By the uid of their object, the latest first."""
    pods_on: Join[str, Pod] = Join("pods", _node_of, key_of)
    """By node name, without those that have finished."""
    _terminating_on: Join[str, Pod] = Join(
        "pods", lambda pod: _node_of(pod) if pod.deleting is not None else (), key_of
    )

    def pods_of_clique(self, namespace: str, name: str) -> Sequence[Pod]:
        """By the label that names the PodClique; pods without it by their owner."""
        labelled = self._pods_of_clique.get((namespace, name), ())
        clique = self.cliques.get((namespace, name))
        owned = self._pods_of_owner.get(clique.uid, ()) if clique is not None and clique.uid else ()
        return sorted((*labelled, *owned), key=key_of) if owned else labelled

    @cached_property
    def _group_of_owner(self) -> Mapping[str, KaiPodGroup]:
        return {
            uid: group
            for group in sorted(self.facts.pod_groups, key=key_of)
            for uid in group.owners
            if uid
        }

    def pod_group_of(self, gang: PodGang, pods: Iterable[Pod]) -> KaiPodGroup | None:
        """Return the KAI PodGroup that a PodGang owns, or the one that its pods name."""
        owned = self._group_of_owner.get(gang.uid) if gang.uid else None
        named = (
            self.pod_groups.get((gang.namespace, name))
            for name in sorted({pod.group for pod in pods})
        )
        return owned or next(filter(None, named), None)

    # What is taken of nodes.

    @cached_property
    def used(self) -> Mapping[str, Amounts]:
        """What the pods on each node ask for, by node name.

        GPUs that claims are allocated there are included. Finished pods ask for nothing.
        """
        return amounts.added(self.groups(Index.pods_on).each(amounts.requests), self._taken)

    @property
    def used_gpus(self) -> Mapping[str, int]:
        """GPUs that are used on each node, in thousandths, by node name."""
        return amounts.added_gpus(self.groups(Index.pods_on).each(amounts.gpus), self._taken)

    @cached_property
    def _taken(self) -> Mapping[str, Amounts]:
        return taken_gpus(self.facts.claims, self.slices)

    @property
    def _claims_of_terminating(self) -> Sequence[ResourceClaim]:
        """The claims that only terminating pods have reserved."""
        ending = {key_of(pod) for pod in self.terminating}
        claims = (claim for claim in self.facts.claims if claim.consumers)
        return [
            claim
            for claim in claims
            if all((claim.namespace, user.name) in ending for user in claim.consumers)
        ]

    @property
    def terminating(self) -> Sequence[Pod]:
        """The pods on nodes that are being deleted."""
        return [pod for pods in self._terminating_on.values() for pod in pods]

    @cached_property
    def used_by_lasting(self) -> Mapping[str, Amounts]:
        if not self.terminating:
            return self.used
        ending = {id(claim) for claim in self._claims_of_terminating}
        taken = taken_gpus(
            (claim for claim in self.facts.claims if id(claim) not in ending), self.slices
        )
        return amounts.added(self.groups(Index.pods_on).each(amounts.requests_of_lasting), taken)

    def domains(self, keys: Sequence[str]) -> Domains:
        """Return the tree of `nodes` that these labels make."""
        key = tuple(keys)
        if key not in self._domains:
            self._domains[key] = Domains(self.nodes, key, self._earlier_domains.get(key))
        return self._domains[key]

    @cached_property
    def has_pools(self) -> bool:
        """Whether some nodes are in a node pool of KAI."""
        return any(NODE_POOL in node.labels for node in self.facts.nodes)

    def domains_of_pool(self, keys: Sequence[str], pool: str) -> Domains:
        """Return the tree of the nodes of one node pool, "" for those that are in none."""

        def make() -> Domains:
            visible = [node.labels.get(NODE_POOL, "") == pool for node in self.nodes]
            return Domains(self.nodes, keys, visible=visible)

        return self.remembered(("pool", tuple(keys), pool), make, ["nodes", "slices"])

    def topology(self, name: str = "") -> Topology:
        """Return the topology of this name.

        Without a name, the only one, or else the one that Grove has by default.
        """
        return topology_called(self.facts, name)


_CAPACITY = "capacity"
"""Stands for the names of all nodes and what they have: less than the fields `nodes` and `slices`.
"""
_MADE_OF = {
    "nodes": {"nodes", "slices"},
    "open_nodes": {"nodes", "slices"},
    "has_pools": {"nodes"},
    "gpus": {_CAPACITY},
    "_group_of_owner": {"pod_groups"},
}
"""The fields that a lookup is made of, if not of the field of its name."""
