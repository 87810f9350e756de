"""Self-managed certificates, from configurations without a caBundle to webhooks that are asked."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from app.config.read import read_configuration
from app.config.schema import Configuration
from app.facts.kinds import POD_GROUP
from app.kube.api import Object, ObjectRef, Rejected
from app.objects.resource import MUTATING_WEBHOOKS, SECRET, VALIDATING_WEBHOOKS, Resource
from app.server.serve import Running
from scripts.apiserver.admission_server import ApiServer, configurations_of, unregistered
from scripts.apiserver.processes import free_port
from tests.integration.conftest import CONFIGURATION
from tests.integration.system import Users, eventually
from tests.integration.tried import tried

NAME = "grove-admission"
NAMESPACE = "grove-system"
SELF_MANAGED = "certificates: {mode: self-managed, settleSeconds: 0}\n"


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return read_configuration(CONFIGURATION.format(port=free_port()) + SELF_MANAGED, "test")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(
    api: ApiServer, configuration: Configuration, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    """Our server, and the configurations as somebody installs them: they trust nothing yet."""
    async with unregistered(
        api, configuration, tmp_path_factory.mktemp("served"), readable=False
    ) as served:
        await api.apply(configurations_of(served, b""))
        yield served


async def secret(clients: Users) -> Object:
    return await clients.operator.get(ObjectRef(SECRET, f"{NAME}-certificates", NAMESPACE))


async def bundles(clients: Users, resource: Resource) -> set[str]:
    configuration = await clients.operator.get(ObjectRef(resource, NAME))
    return {webhook["clientConfig"].get("caBundle", "") for webhook in configuration["webhooks"]}


async def is_published(clients: Users) -> bool:
    published = {(await secret(clients))["data"]["ca.crt"]}
    return all(
        [
            await bundles(clients, resource) == published
            for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        ]
    )


async def refusal(clients: Users, namespace: str) -> str:
    """What a user is told of a PodGroup with a name given twice; "" if it is allowed."""
    spec = {"minMember": 1, "subGroups": [{"name": "a", "minMember": 1}] * 2}
    group: dict[str, Any] = {"metadata": {"name": "twice"}, "spec": spec}
    try:
        await tried(clients.user, POD_GROUP, group, namespace)
    except Rejected as refused:
        return refused.message
    return ""


@pytest.mark.untraced
async def test_the_webhooks_are_trusted_without_anybody_s_help(
    served: Running, clients: Users, namespace: str
) -> None:
    await eventually(lambda: is_published(clients))
    assert "duplicate subgroup name a" in await refusal(clients, namespace)
    assert (await secret(clients))["type"] == "kubernetes.io/tls"


async def test_a_ca_bundle_that_somebody_takes_out_comes_back(
    served: Running, clients: Users, namespace: str
) -> None:
    await eventually(lambda: is_published(clients))
    configuration = await clients.admin.get(ObjectRef(VALIDATING_WEBHOOKS, NAME))
    for webhook in configuration["webhooks"]:
        webhook["clientConfig"]["caBundle"] = ""
    await clients.admin.patch(
        ObjectRef(VALIDATING_WEBHOOKS, NAME), {"webhooks": configuration["webhooks"]}
    )
    await eventually(lambda: is_published(clients))
    assert "duplicate subgroup name a" in await refusal(clients, namespace)


async def test_a_secret_that_somebody_deletes_comes_back_as_it_was(
    served: Running, clients: Users
) -> None:
    await eventually(lambda: is_published(clients))
    before = (await secret(clients))["data"]
    await clients.admin.delete(ObjectRef(SECRET, f"{NAME}-certificates", NAMESPACE))

    async def restored() -> int:
        return served.certificate.rotations.get("restore", 0)

    assert await eventually(restored) == 1
    assert (await secret(clients))["data"] == before
