"""The labels of nodes: those that are kept, and how many nodes have equal ones."""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from sys import intern

from app.cluster.table import Levels, NodeLabels
from app.kube.api import Key, Object
from app.kube.store import WatchStore
from app.objects.metadata import labels_of
from app.rules.topology.coverage import GPU_COUNT, NVLINK_DOMAIN, Nodes
from app.rules.topology.levels import HOSTNAME_KEY

Texts = tuple[str, ...]

ALWAYS = (GPU_COUNT, NVLINK_DOMAIN)
"""The labels for warnings about room and about NVLink domains."""


MOST_GROUPINGS = 100
"""The most sets of keys for which groups of nodes are cached."""


class NodeKeys:
    """The keys of the labels to keep: those in ALWAYS and `configured`, and those of the
    levels of the ClusterTopology `topology_name` and of all ClusterTopologyBindings.

    `changed` is set if a key was added, so that nodes have to be listed again.
    `nodes` groups by any label, even if it is not kept yet.
    """

    def __init__(self, topology_name: str, configured: tuple[str, ...]) -> None:
        self.changed = asyncio.Event()
        self._topology_name, self._configured = topology_name, configured
        self._managed: Levels = ()
        self._bound: dict[Key, Levels] = {}
        self._keys = tuple(dict.fromkeys((*configured, *ALWAYS)))
        self._keys_of: dict[str, Texts] = {}
        self._nodes_with: dict[Texts, tuple[Texts, dict[str, Texts]]] = {}
        self._nodes: dict[frozenset[str], Nodes] = {}

    def project(self, obj: Object) -> NodeLabels:
        """Returns the labels of a node that are kept."""
        labels = labels_of(obj)
        self._note(str(obj["metadata"]["name"]), labels)
        return {intern(key): intern(labels[key]) for key in self._keys if key in labels}

    def nodes(self, keys: Collection[str]) -> Nodes:
        """Returns the nodes grouped by their labels of these keys, except `kubernetes.io/hostname`."""
        grouping = frozenset(keys)
        if grouping not in self._nodes:
            if len(self._nodes) >= MOST_GROUPINGS:
                self._nodes.clear()
            self._nodes[grouping] = Nodes(self._groups(grouping))
        return self._nodes[grouping]

    def _groups(self, grouping: Collection[str]) -> Iterator[tuple[dict[str, str], int]]:
        groups: Counter[tuple[tuple[str, str], ...]] = Counter()
        for keys, nodes in self._nodes_with.values():
            positions = [position for position, key in enumerate(keys) if key in grouping]
            counts = Counter(tuple(values[position] for position in positions) for values in nodes.values())
            for texts, count in counts.items():
                groups[tuple(zip((keys[position] for position in positions), texts, strict=True))] += count
        return ((dict(pairs), count) for pairs, count in groups.items())

    def node_changed(self, key: Key, before: NodeLabels | None, after: NodeLabels | None) -> None:
        if after is None:
            self._forget(key[1])

    def _note(self, node: str, labels: Mapping[str, str]) -> None:
        """Records the labels of a node. Equal texts and equal sets of keys are stored only once."""
        pairs = [pair for pair in sorted(labels.items()) if pair[0] != HOSTNAME_KEY]
        keys, values = tuple(intern(key) for key, _ in pairs), tuple(intern(value) for _, value in pairs)
        if self._keys_of.get(node) == keys and self._nodes_with[keys][1][node] == values:
            return
        self._forget(node)
        stored, nodes = self._nodes_with.setdefault(keys, (keys, {}))
        nodes[node] = values
        self._keys_of[node] = stored

    def _forget(self, node: str) -> None:
        self._nodes.clear()
        keys = self._keys_of.pop(node, None)
        if keys is not None:
            _, nodes = self._nodes_with[keys]
            del nodes[node]
            if not nodes:
                del self._nodes_with[keys]

    def topology_changed(self, key: Key, before: Levels | None, after: Levels | None) -> None:
        if key == ("", self._topology_name):
            self._managed = after or ()
            self._collect()

    def binding_changed(self, key: Key, before: Levels | None, after: Levels | None) -> None:
        self._bound.pop(key, None)
        if after is not None:
            self._bound[key] = after
        self._collect()

    def _collect(self) -> None:
        bound = (level.key for levels in self._bound.values() for level in levels)
        keys = tuple(dict.fromkeys((*(level.key for level in self._managed), *bound, *self._configured, *ALWAYS)))
        if set(keys) - set(self._keys):
            self.changed.set()
        self._keys = keys


class NodeSummary:
    """How many nodes have equal labels. It follows the store of nodes, so that a
    verdict doesn't have to look at thousands of nodes."""

    def __init__(self, store: WatchStore[NodeLabels]) -> None:
        self._counts: Counter[tuple[tuple[str, str], ...]] = Counter()
        self._nodes: Nodes | None = None
        for labels in store.values():
            self._counts[_shared(labels)] += 1
        store.subscribe(self._changed)

    def nodes(self) -> Nodes:
        if self._nodes is None:
            self._nodes = Nodes((dict(labels), count) for labels, count in self._counts.items())
        return self._nodes

    def _changed(self, key: Key, before: NodeLabels | None, after: NodeLabels | None) -> None:
        old = None if before is None else _shared(before)
        new = None if after is None else _shared(after)
        if old == new:
            return
        self._nodes = None
        if old is not None:
            self._counts[old] -= 1
            if not self._counts[old]:
                del self._counts[old]
        if new is not None:
            self._counts[new] += 1


def _shared(labels: NodeLabels) -> tuple[tuple[str, str], ...]:
    """Returns the labels without the hostname, which differs for each node."""
    return tuple(sorted(item for item in labels.items() if item[0] != HOSTNAME_KEY))
