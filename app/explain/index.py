"""Lookups over facts, each made once: who belongs to whom, what is used on a node, which topology is meant."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeVar, cast

from app.explain import joins
from app.explain.domains import Domains
from app.explain.facts import ROOM, Facts
from app.explain.facts.common import Amounts
from app.explain.facts.devices import Event
from app.explain.facts.grove import ClusterTopology, PodClique, PodGang
from app.explain.facts.kai import KaiPodGroup, KaiTopology, Queue
from app.explain.facts.nodes import Node
from app.explain.facts.pods import Pod
from app.explain.groups import Change, Groups, Join, change
from app.explain.joins import Key, Named
from app.explain.words import gpus_of
from app.rules.topology.levels import Level

DEFAULT_TOPOLOGY = "grove-topology"

N = TypeVar("N", bound=Named)
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Topology:
    """The topology that a gang is placed by: what Grove has and what KAI has, each None if it does not exist."""

    cluster: ClusterTopology | None
    kai: KaiTopology | None

    @property
    def levels(self) -> tuple[Level, ...]:
        """KAI's levels, because KAI places by them, named as Grove names them; Grove's if KAI has none."""
        if self.kai is None:
            return self.cluster.levels if self.cluster else ()
        named = {level.key: level.domain for level in (self.cluster.levels if self.cluster else ())}
        named |= {key: alias for alias, key in self.kai.aliases.items() if key not in named}
        return tuple(Level(named.get(key, key.rpartition("/")[2]), key) for key in self.kai.keys)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(level.key for level in self.levels)

    def name_of(self, key: str) -> str:
        """The level of a node label, the label itself if no level has it."""
        names = [level.domain for level in self.levels if level.key == key]
        if not names and self.cluster is not None:
            names = [level.domain for level in self.cluster.levels if level.key == key]
        return names[0] if names else key


def _by_key(of: Callable[[Facts], Iterable[N]]) -> cached_property[Mapping[Key, N]]:
    """A property of Index: facts of one kind by (namespace, name)."""
    return cached_property(lambda index: {joins.key_of(obj): obj for obj in of(index.facts)})


class Index:
    """Lookups over one `Facts`, each made when it is first needed.

    With the index of `earlier` facts of the same cluster, lookups are taken over from it if what they are made of is
    the same, and groups are put right where facts have changed.
    """

    def __init__(self, facts: Facts, earlier: "Index | None" = None) -> None:
        self.facts = facts
        self._domains: dict[tuple[str, ...], Domains] = {}
        self._earlier_domains: dict[tuple[str, ...], Domains] = {}
        self._memory: dict[object, tuple[object, frozenset[str]]] = {}
        self._free: dict[tuple[object, ...], tuple[Mapping[str, Amounts], list[tuple[int, ...]]]] = {}
        self._groups: dict[Join[Any, Any], Groups[Any, Any]] = {}
        if earlier is not None:
            self._take_over(earlier)

    def remembered(self, key: object, make: Callable[[], T], of: Iterable[str] = ()) -> T:
        """What `make` gave for this key the first time: equal gangs share what is computed for them. If it depends on
        nothing but some fields of the facts, `of` names them; then it is valid until one of them changes."""
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
        same = {f.name for f in fields(Facts) if getattr(self.facts, f.name) is getattr(earlier.facts, f.name)}
        changes: dict[str, Change] = {}
        for join, groups in list(earlier._groups.items()):
            if join.field not in same and join.field not in changes:
                changes[join.field] = change(getattr(earlier.facts, join.field), getattr(self.facts, join.field))
            self._groups[join] = groups if join.field in same else groups.after(changes[join.field])
        if _seen(self.facts) == _seen(earlier.facts):
            remembered = list(earlier._memory.items())
            self._memory = {key: (value, of) for key, (value, of) in remembered if of and of <= same}
        earlier._memory = {}  # has references to `earlier`, which would be freed much later
        self._earlier_domains = {**earlier._earlier_domains, **earlier._domains}
        if "nodes" in same:
            self._domains = earlier._domains
            self._free = dict(earlier._free)
        for name, field in _LOOKUPS.items():
            if field in same and name in earlier.__dict__:
                self.__dict__[name] = earlier.__dict__[name]

    @property
    def room_is_known(self) -> bool:
        """Whether all nodes and the pods of all namespaces were read."""
        return not {"nodes", ROOM} & (self.facts.unseen.keys() | self.facts.skipped)

    # By name.

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """By name; positions in it are used by `domains` and `room`."""
        return tuple(sorted(self.facts.nodes, key=lambda node: node.name))

    @cached_property
    def node_positions(self) -> Mapping[str, int]:
        return {node.name: position for position, node in enumerate(self.nodes)}

    @cached_property
    def open_nodes(self) -> list[bool]:
        """Which nodes take pods that select nothing and tolerate nothing."""
        return [node.ready and not node.unschedulable and not node.taints for node in self.nodes]

    @cached_property
    def gpus(self) -> list[int]:
        """GPUs of each node, in thousandths."""
        kinds = {id(node.allocatable): node.allocatable for node in self.nodes}
        amounts = {kind: gpus_of(allocatable) for kind, allocatable in kinds.items()}
        return [amounts[id(node.allocatable)] for node in self.nodes]

    def allocatable(self, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        """What each node has of these resources, without any pod."""
        return self.remembered(("allocatable", names), lambda: self._allocatable(names), ["nodes"])

    def _allocatable(self, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        kinds: dict[int, tuple[int, ...]] = {}  # nodes of one kind share a map
        for node in self.nodes:
            if id(node.allocatable) not in kinds:
                kinds[id(node.allocatable)] = tuple(node.allocatable.get(name, 0) for name in names)
        return [kinds[id(node.allocatable)] for node in self.nodes]

    def free(self, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        """What each node has left of these resources."""
        return self._without("all", self.used, names)

    def soon_free(self, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        """What each node has left once the pods that are terminating are gone. KAI counts that as room."""
        return self._without("lasting", self.used_by_lasting, names)

    def _without(self, whose: str, used: Mapping[str, Amounts], names: tuple[str, ...]) -> list[tuple[int, ...]]:
        """Only nodes on which pods have changed are computed anew."""
        key = (whose, names)
        before, free = self._free.get(key, ({}, self.allocatable(names)))
        if before is not used:
            free = [
                amounts if before.get(node.name) is used.get(node.name) else _left(has, used.get(node.name, {}), names)
                for node, has, amounts in zip(self.nodes, self.allocatable(names), free, strict=True)
            ]
            self._free[key] = used, free
        return free

    @cached_property
    def free_gpus(self) -> list[int]:
        """GPUs that pods may still get on each node, in thousandths: none on nodes that take no pods."""
        used, places = self.used_gpus, zip(self.nodes, self.gpus, self.open_nodes, strict=True)
        return [max(0, has - used.get(node.name, 0)) if opened else 0 for node, has, opened in places]

    @cached_property
    def soon_free_gpus(self) -> list[int]:
        """GPUs that terminating pods have on each node with GPUs, in thousandths."""
        leaving = self.terminating_gpus
        return [leaving.get(node.name, 0) if has else 0 for node, has in zip(self.nodes, self.gpus, strict=True)]

    sets = _by_key(lambda facts: facts.sets)
    cliques = _by_key(lambda facts: facts.cliques)
    gangs = _by_key(lambda facts: facts.gangs)
    pod_groups = _by_key(lambda facts: facts.pod_groups)
    pods = _by_key(lambda facts: facts.pods)
    claims = _by_key(lambda facts: facts.claims)
    claim_templates = _by_key(lambda facts: facts.claim_templates)
    compute_domains = _by_key(lambda facts: facts.compute_domains)
    workloads = _by_key(lambda facts: facts.workloads)
    workload_groups = _by_key(lambda facts: facts.workload_groups)

    @cached_property
    def queues(self) -> Mapping[str, Queue]:
        return {queue.name: queue for queue in self.facts.queues}

    # Who belongs to whom: by labels and owner references.

    @property
    def gangs_of_set(self) -> Mapping[Key, Sequence[PodGang]]:
        return self.groups(joins.GANGS_OF_SET).by_key

    @property
    def cliques_of_set(self) -> Mapping[Key, Sequence[PodClique]]:
        return self.groups(joins.CLIQUES_OF_SET).by_key

    def pods_of_clique(self, namespace: str, name: str) -> Sequence[Pod]:
        """By the label that names the PodClique; pods without it by their owner."""
        labelled = self.groups(joins.PODS_OF_CLIQUE).by_key.get((namespace, name), ())
        clique = self.cliques.get((namespace, name))
        owned = self.groups(joins.PODS_OF_OWNER).by_key.get(clique.uid, ()) if clique is not None and clique.uid else ()
        return sorted((*labelled, *owned), key=joins.key_of) if owned else labelled

    @property
    def pods_of_group(self) -> Mapping[Key, Sequence[Pod]]:
        """By the annotation that names the KAI PodGroup."""
        return self.groups(joins.PODS_OF_GROUP).by_key

    @property
    def pods_of_claim(self) -> Mapping[Key, Sequence[Pod]]:
        return self.groups(joins.PODS_OF_CLAIM).by_key

    @cached_property
    def _group_of_owner(self) -> Mapping[str, KaiPodGroup]:
        return {uid: group for group in sorted(self.facts.pod_groups, key=joins.key_of) for uid in group.owners if uid}

    def pod_group_of(self, gang: PodGang, pods: Iterable[Pod]) -> KaiPodGroup | None:
        """The KAI PodGroup that a PodGang owns, or the one that its pods name."""
        owned = self._group_of_owner.get(gang.uid) if gang.uid else None
        named = sorted({pod.group for pod in pods if pod.group})
        return owned or next(
            (self.pod_groups[gang.namespace, n] for n in named if (gang.namespace, n) in self.pod_groups), None
        )

    @property
    def events(self) -> Mapping[str, Sequence[Event]]:
        """By the uid of their object, the latest first."""
        return self.groups(joins.EVENTS_OF_OBJECT).by_key

    # Nodes.

    @property
    def pods_on(self) -> Mapping[str, Sequence[Pod]]:
        """By node name, without those that have finished."""
        return self.groups(joins.PODS_ON_NODE).by_key

    @property
    def used(self) -> Mapping[str, Amounts]:
        """What the pods on each node ask for, by node name; finished pods ask for nothing."""
        return self.groups(joins.PODS_ON_NODE).each(joins.requests)

    @property
    def used_gpus(self) -> Mapping[str, int]:
        """GPUs that the pods on each node ask for, in thousandths, by node name."""
        return self.groups(joins.PODS_ON_NODE).each(joins.gpus)

    @property
    def terminating(self) -> Sequence[Pod]:
        """The pods on nodes that are being deleted."""
        return [pod for pods in self.groups(joins.TERMINATING_ON_NODE).by_key.values() for pod in pods]

    @property
    def used_by_lasting(self) -> Mapping[str, Amounts]:
        return self.groups(joins.PODS_ON_NODE).each(joins.requests_of_lasting) if self.terminating else self.used

    @property
    def terminating_gpus(self) -> Mapping[str, int]:
        """GPUs of pods that are being deleted, in thousandths, by node name."""
        return self.groups(joins.TERMINATING_ON_NODE).each(joins.gpus)

    def domains(self, keys: Sequence[str]) -> Domains:
        """The tree of `nodes` that these labels make."""
        key = tuple(keys)
        if key not in self._domains:
            self._domains[key] = Domains(self.nodes, key, self._earlier_domains.get(key))
        return self._domains[key]

    def topology(self, name: str = "") -> Topology:
        """The topology of this name. Without a name, the only one, or else the one that Grove has by default."""
        clusters = sorted(self.facts.topologies, key=lambda topology: (topology.kind, topology.name))
        if not name and clusters:
            names = [cluster.name for cluster in clusters]
            name = DEFAULT_TOPOLOGY if DEFAULT_TOPOLOGY in names else names[0]
        # A ClusterTopologyBinding is in force if both exist.
        cluster = next((c for c in reversed(clusters) if name in (c.name, c.kai)), None)
        kai_name = cluster.kai if cluster else name
        kais = {kai.name: kai for kai in self.facts.kai_topologies}
        return Topology(cluster, kais.get(kai_name))


def _left(has: tuple[int, ...], used: Amounts, names: tuple[str, ...]) -> tuple[int, ...]:
    return tuple([amount - used.get(name, 0) for amount, name in zip(has, names, strict=True)])


def _seen(facts: Facts) -> tuple[object, ...]:
    return facts.unseen, facts.skipped, facts.absent


_NAMED = (
    "sets",
    "cliques",
    "gangs",
    "pod_groups",
    "pods",
    "claims",
    "claim_templates",
    "compute_domains",
    "workloads",
    "workload_groups",
    "queues",
)
_LOOKUPS = {name: name for name in ("nodes", *_NAMED)} | {
    "node_positions": "nodes",
    "open_nodes": "nodes",
    "gpus": "nodes",
    "_group_of_owner": "pod_groups",
}
"""The lookups that are cached properties, and the field that each is made of."""
