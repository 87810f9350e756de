"""What facts tell, each computed once: what is used on a node, and which topology is meant."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import TypeVar, cast

from app.explain.known import amounts
from app.explain.known.amounts import ByNode, current, is_gpu, taken_gpus, with_gpus
from app.explain.known.domains import Domains
from app.explain.known.lookup import change
from app.explain.known.sharing import Shares, shares_of
from app.explain.known.snapshot import PODS_ON, Belongings, Snapshot
from app.facts.kubernetes.claim import ResourceSlice
from app.facts.kubernetes.gpus import GPU
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod
from app.facts.labels import MIG_STRATEGY, NODE_POOL
from app.facts.quantity import Amounts
from app.facts.table import CHANNELS, ROOM

T = TypeVar("T")
STUCK_SECONDS = 120
"""How long KAI counts on the room of a pod that should have ended."""

_Kind = tuple[str, tuple[str, ...]]
"""Whose use counts, and which resources."""
_Free = tuple[list[Amounts], list[tuple[int, ...]], list[tuple[int, ...]]]
"""What is used on each node, what it has, and what is left there."""


class Index(Belongings):
    """The objects of a `Snapshot`, what is used on each node, and the trees of nodes.

    An index can follow the cluster: then what has not changed is not made again.
    """

    def __init__(self, facts: Snapshot) -> None:
        super().__init__(facts)
        self._domains: dict[tuple[tuple[str, ...], str | None], Domains] = {}
        self._free: dict[_Kind, _Free] = {}
        self._was_free: dict[_Kind, _Free] = {}
        self._memory: dict[object, tuple[object, frozenset[str]]] = {}
        self._take_nodes()

    def remembered(self, key: object, make: Callable[[], T], of: Iterable[str] = ()) -> T:
        """Return what `make` gave for this key the first time.

        Equal gangs share what is computed for them. If it depends on nothing but some fields of the
        facts, `of` names them; then it is valid until one of them changes.
        """
        memory = self._memory
        if key not in memory:
            memory[key] = make(), frozenset(of)
        return cast(T, memory[key][0])

    def follow(self, facts: Snapshot) -> None:
        """Become the index of other facts of the same cluster, earlier or later ones."""
        before = self.facts
        self.facts = facts
        changes = {
            name: change(getattr(before, name), getattr(facts, name))
            for name in _KINDS
            if getattr(before, name) is not getattr(facts, name)
        }
        self.follow_changes(changes)

        limits = {name for name in _LIMITS if getattr(before, name) != getattr(facts, name)}
        changed = {*changes, *limits}
        if _OF_NODES & changed:
            nodes = self.nodes
            self._take_nodes()
            if not _have_the_same(nodes, self.nodes):
                changed.add(_CAPACITY)
        self._forget(changed)

    def _take_nodes(self) -> None:
        self.slices: Sequence[ResourceSlice] = current(self.facts.slices)
        """Those of nodes that are in force."""
        nodes = with_gpus(self.facts.nodes, self.slices)
        self.nodes: tuple[Node, ...] = tuple(sorted(nodes, key=attrgetter("name")))
        """By name, with the GPUs that DRA allocates.

        Positions in it are used by `domains` and `room`.
        """

    def _forget(self, changed: set[str]) -> None:
        """Forget what was made of something that has changed."""
        for name, of in MADE_OF.items():
            if of & changed:
                self.__dict__.pop(name, None)

        if _OF_ROOM & changed:
            self._was_free |= self._free
            self._free = {}

        limited = bool(_LIMITS & changed)
        self._memory = {
            key: (value, of)
            for key, (value, of) in self._memory.items()
            if of and not limited and not of & changed
        }

    @property
    def room_is_known(self) -> bool:
        """Whether all nodes and the pods of all namespaces were read.

        All that DRA has allocated must have been read too.
        """
        unread = self.facts.unseen.keys() | self.facts.skipped
        devices = {CHANNELS} if any(part.gpus for part in self.slices) else set()
        return not ({"nodes", ROOM} | devices) & unread and "slices" not in self.facts.unseen

    @cached_property
    def has_constraints(self) -> bool:
        """Whether any PodGroup names a topology."""
        return any(
            group.topology or any(part.topology for part in group.subgroups)
            for group in self.facts.pod_groups
        )

    @cached_property
    def open_nodes(self) -> list[bool]:
        """Which nodes take pods that select nothing and tolerate nothing."""
        return [node.takes_pods and not node.taints for node in self.nodes]

    @cached_property
    def open_for_gpus(self) -> list[bool]:
        """Which nodes take pods that ask for GPUs.

        A taint that is named after them keeps others away: ExtendedResourceToleration, an admission
        plugin of Kubernetes, has these pods tolerate it.
        """
        return [node.takes_pods and all(t.key == GPU for t in node.taints) for node in self.nodes]

    @cached_property
    def dead_nodes(self) -> set[str]:
        """The names of the nodes that are not ready: their pods don't end by themselves."""
        return {node.name for node in self.nodes if not node.ready}

    @cached_property
    def gpu_names(self) -> tuple[str, ...]:
        """What GPUs are called as resources of nodes: by device plugins, and by drivers of DRA."""
        kinds = {id(node.allocatable): node.allocatable for node in self.nodes}
        names = {name for allocatable in kinds.values() for name in allocatable}
        return tuple(sorted(filter(is_gpu, names)))

    @cached_property
    def gpus(self) -> list[int]:
        """GPUs of each node, in thousandths."""
        return list(map(sum, self.allocatable(self.gpu_names)))

    @cached_property
    def left_gpus(self) -> list[int]:
        """GPUs of each node that no pod has, in thousandths."""
        return [max(0, sum(free)) for free in self.free(self.gpu_names)]

    def allocatable(self, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        """Return what each node has of these resources, without any pod."""

        def vectors() -> list[tuple[int, ...]]:
            # nodes of one kind share a map
            kinds = {id(node.allocatable): node.allocatable for node in self.nodes}
            made = {kind: tuple(has.get(name, 0) for name in names) for kind, has in kinds.items()}
            return [made[id(node.allocatable)] for node in self.nodes]

        return self.remembered(("allocatable", names), vectors, [_CAPACITY])

    def free(self, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        """Return what each node has left of these resources."""
        return self._without("all", self.used, names)

    def soon_free(self, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        """Return what each node has left once the pods that are terminating are gone.

        KAI counts that as room.
        """
        if not self.terminating:
            return self.free(names)
        return self._without("lasting", self.used_by_lasting, names)

    def _without(self, whose: str, used: ByNode, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        """Return what each node has left, computed anew where it or its pods have changed."""
        kind = (whose, names)
        if kind not in self._free:
            has = self.allocatable(names)
            taken = [used.get(node.name, _NOTHING) for node in self.nodes]
            earlier = self._was_free.get(kind)
            if earlier is None or len(earlier[0]) != len(has):
                earlier = [_NOTHING] * len(has), has, has
            places = zip(*earlier, taken, has, strict=True)
            free = [
                kept if was is now and had == have else amounts.left(have, now, names)
                for was, had, kept, now, have in places
            ]
            self._free[kind] = taken, has, free

        return self._free[kind][2]

    @cached_property
    def free_gpus(self) -> list[int]:
        """The GPUs that pods may still get on each node, in thousandths.

        There are none on nodes that take no pods.
        """
        places = zip(self.left_gpus, self.open_for_gpus, strict=True)
        return [left if opened else 0 for left, opened in places]

    @cached_property
    def soon_free_gpus(self) -> list[int]:
        """GPUs that terminating pods have on each node, in thousandths."""
        if not self.terminating:
            return [0] * len(self.nodes)
        names = self.gpu_names
        places = zip(self.soon_free(names), self.free(names), strict=True)
        return [sum(soon) - sum(now) for soon, now in places]

    # What is taken of nodes.

    @cached_property
    def used(self) -> ByNode:
        """What the pods on each node take, by node name.

        GPUs that claims are allocated there are included. Finished pods take nothing.
        """
        return amounts.added(self.lookup(PODS_ON).each(amounts.taken), self._taken)

    @cached_property
    def _taken(self) -> ByNode:
        return taken_gpus(self.facts.claims, self.slices)

    @property
    def terminating(self) -> Sequence[Pod]:
        """The pods on nodes that are being deleted, and whose room KAI counts on."""
        pods = (pod for pods in self._terminating_on.values() for pod in pods)
        return [pod for pod in pods if self.is_releasing(pod)]

    def is_releasing(self, pod: Pod) -> bool:
        """Return whether KAI expects a pod to end and to leave its room.

        It gives up two minutes after a running pod should have ended (`getTaskStatus` in
        `pkg/scheduler/api/pod_info/pod_info.go`, StuckInReleasing).
        """
        if pod.deleting is None:
            return False
        now = self.facts.now
        return not (pod.phase == "Running" and now and now - pod.deleting > STUCK_SECONDS)

    @cached_property
    def used_by_lasting(self) -> ByNode:
        """Likewise, without what only terminating pods take or have reserved."""
        leaving = self.terminating
        ending = {pod.key for pod in leaving}
        lasting = (
            claim
            for claim in self.facts.claims
            if not claim.consumers
            or any((claim.namespace, user.name) not in ending for user in claim.consumers)
        )
        taken = dict(self.lookup(PODS_ON).each(amounts.taken))
        for name in {pod.node for pod in leaving}:
            pods = self.pods_on.get(name, ())
            taken[name] = amounts.taken(pod for pod in pods if not self.is_releasing(pod))
        return amounts.added(taken, taken_gpus(lasting, self.slices))

    @cached_property
    def shares(self) -> Mapping[int, Shares]:
        """The shared GPUs of the nodes that have any, by the position of the node."""
        return {
            position: shares_of(node, pods, self.is_releasing)
            for position, node in enumerate(self.nodes)
            if (pods := self._sharing_on.get(node.name, ()))
        }

    def coming(self, names: tuple[str, ...]) -> Mapping[int, tuple[int, ...]]:
        """Return what terminating pods leave on nodes, by the position of the node."""
        if not self.terminating:
            return {}
        pairs = enumerate(zip(self.soon_free(names), self.free(names), strict=True))
        return {
            position: tuple([then - now for then, now in zip(soon, free, strict=True)])
            for position, (soon, free) in pairs
            if soon != free
        }

    def domains(self, keys: Sequence[str], pool: str | None = None) -> Domains:
        """Return the tree of `nodes` that these labels make.

        Only of the nodes in a node pool if one is given, "" for those that are in none.
        """
        key = (tuple(keys), pool)
        known = self._domains.get(key)
        if not known or not known.follow(self.nodes):
            known = self._domains[key] = Domains(self.nodes, keys, pool)
        return known

    @cached_property
    def has_mig(self) -> bool:
        """Whether some nodes have MIG devices, or a strategy for them."""
        kinds = {id(node.allocatable): node.allocatable for node in self.nodes}
        names = {name for allocatable in kinds.values() for name in allocatable}
        has_devices = any("/mig-" in name for name in names)
        return has_devices or any(MIG_STRATEGY in node.labels for node in self.nodes)

    @cached_property
    def has_pools(self) -> bool:
        """Whether some nodes are in a node pool of KAI."""
        return any(NODE_POOL in node.labels for node in self.facts.nodes)


_EMPTY = Snapshot()
_KINDS = [name for name in Snapshot.__struct_fields__ if isinstance(getattr(_EMPTY, name), tuple)]
_LIMITS = {"unseen", "skipped", "absent"}
"""The fields that say what is not known."""
_CAPACITY = "capacity"
"""Stands for the names of all nodes and what they have, which a cordon does not change."""
_NOTHING: Amounts = {}

_OF_NODES = {"nodes", "slices"}
_OF_USE = {"pods", "claims", "slices"}
_OF_ROOM = {_CAPACITY, *_OF_USE}
MADE_OF = {
    "has_constraints": {"pod_groups"},
    "open_nodes": _OF_NODES,
    "open_for_gpus": _OF_NODES,
    "has_pools": {"nodes"},
    "has_mig": _OF_NODES,
    "dead_nodes": {"nodes"},
    "gpu_names": {_CAPACITY},
    "gpus": {_CAPACITY},
    "left_gpus": _OF_ROOM,
    "free_gpus": _OF_ROOM | _OF_NODES,
    "soon_free_gpus": _OF_ROOM,
    "used": _OF_USE,
    "used_by_lasting": _OF_USE,
    "shares": {"nodes", "pods"},
    "_taken": {"claims", "slices"},
    "_group_of_owner": {"pod_groups"},
}
"""What each cached property is made of, of the facts and of the capacity."""


def _have_the_same(before: Sequence[Node], now: Sequence[Node]) -> bool:
    """Return whether they are the same nodes with the same resources."""
    return len(before) == len(now) and all(
        was is node or (was.name, was.allocatable) == (node.name, node.allocatable)
        for was, node in zip(before, now, strict=True)
    )
