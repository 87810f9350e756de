"""Joins over facts, each made once: who belongs to whom, what is used on a node, which topology is meant."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar, cast

from app.explain.domains import Domains
from app.explain.facts import ROOM, Facts
from app.explain.facts.common import Amounts
from app.explain.facts.devices import Event
from app.explain.facts.grove import ClusterTopology, PodClique, PodGang
from app.explain.facts.kai import KaiPodGroup, KaiTopology, Queue
from app.explain.facts.nodes import Node
from app.explain.facts.pods import Pod
from app.explain.words import gpus_of
from app.rules.topology.levels import Level

DEFAULT_TOPOLOGY = "grove-topology"


class Named(Protocol):
    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)
T = TypeVar("T")
Key = tuple[str, str]


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
    return cached_property(lambda index: {_key(obj): obj for obj in of(index.facts)})


class Index:
    """Lookups over one `Facts`. Building it takes time that is linear in the facts; every join is made when it is
    first needed."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._domains: dict[tuple[str, ...], Domains] = {}
        self._memory: dict[object, object] = {}

    def remembered(self, key: object, make: Callable[[], T]) -> T:
        """What `make` gave for this key the first time: equal gangs share what is computed for them."""
        if key not in self._memory:
            self._memory[key] = make()
        return cast(T, self._memory[key])

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

    def allocatable(self, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        """What each node has of these resources, without any pod."""
        return self.remembered(("allocatable", names), lambda: self._allocatable(names))

    def _allocatable(self, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        kinds: dict[int, tuple[int, ...]] = {}  # nodes of one kind share a map
        for node in self.nodes:
            if id(node.allocatable) not in kinds:
                kinds[id(node.allocatable)] = tuple(node.allocatable.get(name, 0) for name in names)
        return [kinds[id(node.allocatable)] for node in self.nodes]

    def free(self, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        """What each node has left of these resources."""
        return self.remembered(("free", names), lambda: self._without(self.used, names))

    def soon_free(self, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        """What each node has left once the pods that are terminating are gone. KAI counts that as room."""
        return self.remembered(("soon", names), lambda: self._without(self.used_by_lasting, names))

    def _without(self, used: Mapping[str, Amounts], names: tuple[str, ...]) -> list[tuple[int, ...]]:
        free = []
        for node, amounts in zip(self.nodes, self.allocatable(names), strict=True):
            taken = used.get(node.name)
            if taken:
                amounts = tuple([have - taken.get(name, 0) for have, name in zip(amounts, names, strict=True)])
            free.append(amounts)
        return free

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

    @cached_property
    def gangs_of_set(self) -> Mapping[Key, Sequence[PodGang]]:
        return _grouped((gang.namespace, gang.place.pcs, gang) for gang in self.facts.gangs)

    @cached_property
    def cliques_of_set(self) -> Mapping[Key, Sequence[PodClique]]:
        return _grouped((clique.namespace, clique.place.pcs, clique) for clique in self.facts.cliques)

    @cached_property
    def pods_of_clique(self) -> Mapping[Key, Sequence[Pod]]:
        names = {clique.uid: clique.name for clique in self.facts.cliques if clique.uid}
        return _grouped((pod.namespace, pod.place.clique or names.get(pod.owner, ""), pod) for pod in self.facts.pods)

    @cached_property
    def pods_of_group(self) -> Mapping[Key, Sequence[Pod]]:
        """By the annotation that names the KAI PodGroup."""
        return _grouped((pod.namespace, pod.group, pod) for pod in self.facts.pods)

    @cached_property
    def pods_of_claim(self) -> Mapping[Key, Sequence[Pod]]:
        return _grouped((pod.namespace, claim.claim, pod) for pod in self.facts.pods for claim in pod.claims)

    @cached_property
    def _group_of_owner(self) -> Mapping[str, KaiPodGroup]:
        return {uid: group for group in sorted(self.facts.pod_groups, key=_key) for uid in group.owners if uid}

    def pod_group_of(self, gang: PodGang, pods: Iterable[Pod]) -> KaiPodGroup | None:
        """The KAI PodGroup that a PodGang owns, or the one that its pods name."""
        owned = self._group_of_owner.get(gang.uid) if gang.uid else None
        named = sorted({pod.group for pod in pods if pod.group})
        return owned or next(
            (self.pod_groups[gang.namespace, n] for n in named if (gang.namespace, n) in self.pod_groups), None
        )

    @cached_property
    def events(self) -> Mapping[str, Sequence[Event]]:
        """By the uid of their object, the latest first."""
        grouped: dict[str, list[Event]] = defaultdict(list)
        for event in sorted(self.facts.events, key=lambda event: (-(event.time or 0.0), event.reason, event.message)):
            if event.uid:
                grouped[event.uid].append(event)
        return grouped

    # Nodes.

    @cached_property
    def used(self) -> Mapping[str, Amounts]:
        """What the pods on each node ask for, by node name; finished pods ask for nothing."""
        return _used(self.facts.pods)

    @cached_property
    def terminating(self) -> Sequence[Pod]:
        """The pods on nodes that are being deleted."""
        return [pod for pod in self.facts.pods if pod.deleting is not None and pod.node and not pod.finished]

    @cached_property
    def used_by_lasting(self) -> Mapping[str, Amounts]:
        return _used(pod for pod in self.facts.pods if pod.deleting is None) if self.terminating else self.used

    @cached_property
    def terminating_gpus(self) -> Mapping[str, int]:
        """GPUs of pods that are being deleted, in thousandths, by node name."""
        return {node: gpus_of(amounts) for node, amounts in _used(self.terminating).items()}

    @cached_property
    def pods_on(self) -> Mapping[str, Sequence[Pod]]:
        grouped: dict[str, list[Pod]] = defaultdict(list)
        for pod in self.facts.pods:
            if pod.node and not pod.finished:
                grouped[pod.node].append(pod)
        return {node: sorted(pods, key=_key) for node, pods in grouped.items()}

    def domains(self, keys: Sequence[str]) -> Domains:
        """The tree of `nodes` that these labels make."""
        key = tuple(keys)
        if key not in self._domains:
            self._domains[key] = Domains(self.nodes, key)
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


def _used(pods: Iterable[Pod]) -> dict[str, dict[str, int]]:
    total: dict[str, dict[str, int]] = {}
    for pod in pods:
        if pod.node and not pod.finished:
            amounts = total.setdefault(pod.node, {})
            for name, amount in pod.shape.requests:
                amounts[name] = amounts.get(name, 0) + amount
    return total


def _key(obj: Named) -> Key:
    return obj.namespace, obj.name


def _grouped(named: Iterable[tuple[str, str, N]]) -> dict[Key, list[N]]:
    """Objects by (namespace, name of what they belong to), each list by name; "" belongs to nothing."""
    grouped: dict[Key, list[N]] = defaultdict(list)
    for namespace, name, obj in named:
        if name:
            grouped[namespace, name].append(obj)
    for objects in grouped.values():
        objects.sort(key=_key)
    return dict(grouped)
