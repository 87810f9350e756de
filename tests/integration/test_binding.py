"""Pods are labelled with their node's topology when they are bound, whatever the caller or the Pod
says.
"""

import pytest
import pytest_asyncio

from app.kube.api import Object, ObjectRef
from app.objects.resource import NODE, POD
from app.server.serve import Running
from scripts.apiserver.admission_server import ApiServer
from tests.integration.system import Users, eventually

ZONE = "topology.kubernetes.io/zone"
RACK = "topology.kubernetes.io/rack"
NVLINK = "example.com/nvlink-domain"
HOST = "kubernetes.io/hostname"
LABELS = {RACK: "r12", NVLINK: "nv-3", "example.com/other": "x"}

pytestmark = [pytest.mark.untraced, pytest.mark.usefixtures("served")]


@pytest_asyncio.fixture(loop_scope="module")
async def node(clients: Users, served: Running, namespace: str) -> str:
    """A node of its own for each test, with a rack and an NVLink domain; our server knows it."""
    name = f"node-{namespace}"
    await clients.admin.create(NODE, {"metadata": {"name": name, "labels": {**LABELS, HOST: name}}})
    await known(served, name, {RACK: "r12", NVLINK: "nv-3", HOST: name})
    return name


async def known(served: Running, name: str, labels: dict[str, str] | None) -> None:
    """Waits until the cache has these labels of a node, apart from those that no test reads."""

    async def seen() -> dict[str, str] | None:
        node_labels = served.cluster.facts.node_labels(name)
        return (
            None
            if node_labels is None
            else {key: node_labels[key] for key in (RACK, NVLINK, HOST) if key in node_labels}
        )

    assert await eventually(seen, lambda node_labels: node_labels == labels) == labels


async def bound(
    clients: Users, namespace: str, node: str, pod: Object | None = None, **binding: str
) -> Object:
    """The labels of a Pod after it was bound to `node` by a caller who says `binding` of it."""
    spec = {"containers": [{"name": "main", "image": "registry.example/main:1"}]}
    await clients.user.create(
        POD, {"metadata": {"name": "p", "labels": pod or {}}, "spec": spec}, namespace
    )
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    labels = {key.replace("__", ".").replace("_", "/"): value for key, value in binding.items()}
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "labels": labels},
        "target": target,
    }
    await clients.call("POST", f"/api/v1/namespaces/{namespace}/pods/p/binding", body)
    stored = await clients.user.get(ObjectRef(POD, "p", namespace))
    assert stored["spec"]["nodeName"] == node
    pod_labels: Object = stored["metadata"].get("labels", {})
    return pod_labels


@pytest.mark.statement("5.1", "5.7", "5.10", "5.11", "5.22", "5.32", "5.33", "5.34", "5.36")
async def test_a_pod_gets_the_labels_of_its_node(clients: Users, namespace: str, node: str) -> None:
    assert await bound(clients, namespace, node, {"app": "x"}) == {
        "app": "x",
        RACK: "r12",
        NVLINK: "nv-3",
        HOST: node,
    }


@pytest.mark.statement("5.15")
async def test_what_the_caller_claims_is_overwritten(
    clients: Users, namespace: str, node: str
) -> None:
    labels = await bound(clients, namespace, node, {}, topology__kubernetes__io_rack="faked")
    assert labels[RACK] == "r12"


async def test_what_the_pod_claimed_before_is_overwritten(
    clients: Users, namespace: str, node: str
) -> None:
    labels = await bound(clients, namespace, node, {RACK: "faked", NVLINK: "faked"})
    assert (labels[RACK], labels[NVLINK]) == ("r12", "nv-3")


@pytest.mark.statement("5.13")
async def test_a_relabelled_node_counts_as_it_is_now(
    clients: Users, served: Running, namespace: str, node: str
) -> None:
    changed = {"metadata": {"labels": {RACK: "r13", NVLINK: None}}}
    await clients.admin.patch(ObjectRef(NODE, node), changed)
    await known(served, node, {RACK: "r13", HOST: node})
    labels = await bound(
        clients,
        namespace,
        node,
        {},
        example__com_nvlink="other",
        topology__kubernetes__io_rack="r12",
    )
    assert (labels[RACK], NVLINK in labels) == ("r13", False)


@pytest.mark.statement("5.16", "5.25")
async def test_a_label_that_the_node_lacks_is_not_claimed(
    clients: Users, namespace: str, node: str
) -> None:
    labels = await bound(clients, namespace, node, {}, **{"topology__kubernetes__io_zone": "faked"})
    assert labels.get(ZONE) in (None, "")


@pytest.mark.statement("5.17")
async def test_a_label_of_the_pod_itself_stays_if_the_node_lacks_it(
    clients: Users, namespace: str, node: str
) -> None:
    """A Binding can't remove it: an API server copies labels, empty ones too."""
    labels = await bound(clients, namespace, node, {ZONE: "faked", "app": "x"}, app="")
    assert (labels[ZONE], labels["app"]) == ("faked", "")


async def test_a_pod_that_names_its_node_is_never_bound_and_keeps_its_labels(
    clients: Users, namespace: str, node: str
) -> None:
    containers = [{"name": "main", "image": "registry.example/main:1"}]
    metadata = {"name": "p", "labels": {RACK: "faked"}}
    spec = {"nodeName": node, "containers": containers}
    stored = await clients.user.create(POD, {"metadata": metadata, "spec": spec}, namespace)
    assert stored["metadata"]["labels"][RACK] == "faked"


@pytest.mark.parametrize("gone", [False, True], ids=["never known", "removed"])
async def test_an_unknown_node_changes_nothing(
    clients: Users, served: Running, namespace: str, node: str, gone: bool
) -> None:
    if gone:
        await clients.admin.delete(ObjectRef(NODE, node))
        await known(served, node, None)
    name = node if gone else f"unknown-{namespace}"
    assert await bound(clients, namespace, name, {"app": "x", RACK: "mine"}) == {
        "app": "x",
        RACK: "mine",
    }


@pytest.mark.statement("5.30", "5.31", "5.42")
async def test_without_the_webhook_a_pod_is_bound_as_ever(
    clients: Users, api: ApiServer, namespace: str, node: str
) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/grove-admission"
    before = await clients.call("GET", path)
    before = {**before, "metadata": {"name": before["metadata"]["name"]}}
    others = [
        webhook
        for webhook in before["webhooks"]
        if "pod-binding" not in webhook["name"] and "podbinding" not in webhook["name"]
    ]
    assert len(others) == len(before["webhooks"]) - 1
    await clients.answer("admin", "DELETE", path)
    await api.apply([{**before, "webhooks": others}])
    try:
        assert await bound(clients, namespace, node, {"app": "x"}) == {"app": "x"}
    finally:
        await clients.answer("admin", "DELETE", path)
        await api.apply([before])
