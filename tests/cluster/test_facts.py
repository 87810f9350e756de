"""The facts that webhooks ask for: from caches that are filled, else a later try.

Tests `app/cluster/view.py` and `app/facts/grove/topology.py`.
"""

from collections.abc import Callable
from typing import Any

import pytest

from app.cluster.filled import cluster_of as documents_cluster
from app.cluster.view import ClusterView
from app.config.schema import ClusterTopology, Configuration, TopologyLevel
from app.facts.grove.topology import Level
from app.facts.kinds import CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING, POD_CLIQUE_SET, POD_GANG_MAP
from app.facts.rows import (
    BINDINGS,
    FOR_VERDICTS,
    FOR_WARNINGS,
    NODES,
    QUEUE_NAMES,
    TOPOLOGIES,
)
from app.kube.api import NotFound, Object, ObjectRef, Unavailable, WatchEvent
from app.rules.dialects.bindings import BINDINGS as DIALECT
from app.rules.dialects.design import DESIGN
from app.stores.stores import Stores, fill
from tests.builders import managed, node, pod_clique_set
from tests.cluster.offline import OfflineCluster
from tests.kube.memory.client import MemoryClient

HOST = Level("host", "kubernetes.io/hostname")
RACK = Level("rack", "r")
SET = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "PodCliqueSet",
    "metadata": {"name": "pcs", "namespace": "ns"},
}


def topology(*levels: Any, name: str = "grove-topology") -> Object:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": name},
        "spec": {"levels": list(levels)},
    }


def level(domain: Any, key: Any) -> dict[str, Any]:
    return {"domain": domain, "key": key}


def unfilled(*, enabled: bool = True) -> ClusterView:
    return ClusterView(
        MemoryClient(),
        Stores(FOR_VERDICTS),
        hints=Stores(FOR_WARNINGS),
        topology_name="grove-topology",
        topology_enabled=enabled,
    )


READS: list[Any] = [
    pytest.param(lambda facts: facts.topology(), "ClusterTopologies", id="the topology"),
    pytest.param(lambda facts: facts.cached_set("ns", "pcs"), "PodCliqueSets", id="a set"),
    pytest.param(lambda facts: facts.node_labels("n"), "Nodes", id="a node"),
]


@pytest.mark.parametrize(("read", "what"), READS)
def test_an_unfilled_cache_is_said_by_name(read: Callable[[ClusterView], Any], what: str) -> None:
    with pytest.raises(Unavailable) as caught:
        read(unfilled())
    assert (
        caught.value.message == f"the cache of {what} is not filled yet; try again in a few seconds"
    )


async def test_a_set_is_not_read_past_an_unfilled_cache() -> None:
    with pytest.raises(Unavailable, match="PodCliqueSets"):
        await unfilled().read_set("ns", "pcs")


def test_a_topology_that_is_switched_off_needs_no_cache() -> None:
    assert unfilled(enabled=False).topology() == managed("grove-topology", enabled=False)


LEVELS: list[Any] = [
    pytest.param(
        [level("host", HOST.key), level("rack", "r")],
        (RACK, HOST),
        id="broadest first, however written",
    ),
    pytest.param([level("galaxy", "g"), level("rack", "r")], (RACK,), id="without unknown domains"),
    pytest.param(
        [7, level("rack", 7), level([], "x"), {}, level("rack", "r")],
        (RACK,),
        id="without odd ones",
    ),
    pytest.param([], (), id="none"),
]


@pytest.mark.parametrize(("stored", "levels"), LEVELS)
def test_levels_are_read_from_what_is_stored(stored: list[Any], levels: tuple[Level, ...]) -> None:
    assert DESIGN.read_levels(topology(*stored)) == levels


@pytest.mark.parametrize("spec", [None, [], "x", {"levels": None}, {"levels": {}}])
def test_what_is_no_topology_has_no_levels(spec: Any) -> None:
    assert DESIGN.read_levels({"spec": spec}) == ()


def test_only_the_managed_topology_counts() -> None:
    other = topology(level("zone", "z"), name="mine")
    facts = OfflineCluster([topology(level("rack", "r")), other]).facts
    known = facts.topology()
    assert (known.name, known.enabled, known.levels) == ("grove-topology", True, (RACK,))
    with pytest.raises(Unavailable) as caught:
        OfflineCluster([other]).facts.topology()
    assert caught.value.message == (
        'topology support is enabled, but ClusterTopology "grove-topology" does not exist yet;'
        " wait until the leader of grove-admission writes it (clusterTopology.levels)"
    )


def test_without_its_crd_nobody_writes_the_managed_topology() -> None:
    cluster = OfflineCluster([])
    cluster.stores[TOPOLOGIES].mark_not_served()
    with pytest.raises(Unavailable, match="yet; install its CRD"):
        cluster.facts.topology()


def test_a_managed_topology_without_levels_is_not_called_missing() -> None:
    with pytest.raises(
        Unavailable, match='"grove-topology" has no levels yet; wait until the leader'
    ):
        OfflineCluster([topology()]).facts.topology()


def test_a_topology_of_another_name_can_be_managed() -> None:
    facts = OfflineCluster([topology(level("rack", "r"), name="mine")], topology_name="mine").facts
    assert (facts.topology().name, facts.topology().levels) == ("mine", (RACK,))


def test_what_is_stored_stands_before_what_is_configured() -> None:
    assert OfflineCluster(
        [topology(level("rack", "r"))], levels=[HOST]
    ).facts.topology().levels == (RACK,)
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
    pcs = await offline.facts.read_set("ns", "pcs")
    assert pcs is not None
    assert pcs is offline.facts.cached_set("ns", "pcs")
    assert offline.client.calls == []


async def test_a_set_the_cache_lacks_is_read_once_each_time() -> None:
    offline = OfflineCluster()
    offline.client.load([SET])
    pcs = await offline.facts.read_set("ns", "pcs")
    assert pcs is not None
    assert (pcs.namespace, pcs.name) == ("ns", "pcs")
    assert [(call.verb, call.resource) for call in offline.client.calls] == [
        ("get", POD_CLIQUE_SET)
    ]


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
        await offline.client.get(ObjectRef(POD_CLIQUE_SET, "pcs", "ns"))


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
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": {"rack": 7}}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "annotations": [7]}},
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "a", "ownerReferences": [{"kind": "x"}]},
        },
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": {"name": "a", "namespace": 7},
        },
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


RACK_LEVEL = {"domain": "rack", "key": "k/rack"}
BOUND: Object = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "ClusterTopologyBinding",
    "metadata": {"name": "gb200"},
    "spec": {"levels": [RACK_LEVEL]},
}


def test_a_binding_that_stands_in_has_the_levels_that_the_leader_writes() -> None:
    levels = [
        {"domain": "rack", "key": "k/rack"},
        {"domain": "host", "key": "kubernetes.io/hostname"},
        {"domain": "numa", "key": "k/numa"},
    ]
    configuration = Configuration.model_validate(
        {"clusterTopology": {"enabled": True, "levels": levels}}
    )
    for documents, domains in (([BOUND], ["rack", "host"]), ([], ["rack", "host", "numa"])):
        facts = documents_cluster(configuration, documents).facts
        in_use = facts.dialect().in_use(facts)["grove-topology"]
        assert [level.domain for level in in_use] == domains


def test_bindings_and_what_refers_to_them() -> None:
    using = pod_clique_set("using")
    using["metadata"]["namespace"] = "ml"
    using["metadata"]["annotations"] = {"grove.io/mnnvl-group": "train"}
    using["spec"]["template"]["topologyConstraint"] = {
        "topologyName": "gb200",
        "pack": {"required": "rack"},
    }
    kai = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "gb200"},
        "spec": {"levels": [{"nodeLabel": "k/rack", "alias": "rack"}]},
    }
    nodes = [node("a", k_rack="r1"), node("b", k_rack="r1"), node("c")]
    facts = OfflineCluster([BOUND, using, kai, *nodes]).facts
    assert facts.dialect().name == "bindings"
    assert facts.bindings() == {"gb200": (Level("rack", "k/rack"),)}
    assert [pcs.name for pcs in facts.users_of("gb200")] == ["using"]
    assert facts.users_of("other") == []
    assert [pcs.name for pcs in facts.sets_with_groups("ml")] == ["using"]
    topology = facts.kai_topology("gb200")
    assert topology is not None
    assert topology.keys == ("k/rack",)
    assert facts.level_keys() == ("k/rack",)
    assert sorted((sorted(labels.items()), count) for labels, count in facts.nodes()) == [
        ([], 1),
        ([("k/rack", "r1")], 2),
    ]
    assert [problem.reason for problem in facts.level_problems()["gb200"]] == ["NodesLackLevel"]


def test_of_very_many_groupings_of_nodes_only_the_last_are_kept() -> None:
    """Tenants choose the keys of KAI Topologies: what is counted of nodes must not grow with them."""
    facts = OfflineCluster([node("a", k_rack="r1")]).facts
    for number in range(250):
        keys = ("k/rack", f"key-{number}")
        assert list(facts.nodes_with(keys)) == [({"k/rack": "r1"}, 1)]
        kept = len(facts._node_groups._counts)
        assert kept == number % 100 + 1


def test_bindings_that_were_not_listed_yet_are_not_known() -> None:
    cluster = OfflineCluster([])
    cluster.client.served[CLUSTER_TOPOLOGY_BINDING] = "v1alpha1"
    cluster.stores[BINDINGS].mark_not_served()
    with pytest.raises(Unavailable) as caught:
        cluster.facts.bindings()
    assert caught.value.message == (
        "the cache of ClusterTopologyBindings is not filled yet; try again in a few seconds"
    )
    assert cluster.facts.level_problems() == {}


def test_a_cluster_without_the_api_of_bindings_has_none() -> None:
    cluster = OfflineCluster([])
    cluster.stores[BINDINGS].mark_not_served()
    assert cluster.facts.bindings() == {}


def test_the_latest_dialect_whose_sign_is_served_is_in_force() -> None:
    cluster = OfflineCluster([])
    del cluster.client.served[CLUSTER_TOPOLOGY]
    names = [cluster.facts.dialect().name]
    for sign in (CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING, POD_GANG_MAP):
        cluster.client.served[sign] = "v1alpha1"
        names.append(cluster.facts.dialect().name)
    del cluster.client.served[CLUSTER_TOPOLOGY_BINDING]
    names.append(cluster.facts.dialect().name)
    assert names == ["none", "design", "bindings", "epochs", "epochs"]


def test_nodes_are_counted_as_they_change() -> None:
    cluster = OfflineCluster([BOUND, node("a", k_rack="r1")])
    store = cluster.stores[NODES]

    def changed(name: str, version: str, **labels: str) -> None:
        obj = node(name, **labels)
        obj["metadata"]["resourceVersion"] = version
        store.note(obj)

    changed("a", "100", k_rack="r2")
    changed("b", "101", k_rack="r2")
    assert list(cluster.facts.nodes()) == [({"k/rack": "r2"}, 2)]
    changed("b", "102", k_rack="r2", other="x")
    assert list(cluster.facts.nodes()) == [({"k/rack": "r2"}, 2)]
    store.forget()
    assert list(cluster.facts.nodes()) == []


def test_a_new_level_of_a_binding_groups_the_nodes_at_once() -> None:
    cluster = OfflineCluster([BOUND, node("a", k_block="b", k_other="x")])
    assert list(cluster.facts.nodes()) == [({}, 1)]
    changed = {**BOUND, "metadata": {"name": "gb200", "resourceVersion": "100"}}
    changed["spec"] = {"levels": [RACK_LEVEL, {"domain": "block", "key": "k/block"}]}
    cluster.stores[BINDINGS].note(changed)
    assert list(cluster.facts.nodes()) == [({"k/block": "b"}, 1)]


def test_labels_of_nodes_are_known_before_a_level_refers_to_them() -> None:
    cluster = OfflineCluster(
        [BOUND, node("a", k_rack="r1", k_block="b"), node("b", k_block="b"), node("c")]
    )
    facts = cluster.facts
    asked = ["k/block", "k/other", "kubernetes.io/hostname"]
    assert list(facts.nodes_with(asked)) == [({"k/block": "b"}, 2), ({}, 1)]
    gone = node("b", k_block="b")
    changed = node("c", k_block="d")
    gone["metadata"]["resourceVersion"] = changed["metadata"]["resourceVersion"] = "100"
    cluster.stores[NODES].apply(WatchEvent("DELETED", gone))
    cluster.stores[NODES].apply(WatchEvent("MODIFIED", changed))
    assert list(facts.nodes_with(asked)) == [({"k/block": "b"}, 1), ({"k/block": "d"}, 1)]


def test_the_levels_of_a_first_topology_are_compared_with_the_labels_of_nodes() -> None:
    """No stored topology refers to these labels."""
    racks = [
        node(f"n{number}", k_rack=f"r{number % 4}", k_zone=f"z{number % 2}") for number in range(8)
    ]
    cluster = OfflineCluster(racks)
    binding = {**BOUND, "spec": {"levels": [RACK_LEVEL, {"domain": "zone", "key": "k/zone"}]}}
    verdict = DIALECT.validate_levels(binding, None, "CREATE", cluster.facts, managed=False)
    (warning,) = verdict.warnings
    assert 'list "zone" above "rack"' in warning


def test_documents_in_the_words_of_todays_grove_are_judged_in_its_dialect() -> None:
    using = pod_clique_set("using")
    using["spec"]["template"]["topologyConstraint"] = {
        "topologyName": "grove-topology",
        "pack": {"required": "rack"},
    }
    levels = ClusterTopology(enabled=True, levels=(TopologyLevel(domain="rack", key="k/rack"),))
    configuration = Configuration().model_copy(update={"cluster_topology": levels})
    facts = documents_cluster(configuration, [using]).facts
    assert (facts.dialect().name, facts.bindings()) == (
        "bindings",
        {"grove-topology": (Level("rack", "k/rack"),)},
    )
    gang_map = {"apiVersion": "grove.io/v1alpha1", "kind": "PodGangMap", "metadata": {"name": "a"}}
    assert documents_cluster(configuration, [using, gang_map]).facts.dialect().name == "epochs"
    facts = documents_cluster(configuration, [pod_clique_set("using", domain="rack")]).facts
    assert (facts.dialect().name, facts.topology().levels) == ("design", (Level("rack", "k/rack"),))


def test_the_names_of_queues_follow_the_store() -> None:
    cluster = OfflineCluster([])
    queues = cluster.facts.queues
    assert set(queues) == set()

    store = cluster.hints[QUEUE_NAMES]
    team = {"metadata": {"name": "team", "resourceVersion": "1"}}
    fill(store, [team, {"metadata": {"name": "other", "resourceVersion": "2"}}])
    assert set(queues) == {"team", "other"}

    deleted = {"metadata": {"name": "team", "resourceVersion": "3"}}
    store.apply(WatchEvent("DELETED", deleted))
    assert set(queues) == {"other"}

    store.mark_not_served()
    assert set(queues) == set()


def managed_levels(*documents: Object) -> dict[str, list[Any]]:
    """The levels of the managed topologies of a cluster of documents, configured with a host."""
    levels = [level("host", "kubernetes.io/hostname")]
    topology = {"enabled": True, "levels": levels}
    settings = Configuration.model_validate({"clusterTopology": topology})
    cluster = documents_cluster(settings, documents)
    stored = [*cluster.stores[TOPOLOGIES].values(), *cluster.stores[BINDINGS].values()]
    return {topology.name: [level.domain for level in topology.levels] for topology in stored}


def test_documents_without_the_managed_topology_get_the_configured_one() -> None:
    assert managed_levels() == {"grove-topology": ["host"]}
    other = topology(level("rack", "r"), name="other")
    assert managed_levels(other) == {"grove-topology": ["host"], "other": ["rack"]}
    assert managed_levels(topology(level("rack", "r"))) == {"grove-topology": ["rack"]}
    binding = {**BOUND, "metadata": {"name": "grove-topology"}}
    assert managed_levels(binding) == {"grove-topology": ["rack"]}
