"""pods/binding over the live cache of nodes: whatever happens to nodes and levels, the node is the
authority.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest
from jsonpatch import apply_patch

from app.admission.review import parse
from app.base.json import to_json
from app.cluster.cluster import Cluster
from app.facts.kinds import CLUSTER_TOPOLOGY
from app.kube.api import Object, ObjectRef
from app.objects.resource import NODE
from app.stores import stores
from app.webhooks.pod import PodBindingWebhook
from tests import builders
from tests.cluster.offline import configured
from tests.cluster.watched import SlowMemory
from tests.reviews import load

RACK = "k/rack"
ZONE = "k/zone"
LINK = "k/nvlink"


def topology(**levels: str) -> Object:
    return builders.cluster_topology("managed", **levels)


def node(name: str, **labels: str) -> Object:
    prefixed = {f"k/{key}": value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": prefixed}}


class World:
    def __init__(self, client: SlowMemory, cluster: Cluster) -> None:
        self.client = client
        self.cluster = cluster
        self.webhook = PodBindingWebhook(cluster.facts, (LINK,))

    def bound(self, target: str, **labels: str) -> dict[str, str]:
        """The labels of a Binding to `target` whose caller says `labels` of it."""
        review = load("pod-binding.gpu-node-1")
        review["request"]["object"]["target"] = {"kind": "Node", "name": target}
        review["request"]["object"]["metadata"]["labels"] = {
            f"k/{key}": value for key, value in labels.items()
        }
        after = apply_patch(review["request"]["object"], self.webhook(parse(to_json(review))).patch)
        result: dict[str, str] = after["metadata"]["labels"]
        return result

    async def until_known(self, name: str, labels: dict[str, str] | None) -> None:
        await until(lambda: self.cluster.facts.node_labels(name) == labels)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(240):
        while not true():  # noqa: ASYNC110 - what is waited for is a cache, which nothing announces
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def world_of(*objects: Object) -> AsyncIterator[World]:
    client = SlowMemory(NODE, objects)
    cluster = Cluster(client, configured("managed", True, node_labels=(LINK,)), client.discovery)
    running = asyncio.create_task(stores.run(cluster.stores, client, client.discovery))
    try:
        await until(lambda: all(store.synced for store in cluster.stores.by_name().values()))
        yield World(client, cluster)
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


@pytest.mark.parametrize(
    ("labels", "said", "bound"),
    [
        pytest.param(
            {"rack": "r1", "nvlink": "n1"}, {}, {RACK: "r1", LINK: "n1"}, id="what the node has"
        ),
        pytest.param({"rack": "r1"}, {"rack": "fake"}, {RACK: "r1"}, id="a claim is overwritten"),
        pytest.param(
            {},
            {"rack": "fake", "nvlink": "fake"},
            {},
            id="a claim of what the node lacks is removed",
        ),
        pytest.param(
            {"rack": "r1"}, {"mine": "1"}, {RACK: "r1", "k/mine": "1"}, id="other labels stay"
        ),
        pytest.param(
            {"zone": "z1"},
            {"zone": "fake"},
            {ZONE: "fake"},
            id="a key that is no level is not ours",
        ),
    ],
)
@pytest.mark.statement("5.4", "5.21")
async def test_the_labels_of_a_binding(
    labels: dict[str, str], said: dict[str, str], bound: dict[str, str]
) -> None:
    async with world_of(topology(rack=RACK), node("n", **labels)) as world:
        assert world.bound("n", **said) == bound


async def test_the_keys_follow_the_clustertopology() -> None:
    async with world_of(topology(rack=RACK), node("n", rack="r1", zone="z1")) as world:
        levels = topology(rack=RACK, zone=ZONE)["spec"]
        await world.client.patch(ObjectRef(CLUSTER_TOPOLOGY, "managed"), {"spec": levels})
        await until(lambda: world.bound("n", zone="fake") == {RACK: "r1", ZONE: "z1"})
        await world.client.patch(
            ObjectRef(CLUSTER_TOPOLOGY, "managed"), {"spec": topology(zone=ZONE)["spec"]}
        )
        await until(lambda: world.bound("n", rack="mine") == {RACK: "mine", ZONE: "z1"})


async def test_labels_for_a_new_level_are_known_although_nodes_are_not_listed_again() -> None:
    async with world_of(topology(rack=RACK), node("n", rack="r1", zone="z1")) as world:
        world.client.answering.clear()
        await world.client.patch(
            ObjectRef(CLUSTER_TOPOLOGY, "managed"), {"spec": topology(rack=RACK, zone=ZONE)["spec"]}
        )
        await until(lambda: len(world.cluster.facts.topology().levels) == 2)
        assert world.bound("n", zone="fake") == {RACK: "r1", ZONE: "z1"}


@pytest.mark.untraced
@pytest.mark.statement("5.35")
async def test_fifteen_thousand_nodes_are_answered_for_without_a_call() -> None:
    """Also while some of them are relabelled and removed."""
    nodes = [
        node(f"n{number}", rack=f"r{number // 16}", nvlink=f"l{number // 8}")
        for number in range(15_000)
    ]
    async with world_of(topology(rack=RACK), *nodes) as world:
        await world.client.patch(
            ObjectRef(NODE, "n1"), {"metadata": {"labels": {RACK: "moved", LINK: None}}}
        )
        await world.client.delete(ObjectRef(NODE, "n2"))
        await world.until_known("n2", None)
        before = len(world.client.calls)
        bound = {
            name: world.bound(name, rack="fake") for name in ("n0", "n1", "n2", "n14999", "n15000")
        }
        assert bound == {
            "n0": {RACK: "r0", LINK: "l0"},
            "n1": {RACK: "moved"},
            "n2": {RACK: "fake"},
            "n14999": {RACK: "r937", LINK: "l1874"},
            "n15000": {RACK: "fake"},
        }
        assert world.client.calls[before:] == []
