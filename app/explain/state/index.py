"""Index a snapshot: objects by key, usage and free amounts by node, and trees of domains.

Most values are computed when they are first needed, and then kept.
"""

import operator
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from operator import attrgetter
from typing import TypeVar, cast

from msgspec.structs import replace

from app.explain.state import amounts
from app.explain.state.amounts import (
    ByNode,
    counts_as_gpu,
    current,
    gpu_resource_of,
    taken_gpus,
    with_gpus,
)
from app.explain.state.background import with_background
from app.explain.state.domains import Domains
from app.explain.state.gpu_sharing import Shares, shares_of
from app.explain.state.lookup import change
from app.explain.state.outer_workloads import with_outer_workloads
from app.explain.state.snapshot import PODS_ON, Belongings, Snapshot
from app.facts.identity import Key
from app.facts.kubernetes.claim import ResourceSlice
from app.facts.kubernetes.gpus import GPU
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod
from app.facts.labels import MIG_STRATEGY, NODE_POOL
from app.facts.quantity import Amounts
from app.facts.rows import CHANNELS, ROOM

T = TypeVar("T")


def _adapted(facts: Snapshot) -> Snapshot:
    """Return the facts, in which other facts have changed some pods.

    Some background pods are normal pods, and some pods name an outer workload, such as a RayJob.
    """
    return with_background(with_outer_workloads(facts))


def _with_known_pods(
    adapted: Snapshot, given: Snapshot, before: Snapshot, known: Mapping[Key, Pod]
) -> Snapshot:
    """Return `adapted`, with the pods of `before` that are equal to its own adapted pods.

    `known` has the pods of `before` by key. Changes are found by identity, so an adapted pod must
    stay the same object until it changes.
    """
    if adapted.pods is given.pods:
        return adapted
    pods = [
        same if new is not own and (same := known.get(new.key)) == new else new
        for own, new in zip(given.pods, adapted.pods, strict=True)
    ]
    if len(pods) == len(before.pods) and all(map(operator.is_, pods, before.pods)):
        return replace(adapted, pods=before.pods)
    return replace(adapted, pods=tuple(pods))


MOST_OF_A_KIND = 32
"""The maximum number of values of one kind that are kept if each has a list of all nodes."""
STUCK_SECONDS = 120
"""The seconds for which KAI counts a running pod's room as free after the pod should have ended."""


class Index(Belongings):
    """The objects of a `Snapshot`, the usage of each node, and the trees of nodes.

    An index can follow a changing cluster. With 15,000 nodes, a page after a change of one pod then
    takes about 140 ms instead of 260 ms with a new index (`./scripts/bench console` prints both).
    Almost all of the saving comes from two parts: the lookup tables are updated in place, and the
    trees of domains are kept. Cached properties are recomputed. Tracking their dependencies would
    save another 15 ms, but is error-prone, because some depend on the time.
    """

    def __init__(self, facts: Snapshot) -> None:
        super().__init__(_adapted(facts))
        self.given = facts
        """The snapshot that was passed in. `facts` has the result of `_adapted`."""
        self._domains: dict[tuple[tuple[str, ...], str | None], Domains] = {}
        self._memory: dict[object, tuple[object, frozenset[str]]] = {}
        """The values of `remembered` by key, each with the fields `of` that it depends on."""
        self._used: set[object] = set()
        """The keys that were requested from `remembered` since the last `follow`."""
        self._few: dict[str, deque[object]] = {}
        """The keys of the values of `one_of_few`, by kind, oldest first."""
        self._take_nodes()

    def remembered(self, key: object, make: Callable[[], T], of: Iterable[str] = ()) -> T:
        """Return the value for this key, which `make` computes the first time.

        If the value depends only on some fields of the facts, `of` names them. It is then kept
        until one of them, or a field in _LIMITS, changes. But if nobody asks for it between two
        calls of `follow`, it is forgotten, because tenants choose parts of many keys. Without `of`,
        it is kept until `follow`.
        """
        memory = self._memory
        if key not in memory:
            memory[key] = make(), frozenset(of)
        self._used.add(key)
        return cast(T, memory[key][0])

    def one_of_few(
        self, kind: str, key: Hashable, make: Callable[[], T], of: Iterable[str] = ()
    ) -> T:
        """Return the value for this key as `remembered` does, but limit the values of its kind.

        Only the newest MOST_OF_A_KIND values of a kind are kept, because each has a list of all
        nodes, and there may be one for each gang.
        """
        whole = (kind, key)
        if whole in self._memory:
            return self.remembered(whole, make, of)
        value = self.remembered(whole, make, of)
        kept = self._few.setdefault(kind, deque())
        kept.append(whole)
        if len(kept) > MOST_OF_A_KIND:
            self._memory.pop(kept.popleft(), None)
        return value

    def one_of_few_of(self, kind: str, objects: tuple[object, ...], make: Callable[[], T]) -> T:
        """Return the value for these objects, as `one_of_few` does. They are compared by identity.

        The value is kept with its objects, so that no new object has the identity of one of them.
        """
        key = tuple(map(id, objects))
        _, value = self.one_of_few(kind, key, lambda: (objects, make()))
        return value

    def follow(self, facts: Snapshot) -> None:
        """Switch to other facts of the same cluster, which may be older or newer."""
        before = self.facts
        self.given = facts
        self.facts = facts = _with_known_pods(_adapted(facts), facts, before, self.pods)
        changes = {
            name: change(getattr(before, name), getattr(facts, name))
            for name in _KINDS
            if getattr(before, name) is not getattr(facts, name)
        }
        self.update_lookups(changes)
        if _OF_NODES & changes.keys():
            self._take_nodes()

        # Drop the values of all cached properties, which Python keeps under their names.
        for name in _CACHED:
            vars(self).pop(name, None)

        is_as_complete = all(getattr(before, name) == getattr(facts, name) for name in _LIMITS)
        self._memory = {
            key: (value, of)
            for key, (value, of) in self._memory.items()
            if of and key in self._used and is_as_complete and not of & changes.keys()
        }
        self._used.clear()
        self._few = {
            kind: deque(key for key in keys if key in self._memory)
            for kind, keys in self._few.items()
        }

    def _take_nodes(self) -> None:
        self.slices: Sequence[ResourceSlice] = current(self.facts.slices)
        """The ResourceSlices of nodes, only the newest generation of each pool."""
        nodes = with_gpus(self.facts.nodes, self.slices)
        self.nodes: tuple[Node, ...] = tuple(sorted(nodes, key=attrgetter("name")))
        """The nodes, sorted by name, with the GPUs of ResourceSlices as allocatable resources.

        A position in this tuple stands for a node in `domains` and in all lists by node.
        """
        self.pools = {node.labels.get(NODE_POOL, "") for node in self.nodes}
        """The node pools that have nodes, "" for nodes without a pool."""
        self._kinds = {id(node.allocatable): node.allocatable for node in self.nodes}
        """The different `allocatable` maps of nodes, by id. Equal nodes share one map."""
        kinds = self._kinds.values()
        self.offered = {name for has in kinds for name, amount in has.items() if amount}
        """The names of the resources that at least one node has."""

    @cached_property
    def claimed(self) -> Mapping[str, str]:
        """The resources that pods can request from DeviceClasses by name, because no node has them.

        The value is the resource that counts the GPUs of the DeviceClass, or "" for a class of
        other devices, whose number is not known.
        """
        return {
            resource: gpu_resource_of(known.gpus) if known.gpus else ""
            for known in self.facts.device_classes
            for resource in (known.extended, f"{_OF_CLASS}{known.name}")
            if resource and resource not in self.offered
        }

    @cached_property
    def unread_for_room(self) -> set[str]:
        """The kinds of facts that free capacity depends on and that were not read in full.

        Claims are needed only if ResourceSlices have GPUs. ResourceSlices that were not requested
        are not included.
        """
        devices = {CHANNELS} if any(part.gpus for part in self.slices) else set()
        unread = ({"nodes", ROOM} | devices) & self.facts.unread
        return unread | ({"slices"} & self.facts.unseen.keys())

    @property
    def room_is_known(self) -> bool:
        """Whether everything that free capacity depends on was read."""
        return not self.unread_for_room

    @cached_property
    def has_constraints(self) -> bool:
        """Whether any KAI PodGroup or one of its SubGroups names a topology."""
        return any(
            group.topology or any(part.topology for part in group.subgroups)
            for group in self.facts.pod_groups
        )

    @cached_property
    def open_nodes(self) -> list[bool]:
        """For each node, whether it accepts pods without node selectors and tolerations."""
        return [node.takes_pods and not node.taints for node in self.nodes]

    @cached_property
    def open_for_gpus(self) -> list[bool]:
        """For each node, whether it accepts pods that request GPUs.

        A taint whose key is the name of the GPU resource is ignored, because the admission plugin
        ExtendedResourceToleration can add the toleration to pods that request GPUs.
        """
        return [node.takes_pods and all(t.key == GPU for t in node.taints) for node in self.nodes]

    @cached_property
    def dead_nodes(self) -> set[str]:
        """The names of the nodes that are not ready."""
        return {node.name for node in self.nodes if not node.ready}

    @cached_property
    def stuck_on_dead(self) -> frozenset[tuple[str, str]]:
        """The keys of the deleted pods that would be gone if the kubelets of their nodes ran.

        Pods that a finalizer keeps are not among them. Neither are pods that KAI expects to
        terminate, because their room counts as free.
        """
        return frozenset(
            pod.key
            for name in self.dead_nodes
            for pod in self.pods_on.get(name, ())
            if pod.deleting is not None and not pod.finalizers and not self.is_releasing(pod)
        )

    @cached_property
    def gpu_names(self) -> tuple[str, ...]:
        """The resource names of GPUs and MIG devices on nodes."""
        names = {name for allocatable in self._kinds.values() for name in allocatable}
        return tuple(sorted(filter(counts_as_gpu, names)))

    @cached_property
    def gpus(self) -> list[int]:
        """The allocatable GPUs of each node, in thousandths."""
        return list(map(sum, self.allocatable(self.gpu_names)))

    @cached_property
    def left_gpus(self) -> list[int]:
        """The GPUs of each node that neither pods nor claims use, in thousandths."""
        return [max(0, sum(free)) for free in self.free(self.gpu_names)]

    def allocatable(self, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        """Return the allocatable amounts of the resources `names` for each node."""

        def vectors() -> list[tuple[int, ...]]:
            kinds = self._kinds.items()
            made = {kind: tuple(has.get(name, 0) for name in names) for kind, has in kinds}
            return [made[id(node.allocatable)] for node in self.nodes]

        return self.one_of_few("allocatable", names, vectors, _OF_NODES)

    def free(self, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        """Return the free amounts of the resources `names` for each node."""
        free = partial(self._without, self.used, names)
        return self.one_of_few("free", names, free, _OF_NODES | _OF_USAGE)

    def soon_free(self, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        """Return the amounts of `names` that are free on each node once terminating pods are gone.

        KAI counts these amounts as room.
        """
        if not self.terminating:
            return self.free(names)
        # This also depends on the time: see `is_releasing`.
        return self.one_of_few(
            "soon free", names, lambda: self._without(self.used_by_lasting, names)
        )

    def _without(self, used: ByNode, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        """Return the amounts of `names` that the usage `used` leaves on each node."""
        pairs = zip(self.nodes, self.allocatable(names), strict=True)
        return [amounts.left(has, used.get(node.name, _NOTHING), names) for node, has in pairs]

    @cached_property
    def free_gpus(self) -> list[int]:
        """The GPUs that new pods can get on each node, in thousandths.

        0 if the node is not `open_for_gpus`.
        """
        places = zip(self.left_gpus, self.open_for_gpus, strict=True)
        return [left if opened else 0 for left, opened in places]

    @cached_property
    def soon_free_gpus(self) -> list[int]:
        """The GPUs that terminating pods will free on each node, in thousandths."""
        if not self.terminating:
            return [0] * len(self.nodes)
        names = self.gpu_names
        places = zip(self.soon_free(names), self.free(names), strict=True)
        return [sum(soon) - sum(now) for soon, now in places]

    # The usage of nodes.

    @cached_property
    def used(self) -> ByNode:
        """The resources that pods use on each node, including GPUs that are allocated to claims.

        Finished pods and background pods use nothing.
        """
        return amounts.added(self.lookup(PODS_ON).each(amounts.taken), self._taken)

    @cached_property
    def _taken(self) -> ByNode:
        """The GPUs that are allocated to claims, by node name."""
        return taken_gpus(self.facts.claims, self.slices)

    @cached_property
    def scaling_pods(self) -> Sequence[Pod]:
        """The pods that KAI creates so that autoscalers add nodes for pods that share GPUs."""
        return [pod for pod in self.facts.pods if pod.scales_for is not None]

    @property
    def terminating(self) -> Sequence[Pod]:
        """The pods that KAI expects to terminate. KAI counts their room as free."""
        pods = (pod for pods in self._terminating_on.values() for pod in pods)
        return [pod for pod in pods if self.is_releasing(pod)]

    def is_releasing(self, pod: Pod) -> bool:
        """Return whether KAI expects a pod to terminate and free its room.

        KAI stops expecting that two minutes after a running pod should have ended (`getTaskStatus`
        in `pkg/scheduler/api/pod_info/pod_info.go`, StuckInReleasing).
        """
        if pod.deleting is None:
            return False
        now = self.facts.now
        return not (pod.phase == "Running" and now and now - pod.deleting > STUCK_SECONDS)

    @cached_property
    def used_by_lasting(self) -> ByNode:
        """The usage of each node, without terminating pods and claims that only such pods use."""
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
        """The shared GPUs of each node with pods that share GPUs, by the position of the node."""
        return {
            position: shares_of(node, pods, self.is_releasing)
            for position, node in enumerate(self.nodes)
            if (pods := self._sharing_on.get(node.name, ()))
        }

    def coming(self, names: tuple[str, ...]) -> Mapping[int, tuple[int, ...]]:
        """Return the amounts that terminating pods will free, by the position of the node.

        Nodes where no such pod frees one of the resources `names` are left out.
        """
        if not self.terminating:
            return {}
        pairs = enumerate(zip(self.soon_free(names), self.free(names), strict=True))
        return {
            position: tuple([then - now for then, now in zip(soon, free, strict=True)])
            for position, (soon, free) in pairs
            if soon != free
        }

    def domains(self, keys: Sequence[str], pool: str | None = None) -> Domains:
        """Return the tree of `nodes` by the node labels `keys`.

        With `pool`, the tree has only the nodes of this pool. "" stands for nodes without a pool.
        """
        if pool is not None and pool not in self.pools:
            pool = _NO_POOL
        key = (tuple(keys), pool)
        # A tree does not depend on pods, so most changes leave it as it is.
        known = self._domains.get(key)
        if not known or not known.follow(self.nodes):
            known = self._domains[key] = Domains(self.nodes, keys, pool)
        return known

    @cached_property
    def has_mig(self) -> bool:
        """Whether any node has MIG devices or the label of a MIG strategy."""
        names = (name for allocatable in self._kinds.values() for name in allocatable)
        has_devices = any("/mig-" in name for name in names)
        return has_devices or any(MIG_STRATEGY in node.labels for node in self.nodes)

    @cached_property
    def has_pools(self) -> bool:
        """Whether any node has the label of KAI's node pools."""
        return any(NODE_POOL in node.labels for node in self.facts.nodes)


_EMPTY = Snapshot()
_KINDS = [name for name in Snapshot.__struct_fields__ if isinstance(getattr(_EMPTY, name), tuple)]
"""The fields of a snapshot that have facts."""
_LIMITS = ("unseen", "skipped", "absent")
"""The fields of a snapshot that name kinds that were not read."""
_OF_NODES = frozenset({"nodes", "slices"})
"""The fields from which nodes and their allocatable resources are read."""
_OF_USAGE = frozenset({"pods", "claims"})
"""The fields from which the usage of nodes is computed."""
_OF_CLASS = "deviceclass.resource.kubernetes.io/"
"""The start of the resource by which pods can request the devices of any DeviceClass.

See https://github.com/kubernetes/enhancements/issues/5004.
"""
_NOTHING: Amounts = {}
_NO_POOL = "\0"
"""The name under which all node pools without nodes share one tree.

Tenants can name any number of such pools.
"""
_CACHED = [
    name
    for kind in (Belongings, Index)
    for name, value in vars(kind).items()
    if isinstance(value, cached_property)
]
