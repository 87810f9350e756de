"""What is read of a cluster once: all facts, and the levels that stand in for a topology.

Tests `app/cluster/command_clients.py` and `app/cluster/filled.py`.
"""

from collections.abc import Sequence

from app.cluster.cluster import Cluster
from app.cluster.command_clients import how_to_renew, is_expired, looking_client
from app.cluster.connect import limits
from app.cluster.filled import cluster_around, read_into
from app.config.schema import Configuration
from app.facts.grove.topology import Level
from app.facts.kinds import (
    ALL,
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    POD_CLIQUE_SET,
    QUEUE,
)
from app.facts.rows import QUEUE_NAMES, SETS, TOPOLOGIES
from app.kube.api import ClusterError, Object, Rejected, Unavailable
from tests import builders
from tests.cluster.offline import configured
from tests.kube.memory.client import EVERYTHING, MemoryClient

RACK = (Level("rack", "example.com/rack"),)
NAME = "grove-topology"


def topology(name: str = NAME) -> Object:
    return builders.cluster_topology(name, host="kubernetes.io/hostname")


async def read(
    *objects: Object, levels: Sequence[Level] = RACK, later: bool = False
) -> tuple[list[list[str]], bool]:
    """The levels of all ClusterTopologies, and whether the configured ones stand in for one."""
    served = {**EVERYTHING, **({CLUSTER_TOPOLOGY_BINDING: "v1alpha1"} if later else {})}
    client = MemoryClient(objects, served=served)
    cluster = Cluster(client, configured(NAME, True, levels))
    listing = await read_into(cluster, client, tuple(levels), None)
    assert listing.unread == {}
    stored = cluster.stores[TOPOLOGIES].values()
    return [[level.domain for level in each.levels] for each in stored], listing.stands_in


async def test_configured_levels_stand_in_for_a_missing_topology_of_their_dialect() -> None:
    assert await read() == ([["rack"]], True)
    assert await read(levels=()) == ([], False)
    assert await read(topology()) == ([["host"]], False)
    assert await read(later=True) == ([], False)


async def test_nothing_stands_in_for_a_topology_that_may_be_there() -> None:
    client = MemoryClient([topology()])
    client.fail_next("list", CLUSTER_TOPOLOGY, Rejected("forbidden", code=403))
    cluster = Cluster(client, configured(NAME, True, RACK))
    listing = await read_into(cluster, client, RACK, None)
    assert (listing.stands_in, list(listing.unread)) == (False, [CLUSTER_TOPOLOGY])
    assert not cluster.stores[TOPOLOGIES].synced


async def test_what_can_not_be_read_is_named_with_the_reason() -> None:
    client = MemoryClient([])
    client.fail_next("list", POD_CLIQUE_SET, Rejected("forbidden", code=403))
    _, unread = await cluster_around([], client, Configuration())
    assert unread == [f"{POD_CLIQUE_SET} (forbidden)"]


async def test_documents_are_as_if_they_were_stored() -> None:
    old = builders.pod_clique_set("train")
    old["metadata"]["namespace"] = "ns"
    new = {**old, "metadata": {**old["metadata"], "annotations": {"grove.io/mnnvl-group": "g"}}}
    cluster, unread = await cluster_around([new], MemoryClient([old]), Configuration())
    assert unread == []
    (stored,) = cluster.stores[SETS].values()
    assert [pcs.name for pcs in cluster.facts.sets_with_groups("ns")] == [stored.name] == ["train"]


async def test_what_warnings_need_is_read_too_and_may_be_forbidden() -> None:
    queue = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "team-a"},
    }
    own = {**queue, "metadata": {"name": "team-b"}}
    cluster, unread = await cluster_around([own], MemoryClient([queue]), Configuration())
    assert unread == []
    assert set(cluster.hints[QUEUE_NAMES].values()) == {"team-a", "team-b"}

    client = MemoryClient([queue])
    client.fail_next("list", QUEUE, Rejected("forbidden", code=403))
    cluster, unread = await cluster_around([], client, Configuration())
    assert unread == []
    assert not cluster.hints[QUEUE_NAMES].synced


async def test_recorded_answers_need_no_cluster() -> None:
    async def answered(*arguments: object, **options: object) -> object:
        return None

    async with looking_client(ALL, None, None, answered) as client:  # type: ignore[arg-type]
        assert client.call is answered


def test_credentials_are_renewed_only_if_they_were_refused() -> None:
    assert not is_expired(None)
    assert not is_expired(ValueError("no"))
    assert not is_expired(Unavailable("gone"))
    assert is_expired(ClusterError("who?", code=401))
    assert how_to_renew(Unavailable("gone"), None, None) == ""


def test_the_limits_of_a_client_are_those_of_the_configuration() -> None:
    client = {"timeoutSeconds": 7, "queriesPerSecond": 8, "burst": 9}
    made = limits(Configuration.model_validate({"client": client}))
    assert (made.total, made.qps, made.burst) == (7, 8, 9)
