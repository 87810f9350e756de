"""The caches of a live cluster, over a cluster in memory: verdicts follow what changes.

Tests `app/cluster/cluster.py`.
"""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.cluster.cluster import Cluster
from app.facts.grove.topology import Level
from app.facts.kinds import ALL, CLUSTER_TOPOLOGY, POD_CLIQUE_SET
from app.facts.rows import TOPOLOGIES
from app.kube.api import NotFound, Object, ObjectRef, Page, Selection, Unavailable
from app.objects.resource import CRD, NODE, Resource
from app.stores import stores
from tests.cluster.offline import configured
from tests.cluster.watched import WatchedMemory, in_background, until

RACK = {"domain": "rack", "key": "k/rack"}
ZONE = {"domain": "zone", "key": "k/zone"}


def topology(*levels: dict[str, str], name: str = "managed") -> Object:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": name},
        "spec": {"levels": list(levels)},
    }


def node(**labels: str) -> Object:
    with_slashes = {key.replace("_", "/"): value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": with_slashes}}


@contextlib.asynccontextmanager
async def running(client: WatchedMemory, **options: Any) -> AsyncIterator[Cluster]:
    cluster = Cluster(client, configured("managed", True, **options), client.discovery)
    async with in_background(stores.run(cluster.stores, client, client.discovery)):
        await until(lambda: all(store.synced for store in cluster.stores.by_name().values()))
        yield cluster


async def test_facts_follow_the_cluster() -> None:
    client = WatchedMemory([topology(RACK), node(k_rack="r1", other_label="x")])
    async with running(client) as cluster:
        assert cluster.facts.topology().levels == (Level("rack", "k/rack"),)
        await until(lambda: cluster.facts.node_labels("n1") == {"k/rack": "r1", "other/label": "x"})
        assert cluster.facts.node_labels("n2") is None
        await client.patch(ObjectRef(NODE, "n1"), {"metadata": {"labels": {"k/rack": "r2"}}})
        await until(lambda: cluster.facts.node_labels("n1") == {"k/rack": "r2", "other/label": "x"})
        await client.delete(ObjectRef(NODE, "n1"))
        await until(lambda: cluster.facts.node_labels("n1") is None)


async def test_a_scrape_has_the_dialect_and_the_levels_with_problems() -> None:
    client = WatchedMemory([topology(RACK, ZONE), node(k_rack="r1")])
    async with running(client) as cluster:
        await until(lambda: cluster.facts.node_labels("n1"))
        figures = [
            (sample.name, sample.value, sample.labels)
            for sample in cluster.samples()
            if "resource" not in sample.labels
        ]
    assert figures == [
        ("dialect_info", 1.0, {"dialect": "design"}),
        ("level_problems", 1.0, {"topology": "managed"}),
    ]


async def test_nodes_are_grouped_by_the_label_of_a_new_level_without_another_list() -> None:
    client = WatchedMemory([topology(RACK), node(k_rack="r1", k_zone="z1", mine_label="m")])
    async with running(client) as cluster:
        await until(lambda: list(cluster.facts.nodes()) == [({"k/rack": "r1"}, 1)])
        await client.patch(
            ObjectRef(CLUSTER_TOPOLOGY, "managed"), {"spec": {"levels": [RACK, ZONE]}}
        )
        await until(lambda: list(cluster.facts.nodes()) == [({"k/rack": "r1", "k/zone": "z1"}, 1)])
        await client.create(CLUSTER_TOPOLOGY, topology(name="other"))
        await client.delete(ObjectRef(CLUSTER_TOPOLOGY, "managed"))
        await until(lambda: len(cluster.stores[TOPOLOGIES]) == 1)
        with pytest.raises(Unavailable, match='"managed" does not exist yet'):
            cluster.facts.topology()
    assert [call.verb for call in client.calls if call.resource == NODE] == ["watch"]


async def test_facts_that_are_not_refreshed_say_how_old_they_are() -> None:
    async with running(WatchedMemory([topology(RACK)])) as cluster:
        nodes = cluster.stores.by_name()["nodes"]
        assert [name for name in cluster.notes() if name.startswith("stale/")] == []
        now = nodes._clock()
        nodes._clock = lambda: now + 500
        said = {name: note for name, note in cluster.notes().items() if name.startswith("stale/")}
        assert said == {"stale/nodes": "verdicts use facts that are 500 s old: the watch is silent"}
        nodes.problem = "nodes: 403"
        assert cluster.notes()["stale/nodes"].endswith(" 500 s old: nodes: 403")
        assert all(problem is None for problem in cluster.checks().values())


async def test_checks_say_what_a_cache_waits_for() -> None:
    client = WatchedMemory([topology(RACK)])
    cluster = Cluster(client, configured("managed", True), client.discovery)
    begin = "the first list is not complete yet: "

    def reasons() -> set[str | None]:
        checks = cluster.checks()
        assert ("discovery" in checks) is not client.discovery.known
        return {reason for name, reason in checks.items() if name != "discovery"}

    assert reasons() == {begin + "waiting for discovery"}
    async with in_background(client.discovery.run()):
        await client.discovery.until_known()
    assert reasons() == {begin + "it was not requested yet"}
    cluster.stores.by_name()["nodes"].problem = "nodes: 403"
    assert cluster.checks()["cache/nodes"] == begin + "nodes: 403"


async def test_nothing_counts_as_not_served_before_the_cluster_has_said_so() -> None:
    answering = asyncio.Event()

    class Slow(WatchedMemory):
        async def _read(self, path: str) -> Object:
            await answering.wait()
            return await super()._read(path)

    client = Slow([topology(RACK)])
    cluster = Cluster(client, configured("managed", True, node_labels=()), client.discovery)
    task = asyncio.create_task(stores.run(cluster.stores, client, client.discovery))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert {store.synced for store in cluster.stores.by_name().values()} == {False}
    assert client.calls == []
    answering.set()
    await until(lambda: all(store.synced for store in cluster.stores.by_name().values()))
    assert cluster.facts.topology().levels == (Level("rack", "k/rack"),)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_a_cluster_without_grove_and_kai_is_quiet_and_picks_them_up() -> None:
    client = WatchedMemory()
    client.served = {resource: resource.versions[0] for resource in ALL if not resource.optional}
    async with running(client) as cluster:
        sets = cluster.stores.by_name()["podcliquesets"]
        assert (sets.served, sets.synced, sets.problem) == (False, True, "")
        client.served[POD_CLIQUE_SET] = "v1alpha1"
        pcs = {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": {"name": "a", "namespace": "ns"},
        }
        client.load([pcs])
        await client.discovery.refresh()
        # the set arrives in a stream, and counts as served once the stream has all sets
        await until(lambda: sets.served)
        assert cluster.facts.cached_set("ns", "a") is not None


class Upgraded(WatchedMemory):
    """An API server that does not serve PodCliqueSets any more, although discovery has read that it
    does.
    """

    async def list(self, selection: Selection, **options: Any) -> Page:
        if selection.resource == POD_CLIQUE_SET:
            self.served.pop(selection.resource, None)
            raise NotFound("the server could not find the requested resource", code=404)
        return await super().list(selection, **options)

    def served_version(self, resource: Resource) -> str | None:
        return self.discovery.served_version(resource)


async def test_what_is_served_is_read_again_if_a_served_resource_is_not_found() -> None:
    client = Upgraded(streams="refused")
    async with running(client):
        await until(lambda: client.discovery.served_version(POD_CLIQUE_SET) is None)


async def test_a_fault_of_our_own_is_raised() -> None:
    client = WatchedMemory([topology(RACK)])
    cluster = Cluster(client, configured("managed", True), client.discovery)

    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    cluster.stores[TOPOLOGIES].subscribe(broken)
    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        await asyncio.wait_for(stores.run(cluster.stores, client, client.discovery), 10)


async def test_a_resource_is_listed_again_after_its_crd_has_changed() -> None:
    """A watch that is open goes on with the former schema, and would miss the fields that are new."""
    crd = {"metadata": {"name": str(POD_CLIQUE_SET), "generation": 1}, "spec": {}}
    client = WatchedMemory(
        [topology(RACK), {"apiVersion": "apiextensions.k8s.io/v1", "kind": CRD.kind, **crd}]
    )
    async with running(client):
        client.calls.clear()
        client.discovery.note_redefined(str(POD_CLIQUE_SET))

        def watches() -> list[str]:
            return [str(call.resource) for call in client.calls if call.verb == "watch"]

        await until(lambda: str(POD_CLIQUE_SET) in watches())
        assert str(CLUSTER_TOPOLOGY) not in watches()


async def test_the_garbage_collector_rests_until_all_lists_are_in() -> None:
    class Looking(WatchedMemory):
        resting: dict[Resource, bool]

        async def list(self, selection: Selection, **options: Any) -> Page:
            self.resting[selection.resource] = not gc.isenabled()
            return await super().list(selection, **options)

    client = Looking([topology(RACK)], streams="refused")
    client.resting = {}
    gc.enable()
    async with running(client):
        assert client.resting[NODE]
        await until(gc.isenabled)
