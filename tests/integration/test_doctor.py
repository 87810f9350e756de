"""`grove-admission doctor` of an installation that is well, and of one that somebody has been at."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.commands.beside import ApiServer, configurations_of, unregistered
from app.config.read import read_configuration
from app.config.schema import Configuration
from app.facts.kinds import CLUSTER_TOPOLOGY, KAI_TOPOLOGY
from app.kube.api import ObjectRef, Selection
from app.objects.resource import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from app.sandbox.processes import free_port
from app.server.serve import Running
from tests.integration.conftest import CONFIGURATION
from tests.integration.doctor import Doctor
from tests.integration.system import Users, eventually

pytestmark = pytest.mark.untraced

NAME = "grove-admission"
TOPOLOGY = "grove-topology"
SELF_MANAGED = "certificates: {mode: self-managed, settleSeconds: 0}\n"


@pytest.fixture(scope="module")
def text() -> str:
    return CONFIGURATION.format(port=free_port()) + SELF_MANAGED


@pytest.fixture(scope="module")
def configuration(text: str) -> Configuration:
    return read_configuration(text, "test")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(
    api: ApiServer, configuration: Configuration, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    async with unregistered(
        api, configuration, tmp_path_factory.mktemp("served"), readable=False
    ) as served:
        await api.apply(configurations_of(served, b""))
        yield served


@pytest.fixture
def doctor(api: ApiServer, text: str, tmp_path: Path) -> Doctor:
    (tmp_path / "config.yaml").write_text(text)
    return Doctor(api, tmp_path / "config.yaml")


@pytest_asyncio.fixture(loop_scope="module")
async def well(served: Running, clients: Users) -> None:
    """Waits until the server has done what it does at start."""

    async def is_well() -> bool:
        installed = [
            await clients.admin.get(ObjectRef(resource, NAME))
            for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        ]
        ready = [
            condition["status"]
            for condition in await conditions(clients)
            if condition["type"] == "Ready"
        ]
        trusted = all(
            webhook["clientConfig"].get("caBundle")
            for configuration in installed
            for webhook in configuration["webhooks"]
        )
        return trusted and ready == ["True"]

    await eventually(is_well)


async def conditions(clients: Users) -> list[Any]:
    topologies = (await clients.admin.list(Selection(CLUSTER_TOPOLOGY))).items
    return [
        condition
        for topology in topologies
        for condition in (topology.get("status") or {}).get("conditions") or []
    ]


async def test_an_installation_that_is_well(well: None, doctor: Doctor) -> None:
    assert await doctor.findings() == (0, [])
    _, out = await doctor.run("--context", "admin", "--all")
    assert (
        "while the server is down, CREATE, UPDATE of podcliques.grove.io are refused, except in"
        in out
    )
    assert "shows a certificate for " in out
    assert "service account grove-system/grove-admission may do all that is needed" in out
    assert "the webhooks call URLs, no Service" in out


async def test_who_may_not_look_learns_that_and_no_more(well: None, doctor: Doctor) -> None:
    code, findings = await doctor.findings("operator")
    assert code == 2
    assert [status for subject, status, _ in findings if subject == "permissions"] == [
        "unknown",
        "unknown",
    ]


async def test_what_somebody_changed_is_found(well: None, doctor: Doctor, clients: Users) -> None:
    before = await clients.admin.get(ObjectRef(MUTATING_WEBHOOKS, NAME))
    changed = [
        {**webhook, "failurePolicy": "Ignore", "timeoutSeconds": 1}
        for webhook in before["webhooks"][:1]
    ]
    await clients.admin.patch(ObjectRef(MUTATING_WEBHOOKS, NAME), {"webhooks": changed})
    _, findings = await doctor.findings()
    await clients.admin.patch(ObjectRef(MUTATING_WEBHOOKS, NAME), {"webhooks": before["webhooks"]})
    first, *others = (webhook["name"] for webhook in before["webhooks"])
    assert findings == [
        (
            "webhooks",
            "warning",
            f'{first}: failurePolicy is "Ignore"; this version installs "Fail"',
        ),
        ("webhooks", "warning", f"{first}: timeoutSeconds is 1; this version installs 10"),
        *(
            ("webhooks", "problem", f"MutatingWebhookConfiguration {NAME} has no {name}")
            for name in others
        ),
    ]


async def test_a_configuration_that_is_gone_and_a_topology_of_somebody_else(
    well: None, doctor: Doctor, clients: Users, api: ApiServer, served: Running
) -> None:
    await clients.admin.delete(ObjectRef(VALIDATING_WEBHOOKS, NAME))
    kai = await clients.admin.get(ObjectRef(KAI_TOPOLOGY, TOPOLOGY))
    await clients.admin.patch(
        ObjectRef(KAI_TOPOLOGY, TOPOLOGY), {"metadata": {"ownerReferences": []}}
    )

    async def is_said() -> bool:
        return any(condition["status"] == "False" for condition in await conditions(clients))

    await eventually(is_said)
    code, findings = await doctor.findings()
    missing = (
        f"ValidatingWebhookConfiguration {NAME} is not installed: nothing is checked or injected"
    )
    assert ("webhooks", "problem", missing) in findings
    assert [status for subject, status, _ in findings if subject == "topology"] == [
        "problem",
        "problem",
    ]
    assert code == 1
    owners = kai["metadata"]["ownerReferences"]
    await clients.admin.patch(
        ObjectRef(KAI_TOPOLOGY, TOPOLOGY), {"metadata": {"ownerReferences": owners}}
    )
    await api.apply(configurations_of(served, b"")[-1:])
