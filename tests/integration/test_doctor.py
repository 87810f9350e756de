"""`grove-admission doctor` of an installation that is well, and of one that somebody has been at.

Tests `app/commands/doctor.py`.
"""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from app.config.read import read_configuration
from app.config.schema import Configuration
from app.facts.kinds import CLUSTER_TOPOLOGY, KAI_TOPOLOGY
from app.kube.api import Object, ObjectRef, Selection
from app.objects.resource import (
    CONFIG_MAP,
    DEPLOYMENT,
    MUTATING_WEBHOOKS,
    POD,
    SECRET,
    VALIDATING_WEBHOOKS,
)
from app.objects.tokens import split_token
from app.server.serve import Running
from app.webhooks.paths import path_of
from scripts.apiserver.admission_server import ApiServer, configurations_of, unregistered
from scripts.apiserver.processes import free_port
from tests.integration.conftest import CONFIGURATION
from tests.integration.doctor import Doctor
from tests.integration.system import Users, command, eventually

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


async def test_an_installation_that_is_well(well: None, doctor: Doctor, clients: Users) -> None:
    assert await doctor.findings() == (0, [])
    _, out = await doctor.run("--context", "admin", "--all")
    assert "the API server can call the webhooks: a dry run of a ClusterTopology was judged" in out
    assert await names(clients) == [TOPOLOGY]
    assert (
        "while this webhook is down, requests to CREATE, UPDATE podcliques.grove.io are rejected, except in"
        in out
    )
    assert " verifies the certificate at " in out
    assert "service account grove-system/grove-admission has all required permissions" in out
    assert "API servers call the webhooks by URL, not through a Service" in out


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
            "problem",
            f"MutatingWebhookConfiguration {NAME} lacks {', '.join(others)}",
        ),
        (
            "webhooks",
            "warning",
            f'{first}: failurePolicy is "Ignore"; this version installs "Fail"',
        ),
        ("webhooks", "warning", f"{first}: timeoutSeconds is 1; this version installs 10"),
    ]


async def test_a_webhook_that_the_api_server_cannot_reach_is_found(
    well: None, doctor: Doctor, clients: Users
) -> None:
    ref = ObjectRef(VALIDATING_WEBHOOKS, NAME)
    before = (await clients.admin.get(ref))["webhooks"]
    client = before[0]["clientConfig"]
    port = urlsplit(client["url"]).port
    elsewhere = client["url"].replace(f":{port}/", ":9/")
    changed = [{**before[0], "clientConfig": {**client, "url": elsewhere}}, *before[1:]]
    await clients.admin.patch(ref, {"webhooks": changed})
    _, findings = await doctor.findings()
    await clients.admin.patch(ref, {"webhooks": before})
    ((status, message),) = [found[1:] for found in findings if found[0] == "calls"]
    assert status == "problem"
    assert f'failed calling webhook "{before[0]["name"]}"' in message
    assert [topology for topology in await names(clients) if topology != TOPOLOGY] == []


async def names(clients: Users) -> list[str]:
    """The names of the stored topologies."""
    stored = (await clients.admin.list(Selection(CLUSTER_TOPOLOGY))).items
    return [topology["metadata"]["name"] for topology in stored]


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
        f"ValidatingWebhookConfiguration {NAME} is not installed, so its webhooks are not called"
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


async def test_without_a_configuration_it_is_the_one_of_the_replicas(
    well: None, api: ApiServer, clients: Users, text: str, tmp_path: Path
) -> None:
    metadata = {"name": "configuration-1", "namespace": "grove-system"}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    volumes = [{"name": "a", "configMap": {"name": "configuration-1"}}]
    container = {"name": NAME, "image": "grove-admission"}
    template = {"spec": {"containers": [container], "volumes": volumes}}
    template |= {"metadata": {"labels": {"app": NAME}}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": "grove-system"},
        "spec": {"selector": {"matchLabels": {"app": NAME}}, "template": template},
    }
    refs = [
        ObjectRef(CONFIG_MAP, "configuration-1", "grove-system"),
        ObjectRef(DEPLOYMENT, NAME, "grove-system"),
    ]
    options = ("--kubeconfig", str(api.kubeconfig), "--context", "admin", "--all")
    try:
        await clients.admin.create(DEPLOYMENT, deployment, "grove-system")
        await clients.admin.create(
            CONFIG_MAP, {**config_map, "data": {"config.yaml": text}}, "grove-system"
        )
        record = str(tmp_path / "record")
        _, out, _ = await command("doctor", *options, "--record", record)
        _, again, _ = await command("doctor", "--offline", record, "--all")
        wrong = {"data": {"config.yaml": text + "serve: {}\n"}}
        await clients.admin.patch(refs[0], wrong)
        _, invalid, _ = await command("doctor", *options)
    finally:
        for ref in refs:
            await clients.admin.delete(ref)
    source = "ConfigMap grove-system/configuration-1"
    assert f"the configuration is that of {source}" in out
    assert "Secret grove-system/grove-admission-certificates is valid until" in out
    assert again == out
    assert f"the configuration is invalid: {source}: serve: unknown key" in invalid


SECRETS = [f"planted-{number:02}" for number in range(1, 13)]
"""What no record has: `secretly` has a place for each."""


def secretly() -> list[Object]:
    """A Deployment and a Pod with secrets wherever people leave them."""
    s = iter(SECRETS)
    container = {
        "name": NAME,
        "image": f"{next(s)}.example.com/grove-admission:0.1.0",
        "env": [{"name": "TOKEN", "value": next(s)}],
        "envFrom": [{"secretRef": {"name": next(s)}}],
        "args": ["--password", next(s)],
        "command": ["run", next(s)],
        "resources": {"limits": {"nvidia.com/gpu": "4"}},
    }
    applied = {"kubectl.kubernetes.io/last-applied-configuration": next(s)}
    spec = {"containers": [container], "restartPolicy": "Always"}
    template = {"metadata": {"labels": {"app": NAME}, "annotations": {"vault": next(s)}}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": "grove-system", "annotations": applied},
        "spec": {
            "selector": {"matchLabels": {"app": NAME}},
            "template": {**template, "spec": spec},
        },
    }
    init = {**container, "name": "init", "image": next(s), "args": [next(s)]}
    metadata = {"name": "p", "namespace": "grove-system", "labels": {"app": NAME}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "annotations": {"tool.example.com/key": next(s)}},
        "spec": {**spec, "initContainers": [init]},
    }
    return [deployment, pod]


async def test_a_record_gives_the_same_answer_and_has_no_secrets(
    well: None, doctor: Doctor, api: ApiServer, clients: Users, tmp_path: Path
) -> None:
    await api.apply(secretly())
    ref = ObjectRef(SECRET, "grove-admission-certificates", "grove-system")
    hidden = {"ca.crt": SECRETS[-2], "password": SECRETS[-1]}
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in hidden.items()}
    stored = await clients.admin.patch(ref, {"data": encoded})
    record = tmp_path / "record.json"
    asked = ("--all", "--all-webhooks", "--output")
    for output in ("text", "json"):
        answer = await doctor.run("--context", "admin", *asked, output, "--record", str(record))
        code, out, _ = await command("doctor", *asked, output, "--offline", str(record))
        assert (code, out) == answer
    assert "the replicas run image:0.1.0" in out
    assert "init" in record.read_text()

    content = record.read_text()
    assert [secret for secret in (*SECRETS, *encoded.values()) if secret in content] == []
    assert stored["data"]["tls.key"] not in content
    assert "Bearer" not in content
    for path in (path_of(webhook) for webhook in await installed(clients)):
        token, _ = split_token(path)
        assert token
        assert token not in content

    await clients.admin.delete(ObjectRef(DEPLOYMENT, NAME, "grove-system"))
    await clients.admin.delete(ObjectRef(POD, "p", "grove-system"))


async def installed(clients: Users) -> list[Object]:
    """The client configurations of our webhooks."""
    configuration = await clients.admin.get(ObjectRef(MUTATING_WEBHOOKS, NAME))
    return [webhook["clientConfig"] for webhook in configuration["webhooks"]]
