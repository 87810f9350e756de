"""Every number about GPUs is that of all nodes, however their GPUs are known.

20 nodes of 8 GPUs are in two racks of 10. Warnings, the topology and room are asked about the same
objects.
"""

from typing import Any

import pytest

from app.admission.review import Request
from app.admission.verdict import Verdict
from app.cluster.cluster import Cluster
from app.explain.answers.topology import domain_reports, search_room
from app.explain.output.topology_text import search_text
from app.explain.state.index import Index
from app.explain.state.levels import topology_of
from app.explain.state.read import facts_of
from app.facts.rows import NODES, SLICE_GPUS
from app.kube.api import Object, WatchEvent
from app.webhooks.podcliqueset import PodCliqueSetWebhook
from tests.builders import node, pod_clique_set
from tests.cluster.offline import OfflineCluster

RACK_KEY = "k/rack"
TOPOLOGY: Object = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "ClusterTopology",
    "metadata": {"name": "grove-topology"},
    "spec": {"levels": [{"domain": "rack", "key": RACK_KEY}]},
}
POD: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}}


def gpu_node(number: int, *, labelled: bool = False, allocates: bool = True) -> Object:
    labels = {"k_rack": f"r{number // 10}"}
    made = node(f"n{number:02}", **labels)
    if labelled:
        made["metadata"]["labels"]["nvidia.com/gpu.count"] = "8"
    gpus = {"nvidia.com/gpu": "8"} if allocates else {}
    made["status"] = {"allocatable": {"pods": "110", **gpus}}
    return made


def gpu_slice(
    number: int, *, gpus: int = 8, generation: int = 1, driver: str = "gpu.nvidia.com"
) -> Object:
    name = f"n{number:02}"
    device = {"attributes": {"type": {"string": "gpu"}}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-{generation}-{driver}", "resourceVersion": str(generation)},
        "spec": {
            "driver": driver,
            "nodeName": name,
            "pool": {"name": name, "generation": generation, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{gpu}", **device} for gpu in range(gpus)],
        },
    }


MIXED = [gpu_node(number, labelled=number < 2) for number in range(20)]
UNLABELLED = [gpu_node(number) for number in range(20)]
CLAIMED = [
    made for number in range(20) for made in (gpu_node(number, allocates=False), gpu_slice(number))
]
FLEETS = [
    pytest.param(MIXED, id="2 of 20 nodes have gpu.count"),
    pytest.param(UNLABELLED, id="no node has gpu.count"),
    pytest.param(CLAIMED, id="DRA only"),
]


def warnings(objects: list[Object], pods: int) -> list[str]:
    """Those about a PodCliqueSet with so many pods of 8 GPUs that must be in one rack."""
    asked = pod_clique_set("llm", domain="rack")
    template = asked["spec"]["template"]
    template["cliques"] = template["cliques"][:1]
    template["podCliqueScalingGroups"] = []
    template["cliques"][0]["spec"]["replicas"] = pods
    (container,) = template["cliques"][0]["spec"]["podSpec"]["containers"]
    container["resources"] = {"limits": {"nvidia.com/gpu": "8"}}
    kind = ("grove.io", "PodCliqueSet", "podcliquesets", "")
    request = Request("u", *kind, "CREATE", "llm", "ns", "user", asked, None, dry_run=False)
    webhook = PodCliqueSetWebhook(OfflineCluster([TOPOLOGY, *objects]).facts)
    verdict = webhook(request)
    assert isinstance(verdict, Verdict)
    return list(verdict.warnings)


@pytest.mark.parametrize("objects", FLEETS)
def test_warnings_know_the_room_of_all_nodes(objects: list[Object]) -> None:
    assert warnings(objects, 10) == []
    assert warnings(objects, 11) == [
        'a replica of the PodCliqueSet must fit into one "rack", but clique "worker" has 11'
        ' pods with 8 GPUs each, and no "rack" has GPUs for more than 10 of them: all of its pods'
        " will stay pending unless nodes are added"
    ]


@pytest.mark.parametrize("objects", FLEETS)
def test_the_topology_and_room_are_those_of_all_nodes(objects: list[Object]) -> None:
    index = Index(facts_of([TOPOLOGY, POD, *objects], now=0))
    topology = topology_of(index, "")
    assert [(report.gpus, report.free) for report in domain_reports(topology, 1)] == [
        (80_000, 80_000)
    ] * 2
    for pods, room in ((10, 0), (11, 1)):
        found = search_room(topology, "rack", pods, 8000)
        assert found is not None
        assert found.exit_code == room


@pytest.mark.parametrize(
    ("pods", "spare", "most"), [(10, 0, None), (8, 2, 8), (9, 2, 8), (10, 12, 0)]
)
def test_room_with_spare_nodes(pods: int, spare: int, most: int | None) -> None:
    index = Index(facts_of([TOPOLOGY, POD, *MIXED], now=0))
    found = search_room(topology_of(index, ""), "rack", pods, 8000, spare)
    assert found is not None
    assert found.exit_code == 0
    assert found.most == most
    said = "of a rack free (mnnvl.spareNodes), at most" in search_text(found)
    assert said == (most is not None and most < pods)


def largest(cluster: Cluster) -> Any:
    room = cluster.facts.nodes().room_at((RACK_KEY,))
    return room and room.domains[0]


def test_gpus_follow_nodes_and_slices() -> None:
    cluster = OfflineCluster([TOPOLOGY, gpu_node(0, allocates=False)])
    nodes, slices = cluster.stores[NODES], cluster.hints[SLICE_GPUS]
    seen = [largest(cluster)]
    changes: list[tuple[Any, Any, Object]] = [
        (slices, "ADDED", gpu_slice(0)),
        (slices, "ADDED", gpu_slice(0, driver="compute-domain.nvidia.com")),
        (slices, "ADDED", gpu_slice(1)),
        (nodes, "ADDED", gpu_node(1, allocates=False)),
        (slices, "ADDED", gpu_slice(0, gpus=4, generation=2)),
        (slices, "DELETED", gpu_slice(0)),
        (nodes, "MODIFIED", gpu_node(0)),
        (nodes, "DELETED", gpu_node(1, allocates=False)),
        (slices, "DELETED", gpu_slice(0, generation=2)),
        (nodes, "MODIFIED", gpu_node(0, allocates=False)),
    ]
    for store, kind, obj in changes:
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(len(seen))}}
        store.apply(WatchEvent(kind, obj))
        seen.append(largest(cluster))

    assert seen == [
        None,
        {8: 1},
        {8: 1},
        {8: 1},
        {8: 2},
        {4: 1, 8: 1},
        {4: 1, 8: 1},
        {8: 2},
        {8: 1},
        {8: 1},
        None,
    ]
