"""What a cluster tells about itself, and the facts for verdicts on templates."""

import copy

import pytest

from app.base.sample import gauge
from app.cluster.cluster import ForTemplates
from app.facts.grove.unit_member import read_carrier_of_pod
from app.facts.kinds import COMPUTE_DOMAIN, RESOURCE_CLAIM
from app.kube.api import Object
from app.rules.mnnvl.warnings import NvlinkDomains
from app.rules.topology.coverage import Nodes
from tests import builders
from tests.cluster.mnnvl import GANG, SET, claim, domain, gang
from tests.cluster.offline import OfflineCluster
from tests.kube.memory.client import EVERYTHING, MemoryClient
from tests.pods import owners, pod


def channel() -> Object:
    """A claim for the channel of a node, which its user made."""
    request = {
        "name": "r",
        "exactly": {"deviceClassName": "compute-domain-default-channel.nvidia.com"},
    }
    return {**claim([], name="theirs"), "spec": {"devices": {"requests": [request]}}}


def cluster_of(*more: Object) -> OfflineCluster:
    nodes = [
        builders.node("a", **{"example.com/rack": "r1"}),
        builders.node("b", **{"example.com/rack": "r2"}),
        builders.node("c", **{"example.com/rack": "r2"}),
    ]
    return OfflineCluster([*owners(), *nodes, *more])


def facts(cluster: OfflineCluster) -> ForTemplates:
    return cluster.for_templates


def test_templates_are_judged_by_the_nodes_of_the_cluster() -> None:
    cluster = cluster_of()
    assert list(facts(cluster).nodes_with(["example.com/rack"])) == [
        ({"example.com/rack": "r1"}, 1),
        ({"example.com/rack": "r2"}, 2),
    ]
    assert list(facts(cluster).nodes_with(["example.com/zone"])) == list(Nodes([({}, 3)]))
    assert facts(cluster).nvlink == cluster.facts.nvlink == NvlinkDomains(18, 0)


@pytest.mark.parametrize(
    ("stored", "field"),
    [([channel()], "spec.resourceClaims[0]"), ([], None)],
    ids=["a claim for the channel", "no such claim"],
)
async def test_templates_have_the_rivals_of_their_pods(
    stored: list[Object], field: str | None
) -> None:
    obj = copy.deepcopy(pod("lws-worker"))
    obj["spec"]["resourceClaims"] = [{"name": "theirs", "resourceClaimName": "theirs"}]
    rival = await facts(cluster_of(*stored)).find_rival(read_carrier_of_pod(obj, "ns"))
    assert (rival and rival.field) == field


async def test_templates_have_the_group_that_their_pods_name() -> None:
    obj = copy.deepcopy(pod("lws-worker"))
    obj["metadata"]["annotations"]["pod-group-name"] = "pg"
    found = await facts(cluster_of()).own_group(obj, "ns")
    assert found is not None
    assert found.name == "pg"


def test_a_scrape_has_the_state_of_each_cache() -> None:
    cluster = cluster_of()
    samples = list(cluster.samples())
    assert samples[0] == gauge(
        "dialect_info",
        "1 for the dialect of Grove's topology API that is in force.",
        1,
        dialect="design",
    )
    caches = [row.resource.plural for row, _ in cluster.all_stores]
    of_caches = samples[1:]
    assert list(dict.fromkeys(sample.labels["resource"] for sample in of_caches)) == caches
    assert [sample for sample in of_caches if sample.labels["resource"] == "nodes"] == [
        gauge("cache_objects", "Objects in the cache.", 3, resource="nodes"),
        gauge("cache_synced", "1 once the first list is read.", 1, resource="nodes"),
        gauge("cache_served", "1 if the cluster serves the resource.", 1, resource="nodes"),
        gauge(
            "cache_objects_too_large",
            "Objects that are too large to be cached in full.",
            0,
            resource="nodes",
        ),
    ]


async def test_another_client_writes_the_owners_of_the_same_resources() -> None:
    cluster = OfflineCluster([SET, GANG, domain(), claim()])
    other = MemoryClient([SET, GANG, domain(), claim()])
    writer = cluster.owners.written_by(other)
    assert writer.rule is cluster.owners.rule
    written = await writer.adopt(gang(), dry_run=True)
    assert [obj["metadata"]["name"] for obj in written] == ["pcs-0-cd", "pcs-0-mnnvl-claim"]
    assert {call.verb for call in other.calls} == {"get"}
    assert cluster.client.calls == []


async def test_resources_whose_api_is_gone_are_not_given_back() -> None:
    served = {key: value for key, value in EVERYTHING.items() if key != COMPUTE_DOMAIN}
    cluster = OfflineCluster([SET, GANG, claim()])
    other = MemoryClient([SET, GANG, claim()], served=served)
    await cluster.owners.written_by(other).give_back_all_of(gang())
    assert [call.resource for call in other.calls if call.verb == "list"] == [RESOURCE_CLAIM]
