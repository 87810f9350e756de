"""How many nodes have equal labels."""

from collections import Counter
from collections.abc import Collection

from app.facts.kubernetes.node import Grouping, NodeLabels, Pairs
from app.kube.api import Key
from app.kube.store import WatchStore
from app.rules.topology.coverage import Nodes
from app.rules.topology.levels import HOSTNAME_KEY

MOST_GROUPINGS = 100
"""The most groupings whose groups are kept."""


class NodeGroups:
    """How many nodes have equal labels, for each grouping that was asked for.

    It follows the store of nodes, so that neither a verdict nor a change has to look at thousands
    of nodes.
    """

    def __init__(self, store: WatchStore[NodeLabels]) -> None:
        self._store = store
        self._counts: dict[Grouping, Counter[Pairs]] = {}
        self._nodes: dict[Grouping, Nodes] = {}
        store.subscribe(self._changed)

    def by(self, keys: Collection[str]) -> Nodes:
        """Return the nodes grouped by their labels of these keys.

        `kubernetes.io/hostname` is left out.
        """
        grouping = frozenset(keys) - {HOSTNAME_KEY}
        if grouping not in self._counts:
            if len(self._counts) >= MOST_GROUPINGS:
                self._counts.clear()
                self._nodes.clear()
            self._counts[grouping] = Counter(labels.of(grouping) for labels in self._store.values())
        if grouping not in self._nodes:
            self._nodes[grouping] = Nodes(
                (dict(pairs), count) for pairs, count in self._counts[grouping].items()
            )
        return self._nodes[grouping]

    def _changed(self, key: Key, before: NodeLabels | None, after: NodeLabels | None) -> None:
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
