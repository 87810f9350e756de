"""Read the facts of a cluster from the stores, for webhooks and reconcilers."""

from collections import Counter
from collections.abc import Collection, Mapping

from app.base.value import Value
from app.facts import rows
from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.grove.topology import HOSTNAME_KEY, ClusterTopology, LevelsByName
from app.facts.kai.topology import KaiTopology
from app.facts.kinds import CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING, POD_CLIQUE_SET
from app.facts.kubernetes.claim import SliceGpus, gpus_in
from app.facts.kubernetes.node import GPUS, Grouping, NodeLabels, Pairs
from app.facts.labels import GPU_COUNT, NVLINK_DOMAIN
from app.kube.api import Key, ObjectRef, Objects, Unavailable, find
from app.kube.store import WatchStore
from app.objects.names import is_subdomain
from app.objects.resource import Resource
from app.rules.dialects.bindings import BINDINGS
from app.rules.dialects.bindings.owner import POD_CLIQUE_SET_OWNS
from app.rules.dialects.design import DESIGN, UNSERVED
from app.rules.dialects.design.owner import POD_GANG_OWNS
from app.rules.dialects.dialect import Dialect, NoTopology, OwnerRule
from app.rules.dialects.epochs import EPOCHS
from app.rules.mnnvl.claim import CliqueFacts
from app.rules.mnnvl.warnings import AS_CONFIGURED, NvlinkDomains
from app.rules.topology.coverage import LevelProblem, Nodes, coverage_problems
from app.stores.stores import Stores

MOST_GROUPINGS = 100
"""The maximum number of groupings (sets of label keys) with cached counts."""


class NodeGroups:
    """The numbers of nodes with equal labels, for each requested set of label keys.

    The numbers follow changes of nodes and ResourceSlices, so that neither a verdict nor a change
    has to read thousands of nodes.
    """

    def __init__(self, store: WatchStore[NodeLabels], slices: WatchStore[SliceGpus]) -> None:
        self._store = store
        self._slices = slices
        self._gpus: dict[str, str] = {}
        self._counts: dict[Grouping, Counter[Pairs]] = {}
        self._nodes: dict[Grouping, Nodes] = {}
        store.subscribe(self._changed)
        slices.subscribe(self._slice_changed)

    def by(self, keys: Collection[str]) -> Nodes:
        """Return the nodes, grouped by their labels with `keys` except `kubernetes.io/hostname`."""
        grouping = frozenset(keys) - {HOSTNAME_KEY}
        nodes = self._nodes.get(grouping)
        if nodes is not None:
            return nodes

        counts = self._counts.get(grouping)
        if counts is None:
            if len(self._counts) >= MOST_GROUPINGS:
                self._counts.clear()
                self._nodes.clear()
            seen = (self._seen(key[1], self._store.get(*key)) for key in self._store.known_keys())
            counts = Counter(labels.of(grouping) for labels in seen if labels)
            self._counts[grouping] = counts

        nodes = Nodes((dict(pairs), count) for pairs, count in counts.items())
        self._nodes[grouping] = nodes
        return nodes

    def _changed(self, key: Key, before: NodeLabels | None, after: NodeLabels | None) -> None:
        self._move(self._seen(key[1], before), self._seen(key[1], after))

    def _slice_changed(self, _: Key, before: SliceGpus | None, after: SliceGpus | None) -> None:
        """Update the GPUs of the nodes of a changed ResourceSlice."""
        for name in {part.node for part in (before, after) if part is not None}:
            labels = self._store.get("", name)
            old = self._seen(name, labels)

            gpus = gpus_in(self._slices.by_index(rows.OF_NODE, ("", name)))
            self._gpus.pop(name, None)
            if gpus:
                self._gpus[name] = str(gpus)

            self._move(old, self._seen(name, labels))

    def _seen(self, name: str, labels: NodeLabels | None) -> NodeLabels | None:
        """Return the labels of the node `name` for counting, or None if it does not exist.

        If the status of the node has no GPUs, the number in its ResourceSlices is added.
        """
        gpus = self._gpus.get(name)
        if labels is None or gpus is None or GPUS in labels.keys:
            return labels
        return NodeLabels((*labels.keys, GPUS), (*labels.values, gpus))

    def _move(self, before: NodeLabels | None, after: NodeLabels | None) -> None:
        """Update all counts after a node has changed from `before` to `after`."""
        for grouping, counts in self._counts.items():
            old = None if before is None else before.of(grouping)
            new = None if after is None else after.of(grouping)
            if old == new:
                continue
            self._nodes.pop(grouping, None)
            if new is not None:
                counts[new] += 1
            if old is not None:
                counts[old] -= 1
                if not counts[old]:
                    del counts[old]


def names_in(store: WatchStore[str]) -> Collection[str]:
    """Return the names of the cluster-scoped objects in `store`, which change with the store."""
    names: set[str] = set(store.values())

    def follow(key: Key, _: str | None, after: str | None) -> None:
        if after is None:
            names.discard(key[1])
        else:
            names.add(after)

    store.subscribe(follow)
    return names


# The dialect of Grove's topology API.


DIALECTS: tuple[Dialect, ...] = (EPOCHS, BINDINGS, DESIGN)
"""All dialects, latest first. If the cluster serves the `sign` of several, the first is used."""

LATER: tuple[Dialect, ...] = (EPOCHS, BINDINGS)
"""The dialects of the releases after `design`."""


def dialect_of(client: Objects) -> Dialect:
    """Return the dialect of the cluster of `client`, as of the last discovery.

    Return UNSERVED if the cluster does not serve the `sign` of any dialect.
    """
    for dialect in DIALECTS:
        if client.served_version(dialect.sign) is not None:
            return dialect
    return UNSERVED


OWNER_RULES: Mapping[str, OwnerRule] = {
    rule.kind: rule for rule in (POD_GANG_OWNS, POD_CLIQUE_SET_OWNS)
}
"""The owner rule for each value of `mnnvl.owner` in the configuration, except `auto`."""


# All facts.


class TopologyMissing(Unavailable, NoTopology):
    """The managed ClusterTopology does not exist yet, or it has no levels."""


class NotGiven(TopologyMissing):
    """A verdict needs an object that is not among the documents, so nothing is known about it."""


class Known(Value):
    """The completeness of the facts of a cluster."""

    is_whole: bool = True
    """Whether objects that the facts lack do not exist, unless a user gave only some documents."""
    names_grove: bool = True
    """Whether the facts show which release of Grove is used."""

    def reads_groups(self, dialect: Dialect) -> bool:
        """Return whether Grove reads `grove.io/mnnvl-group`.

        Return True also if the release of Grove is not known, because it may read the annotation.
        """
        return dialect.reads_groups or not self.names_grove

    def check(self, resource: Resource, name: str, hint: str = "") -> None:
        """Raise NotGiven if the object `name`, which the facts lack, may exist.

        `hint` names another way to provide the object, for the message.
        """
        if not self.is_whole:
            raise NotGiven(
                f'add {resource.kind} "{name}" to the documents{hint}: the verdict depends on it'
            )


WHOLE = Known()


class ClusterView:
    """A reader of the facts in `stores`. It implements `TopologyFacts` for the rules of dialects.

    `client` tells what the cluster serves, and reads PodCliqueSets that the store lacks. A method
    raises Unavailable while the cache that it needs isn't ready. Only the results of `nodes`,
    `nodes_with`, `level_problems` and `level_keys`, and the facts in `hints`, are empty or
    incomplete instead.
    """

    def __init__(
        self,
        client: Objects,
        stores: Stores,
        *,
        topology_name: str,
        topology_enabled: bool,
        hints: Stores,
        known: Known = WHOLE,
        nvlink: NvlinkDomains = AS_CONFIGURED,
    ) -> None:
        self.known = known
        self.nvlink = nvlink
        self._client = client
        self._stores = stores
        self._sets = stores[rows.SETS]
        self._device_classes = stores[rows.DEVICE_CLASSES]
        self.queues: Collection[str] = names_in(hints[rows.QUEUE_NAMES])
        """The names of KAI's Queues, empty until they have been read."""
        self._node_groups = NodeGroups(stores[rows.NODES], hints[rows.SLICE_GPUS])
        self._topology_name = topology_name
        self._topology_enabled = topology_enabled

    def dialect(self) -> Dialect:
        """Return the dialect of Grove's topology API that is in force."""
        return dialect_of(self._client)

    @property
    def reads_groups(self) -> bool:
        """Whether Grove reads `grove.io/mnnvl-group`, or may do so if its release is not known."""
        return self.known.reads_groups(self.dialect())

    def need_binding(self, name: str) -> None:
        """Raise NotGiven if it is not known whether the ClusterTopologyBinding `name` exists."""
        self.known.check(CLUSTER_TOPOLOGY_BINDING, name)

    def topology(self) -> ClusterTopology:
        """Return the managed topology. Without topology support, its `enabled` is False.

        Raise TopologyMissing if it should exist but does not, or has no levels.
        """
        name = self._topology_name
        if not self._topology_enabled:
            return ClusterTopology(CLUSTER_TOPOLOGY.kind, name, enabled=False)

        store = self._stores[rows.TOPOLOGIES].ready("ClusterTopologies")
        stored = store.get("", name)
        if stored is None:
            self.known.check(
                CLUSTER_TOPOLOGY, name, ", or give --config with clusterTopology.levels"
            )
        if stored is None or not stored.levels:
            problem = "does not exist" if stored is None else "has no levels"
            remedy = "wait until the leader of grove-admission writes it (clusterTopology.levels)"
            if not store.served:
                remedy = "install its CRD (kubectl apply -k manifests/prerequisites)"
            raise TopologyMissing(
                f'topology support is enabled, but ClusterTopology "{name}" {problem} yet; {remedy}'
            )

        return stored

    def bindings(self) -> LevelsByName:
        """Return the levels of each ClusterTopologyBinding, by its name.

        Raise Unavailable also if discovery has found the API but bindings have not been listed yet.
        """
        store = self._stores[rows.BINDINGS].ready("ClusterTopologyBindings")
        if not store.served and self.is_served(CLUSTER_TOPOLOGY_BINDING):
            raise Unavailable(
                "the cache of ClusterTopologyBindings is not filled yet; try again in a few seconds"
            )
        return {binding.name: binding.levels for binding in store.values()}

    def kai_topology(self, name: str) -> KaiTopology | None:
        """Return the KAI Topology `name`, or None if it does not exist."""
        return self._stores[rows.KAI_TOPOLOGIES].ready("KAI Topologies").get("", name)

    def users_of(self, binding: str) -> list[PodCliqueSet]:
        """Return the cached PodCliqueSets that refer to `binding`, sorted by namespace and name."""
        sets = self._sets.ready("PodCliqueSets").by_index(rows.OF_BINDING, ("", binding))
        return sorted(sets, key=lambda pcs: pcs.key)

    def nodes(self) -> Nodes:
        """Return the nodes, grouped by the labels of levels, GPUs and NVLink domains."""
        return self.nodes_with((*self.level_keys(), GPU_COUNT, GPUS, NVLINK_DOMAIN))

    def nodes_with(self, keys: Collection[str]) -> Nodes:
        """Return the nodes, grouped by their labels with `keys`.

        Return no nodes if they have not been listed yet.
        """
        return self._node_groups.by(keys) if self._stores[rows.NODES].synced else Nodes()

    def level_problems(self) -> dict[str, list[LevelProblem]]:
        """Return the problems of each topology that workloads can use, by its name.

        The result is empty if the topologies are not known.
        """
        try:
            topologies = self.dialect().in_use(self)
        except Unavailable:
            return {}
        return {
            name: coverage_problems(levels, self.nodes_with) for name, levels in topologies.items()
        }

    def level_keys(self) -> tuple[str, ...]:
        """Return the label keys of the levels of the managed topology and of all bindings."""
        try:
            managed = self.topology().keys
        except Unavailable:
            managed = ()
        bindings = self._stores[rows.BINDINGS].values()
        bound = (level.key for binding in bindings for level in binding.levels)
        return tuple(dict.fromkeys((*managed, *bound)))

    def is_served(self, resource: Resource) -> bool:
        """Return whether the cluster serves `resource`, as of the last discovery."""
        return self._client.served_version(resource) is not None

    def sets_with_groups(self, namespace: str) -> list[PodCliqueSet]:
        """Return the cached PodCliqueSets of `namespace` that use Grove's MNNVL groups."""
        sets = self._sets.ready("PodCliqueSets").by_index(rows.OF_NAMESPACE, (namespace, ""))
        return sorted(sets, key=lambda pcs: pcs.name)

    def cached_set(self, namespace: str, name: str, uid: str = "") -> PodCliqueSet | None:
        """Return a PodCliqueSet from the cache, or None if the cache lacks it.

        With a `uid`, return only a set with this uid.
        """
        cached = self._sets.ready("PodCliqueSets").get(namespace, name)
        return cached if cached is not None and uid in ("", cached.uid) else None

    def sets_with_domains(self, domains: Collection[str]) -> list[PodCliqueSet]:
        """Return the cached PodCliqueSets that require one of `domains` by a packDomain."""
        sets = self._sets.ready("PodCliqueSets").values()
        matching = [pcs for pcs in sets if not pcs.domains.isdisjoint(domains)]
        return sorted(matching, key=lambda pcs: pcs.key)

    async def read_set(self, namespace: str, name: str, uid: str = "") -> PodCliqueSet | None:
        """Return a PodCliqueSet from the cache, or from the API server if the cache lacks it.

        If the cached set has another uid than `uid`, it may be outdated, so the set is read from
        the API server: the result may have yet another uid. Return None if the set doesn't exist.
        Raise ClusterError if the request fails. An invalid name is not requested, because any
        client may send a review with a name of several megabytes.
        """
        cached = self.cached_set(namespace, name, uid)
        if cached is not None or not is_subdomain(name):
            return cached
        return await self.current_set(namespace, name)

    async def current_set(self, namespace: str, name: str) -> PodCliqueSet | None:
        """Return a PodCliqueSet from the API server, or None if it doesn't exist.

        Raise ClusterError if the request fails.
        """
        stored = await find(self._client, ObjectRef(POD_CLIQUE_SET, name, namespace))
        return None if stored is None else self._sets.read(stored)

    def about_clique(self, namespace: str, name: str, uid: str) -> CliqueFacts:
        """Return the cached facts for a PodClique of the PodCliqueSet `name`.

        `uid` is the set's uid in the PodClique's owner reference, or "" if it has none.
        """
        return CliqueFacts(
            self.cached_set(namespace, name, uid),
            self._device_classes.ready("DeviceClasses").values(),
            self.reads_groups,
        )

    def node_labels(self, name: str) -> Mapping[str, str] | None:
        """Return the cached labels of a node, or None if the cache lacks the node."""
        labels = self._stores[rows.NODES].ready("Nodes").get("", name)
        return None if labels is None else labels.as_map()
