"""The console in a real Chromium, over the sandbox or kube-apiserver with our webhooks and a fleet.

Needs the extra `browser` and a chromium (CHROMIUM, or on PATH). CONSOLE_PICTURES=DIR keeps a
picture of every page.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from app.config.read import with_overrides
from app.console.app import Opened, opened
from app.console.settings import ConsoleSettings
from app.kube.api import ObjectRef, Selection
from app.kube.client import HttpClient
from app.objects.resource import NODE
from scripts.apiserver.admission_server import ApiServer, admission_server
from scripts.apiserver.command import create, default_configuration
from scripts.apiserver.processes import free_port
from scripts.fleet import fleet
from tests.console.chromium import tab
from tests.console.fake import Lists
from tests.console.fake import console as fake_console
from tests.console.objects import HOSTILE, hostile
from tests.integration.conftest import own_rules
from tests.integration.stage import api_server
from tests.integration.system import connect, eventually

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]
PAGES = {
    "workloads": "workloads",
    "object": "object?object=PodCliqueSet/inference/llm-serve",
    "topology": "topology?pods=3&gpus=8&level=rack",
    "domain": "topology?at=zone-a/block-a1/rack-a1",
    "queues": "queues",
    "what-if": "what-if?if=drain+rack%3Drack-a1",
    "findings": "findings",
    "playground": "playground?example",
}
LABEL = "topology.kubernetes.io/rack"

TEXT = 5.9
MARKS = 3.2
"""The least contrast of text, and of marks such as the filled part of a cell, against what is
behind them.
"""

CONTRAST = """() => {
  const light = (c) => c.map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
  const parse = (text) => text.match(/[\\d.]+/g).map((part, n) =>
    text.startsWith("color(srgb") && n < 3 ? part * 255 : Number(part));
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const [r, g, b, a] = parse(getComputedStyle(element).backgroundColor);
      if (a === undefined || a > 0) return [r, g, b];
    }
    return [255, 255, 255];
  };
  let worst = [99, ""];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    const front = light(parse(getComputedStyle(element).color).slice(0, 3)), back = light(behind(element));
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (ratio < worst[0]) worst = [ratio, walker.currentNode.textContent.trim()];
  }
  return worst;
}"""


MARK_COLOURS = """() => {
  const shown = getComputedStyle(document.documentElement);
  const light = (name) => shown.getPropertyValue("--" + name).trim().match(/^#(..?)(..?)(..?)$/).slice(1)
    .map((part) => parseInt(part.length === 1 ? part + part : part, 16) / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
  const ratio = (one, other) => (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  const pairs = ["fill", "accent", "waits"].flatMap((mark) => ["cell", "card"].map((behind) => [mark, behind]));
  return pairs.map(([mark, behind]) => [ratio(light(mark), light(behind)), `${mark} on ${behind}`]);
}"""
"""The contrast of cells of the map and of their outlines, from the colours of the style sheet."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(kind: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ApiServer]:
    folder = tmp_path_factory.mktemp("api")
    configuration = with_overrides(
        default_configuration(), {}, {"host": "127.0.0.1", "port": free_port(), "tools_port": 0}
    )
    server = api_server(kind, folder, None, own_rules())
    try:
        await server.start()
        async with admission_server(server, configuration, folder, readable=False):
            admin = await connect(server, "admin")
            await eventually(lambda: _has_topology(admin))
            await create(server, fleet())
            yield server
            await admin.close()
    finally:
        await server.stop()


async def _has_topology(client: HttpClient) -> bool:
    from app.facts.kinds import CLUSTER_TOPOLOGY, KAI_TOPOLOGY

    pages = [
        await client.list(Selection(resource)) for resource in (CLUSTER_TOPOLOGY, KAI_TOPOLOGY)
    ]
    return all(page.items for page in pages)


async def test_names_of_any_length_fit_into_the_window(browser: "Browser") -> None:
    """The pages of a console over lists in memory, shown without a server."""
    paths = ["workloads", "topology", "topology?at=zone-a/block-a1", "findings"]
    async with fake_console(Lists(hostile()), context=HOSTILE) as (client, _):
        texts = {path: (await client.get(path)).text for path in paths}
        style = (await client.get("static/console.css")).text
    page = await browser.new_page(viewport={"width": 1024, "height": 800})
    for path, text in texts.items():
        await page.set_content(re.sub("<(link|script)[^>]*>", "", text))
        await page.add_style_tag(content=style)
        sizes = await page.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert sizes[0] <= sizes[1], path
    await page.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def console(api: ApiServer) -> AsyncIterator[Opened]:
    async with opened(
        ConsoleSettings(default_configuration(), api.kubeconfig, "user", "user")
    ) as running:
        await eventually(lambda: _is_ready(running))
        yield running


async def _is_ready(console: Opened) -> bool:
    return console.live.ready


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1024, 1440])
@pytest.mark.parametrize("name", list(PAGES))
async def test_every_page_is_readable(
    browser: "Browser", console: Opened, name: str, width: int, scheme: str
) -> None:
    async with tab(browser, console.url, PAGES[name], scheme, width) as opened_tab:
        page = opened_tab.page
        if name == "findings":
            await page.get_by_role("button", name=re.compile("Check")).click()
            await page.get_by_text("The last check ended").wait_for()
        if name == "playground":
            await page.get_by_role("button", name="Judge", exact=True).click()
            await page.get_by_text("Refused: 1 of 1 document").wait_for()
        await page.get_by_text("● live").wait_for()
        await _keep(page, f"{name}-{scheme}-{width}")
        sizes = await page.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert sizes[0] <= sizes[1]
        ratio, text = await page.evaluate(CONTRAST)
        assert ratio >= TEXT, f"{text!r} has a contrast of {ratio:.1f}"
        assert [name for ratio, name in await page.evaluate(MARK_COLOURS) if ratio < MARKS] == []
        names = await page.evaluate("""
            [...document.querySelectorAll('a,button,select,input:not([type=hidden]),textarea')]
                .filter((e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.length))
                .map((e) => e.outerHTML)
        """)
        assert names == []


async def _keep(page: "Page", name: str) -> None:
    folder = os.environ.get("CONSOLE_PICTURES")
    if folder:
        await page.screenshot(path=f"{folder}/{name}.png", full_page=True)


async def test_the_file_opens_the_console(browser: "Browser", console: Opened) -> None:
    assert oct(console.file.stat().st_mode)[-3:] == "600"
    assert oct(console.file.parent.stat().st_mode)[-3:] == "700"
    page = await browser.new_page()
    await page.goto(console.file.as_uri())
    await page.wait_for_url(f"{console.url}workloads")
    await page.get_by_role("heading", level=1).wait_for()
    await page.close()


async def test_a_change_is_shown_without_a_reload(
    browser: "Browser", console: Opened, api: ApiServer
) -> None:
    admin = await connect(api, "admin")
    async with tab(
        browser, console.url, "workloads?object=PodCliqueSet/inference/llm-serve"
    ) as opened_tab:
        page = opened_tab.page
        await page.get_by_text("● live").wait_for()
        reason = page.get_by_text("LevelLabelMissing", exact=True)
        await reason.wait_for()
        begin = asyncio.get_running_loop().time()
        await admin.patch(ObjectRef(NODE, "gpu-c-15"), {"metadata": {"labels": {LABEL: "rack-c4"}}})
        await reason.wait_for(state="detached")
        assert asyncio.get_running_loop().time() - begin < 5
        await admin.patch(ObjectRef(NODE, "gpu-c-15"), {"metadata": {"labels": {LABEL: None}}})
        await reason.wait_for()
    await admin.close()


async def test_everything_can_be_done_with_the_keyboard(
    browser: "Browser", console: Opened
) -> None:
    async with tab(
        browser, console.url, "workloads?object=PodCliqueSet/inference/llm-serve"
    ) as opened_tab:
        page = opened_tab.page
        await page.get_by_text("● live").wait_for()
        rows = page.locator("[role=treegrid] tbody tr")
        await rows.first.focus()
        count = await rows.locator("visible=true").count()
        await page.keyboard.press("ArrowLeft")
        assert await rows.locator("visible=true").count() == 1
        await page.keyboard.press("ArrowRight")
        assert await rows.locator("visible=true").count() == count
        await page.keyboard.press("ArrowDown")
        assert "PodGang" in await page.evaluate("document.activeElement.textContent")
        await page.keyboard.press("/")
        await page.keyboard.type("llm-serve")
        assert await page.locator(".sets li").locator("visible=true").count() == 1
        await page.keyboard.press("Escape")
        # and a placed one, which folds the two others
        assert await page.locator(".sets li").locator("visible=true").count() == 2
        paths = ("workloads", "topology", "queues", "findings", "playground")
        for number, path in enumerate(paths, 1):
            await page.keyboard.press(str(number))
            await page.wait_for_url(f"{console.url}{path}")
        await page.locator("textarea").fill("kind: Nothing\napiVersion: v1")
        await page.keyboard.press("Control+Enter")
        await page.get_by_role("heading", name="No webhook judges this document").wait_for()


async def test_the_text_that_is_copied_is_the_command_s(
    browser: "Browser", console: Opened
) -> None:
    async with tab(
        browser, console.url, "workloads?object=PodCliqueSet/inference/llm-serve"
    ) as opened_tab:
        page = opened_tab.page
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await page.get_by_text("● live").wait_for()
        await page.get_by_role("link", name="Copy as text").click()
        await page.get_by_role("link", name="Copied").wait_for()
        copied = await page.evaluate("navigator.clipboard.readText()")
        answer = await page.request.get(
            f"{console.url}workloads.txt?object=PodCliqueSet/inference/llm-serve"
        )
        served = await answer.text()
    assert copied == served
    assert "NoDomainFits" in copied


async def test_a_file_is_saved_and_opened_again(
    browser: "Browser", console: Opened, tmp_path: Path
) -> None:
    async with tab(browser, console.url, "playground?example") as opened_tab:
        page = opened_tab.page
        await page.get_by_role("button", name="Judge", exact=True).click()
        await page.get_by_text("Refused: 1 of 1 document").wait_for()
        async with page.expect_download() as download:
            await page.get_by_role("button", name="Save with verdicts").click()
        saved = tmp_path / "saved.json"
        await (await download.value).save_as(saved)
        await page.goto(f"{console.url}playground")
        await page.locator("#open").set_input_files(saved)
        await page.get_by_text("Refused: 1 of 1 document").wait_for()
        await page.get_by_role("link", name="line 14").click()
        selected = await page.evaluate("document.getSelection().toString()")
    assert selected.strip() == "packDomain: zone"


async def test_another_page_of_the_browser_reads_and_frames_nothing(
    browser: "Browser", console: Opened
) -> None:
    foreign = "http://localhost:1/"
    page = await browser.new_page()
    content = f'<iframe src="{console.url}workloads"></iframe>'
    await page.route(foreign, lambda route: route.fulfill(body=content, content_type="text/html"))
    await page.goto(foreign)
    read = await page.evaluate(
        "(url) => fetch(url).then((a) => a.status, () => 'refused')", f"{console.url}workloads.json"
    )
    framed = [frame for frame in page.frames if frame.parent_frame is not None]
    texts = [await frame.locator("body").inner_text() for frame in framed]
    await page.close()
    assert read == "refused"
    assert [text for text in texts if "llm-serve" in text] == []


async def test_pages_work_without_script(browser: "Browser", console: Opened) -> None:
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(console.url)
    await page.wait_for_url(f"{console.url}workloads")
    await page.get_by_role("link", name=re.compile("chat-70b")).first.click()
    await page.get_by_role("heading", name=re.compile("chat-70b is placed as requested")).wait_for()
    await page.goto(f"{console.url}playground?example")
    await page.get_by_role("button", name="Judge", exact=True).click()
    await page.get_by_text("Refused: 1 of 1 document").wait_for()
    await context.close()


async def test_the_console_only_reads(console: Opened) -> None:
    assert {verb for verb, _, _ in console.calls} <= {"get", "list", "watch", "create"}
    created = {resource for verb, resource, _ in console.calls if verb == "create"}
    assert {name.partition(".")[0] for name in created} <= {
        "subjectaccessreviews",
        "selfsubjectaccessreviews",
    }
    assert not {"secrets", "configmaps"} & {resource for _, resource, _ in console.calls}
