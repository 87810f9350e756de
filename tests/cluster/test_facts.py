"""The facts that webhooks ask for: from caches that are filled, else a later try."""

from collections.abc import Callable
from typing import Any

import pytest

from app.cluster.documents import cluster_of as documents_cluster
from app.cluster.facts import CachedFacts
from app.cluster.stores import Stores
from app.cluster.table import FOR_VERDICTS, TOPOLOGIES, read_topology_levels
from app.config.schema import Configuration
from app.kube.api import NotFound, Object, Unavailable
from app.rules.kinds import POD_CLIQUE_SET
from app.rules.topology.levels import Level, Topology
from tests.cluster.offline import OfflineCluster
from tests.kube.memory.client import MemoryClient

HOST, RACK = Level("host", "kubernetes.io/hostname"), Level("rack", "r")
SET = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": "pcs", "namespace": "ns"}}


def topology(*levels: Any, name: str = "grove-topology") -> Object:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": name},
        "spec": {"levels": list(levels)},
    }


def level(domain: Any, key: Any) -> dict[str, Any]:
    return {"domain": domain, "key": key}


def unfilled(*, enabled: bool = True) -> CachedFacts:
    return CachedFacts(MemoryClient(), Stores(FOR_VERDICTS), topology_name="grove-topology", topology_enabled=enabled)


READS: list[Any] = [
    pytest.param(lambda facts: facts.topology(), "ClusterTopologies", id="the topology"),
    pytest.param(lambda facts: facts.cached_set("ns", "pcs"), "PodCliqueSets", id="a set"),
    pytest.param(lambda facts: facts.node_labels("n"), "Nodes", id="a node"),
]


@pytest.mark.parametrize(("read", "what"), READS)
def test_an_unfilled_cache_is_said_by_name(read: Callable[[CachedFacts], Any], what: str) -> None:
    with pytest.raises(Unavailable) as caught:
        read(unfilled())
    assert caught.value.message == f"the cache of {what} is not filled yet; try again in a few seconds"


async def test_a_set_is_not_read_past_an_unfilled_cache() -> None:
    with pytest.raises(Unavailable, match="PodCliqueSets"):
        await unfilled().read_set("ns", "pcs")


def test_a_topology_that_is_switched_off_needs_no_cache() -> None:
    assert unfilled(enabled=False).topology() == Topology("grove-topology", enabled=False)


LEVELS: list[Any] = [
    pytest.param([level("host", HOST.key), level("rack", "r")], (RACK, HOST), id="broadest first, however written"),
    pytest.param([level("galaxy", "g"), level("rack", "r")], (RACK,), id="without unknown domains"),
    pytest.param([7, level("rack", 7), level([], "x"), {}, level("rack", "r")], (RACK,), id="without odd ones"),
    pytest.param([], (), id="none"),
]


@pytest.mark.parametrize(("stored", "levels"), LEVELS)
def test_levels_are_read_from_what_is_stored(stored: list[Any], levels: tuple[Level, ...]) -> None:
    assert read_topology_levels(topology(*stored)) == levels


@pytest.mark.parametrize("spec", [None, [], "x", {"levels": None}, {"levels": {}}])
def test_what_is_no_topology_has_no_levels(spec: Any) -> None:
    assert read_topology_levels({"spec": spec}) == ()


def test_only_the_managed_topology_counts() -> None:
    other = topology(level("zone", "z"), name="mine")
    facts = OfflineCluster([topology(level("rack", "r")), other]).facts
    assert facts.topology() == Topology("grove-topology", enabled=True, levels=(RACK,))
    with pytest.raises(Unavailable, match='ClusterTopology "grove-topology" does not exist yet'):
        OfflineCluster([other]).facts.topology()


def test_a_topology_of_another_name_can_be_managed() -> None:
    facts = OfflineCluster([topology(level("rack", "r"), name="mine")], topology_name="mine").facts
    assert facts.topology() == Topology("mine", enabled=True, levels=(RACK,))


def test_what_is_stored_stands_before_what_is_configured() -> None:
    assert OfflineCluster([topology(level("rack", "r"))], levels=[HOST]).facts.topology().levels == (RACK,)
    assert OfflineCluster(levels=[HOST]).facts.topology().levels == (HOST,)


def test_changed_levels_are_seen_at_once_and_the_same_ones_are_the_same_object() -> None:
    offline = OfflineCluster([topology(level("rack", "r"))])
    before = offline.facts.topology()
    assert offline.facts.topology() is before
    changed = topology(level("rack", "r"), level("host", HOST.key))
    changed["metadata"]["resourceVersion"] = "999"
    offline.stores[TOPOLOGIES].note(changed)
    assert offline.facts.topology().levels == (RACK, HOST)
    assert before.levels == (RACK,)


async def test_a_cached_set_costs_no_call() -> None:
    offline = OfflineCluster([SET])
    found = await offline.facts.read_set("ns", "pcs")
    assert found is not None
    assert found is offline.facts.cached_set("ns", "pcs")
    assert offline.client.calls == []


async def test_a_set_the_cache_lacks_is_read_once_each_time() -> None:
    offline = OfflineCluster()
    offline.client.load([SET])
    found = await offline.facts.read_set("ns", "pcs")
    assert found is not None
    assert (found.namespace, found.name) == ("ns", "pcs")
    assert [(call.verb, call.resource) for call in offline.client.calls] == [("get", POD_CLIQUE_SET)]


async def test_a_set_that_does_not_exist_is_none() -> None:
    offline = OfflineCluster([SET])
    assert await offline.facts.read_set("ns", "other") is None
    assert await offline.facts.read_set("other", "pcs") is None
    assert len(offline.client.calls) == 2


async def test_a_set_without_a_name_is_not_asked_for() -> None:
    offline = OfflineCluster()
    assert await offline.facts.read_set("ns", "") is None
    assert offline.client.calls == []


async def test_sets_that_are_not_served_are_none() -> None:
    offline = OfflineCluster()
    del offline.client.served[POD_CLIQUE_SET]
    assert await offline.facts.read_set("ns", "pcs") is None


async def test_a_read_that_fails_is_not_an_absence() -> None:
    offline = OfflineCluster()
    offline.client.fail_next("get", POD_CLIQUE_SET, Unavailable("down", code=503))
    with pytest.raises(Unavailable, match="down"):
        await offline.facts.read_set("ns", "pcs")
    with pytest.raises(NotFound):
        await offline.client.get(POD_CLIQUE_SET, "pcs", "ns")


@pytest.mark.parametrize("labels", [{"a": "b"}, {}, None])
def test_the_labels_of_a_node(labels: Any) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}}
    facts = OfflineCluster([node], node_labels=("a",)).facts
    assert facts.node_labels("n") == (labels or {})
    assert facts.node_labels("m") is None


def test_documents_that_are_no_facts_are_passed_over() -> None:
    documents: list[Any] = [
        {},
        {"kind": "Node"},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": 7}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
        {"apiVersion": "other/v1", "kind": "PodCliqueSet", "metadata": {"name": "a"}},
    ]
    offline = documents_cluster(Configuration(), documents)
    assert {name: len(store) for name, store in offline.stores.by_name().items()} == {
        "clustertopologies": 0,
        "clustertopologybindings": 0,
        "topologies": 0,
        "podcliquesets": 0,
        "nodes": 0,
        "podgangs": 0,
        "computedomains": 0,
        "resourceclaims": 0,
        "deviceclasses": 0,
    }
