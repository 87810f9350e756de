"""The labels of nodes that are kept, and a summary of them."""

import asyncio
from collections import Counter
from sys import intern

from app.cluster.table import Levels, NodeLabels
from app.kube.api import Key, Object
from app.kube.store import WatchStore
from app.objects.metadata import labels_of
from app.rules.topology.coverage import GPU_COUNT, NVLINK_DOMAIN, Nodes
from app.rules.topology.levels import HOSTNAME_KEY

ALWAYS = (GPU_COUNT, NVLINK_DOMAIN)
"""The labels for warnings about room and about NVLink domains."""


class NodeKeys:
    """The keys of the labels to keep: those in ALWAYS and `configured`, and those of the levels of the ClusterTopology
    `topology_name` and of all ClusterTopologyBindings.

    `changed` is set if a key was added, so that nodes have to be listed again. `carrying` counts the nodes with any
    label, even if it is not kept yet.
    """

    def __init__(self, topology_name: str, configured: tuple[str, ...]) -> None:
        self.changed = asyncio.Event()
        self._topology_name, self._configured = topology_name, configured
        self._managed: Levels = ()
        self._bound: dict[Key, Levels] = {}
        self._keys = tuple(dict.fromkeys((*configured, *ALWAYS)))
        self._present: dict[str, tuple[str, ...]] = {}
        self._combinations: Counter[tuple[str, ...]] = Counter()
        self._same: dict[tuple[str, ...], tuple[str, ...]] = {}

    def project(self, obj: Object) -> NodeLabels:
        """Returns the labels of a node that are kept."""
        labels = labels_of(obj)
        self._note(str(obj["metadata"]["name"]), tuple(intern(key) for key in sorted(labels)))
        return {intern(key): intern(labels[key]) for key in self._keys if key in labels}

    def carrying(self, key: str) -> int:
        """Returns how many nodes have the label `key`, whether it is kept or not."""
        return sum(count for keys, count in self._combinations.items() if key in keys)

    def node_changed(self, key: Key, before: NodeLabels | None, after: NodeLabels | None) -> None:
        if after is None:
            self._note(key[1], None)

    def _note(self, node: str, keys: tuple[str, ...] | None) -> None:
        """Records the label keys of a node, None if it was deleted. Most nodes share one of a few combinations of keys,
        so that this needs little memory."""
        before = self._present.pop(node, None)
        if before is not None:
            self._combinations[before] -= 1
            if not self._combinations[before]:
                del self._combinations[before], self._same[before]
        if keys is not None:
            self._combinations[keys] += 1
            self._present[node] = self._same.setdefault(keys, keys)

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
    """How many nodes have equal labels. It follows the store of nodes, so that a verdict doesn't have to look at
    thousands of nodes."""

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
