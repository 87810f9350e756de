"""Every page for all: rules of axe-core, phones, light and dark, over lists in memory.

AXE_CORE names a file axe.min.js (of the npm package axe-core); without it, its test is skipped.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.console.changing import shown
from tests.console.chromium import SIZES, VIOLATIONS, chromium, tab
from tests.console.fake import Lists
from tests.console.objects import objects

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

chromium(whole_module=True)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]
STUCK = "PodCliqueSet/inference/llm-serve"
RACK = "topology.kubernetes.io/rack"
PAGES = {
    "workloads": f"workloads?object={STUCK}",
    "nothing found": "workloads?q=nothing-like-it&colour=red",
    "topology": "topology?pods=4&gpus=8&level=rack",
    "domain": "topology?at=zone-a/block-a1/rack-a1",
    "findings": "findings",
    "playground": "playground?example",
    "object": f"object?object={STUCK}",
}
TOP = "(element) => element.getBoundingClientRect().top"


@contextlib.asynccontextmanager
async def opened(
    browser: "Browser", name: str, width: int, scheme: str = "light"
) -> AsyncIterator["Page"]:
    """A page of a console that has examined its cluster."""
    async with shown() as shown_console:
        shown_console.made.findings.start()
        await shown_console.made.findings.finish()
        async with tab(browser, shown_console.url, PAGES[name], scheme, width) as opened_tab:
            await opened_tab.page.get_by_text("● live").wait_for()
            yield opened_tab.page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("name", list(PAGES))
async def test_axe_finds_nothing(browser: "Browser", name: str, width: int, scheme: str) -> None:
    path = os.environ.get("AXE_CORE")
    if not path:
        pytest.skip("needs axe-core: AXE_CORE names its axe.min.js")
    axe = await asyncio.to_thread(Path(path).read_text)
    async with opened(browser, name, width, scheme) as page:
        await page.evaluate(axe)
        violations = await page.evaluate(VIOLATIONS)
    assert violations == []


@pytest.mark.parametrize("name", list(PAGES))
async def test_no_page_is_wider_than_a_phone(browser: "Browser", name: str) -> None:
    async with opened(browser, name, 390) as page:
        sizes = await page.evaluate(SIZES)
    assert sizes == [390, 390]


@pytest.mark.parametrize("path", [PAGES["workloads"], "topology"])
async def test_a_note_is_laid_out_as_any_reason(browser: "Browser", path: str) -> None:
    """Racks whose names repeat in each block are a habit, which is a note."""
    lists = Lists(objects())
    for node in lists.objects["nodes"]:
        labels = node["metadata"]["labels"]
        labels[RACK] = labels.get(RACK, "rack-0").replace("-a", "-").replace("-b", "-")
    async with shown(lists) as served, tab(browser, served.url, path) as opened_tab:
        notes = opened_tab.page.locator("section.reason.note")
        await notes.first.wait_for()
        ways = await notes.evaluate_all(
            "(notes) => notes.map((e) => [e, e.querySelector('.s')].map((e) => getComputedStyle(e).display))"
        )
    assert ways == [["block", "inline"]] * len(ways)


async def test_on_a_phone_the_answer_comes_before_the_list(browser: "Browser") -> None:
    places = ("h1", "section.reason", "aside")
    async with opened(browser, "workloads", 390) as page:
        tops = [await page.locator(place).first.evaluate(TOP) for place in places]
    assert tops == sorted(tops)
    assert tops[0] < 200


async def test_a_page_is_read_from_another_origin_by_nobody(browser: "Browser") -> None:
    """The YAML of an object is behind the token and the guard, as all pages are."""
    async with shown() as shown_console:
        page = await browser.new_page()
        foreign = "http://localhost:1/"
        await page.route(foreign, lambda route: route.fulfill(body="", content_type="text/html"))
        await page.goto(foreign)
        url = f"{shown_console.url}{PAGES['object']}"
        read = await page.evaluate(
            "(url) => fetch(url).then((answer) => answer.status, () => 'refused')", url
        )
        await page.close()
    assert read == "refused"
