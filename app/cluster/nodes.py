"""Which labels of nodes are kept: those of the topology's levels and the configured ones."""

import asyncio
from sys import intern

from app.cluster.table import Levels, NodeLabels
from app.kube.api import Key, Object
from app.objects.metadata import labels_of


class NodeKeys:
    """The keys of the labels to keep: `configured` and those of the levels of the ClusterTopology `topology_name`.

    `changed` is set if nodes have to be listed again, because a key was added.
    """

    def __init__(self, topology_name: str, configured: tuple[str, ...]) -> None:
        self.changed = asyncio.Event()
        self._topology_name, self._configured = topology_name, configured
        self._keys = configured

    def project(self, obj: Object) -> NodeLabels:
        """The labels of a node that are kept."""
        labels = labels_of(obj)
        return {intern(key): intern(labels[key]) for key in self._keys if key in labels}

    def topology_changed(self, key: Key, before: Levels | None, after: Levels | None) -> None:
        if key != ("", self._topology_name):
            return
        keys = tuple(dict.fromkeys((*(level.key for level in after or ()), *self._configured)))
        if set(keys) - set(self._keys):
            self.changed.set()
        self._keys = keys
