"""A cluster whose facts are documents, over a cluster in memory that records calls and can fail."""

from collections.abc import Iterable, Sequence

from app.cluster.cluster import Cluster
from app.cluster.filled import desired_cluster_topology, fill_from
from app.config.schema import ClusterTopology, Configuration, TopologyLevel
from app.facts.grove.topology import Level
from app.facts.kinds import CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING, POD_GANG_MAP
from app.kube.api import Object
from tests.kube.memory.client import EVERYTHING, MemoryClient

LATER = (CLUSTER_TOPOLOGY_BINDING, POD_GANG_MAP)
"""The APIs that a cluster of the designs doesn't serve."""


class OfflineCluster(Cluster):
    """Holds just `objects`.

    Without a ClusterTopology of the managed name, one with `levels` takes its place. The APIs of
    bindings and of PodGangMaps are served if there is one among the objects.
    """

    client: MemoryClient

    def __init__(
        self,
        objects: Iterable[Object] = (),
        *,
        topology_name: str = "grove-topology",
        topology_enabled: bool = True,
        levels: Sequence[Level] = (),
        node_labels: Sequence[str] = (),
    ) -> None:
        initial = list(objects)
        kinds = {obj.get("kind") for obj in initial}
        later = {sign: "v1alpha1" for sign in LATER if sign.kind in kinds}
        client = MemoryClient(initial, served={**EVERYTHING, **later})
        if levels and not any(
            topology["metadata"]["name"] == topology_name
            for topology in client.objects(CLUSTER_TOPOLOGY)
        ):
            client.load([desired_cluster_topology(topology_name, levels)])
        super().__init__(client, configured(topology_name, topology_enabled, levels, node_labels))
        fill_from(self, client.objects)


def configured(
    name: str, enabled: bool, levels: Sequence[Level] = (), node_labels: Sequence[str] = ()
) -> Configuration:
    """A configuration with that much of topology."""
    topology_levels = tuple(TopologyLevel(domain=level.domain, key=level.key) for level in levels)
    topology = ClusterTopology.model_construct(enabled=enabled, name=name, levels=topology_levels)
    defaults = Configuration()
    binding = defaults.pod_binding.model_copy(update={"node_labels": tuple(node_labels)})
    return defaults.model_copy(update={"cluster_topology": topology, "pod_binding": binding})
