"""The webhooks through the admission chain: what is stored, and what a user is told."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
import pytest_asyncio

from app.facts.kinds import CLUSTER_TOPOLOGY, POD_CLIQUE_SET, POD_GANG, POD_GROUP, QUEUE
from app.facts.rows import TOPOLOGIES
from app.kube.api import Conflict, Object, ObjectRef, Rejected
from app.objects.resource import NODE, POD, Resource
from app.server.serve import Running
from scripts.apiserver.admission_server import ApiServer
from tests import builders
from tests.integration.system import Users, eventually, is_gone, names

pytestmark = pytest.mark.usefixtures("topology")

HOST = "kubernetes.io/hostname"
RACK = "topology.kubernetes.io/rack"
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture(scope="module")
def former() -> Sequence[Resource]:
    return (POD_CLIQUE_SET, POD_GROUP)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def topology(clients: Users, served: Running) -> AsyncIterator[None]:
    """The managed ClusterTopology, as the operator makes it, seen by our server."""
    try:
        managed = builders.cluster_topology("grove-topology", zone=ZONE, rack=RACK, host=HOST)
        await clients.operator.create(CLUSTER_TOPOLOGY, managed)
    except Conflict:
        pass

    async def is_seen() -> bool:
        return served.cluster.stores[TOPOLOGIES].get("", "grove-topology") is not None

    await eventually(is_seen)
    yield


async def refusal(action: Any) -> tuple[int, str]:
    with pytest.raises((Rejected, Conflict)) as raised:
        await action
    return raised.value.code, raised.value.message


# ClusterTopology.


@pytest.mark.untraced
@pytest.mark.statement("1.8", "1.51", "1.52", "1.172", "1.173", "1.175", "1.176")
async def test_a_user_may_not_touch_the_managed_topology_but_may_have_one(clients: Users) -> None:
    update = clients.user.patch(
        ObjectRef(CLUSTER_TOPOLOGY, "grove-topology"), {"metadata": {"labels": {"a": "b"}}}
    )
    code, message = await refusal(update)
    assert code == 403
    assert 'ClusterTopology "grove-topology" is managed' in message
    assert (await refusal(clients.user.delete(ObjectRef(CLUSTER_TOPOLOGY, "grove-topology"))))[
        0
    ] == 403
    assert (await refusal(clients.admin.delete(ObjectRef(CLUSTER_TOPOLOGY, "grove-topology"))))[
        0
    ] == 403
    own = builders.cluster_topology("mine", rack="example.com/rack")
    assert (await clients.user.create(CLUSTER_TOPOLOGY, own))["spec"] == own["spec"]
    await clients.user.delete(ObjectRef(CLUSTER_TOPOLOGY, "mine"))
    assert await is_gone(clients.user, CLUSTER_TOPOLOGY, "mine")


@pytest.mark.statement("1.50", "1.171", "1.174")
async def test_the_operator_may_write_the_managed_topology(clients: Users) -> None:
    written = await clients.operator.patch(
        ObjectRef(CLUSTER_TOPOLOGY, "grove-topology"), {"metadata": {"labels": {"a": "b"}}}
    )
    assert written["metadata"]["labels"] == {"a": "b"}


@pytest.mark.statement("1.51")
async def test_a_bulk_delete_of_topologies_stops_at_the_managed_one(clients: Users) -> None:
    await clients.user.create(
        CLUSTER_TOPOLOGY, builders.cluster_topology("another", rack="example.com/rack")
    )
    with pytest.raises(httpx.HTTPStatusError, match="403"):
        await clients.call("DELETE", "/apis/grove.io/v1alpha1/clustertopologies")
    assert not await is_gone(clients.user, CLUSTER_TOPOLOGY, "grove-topology")


@pytest.mark.statement("1.46")
async def test_levels_are_validated(clients: Users) -> None:
    doubled = builders.cluster_topology("doubled", rack="example.com/x", host="example.com/x")
    code, message = await refusal(clients.user.create(CLUSTER_TOPOLOGY, doubled))
    assert code == 422
    assert "key must be unique" in message


# PodCliqueSet.


@pytest.mark.statement("1.177")
async def test_a_valid_hierarchy_is_stored(clients: Users, namespace: str) -> None:
    obj = builders.pod_clique_set("fine", domain="zone", group_domain="rack", clique_domain="host")
    created = await clients.user.create(POD_CLIQUE_SET, obj, namespace)
    assert created["spec"]["template"]["topologyConstraint"] == {"packDomain": "zone"}


@pytest.mark.parametrize(
    ("domains", "told"),
    [
        pytest.param(
            {"domain": "host", "clique_domain": "rack"},
            "spec.template.cliques[0].topologyConstraint.packDomain",
            id="a clique that is broader than its set",
        ),
        pytest.param(
            {"domain": "block"},
            "spec.template.topologyConstraint.packDomain",
            id="a level that isn't there",
        ),
    ],
)
@pytest.mark.statement("1.4", "1.92", "1.178")
async def test_a_wrong_hierarchy_is_refused(
    clients: Users, namespace: str, domains: Any, told: str
) -> None:
    obj = builders.pod_clique_set("wrong", **domains)
    code, message = await refusal(clients.user.create(POD_CLIQUE_SET, obj, namespace))
    assert code == 422
    assert told in message
    assert await is_gone(clients.user, POD_CLIQUE_SET, "wrong", namespace)


@pytest.mark.statement("3.50")
async def test_a_finalizer_can_be_removed_from_what_has_become_invalid(
    clients: Users, namespace: str
) -> None:
    obj = builders.pod_clique_set("held", domain="rack")
    obj["metadata"]["finalizers"] = ["grove.io/podcliqueset"]
    await clients.user.create(POD_CLIQUE_SET, obj, namespace)
    await clients.user.delete(ObjectRef(POD_CLIQUE_SET, "held", namespace))
    broken = {
        "metadata": {"finalizers": None},
        "spec": {"template": {"topologyConstraint": {"packDomain": "block"}}},
    }
    await clients.user.patch(ObjectRef(POD_CLIQUE_SET, "held", namespace), broken)
    assert await is_gone(clients.user, POD_CLIQUE_SET, "held", namespace)


# PodGroup.


@pytest.mark.statement("3.21", "3.22", "3.23", "3.25", "3.27", "3.43", "3.44", "3.47")
async def test_subgroups_are_validated_with_the_designs_messages(
    clients: Users, namespace: str
) -> None:
    obj = builders.pod_group(
        "mixed", {"name": "DecodeWorkers"}, {"name": "leaders", "parent": "Workers"}
    )
    code, message = await refusal(clients.user.create(POD_GROUP, obj, namespace))
    assert code == 422
    rule = "must consist of lowercase alphanumeric characters or '-', must start and end with an alphanumeric character"
    assert f'invalid subgroup name "DecodeWorkers": {rule}' in message
    assert f'invalid parent name "Workers" for subgroup "leaders": {rule}' in message


async def test_podgroups_are_deleted_in_bulk(clients: Users, namespace: str) -> None:
    for name in ("one", "two"):
        await clients.user.create(
            POD_GROUP, builders.pod_group(name, {"name": "workers"}), namespace
        )
    await clients.call(
        "DELETE", f"/apis/scheduling.run.ai/v2alpha2/namespaces/{namespace}/podgroups"
    )
    assert await names(clients.user, POD_GROUP, namespace) == []


# PodGang.


@pytest.mark.parametrize("grove", [False, True], ids=["the design's labels", "Grove's labels"])
@pytest.mark.statement("1.5", "1.144", "1.154", "1.157")
async def test_a_podgang_is_stored_with_its_constraints(
    clients: Users, served: Running, namespace: str, grove: bool
) -> None:
    pcs = builders.pod_clique_set("train", domain="rack", clique_domain="host", group_domain="rack")
    await clients.user.create(POD_CLIQUE_SET, pcs, namespace)
    labels = builders.labels("train", 0, "train-0", grove=grove)
    gang = builders.pod_gang("train-0", labels, "train-0-worker", "train-0-pool-0-leader")
    spec = (await clients.operator.create(POD_GANG, gang, namespace))["spec"]
    assert spec["topologyConstraint"] == packed(RACK)
    assert [podgroup["topologyConstraint"] for podgroup in spec["podgroups"]] == [
        packed(HOST),
        packed(None),
    ]
    assert spec["topologyConstraintGroupConfigs"] == [
        {
            "name": "train-0-pool-0",
            "podGroupNames": ["train-0-pool-0-leader"],
            "topologyConstraint": packed(RACK),
        }
    ]


def packed(required: str | None) -> Object:
    return {"packConstraint": {"preferred": HOST} | ({"required": required} if required else {})}


# pods/binding.


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(clients: Users, served: Running) -> AsyncIterator[str]:
    labels = {
        "topology__kubernetes__io_rack": "r12",
        "example__com_nvlink-domain": "nv-3",
        "example__com_other": "x",
    }
    await clients.admin.create(NODE, builders.node("gpu-node-1", **labels))

    async def is_seen() -> bool:
        return (served.cluster.facts.node_labels("gpu-node-1") or {}).get(RACK) == "r12"

    await eventually(is_seen)
    yield "gpu-node-1"


async def test_a_bound_pod_carries_its_nodes_topology(
    clients: Users, namespace: str, node: str
) -> None:
    pod = {
        "metadata": {"name": "p", "labels": {"app": "x", RACK: "spoofed", ZONE: "spoofed"}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/main:1"}]},
    }
    await clients.user.create(POD, pod, namespace)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "labels": {RACK: "faked"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await clients.call("POST", f"/api/v1/namespaces/{namespace}/pods/p/binding", binding)
    stored = await clients.user.get(ObjectRef(POD, "p", namespace))
    assert stored["spec"]["nodeName"] == node
    expected = {"app": "x", RACK: "r12", "example.com/nvlink-domain": "nv-3", HOST: node}
    assert {
        key: value for key, value in stored["metadata"]["labels"].items() if key != ZONE
    } == expected


# Queues.


async def test_who_names_a_queue_that_does_not_exist_is_warned(
    api: ApiServer, clients: Users, served: Running, namespace: str
) -> None:
    """With the rights of the manifests, and as soon as the queue is made, no more."""
    of_group = {
        "apiVersion": POD_GROUP.api_version(),
        "kind": POD_GROUP.kind,
        "metadata": {"name": "g"},
        "spec": {"minMember": 1, "queue": "gone"},
    }
    path = f"/apis/{POD_GROUP.api_version()}/namespaces/{namespace}/podgroups?dryRun=All"

    async def warnings() -> list[str]:
        answer = await clients.answer("user", "POST", path, of_group)
        return answer.headers.get_list("warning")

    queue = {"apiVersion": QUEUE.api_version(), "kind": QUEUE.kind, "spec": {}}
    await api.apply([{**queue, "metadata": {"name": "team"}}])
    said = await eventually(warnings)
    assert 'queue \\"gone\\" does not exist' in said[0]
    assert "Existing queues: team" in said[0]

    await api.apply([{**queue, "metadata": {"name": "gone"}}])
    await eventually(warnings, lambda said: not said)
