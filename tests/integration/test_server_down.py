"""What the API server does while nobody answers its calls."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from app.facts.kinds import POD_GANG, POD_GROUP
from app.kube.api import ClusterError, ObjectRef
from app.kube.client import HttpClient
from app.objects.resource import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from app.webhooks.configurations import NAME, ServiceTarget, UrlTarget, webhook_configurations
from scripts.apiserver.admission_server import ApiServer
from tests import builders
from tests.integration.system import Users, eventually, is_gone

FINALIZER = "example.com/held"


@pytest_asyncio.fixture(loop_scope="module")
async def down(api: ApiServer, clients: Users, kind: str, namespace: str) -> AsyncIterator[None]:
    """A PodGang and a PodGroup with a finalizer each; then the webhooks, which nobody serves."""
    metadata = {"name": "held", "finalizers": [FINALIZER]}
    await clients.admin.create(
        POD_GANG, {**builders.pod_gang("held", {}, "w"), "metadata": metadata}, namespace
    )
    await clients.admin.create(
        POD_GROUP, {**builders.pod_group("held"), "metadata": metadata}, namespace
    )
    target = ServiceTarget() if kind == "sandbox" else UrlTarget("https://127.0.0.1:1", b"")
    await api.apply(webhook_configurations(target))
    yield
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        await clients.admin.delete(ObjectRef(resource, NAME))


async def refusal(client: HttpClient, resource: Resource, namespace: str) -> str:
    """What is said of a change of the object; "" where it went through."""
    try:
        await client.patch(
            ObjectRef(resource, "held", namespace), {"metadata": {"labels": {"a": "b"}}}
        )
    except ClusterError as error:
        return error.message
    return ""


@pytest.mark.untraced
@pytest.mark.parametrize("resource", [POD_GANG, POD_GROUP], ids=str)
async def test_writes_are_refused_but_finalizers_can_be_removed(
    down: None, clients: Users, namespace: str, resource: Resource
) -> None:
    said = await eventually(lambda: refusal(clients.admin, resource, namespace))
    assert "failed calling webhook" in said
    await clients.admin.delete(ObjectRef(resource, "held", namespace))
    await clients.admin.patch(
        ObjectRef(resource, "held", namespace), {"metadata": {"finalizers": None}}
    )
    await eventually(lambda: is_gone(clients.admin, resource, "held", namespace))
