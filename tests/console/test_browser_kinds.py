"""Pages of a real Chromium over API servers whose kinds and rights are not what pages hope for.

Each test has an API server of its own, the sandbox or kube-apiserver.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
import yaml

from app.console.app import opened
from app.console.settings import ConsoleSettings
from app.facts.kinds import POD_CLIQUE_SET, POD_GROUP
from app.kube.api import ClusterError, ObjectRef
from app.kube.client import HttpClient
from app.objects.resource import CRD
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.command import default_configuration
from tests.console.chromium import tab
from tests.console.test_rights import ONE_NAMESPACE, RULES, fill, printed, rights
from tests.integration.stage import api_server
from tests.integration.system import connect, eventually

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]
STORED = ObjectRef(POD_CLIQUE_SET, "llm-serve", "inference")
STUCK = "PodCliqueSet/inference/llm-serve"


@pytest_asyncio.fixture(loop_scope="module")
async def api(kind: str, tmp_path: Path) -> AsyncIterator[ApiServer]:
    server = api_server(kind, tmp_path, None, RULES)
    try:
        await server.start()
        await fill(server)
        yield server
    finally:
        await server.stop()


async def test_a_kind_that_disappears_while_it_is_written_is_missed_at_once(
    browser: "Browser", api: ApiServer
) -> None:
    settings = ConsoleSettings(default_configuration(), api.kubeconfig, "admin", "admin")
    async with (
        await connect(api, "admin") as admin,
        opened(settings) as console,
        tab(browser, console.url) as shown,
    ):
        await shown.page.get_by_text("● live").wait_for()
        # which needs no Grove, and would be shown instead
        await admin.delete(ObjectRef(POD_GROUP, "batch-eval", "research"))
        writing = asyncio.create_task(_write(admin))
        await admin.delete(ObjectRef(CRD, str(POD_CLIQUE_SET)))
        heading = shown.page.get_by_role("heading", level=1)
        await eventually(heading.inner_text, "Grove is not installed in this cluster".__eq__)
        writing.cancel()
        command = await printed(api, "explain", "-A", context="admin")
    assert "PodCliqueSet" not in command[1]


async def _write(client: HttpClient) -> None:
    """Write a set again and again, also when its kind is gone."""
    for number in range(10_000):
        annotations = {"example.com/write": str(number)}
        with contextlib.suppress(ClusterError):
            await client.patch(STORED, {"metadata": {"annotations": annotations}})


async def test_the_namespace_of_the_context_is_read_if_no_other_is_known(
    browser: "Browser", api: ApiServer
) -> None:
    configuration = yaml.safe_load(api.kubeconfig.read_text())
    for context in configuration["contexts"]:
        context["context"]["namespace"] = "inference"
    kubeconfig = api.kubeconfig.with_name("of-a-developer")
    await asyncio.to_thread(kubeconfig.write_text, yaml.safe_dump(configuration))
    settings = ConsoleSettings(
        default_configuration(), kubeconfig, "operator", "operator", own_namespace="inference"
    )
    async with (
        rights(api, ONE_NAMESPACE),
        opened(settings) as console,
        tab(browser, console.url) as shown,
    ):
        listed = shown.page.locator(".sets code")
        names = await eventually(listed.all_inner_texts)
    assert sorted(names) == ["pcs/chat-70b", "pcs/embed", "pcs/llm-serve"]


async def test_an_object_is_shown_as_it_is_stored(browser: "Browser", api: ApiServer) -> None:
    settings = ConsoleSettings(default_configuration(), api.kubeconfig, "admin", "admin")
    async with (
        await connect(api, "admin") as admin,
        opened(settings) as console,
        tab(browser, console.url, f"workloads?object={STUCK}") as shown,
    ):
        stored = await admin.get(STORED)
        await shown.page.get_by_role("link", name="YAML and events", exact=True).click()
        text = await shown.page.locator("pre.yaml").inner_text()
        commands = await shown.page.locator(".cmd code").all_inner_texts()
        await shown.page.goto(f"{console.url}object?object=Secret/grove-system/token")
        secret = await shown.page.locator("main").inner_text()
        read = {resource for _, resource, _ in console.calls}
    stored["metadata"].pop("managedFields", None)
    assert yaml.safe_load(text) == stored
    assert commands[0] == "kubectl get -n inference podcliquesets.grove.io llm-serve -o yaml"
    assert "does not name an object of a kind that the console reads" in secret
    assert not {"secrets", "configmaps"} & read
