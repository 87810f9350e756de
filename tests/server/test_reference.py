"""The description of the HTTP API, and the page on which each path is tried."""

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from app.server.reference import recorded_review
from app.webhooks.registry import WEBHOOKS
from tests.console.chromium import tab
from tests.console.conftest import browser as browser
from tests.reviews import Caller
from tests.server.test_endpoints import Served

if TYPE_CHECKING:
    from playwright.async_api import Browser

PATHS = [webhook.path for webhook in WEBHOOKS]


@pytest.mark.parametrize("path", PATHS)
async def test_a_described_review_gets_the_described_answer(path: str) -> None:
    example = recorded_review(path)
    answer = await Caller(is_trusted=False).post(path, json.dumps(example["asked"]).encode())
    assert answer.json() == example["answered"]


async def test_the_document_has_each_webhook_with_a_review_and_its_answer() -> None:
    document = (await Served().request("GET", "/openapi.json")).json()
    for path in PATHS:
        operation = document["paths"][path]["post"]
        [asked] = operation["requestBody"]["content"].values()
        [answered] = operation["responses"]["200"]["content"].values()
        example = recorded_review(path)
        # FastAPI leaves out what is null
        assert asked["example"] == without_nulls(example["asked"])
        assert answered["example"] == without_nulls(example["answered"])

    assert document["paths"].keys() > {*PATHS, "/dry-run", "/healthz"}


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


async def test_the_page_needs_no_other_host() -> None:
    page = await Served().request("GET", "/docs")
    named = re.findall(r'(?:src|href)="([^"]*)"', page.text)
    assert sorted(named) == ["docs/page.css", "docs/page.js", "openapi.json"]
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for name in named:
        assert (await Served().request("GET", f"/{name}")).status_code == 200, name


@contextlib.asynccontextmanager
async def plain_uvicorn() -> AsyncIterator[str]:
    """Serve the app by stock uvicorn on loopback, and yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(Served().app, lifespan="off", log_config=None)
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            await running


@pytest.mark.asyncio(loop_scope="module")
async def test_each_webhook_is_tried_in_a_browser(browser: "Browser") -> None:
    async with plain_uvicorn() as url, tab(browser, url, "docs") as opened:
        for path in PATHS:
            box = opened.page.locator(
                "details", has=opened.page.get_by_text(f"POST {path}", exact=True)
            )
            await box.locator("summary").click()
            await box.get_by_role("button", name="Send").click()
            result = box.locator("pre")
            uid = recorded_review(path)["answered"]["response"]["uid"]
            await result.get_by_text(uid).wait_for()
            shown = json.loads((await result.inner_text()).removeprefix("200\n"))
            assert (
                shown["response"]["allowed"]
                is recorded_review(path)["answered"]["response"]["allowed"]
            )
