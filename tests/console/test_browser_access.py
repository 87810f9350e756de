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
    "list": "workloads",
    "nothing found": "workloads?q=nothing-like-it&colour=red",
    "topology": "topology?pods=4&gpus=8&level=rack",
    "queues": "queues",
    "what if": "what-if?if=drain+rack%3Drack-a1",
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


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("list", ("aside", "h1", "section.reason")),
        ("workloads", ("h1", "section.reason", "aside")),
    ],
)
async def test_on_a_phone_the_list_comes_first_until_a_workload_is_chosen(
    browser: "Browser", name: str, places: tuple[str, ...]
) -> None:
    async with opened(browser, name, 390) as page:
        tops = [await page.locator(place).first.evaluate(TOP) for place in places]
        assert tops == sorted(tops)
        assert tops[0] < 200
        back = page.get_by_role("link", name="All workloads")
        assert await back.count() == (name == "workloads")
        if name == "workloads":
            await back.click()
            await page.wait_for_url("**/workloads")


async def test_one_tab_leads_into_the_tree_and_the_next_ones_to_the_links_of_its_row(
    browser: "Browser",
) -> None:
    async with opened(browser, "workloads", 1440) as page:
        inside = "document.activeElement.closest('[role=treegrid]') !== null"
        stops = 0
        await page.locator("[role=treegrid] tbody tr").first.focus()
        for _ in range(40):
            if not await page.evaluate(inside):
                break
            stops += 1
            await page.keyboard.press("Tab")
        # the row, and the link to its YAML
        assert stops == 2
        await page.locator("[role=treegrid] tbody tr").first.focus()
        await page.keyboard.press("ArrowDown")
        assert await page.evaluate("document.activeElement.ariaLevel") == "2"
        links = await page.evaluate(
            "[...document.activeElement.querySelectorAll('a')].map((link) => link.tabIndex)"
        )
        assert set(links) == {0}


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
